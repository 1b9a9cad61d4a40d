"""Ways to damage an input: bytes of any file, values of JSON and YAML, cells of a table, headers of tensor files, archives."""

import csv
import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

LONGEST = 1 << 15
TOKENS: tuple[bytes, ...] = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3", b"\x1f", b"\x85", b"\xe2\x80\xa8", b"\x1b[2J", b"\\ud800"),
    *(b'"', b"'", b'""', b"\n", b"\r", b"\r\n", b"\t", b",", b";", b"|", b"\\", b"#", b"%", b"@", b"=", b"- ", b"? ", b": "),
    *(b"NaN", b"inf", b"-1", b"0", b"-0.0", b"1e999", b"1_000", b"9" * 400, b"0x", b"._", b"2020-13-45", b"1:60:60", b"null"),
    *(b"~", b"[", b"{", b"]", b"}", b"[" * 3000, b'{"a":' * 300, b"&a [*a, *a]", b"*a", b"<<: ", b"!!int x", b"!!binary gA=="),
    *(b"!!python/object/apply:os.system [x]", b"!!set {a}", b"---\n", b"...\n", b"../../x", b"/dev/zero", b"file.py:name"),
    *(b"<script>alert(1)</script>", b"${x}", b"%s", b"PK\x03\x04", b"\x93NUMPY", b"\x80\x04", b"x" * 5000, "ﬀ１é🌑".encode()),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320, 1e308, float("nan"), float("inf")),
    *("", " ", "\0", "nan", "none", "1", "-1", "x" * 2000, "../../etc", "/", "file.py:name", "a\nb", "\u2028", "🌑", "__class__"),
    *([], [[]], [0], [None], {}, {"": None}, {"a": {"b": []}}, [1] * 500, [[[[[[]]]]]], "2020-01-01", "supervised", "auto"),
)
MEMBERS = ("y.npy", "../x.npy", "/x.npy", "", "x", "x_test.npy", "x_unlabeled.npy", "\u2028.npy", "__proto__")
HEADER = {
    b"<f8": b"<f8 <f4 |O <U4 |S3 <i8 |b1 <c16 <M8[s] <m8[D] |V8 <f2 <u2 >i4 <U0 <q99".split(),
    b"False": (b"True", b"None", b"0", b"'x'"),
    b"shape': (": [b"shape': (%d, " % number for number in (0, 1, 2, 7, -1, 2**40, 10**30)],
    b"descr": (b"desc", b"shape", b"x"),
    b"{": (b"{{", b"[", b"__import__('os')"),
}

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def edit(random: Random, parts: Any, new: Any, longest: int = 4) -> None:
    """Delete, repeat, reverse or replace a stretch of a list or bytearray, insert a new one, or cut it off there."""
    at, kind = random.randint(0, len(parts)), random.randrange(7)
    end = at + random.randint(1, longest)
    if kind == 0:
        del parts[at:end]
    elif kind == 1:
        parts[at:at] = parts[at:end] * random.choice((1, 1, 2, 50))
    elif kind == 2:
        parts[at:end] = parts[at:end][::-1]
    elif kind == 3 and random.random() < 0.3:
        parts[:] = random.choice((parts[:at], parts[at:]))
    else:
        parts[at : at + (kind < 6)] = new


def mutate_bytes(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change single bytes and stretches, or insert a token or a stretch of another input."""
    found = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        other, length = random.choice(others), random.choice((1, 2, 4, 16, 200))
        start = random.randint(0, len(other))
        if found and random.random() < 0.3:
            found[random.randrange(len(found))] ^= random.choice((1 << random.randrange(8), random.randrange(256)))
        else:
            edit(random, found, random.choice((random.choice(TOKENS), other[start : start + length])), length)
    return bytes(found[:LONGEST])


def mutate_value(random: Random, value: Any) -> Any:
    """Change, delete, rename, repeat or wrap one part of a JSON-like value, at any depth."""
    if not value or not isinstance(value, dict | list) or random.random() < 0.1:
        return random.choice((random.choice(VALUES), random.choice(VALUES), [value], {"a": value}))
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    at = random.randrange(len(items))
    key, inside = items[at]
    if random.random() < 0.7:
        items[at] = key, mutate_value(random, inside)
    else:
        edit(random, items, [(random.choice((str(random.choice(VALUES)), key)), random.choice((inside, *VALUES)))])
    return dict(items) if isinstance(value, dict) else [inside for _, inside in items]


def mutate_json(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return json.dumps(mutate_value(random, json.loads(content)), ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")


def mutate_json_lines(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    lines = content.splitlines()
    edit(random, lines, [mutate_json(random, random.choice(lines), others)])
    return b"\n".join(lines)


def mutate_yaml(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    return yaml.safe_dump(mutate_value(random, yaml.safe_load(content)), allow_unicode=random.random() < 0.5).encode()


def mutate_table(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change cells, rows and columns of a CSV, and how it is written."""
    text, out = content.decode("utf-8-sig"), io.StringIO(newline="")
    mark = max(",;\t|", key=text.splitlines()[0].count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    for _ in range(random.choice((1, 1, 2, 5))):
        row = random.choice(rows)
        cell = [random.choice((str(random.choice(VALUES)), random.choice(TOKENS).decode("utf-8", "replace")))]
        at, kind = random.randint(0, len(row)), random.randrange(6)
        if kind < 3:
            edit(random, row, cell, 1)
        elif kind == 3:
            edit(random, rows, [list(row)])
        elif kind == 4:
            random.shuffle(rows)
        else:
            for each in rows:  # a whole column
                each[at : at + 1] = cell
    end, encoding = random.choice(("\n", "\r\n", "\r")), random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"))
    csv.writer(out, delimiter=random.choice((*3 * mark, *",;\t")), lineterminator=end).writerows(rows)
    return out.getvalue().encode(encoding, "replace")[:LONGEST]


def mutate_archive(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Delete, rename, double or change a member of a zip archive; the checksums stay right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    name, inside = random.choice(members)
    changed = random.choice((mutate_array_header, mutate_bytes))(random, inside, [inside])
    edit(random, members, [(name, changed) if random.random() < 0.7 else (random.choice(MEMBERS), inside)], 1)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, inside in dict(members).items():
            archive.writestr(name or "none", inside)
    return out.getvalue()


def mutate_array_header(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Make the header of a .npy file claim something else."""
    length, old = struct.unpack("<H", content[8:10])[0], random.choice(sorted(HEADER))
    header = content[10 : 10 + length].replace(old, random.choice(HEADER[old]), 1)
    return content[:8] + struct.pack("<H", len(header)) + header + content[10 + length :]


def mutate_tensor_header(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Change the JSON header of a safetensors file; its length is usually right."""
    length = struct.unpack("<Q", content[:8])[0]
    encoded = json.dumps(mutate_value(random, json.loads(content[8 : 8 + length]))).encode()
    said = len(encoded) if random.random() < 0.9 else random.choice((0, 1, 2**20, 2**31, 2**63, 2**64 - 1))
    body = content[8 + length :]
    return struct.pack("<Q", said) + encoded + (body if random.random() < 0.8 else body[: random.randint(0, len(body))])
