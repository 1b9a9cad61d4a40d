"""Many files read side by side: results in order, files that cannot be read by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from softmatch.data.loading import count_workers
from softmatch.data.records import Finding, Progress, UnreadableFile
from softmatch.formatting import some

Given = TypeVar("Given")
Found = TypeVar("Found")

PART = 512
"""Files that threads work on before the next ones are begun, which bounds the results that wait."""


def by_threads(
    work: Callable[[Given], Found], files: Sequence[Given], progress: Progress | None = None
) -> Iterator[Found | UnreadableFile]:
    """Give the result for each in order, or the error. Decoders work without holding Python's lock."""

    def attempt(one: Given) -> Found | UnreadableFile:
        try:
            return work(one)
        except UnreadableFile as error:
            return error

    with ThreadPoolExecutor(count_workers()) as pool:
        for start in range(0, len(files), PART):
            yield from pool.map(attempt, files[start : start + PART])
            if progress is not None:
                progress(min(start + PART, len(files)), len(files))


def unreadable(failed: Mapping[int, UnreadableFile], names: Sequence[str], noun: str = "images") -> list[Finding]:
    """Report files that cannot be read; where they are more than half, training stops."""
    if not failed:
        return []
    named = [f"{names[position]!r} ({error.reason})" for position, error in failed.items()]
    places = tuple(f"{names[position]}: {error.reason}" for position, error in failed.items())
    what = f"{len(failed):,} of {len(names):,} {noun} cannot be read: {some(named)}."
    if 2 * len(failed) > len(names):
        return [Finding("stop", f"{what} Replace or remove them: so many point to a common cause.", places)]
    return [Finding("warning", f"{what} They are left out. Replace or remove them.", places)]
