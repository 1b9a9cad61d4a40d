"""What the names of folders say about the images in them: their class, and whether they are for training or for testing."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from softmatch.data.own.labels import clean_label
from softmatch.data.own.walk import Walked
from softmatch.data.records import Finding
from softmatch.formatting import some
from softmatch.views.pillow import printable

UNLABELED_FOLDERS = frozenset({"unlabeled", "unlabelled"})
"""Of images without a label: in any case, with _ or - around it or not."""
TRAIN = ("train", "training")
TEST = ("test", "testing", "val", "valid", "validation")
"""The first of these that is there is the test set."""


@dataclass(frozen=True)
class Parts:
    """Which of the top folders are for training, which for testing.

    Attributes:
        bases: folders that hold the folders of classes; "" is the whole.
    """

    bases: tuple[str, ...] = ("",)
    test: str | None = None
    unused: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def use(self, image: str) -> str | None:
        """What an image is for: "train", "test" or nothing."""
        top = image.split("/")[0]
        return None if top in self.unused else "test" if top == self.test else "train"


def find_parts(walked: Walked) -> Parts:
    """train/ and test/ are parts where no folder beside them holds images; else they are classes of that name."""
    folders = sorted({image.split("/")[0] for image in walked.images if "/" in image})
    train, test = (_first(folders, wanted) for wanted in (TRAIN, TEST))
    if train is None:
        return Parts()
    parts = [name for name in folders if name.lower() in (*TRAIN, *TEST)]
    others = [repr(printable(name)) for name in folders if name not in parts and not _is_unlabeled(name)]
    if others:
        text = f"the folders {train!r} and {test!r} are taken as classes, since there are others beside them: {some(others)}. "
        text += "If they are parts of the data, move the others away."
        return Parts() if test is None else Parts(findings=(Finding("warning", text),))
    unused = tuple(name for name in parts if name not in (train, test))
    text = f"the images in {some(list(map(repr, unused)))} are not used: {train!r} is for training, {test!r} for testing."
    findings = (Finding("note", text),) if unused else ()
    return Parts((train,) if test is None else (train, test), test, unused, findings)


def labels_by_folder(walked: Walked, parts: Parts, word: str | None) -> dict[str, str | None]:
    """Of every image the name of the class folder that it lies in, or None. `word` is the user's for unlabelled."""
    labels: dict[str, str | None] = dict.fromkeys(walked.images)
    for base in parts.bases:
        for image in below(walked.images, base):
            top, *inner = relative(image, base).split("/")
            if inner and not _is_unlabeled(top):
                label = _class(top)
                labels[image] = None if label == word else label
    return labels


def certain_parts(labels: Mapping[str, str | None], parts: Parts) -> frozenset[str | None]:
    """Parts whose folders surely are classes: two or more, or one beside a folder of unlabelled images.

    A single folder may merely be the one that all images are in.
    """
    classes, apart = defaultdict[str | None, set[str]](set), set[str | None]()
    for image, label in labels.items():
        if label is not None:
            classes[parts.use(image)].add(label)
        elif not _is_loose(image, parts):
            apart.add(parts.use(image))
    return frozenset(use for use, names in classes.items() if len(names) > 1 or use in apart)


def about_classes(walked: Walked, parts: Parts, labels: Mapping[str, str | None]) -> list[Finding]:
    """What is odd about the folders of classes."""
    findings = []
    for base in parts.bases:
        tops = [relative(name, base) for name in below(walked.folders, base) if "/" not in relative(name, base)]
        findings += _about_names(tops)
        near = [top for top in tops if not _is_unlabeled(top) and get_close_matches(top.lower(), UNLABELED_FOLDERS, 1, 0.85)]
        findings += [_meant_unlabeled(top) for top in near]
        full = {relative(image, base).split("/")[0] for image in below(walked.images, base)}
        empty = [repr(printable(posixpath.join(base, top))) for top in tops if top not in full]
        if empty:
            text = f"there are folders without an image: {some(empty)}. A class without any cannot be learned."
            findings.append(Finding("warning", text, tuple(empty)))
    known = {label for label in labels.values() if label is not None}
    loose = [repr(printable(image)) for image in labels if labels[image] is None and _is_loose(image, parts)]
    if loose and known:
        text = f"images that lie in no folder of a class are taken as unlabelled: {some(loose)}."
        findings.append(Finding("note", text, tuple(loose)))
    return findings + (_about_wrapping(walked, parts.bases[0]) if len(known) == 1 else [])


def _meant_unlabeled(folder: str) -> Finding:
    text = f"the folder {printable(folder)!r} is taken as a class. If its images have no label, call it unlabeled."
    return Finding("warning", text)


def below(names: Iterable[str], base: str) -> Iterator[str]:
    """Those in a folder or further down."""
    start = f"{base}/" if base else ""
    return (name for name in names if name.startswith(start))


def relative(name: str, base: str) -> str:
    """The name as seen from a folder that it lies in."""
    return name[len(base) + 1 :] if base else name


def _first(folders: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The folder whose name, in any case, comes first among the wanted."""
    return min((name for name in folders if name.lower() in wanted), key=lambda name: wanted.index(name.lower()), default=None)


def _is_loose(image: str, parts: Parts) -> bool:
    return posixpath.dirname(image) in ("", *parts.bases)


def _is_unlabeled(name: str) -> bool:
    return name.lower().strip("_- ") in UNLABELED_FOLDERS


def _class(folder: str) -> str:
    return clean_label(printable(folder)) or printable(folder)


def _about_names(tops: Sequence[str]) -> list[Finding]:
    """Those that differ only in case are found among all labels, see `labels.look_alikes`."""
    same = defaultdict[str, list[str]](list)
    for top in tops:
        same[_class(top)].append(repr(printable(top)))
    text = "the names of {} folders are written differently but read the same, {!r}: they are taken as one class."
    return [
        Finding("warning", text.format(len(folders), label), tuple(folders))
        for label, folders in same.items()
        if len(folders) > 1
    ]


def _about_wrapping(walked: Walked, base: str) -> list[Finding]:
    """A single class that consists of folders: most likely these are the classes."""
    inner = defaultdict[str, set[str]](set)
    for image in below(walked.images, base):
        top, *rest = relative(image, base).split("/")
        if len(rest) > 1 and not _is_unlabeled(top):
            inner[top].add(repr(printable(rest[0])))
    text = "{!r}, the only class, consists of folders: {}. If these are the classes, give it as the source."
    return [
        Finding("warning", text.format(printable(posixpath.join(base, top)), some(sorted(names))))
        for top, names in inner.items()
        if len(names) > 1
    ]
