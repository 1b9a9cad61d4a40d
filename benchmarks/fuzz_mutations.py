"""Ways to damage an input: bytes of any file, values of JSON and YAML, cells of a table, headers of tensor files, archives."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Reader:
    """Sound inputs, ways to damage them, and what reads them.

    Attributes:
        share: of all inputs, in parts of the sum over the readers.
        read: raises InputError where the input is refused; whatever else it raises is a mistake of ours.
    """

    share: int
    corpus: Sequence[bytes]
    mutations: Sequence[Mutation]
    read: Callable[[bytes], object]

    def make(self, random: Random) -> bytes:
        """One damaged input."""
        content = random.choice(self.corpus)
        for _ in range(random.choice((1, 1, 2))):
            with suppress(Exception):  # what the first has damaged, the second may be unable to read
                content = random.choice(self.mutations)(random, content, self.corpus)
        return content


def mutate_bytes(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A few changes of single bytes and stretches, or a stretch of another input."""
    found = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        at, length = random.randint(0, len(found)), random.choice((1, 2, 4, 16, 200))
        kind = random.randrange(8)
        if kind == 0 and found:
            found[at % len(found)] ^= 1 << random.randrange(8)
        elif kind == 1 and found:
            found[at % len(found)] = random.randrange(256)
        elif kind == 2:
            found = found[:at] if random.random() < 0.5 else found[at:]
        elif kind == 3:
            del found[at : at + length]
        elif kind == 4:
            found[at:at] = random.choice(TOKENS)
        elif kind == 5:
            found[at:at] = found[at : at + length] * random.choice((1, 1, 2, 50))
        elif kind == 6:
            found[at : at + length] = random.choice(TOKENS)
        else:
            other = random.choice(others)
            start = random.randint(0, len(other))
            found[at:at] = other[start : start + length]
    return bytes(found[:LONGEST])


def mutate_value(random: Random, value: Any) -> Any:
    """A JSON-like value in which one thing, at any depth, is another, is gone, or is there twice."""
    paths = list(_paths(value))
    path = random.choice(paths)
    kind = random.randrange(6)
    if not path:
        return random.choice(VALUES) if kind == 0 else [value] if kind == 1 else {"a": value} if kind == 2 else value
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    if kind in (0, 1):
        holder[key] = random.choice(VALUES)
    elif kind == 2:
        del holder[key]
    elif kind == 3:
        holder[key] = [holder[key]] * random.choice((1, 2, 40))
    elif kind == 4 and isinstance(holder, dict):
        holder[str(random.choice(VALUES))] = holder.pop(key)
    else:
        source = value
        for step in random.choice(paths):
            source = source[step]
        holder[key] = json.loads(json.dumps(source))  # a copy: a value must not hold itself
    return value


def _paths(value: Any, before: tuple[Any, ...] = ()) -> Any:
    yield before
    if isinstance(value, dict):
        for key in value:
            yield from _paths(value[key], (*before, key))
    elif isinstance(value, list):
        for position in range(min(len(value), 30)):
            yield from _paths(value[position], (*before, position))


def mutate_json(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    value = mutate_value(random, json.loads(content))
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")


def mutate_json_lines(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    lines = content.splitlines()
    if random.random() < 0.3:
        random.shuffle(lines)
        lines += random.choices(lines, k=random.randrange(3))
    at = random.randrange(len(lines))
    lines[at] = mutate_json(random, lines[at], others)
    return b"\n".join(lines)


def mutate_yaml(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    value = mutate_value(random, yaml.safe_load(content) or {})
    return yaml.safe_dump(value, allow_unicode=True, default_flow_style=random.choice((True, False, None))).encode()


def mutate_table(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Cells, rows and columns of a CSV that are gone, there twice, elsewhere or something else."""
    text = content.decode("utf-8-sig")
    mark = max(",;\t|", key=text.splitlines()[0].count)
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    for _ in range(random.choice((1, 1, 2, 5))):
        row, kind = random.choice(rows), random.randrange(6)
        at = random.randrange(len(row)) if row else 0
        if kind == 0 and row:
            del row[at]
        elif kind == 1:
            row.insert(at, str(random.choice(VALUES)))
        elif kind == 2:
            rows.insert(random.randrange(len(rows)), list(row))
        elif kind == 3:
            for each in rows:  # a whole column
                each[at : at + 1] = [str(random.choice(VALUES))]
        elif kind == 4:
            random.shuffle(rows)
        elif row:
            row[at] = random.choice((str(random.choice(VALUES)), random.choice(TOKENS).decode("utf-8", "replace")))
    out = io.StringIO(newline="")
    csv.writer(
        out,
        delimiter=random.choice((mark, mark, mark, ",", ";", "\t")),
        quoting=random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)),
        lineterminator=random.choice(("\n", "\r\n", "\r")),
    ).writerows(rows)
    return out.getvalue().encode(random.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace")[:LONGEST]


def mutate_archive(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A member of a zip archive with other bytes, another name, or twice; its checksum is right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = random.randrange(len(members))
    name, inside = members[at]
    kind = random.randrange(5)
    if kind == 0:
        name = random.choice(("y.npy", "../x.npy", "/x.npy", "", "x", "x_test.npy", "x_unlabeled.npy", "\u2028.npy", "__proto__"))
    elif kind == 1:
        del members[at]
    elif kind == 2 and inside.startswith(b"\x93NUMPY"):
        inside = mutate_array_header(random, inside)
    else:
        inside = mutate_bytes(random, inside, [each for _, each in members] or [b""])
    if kind != 1:
        members[at : at + random.randrange(2)] = [(name, inside)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for each, data in dict(members).items():
            archive.writestr(each or "none", data)
    return out.getvalue()


def mutate_array_header(random: Random, content: bytes) -> bytes:
    """A .npy that says of itself something that it is not."""
    length = struct.unpack("<H", content[8:10])[0]
    header = content[10 : 10 + length].decode("latin-1").rstrip()
    kinds = "<f8", "<f4", "|O", "<U4", "|S3", "<i8", "|b1", "<c16", "<M8[s]", "<m8[D]", "|V8", "<f2", "<u2", ">i4", "<U0", "<q99"
    changes = {
        "'<f8'": repr(random.choice(kinds)),
        "False": random.choice(("True", "None", "0", "'x'")),
        "'shape': (": f"'shape': ({random.choice((0, 1, 2, 7, -1, 2**40, 10**30))}, ",
        "descr": random.choice(("desc", "shape", "x")),
        "{": random.choice(("{", "{{", "[", "__import__('os')")),
    }
    for old in random.sample(sorted(changes), random.choice((1, 1, 2))):
        header = header.replace(old, changes[old], 1)
    encoded = header.encode("latin-1") + b"\n"
    return content[:8] + struct.pack("<H", len(encoded)) + encoded + content[10 + length :]


def mutate_tensor_header(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """A safetensors file whose header is another JSON object of the right length."""
    length = struct.unpack("<Q", content[:8])[0]
    header = mutate_value(random, json.loads(content[8 : 8 + length]))
    encoded = json.dumps(header).encode()
    said = len(encoded) if random.random() < 0.9 else random.choice((0, 1, 2**20, 2**31, 2**63, 2**64 - 1))
    body = content[8 + length :]
    return struct.pack("<Q", said) + encoded + (body if random.random() < 0.8 else body[: random.randint(0, len(body))])


def mutate_words(random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Arguments of a command, with a NUL between: some gone, twice, elsewhere, or something else."""
    command, *words = content.split(b"\0")
    for _ in range(random.choice((1, 1, 2, 4))):
        at, kind = random.randrange(len(words) + 1), random.randrange(12)
        if kind == 0:
            del words[at : at + 1]
        elif kind == 1:
            words[at:at] = random.choice(random.choice(others).split(b"\0")[1:] or [b""]).split()
        elif kind == 2:
            words.insert(at, random.choice(TOKENS)[:300])
        elif kind == 3:
            words[at : at + 2] = words[at : at + 2][::-1]
        elif kind == 4:
            command = random.choice((mutate_bytes(random, command, others), random.choice(others).split(b"\0")[0]))[:300]
        elif kind == 5:
            other = random.choice(others).split(b"\0")[1:]  # an option with its value
            start = random.randint(0, len(other))
            words[at:at] = other[start : start + 2]
        elif words:
            at %= len(words)
            changed = mutate_bytes(random, words[at], others) if kind < 8 else str(random.choice(VALUES)).encode()
            if kind > 9 and not words[at].startswith(b"-"):
                changed = random.choice(
                    (b"0", b"1", b"-1", b"3", b"0.5", b"1e9", b"none", b"t.csv", b"run", b"saw+fixmatch", b"x,y")
                )
            words[at] = changed[:300]
    return b"\0".join(word.replace(b"\0", b"") for word in (command, *words))
