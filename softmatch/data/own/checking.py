"""What is noticed about a user's own data before anything is trained."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from softmatch.data.duplicates import digests
from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.own.labels import look_alikes, suspicious_unlabeled
from softmatch.data.records import Finding

SHOWN = 5
RATIO = 20


def listed(names: Sequence[str], shown: int = SHOWN) -> str:
    """The first few, quoted, and how many more there are."""
    rest = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(repr(name) for name in names[:shown]) + rest


def check_classes(where: str, counts: Mapping[str, int], total: int, unlabeled: str | None) -> list[Finding]:
    """About labels, from how often each occurs among all samples."""
    if not total:
        return [Finding("stop", f"{where} holds no samples.")]
    if not counts:
        return [
            Finding(
                "stop",
                f"{where}: none of the {total:,} samples has a label. Label a few of each class; "
                "`softmatch suggest SOURCE` chooses which ones are worth it.",
            )
        ]
    if len(counts) == 1:
        (name,) = counts
        return [Finding("stop", f"{where}: every label is {name!r}. A classifier needs labels of at least two classes.")]
    found = []
    suspect = suspicious_unlabeled(counts, unlabeled)
    if suspect is not None:
        found.append(suspect)
    found += look_alikes(counts)
    single = sorted(name for name, count in counts.items() if count == 1)
    if single:
        which = "every class has" if len(single) == len(counts) else f"{len(single)} of {len(counts)} classes have"
        found.append(
            Finding(
                "warning",
                f"{which} a single labelled sample: {listed(single)}. What one sample says about a class is little, "
                "and whether it is learned cannot be measured. Label a few more of them.",
                tuple(single),
            )
        )
    largest, smallest = max(counts.values()), min(counts.values())
    if largest >= RATIO * smallest and smallest > 1:
        found.append(
            Finding(
                "note",
                f"the largest class has {largest / smallest:.0f} times the labels of the smallest. Methods for long-tailed data "
                "may help: --method saw+softmatch (`softmatch methods`).",
            )
        )
    if sum(counts.values()) == total:
        found.append(
            Finding(
                "note",
                "every sample has a label: there is nothing unlabelled to learn from, so a classifier is trained on the labels "
                "alone. To try what unlabelled data would do, give --labels N: the other labels are then hidden.",
            )
        )
    return found


def check_items(examples: Examples, contents: Sequence[bytes]) -> list[Finding]:
    """About the items themselves: copies, copies with different labels, and test items that are trained on.

    Args:
        contents: a digest of each item.
    """
    found, members = [], defaultdict[bytes, list[int]](list)
    for position, digest in enumerate(contents):
        members[digest].append(position)
    copies = [group for group in members.values() if len(group) > 1]
    if copies:
        extra = sum(map(len, copies)) - len(copies)
        first = [_name(examples, position) for position in copies[0][:2]]
        found.append(
            Finding(
                "note",
                f"{extra:,} samples are exact copies of others, such as {first[0]!r} and {first[1]!r}. "
                "A sample and its copies are held out together.",
                tuple(" = ".join(_name(examples, position) for position in group) for group in copies),
            )
        )
    disputed = [group for group in copies if len(_labels(examples, group)) > 1]
    if disputed:
        name, labels = _name(examples, disputed[0][0]), sorted(_labels(examples, disputed[0]))
        found.append(
            Finding(
                "warning",
                f"{len(disputed):,} samples stand there more than once with different labels, such as {name!r}: "
                f"{' and '.join(labels)}. One of the labels is probably wrong.",
                tuple(", ".join(_name(examples, position) for position in group) for group in disputed),
            )
        )
    if examples.test is not None:
        test = digests(examples.test.items)
        both = [_name(examples.test, position) for position, digest in enumerate(test) if digest in members]
        if both:
            found.append(
                Finding(
                    "warning",
                    f"{len(both):,} of the {len(test):,} test samples also stand in the training data: {listed(both)}. "
                    "The error measured on them says nothing about new data: remove them from one of the two.",
                    tuple(both),
                )
            )
    return found


def _name(examples: Examples, position: int) -> str:
    return examples.names[position] if examples.names else str(position)


def _labels(examples: Examples, group: Sequence[int]) -> set[str]:
    labels = Counter(int(examples.labels[position]) for position in group)
    return {examples.classes[label] for label in labels if label != UNLABELED}
