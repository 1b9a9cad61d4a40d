"""Files by address: S3, Google Cloud, HTTP and the Hugging Face hub through fsspec, with retries and a bounded cache on disk."""

import glob
import itertools
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import fsspec

from softmatch.errors import InputError
from softmatch.files.atomic import replacing_file
from softmatch.files.cache import cache_folder, entry
from softmatch.files.locks import held
from softmatch.files.paths import expand_home

EXTRAS = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "http": "http", "https": "http", "hf": "text"}
"""Kinds of addresses, and the extra that each needs."""
HELP = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_PROFILE); for a public bucket FSSPEC_S3_ANON=true.",
    "gs": "Log in with gcloud auth application-default login; for a public bucket set FSSPEC_GS_TOKEN=anon.",
    "hf": "Log in with hf auth login, or set HF_TOKEN.",
}
TRIES, FIRST_PAUSE = 5, 0.5
"""Attempts for each block, and seconds before the second; each further pause is twice as long."""
BLOCK = 2**23
LONGEST_DOWNLOAD = 3600.0
"""Seconds to wait for another process that fetches the same file."""
LIMIT = "SOFTMATCH_CACHE_GB"
DEFAULT_GB = 50.0
BRACES = re.compile(r"\{([^{}]*)\}")
RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST_NAMES = 1_000_000
Found = TypeVar("Found")


class File(NamedTuple):
    """A file as it was when it was found.

    Attributes:
        place: its address or absolute path.
        version: changes with its content: an ETag or a time.
    """

    place: str
    size: int
    version: str

    @property
    def identity(self) -> tuple[str, int, str]:
        """Key for caches."""
        return self.place, self.size, self.version


def is_remote(where: object) -> bool:
    """Tell whether a source is an address, such as s3://bucket/data.csv."""
    return isinstance(where, str) and where.partition("://")[0] in EXTRAS and "://" in where


def expand(where: str) -> list[str]:
    """Give the files of a pattern, in order: {000..099} and {a,b} are written out, * and ? are looked up.

    Raises:
        InputError: nothing matches a pattern with * or ?, or there is no end to it.
    """
    found = list(itertools.islice(_braces(where), MOST_NAMES + 1))
    if len(found) > MOST_NAMES:
        raise InputError(f"{where} names more than {MOST_NAMES:,} files. Use fewer, larger ones.")
    return [name for each in found for name in _starred(each)]


def _braces(where: str) -> Iterator[str]:
    found = BRACES.search(where)
    if found is None:
        yield where
        return
    numbers = RANGE.fullmatch(found[1])
    if numbers is None:
        parts: Iterator[str] = iter(found[1].split(","))
    else:
        first, last = numbers.groups()
        if int(last) < int(first):
            raise InputError(f"{where}: {{{found[1]}}} counts down. Write the smaller number first.")
        width = len(first) if first.startswith("0") else 0
        parts = (f"{number:0{width}d}" for number in range(int(first), int(last) + 1))
    for part in parts:
        for rest in _braces(where[found.end() :]):
            yield where[: found.start()] + part + rest


def _starred(where: str) -> list[str]:
    if not any(sign in where for sign in "*?") or where.startswith(("http://", "https://")):
        return [where]
    if is_remote(where):
        kind = where.partition("://")[0]
        found = sorted(f"{kind}://{name}" for name in _attempt(where, lambda: _files(where).glob(where)))
    else:
        found = sorted(glob.glob(where))  # noqa: PTH207  # a pattern with folders
    if not found:
        raise InputError(f"no file matches {where}. Check the folder and the name.")
    return found


def find(place: str) -> File:
    """Look up the size and version of a file.

    Raises:
        InputError: it is not there, or may not be read.
    """
    if not is_remote(place):
        path = expand_home(place).absolute()
        if not path.is_file():
            raise InputError(f"there is no file {path}.")
        status = path.stat()
        return File(str(path), status.st_size, str(status.st_mtime_ns))
    about: dict[str, Any] = _attempt(place, lambda: _files(place).info(place))
    version = next((str(about[key]) for key in ("ETag", "etag", "blob_id", "mtime", "Last-Modified") if about.get(key)), "")
    if about.get("type") == "directory":
        raise InputError(f"{place} is a folder. Name the files in it, for example {place.rstrip('/')}/shard-{{000..099}}.tar.")
    if about.get("size") is None:
        raise InputError(f"{place}: the server does not say how large the file is, as it must. Copy it to this disk.")
    return File(place, int(about["size"]), version)


def on_disk(file: File) -> Path:
    """Give the path of a file, or of its copy in the cache, which is fetched if it is not there."""
    if not is_remote(file.place):
        return Path(file.place)
    copy = entry("remote/file", file.identity).with_suffix(Path(file.place).suffix)
    if not copy.is_file():
        copy.parent.mkdir(parents=True, exist_ok=True)
        waited = f"{file.place} is being fetched by another process for too long. Remove {copy}.lock if there is none."
        with held(copy.with_name(f"{copy.name}.lock"), LONGEST_DOWNLOAD, waited):
            if not copy.is_file():
                make_room(file.size)
                _fetch(file, copy)
    os.utime(copy)  # the files that were used last stay longest
    return copy


def fetch(place: str) -> Path:
    """Bring a file of the user's into the cache, and give its path there."""
    return on_disk(find(place))


class Ahead:
    """A thread that fetches files before they are needed. What fails here is left to whoever needs the file, and reports it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[File | None] = queue.SimpleQueue()
        self._known: set[File] = set()
        self._thread: threading.Thread | None = None

    def want(self, files: Sequence[File]) -> None:
        """Fetch these next, unless they were asked for just before."""
        for file in files:
            if file not in self._known and is_remote(file.place):
                self._asked.put(file)
        self._known = set(files)
        if self._thread is None and not self._asked.empty():
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (file := self._asked.get()) is not None:
            with suppress(InputError, OSError):
                on_disk(file)

    def close(self) -> None:
        """End the thread after the file that it fetches now."""
        while not self._asked.empty():
            self._asked.get()
        self._asked.put(None)


def make_room(size: int) -> None:
    """Remove the copies that were not used for longest, until so many bytes fit; a process that reads one can go on."""
    folder = cache_folder() / "remote"
    limit = cache_limit()
    if size > limit:
        raise InputError(f"a file of {size / 1e9:.2g} GB does not fit into a cache of {limit / 1e9:g} GB. Raise {LIMIT}.")
    copies = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process makes room too
            if not path.name.startswith(".") and path.suffix != ".lock":
                copies.append((path.stat(), path))
    held_bytes = sum(status.st_size for status, _ in copies)
    for status, path in sorted(copies, key=lambda each: each[0].st_mtime):
        if held_bytes + size <= limit:
            return
        path.unlink(missing_ok=True)
        held_bytes -= status.st_size


def cache_limit() -> float:
    """Bytes of fetched files to keep at most: those of $SOFTMATCH_CACHE_GB, else 50 GB."""
    try:
        return float(os.environ.get(LIMIT) or DEFAULT_GB) * 1e9
    except ValueError:
        raise InputError(f"{LIMIT} is {os.environ[LIMIT]!r}; it must be a number of gigabytes, such as 50.") from None


def _fetch(file: File, copy: Path) -> None:
    """Fetch a file block by block: after a cut connection only the block is fetched again."""
    files = _files(file.place)
    with replacing_file(copy) as to:
        while (done := to.tell()) < file.size:
            stop = min(done + BLOCK, file.size)

            def block(start: int = done, stop: int = stop) -> bytes:
                content: bytes = files.cat_file(file.place, start=start, end=stop)
                if len(content) == file.size:  # a server that knows no ranges sends everything
                    return content[start:]
                if len(content) != stop - start:
                    raise OSError(f"{len(content):,} bytes came instead of {stop - start:,}")
                return content

            to.write(_attempt(file.place, block, f" after {done:,} of {file.size:,} bytes"))


def _files(place: str) -> Any:
    """The file system of an address. Not kept: fsspec gives each process its own."""
    kind = place.partition("://")[0]
    try:
        return fsspec.filesystem(kind)
    except (ImportError, ValueError) as error:
        raise InputError(f"{place} needs a library for {kind}://: pip install 'softmatch[{EXTRAS[kind]}]'.") from error


def _attempt(place: str, work: Callable[[], Found], where: str = "") -> Found:
    """Try up to five times, with longer and longer pauses; what another attempt cannot change is not tried again."""
    for number in range(1, TRIES + 1):
        try:
            return work()
        except InputError:
            raise
        except Exception as error:  # each kind of storage has errors of its own
            if (final := _final(place, error)) is not None:
                raise InputError(final) from error
            if number == TRIES:
                said = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".: ")
                text = f"{place} cannot be read{where}: {said} ({TRIES} attempts)."
                raise InputError(f"{text} Check the connection and start again.") from error
        time.sleep(FIRST_PAUSE * 2 ** (number - 1))
    raise AssertionError


def _final(place: str, error: Exception) -> str | None:
    """Say why a file cannot be had, where trying again would not help."""
    kind = place.partition("://")[0]
    if kind.startswith("http") and isinstance(error, FileNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # fsspec calls everything so that goes wrong with a header
    name, status = type(error).__name__, getattr(error, "status", None)
    advice = HELP.get("gs" if kind == "gcs" else kind, "Check the address, or ask its owner for access.")
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return f"{place} is not there (404). Check the name."
    if name in ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError") or status == 401:
        return f"{place} needs credentials (401). {advice}"
    if isinstance(error, PermissionError) or status == 403 or name == "GatedRepoError":
        return f"{place} may not be read (403). {advice}"
    if isinstance(error, ImportError):
        return f"{place} needs a library for {kind}://: pip install 'softmatch[{EXTRAS[kind]}]'."
    if isinstance(status, int) and 400 <= status < 500 and status not in (408, 425, 429):
        return f"{place} cannot be read: the server answers {status}. Check the address."
    return None
