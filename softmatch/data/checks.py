"""Checks of a user's data before anything is trained."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from softmatch.data.examples import UNLABELED, Examples
from softmatch.data.readers.labels import look_alikes, suspicious_unlabeled
from softmatch.data.records import Finding, InputKind, Records
from softmatch.encoders.named import NAMED
from softmatch.formatting import quoted

RATIO = 20
TINY = 32
"""Side in pixels up to which images are not photos: an encoder would have to enlarge them."""
ALL_LABELED = (
    "every sample has a label: there is nothing unlabelled to learn from, so a classifier is trained on the labels only. To try "
    "what unlabelled data would do, give --labels N: the other labels are then hidden."
)


def check_classes(where: str, counts: Mapping[str, int], total: int, unlabeled: str | None) -> list[Finding]:
    """Check the labels, given the number of samples with each and of all samples."""
    if not total:
        return [Finding("stop", f"{where} holds no samples.")]
    if not counts:
        text = f"{where}: none of the {total:,} samples has a label. Label a few of each class; `softmatch suggest SOURCE` "
        return [Finding("stop", f"{text}chooses which ones are worth it.")]
    if len(counts) == 1:
        (name,) = counts
        return [Finding("stop", f"{where}: every label is {name!r}. A classifier needs labels of at least two classes.")]
    suspect = suspicious_unlabeled(counts, unlabeled)
    found = [*([suspect] if suspect is not None else []), *look_alikes(counts)]
    single = sorted(name for name, count in counts.items() if count == 1)
    if single:
        some = f"{len(single)} of {len(counts)} classes {'has' if len(single) == 1 else 'have'}"
        text = f"{'every class has' if len(single) == len(counts) else some} a single labelled sample: {quoted(single)}. "
        text += "One sample says little about a class, and its error cannot be measured. Label a few more."
        found.append(Finding("warning", text, tuple(single)))
    largest, smallest = max(counts.values()), min(counts.values())
    if largest >= RATIO * smallest and smallest > 1:
        text = f"the largest class has {largest / smallest:.0f} times the labels of the smallest. Methods for long-tailed data "
        found.append(Finding("note", f"{text}may help: --method saw+softmatch (`softmatch methods`)."))
    if sum(counts.values()) == total:
        found.append(Finding("note", ALL_LABELED))
    return found


def advise_encoder(kind: InputKind, examples: Examples) -> list[Finding]:
    """Say what a pretrained encoder usually changes, where texts or photos are read without one."""
    shape = tuple(examples.items.shape[1:])
    if kind == "text":
        name, effect = "texts-small", "on AG News with 40 labels the error fell from 22.3 to 14.7 % (5 seeds)"
    elif kind == "image" and shape[0] == 3 and min(shape[1:]) > TINY:
        name, effect = "images", "with few labels this usually changes more than any other setting"
    else:
        return []
    add = f"Add --encoder {name} ({NAMED[name].megabytes:,} MB, downloaded once)"
    return [Finding("note", f"no pretrained encoder reads the {kind}s. {add}: {effect}.")]


def check_lost(every: Mapping[str, int], kept: Mapping[str, int]) -> list[Finding]:
    """Report classes of which no labelled sample could be read."""
    lost = sorted(set(every) - set(kept))
    if not lost:
        return []
    text = f"none of the labelled samples of {quoted(lost)} could be read: the classifier will not know this class."
    return [Finding("warning", text, tuple(lost))]


def check_versions(records: Records) -> list[Finding]:
    """Report columns of augmented texts that are empty or incomplete."""
    found = []
    for name, column in zip(records.versions, records.augmented, strict=True):
        missing = sum(not version.strip() for version in column)
        if missing == len(column):
            found.append(Finding("warning", f"{name} is empty: its versions are the texts themselves."))
        elif missing:
            have = "has" if missing == 1 else "have"
            text = f"{name}: {missing:,} of {len(column):,} texts {have} no version: the text itself is used."
            found.append(Finding("warning", text))
    return found


def check_copies(examples: Examples, contents: Sequence[bytes]) -> list[Finding]:
    """Report samples that occur more than once, and those of them with different labels."""
    members = defaultdict[bytes, list[int]](list)
    for position, digest in enumerate(contents):
        members[digest].append(position)
    copies = [group for group in members.values() if len(group) > 1]
    if not copies:
        return []
    extra = sum(map(len, copies)) - len(copies)
    if examples.groups is not None and len(set(examples.groups.tolist())) == len(examples):
        return [Finding("note", f"{extra:,} rows equal others in all columns: they are taken as different samples.")]
    named = [[examples.names[position] for position in group] for group in copies]
    text = f"{extra:,} {'sample is an exact copy' if extra == 1 else 'samples are exact copies'} of others, such as "
    text += f"{named[0][0]!r} and {named[0][1]!r}. A sample and its copies are held out together."
    found = [Finding("note", text, tuple(" = ".join(names) for names in named))]
    given = [{int(examples.labels[position]) for position in group} - {UNLABELED} for group in copies]
    labelled = [sorted(examples.classes[label] for label in labels) for labels in given]
    disputed = [(names, labels) for names, labels in zip(named, labelled, strict=True) if len(labels) > 1]
    if disputed:
        names, labels = disputed[0]
        text = f"{len(disputed):,} {'sample occurs' if len(disputed) == 1 else 'samples occur'} more than once with different "
        text += f"labels, such as {names[0]!r}: {' and '.join(labels)}. One of the labels may be wrong."
        found.append(Finding("warning", text, tuple(", ".join(names) for names, _ in disputed)))
    return found


def check_leaks(contents: Sequence[bytes], names: Sequence[str], test: Sequence[bytes]) -> list[Finding]:
    """Report test samples, given by name and digest, that are also in the training data."""
    known = set(contents)
    both = [name for name, digest in zip(names, test, strict=True) if digest in known]
    if not both:
        return []
    text = f"{len(both):,} of the {len(test):,} test samples are equal to samples of the training data: {quoted(both)}. "
    text += "If they are the same ones, the error on them says nothing about new data: remove them from one of the two."
    return [Finding("warning", text, tuple(both))]
