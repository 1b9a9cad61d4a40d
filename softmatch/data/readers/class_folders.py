"""Contents of a user's folder, and the names of folders as classes, and as parts for training and testing."""

import os
import posixpath
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from softmatch.data.readers.labels import clean_label
from softmatch.data.records import Finding, about
from softmatch.errors import InputError
from softmatch.formatting import printable, some

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm"})
"""Suffixes of image files, in lower case."""
SOUNDS = frozenset({".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au"})
NOUNS = {"image": "images", "sound": "recordings"}
"""Kinds of files that are samples, and what they are called."""
TABLES = frozenset({".csv", ".tsv"})
MediaKind = Literal["image", "sound"]
IGNORED = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir"})
"""Left behind by operating systems, in addition to hidden files."""


@dataclass
class Walked:
    """Everything below a folder; names are relative to it, with / between folders, and sorted.

    Attributes:
        samples: images or recordings, of which the folder has more; the others count as other files.
        folders: all that were entered.
        others: number of files by suffix that are neither samples nor tables.
        again: links to folders that are read anyway.
        closed: folders that cannot be entered, and the reason.
    """

    samples: list[str] = field(default_factory=list)
    kind: MediaKind = "image"
    tables: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    again: list[str] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)

    def findings(self) -> list[Finding]:
        """Report what the owner of the folder should know."""
        closed = [f"{printable(name)!r} ({reason})" for name, reason in self.closed.items()]
        found = about("warning", "folders that cannot be opened are left out", closed)
        text = "links that form a circle or lead to folders that are read anyway are not followed"
        found += about("note", text, [repr(printable(name)) for name in self.again])
        if self.others:
            found.append(Finding("note", f"files that are not readable {NOUNS[self.kind]} are left out: {self.kinds()}."))
        return found

    def kinds(self) -> str:
        """Count the other files: '.txt (3), .heic (2)'."""
        return ", ".join(f"{printable(kind) or 'no suffix'} ({count:,})" for kind, count in self.others.most_common(5))


def walk(root: Path) -> Walked:
    """Look into a folder and all folders in it, through links too, each of them once."""
    found, seen = Walked(), set[str]()
    samples: dict[str, list[str]] = {kind: [] for kind in NOUNS}
    above = {str(parent) for parent in Path(os.path.realpath(root)).parents}
    pending, links = [""], list[str]()
    while pending or links:
        name = pending.pop() if pending else links.pop(0)  # links last: a folder is read under its own name
        real = os.path.realpath(root / name)
        if real in seen or real in above:
            found.again.append(name)
            continue
        seen.add(real)
        try:
            entries = _entries(root / name)
        except OSError as error:
            if not name:
                raise InputError(f"{printable(root)} cannot be opened: {error.strerror or error}.") from error
            found.closed[name] = error.strerror or str(error)
            continue
        found.folders.append(name)
        for entry in entries:
            inner, kind = posixpath.join(name, entry.name), _kind(entry)
            if kind == "folder":
                (links if entry.is_symlink() else pending).append(inner)
            elif kind in samples:
                samples[kind].append(inner)
            elif kind in TABLES:
                found.tables.append(inner)
            else:
                found.others[kind] += 1
    found.kind = "sound" if len(samples["sound"]) > len(samples["image"]) else "image"
    found.samples = samples.pop(found.kind)
    found.others.update(posixpath.splitext(name)[1].lower() for names in samples.values() for name in names)
    for names in (found.samples, found.tables, found.folders, found.again):
        names.sort()
    found.folders.remove("")
    return found


def files_in(folder: Path, kind: MediaKind) -> list[str]:
    """Names of the images or recordings directly in a folder, sorted; none where it cannot be opened."""
    try:
        return [entry.name for entry in _entries(folder) if _kind(entry) == kind]
    except OSError:
        return []


def is_image(name: str) -> bool:
    """Tell whether a file has the suffix of an image."""
    return media_kind(name) == "image"


def media_kind(name: str) -> MediaKind | None:
    """Tell by its suffix whether a file is an image or a recording."""
    suffix = posixpath.splitext(name)[1].lower()
    return "image" if suffix in SUFFIXES else "sound" if suffix in SOUNDS else None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        seen = [entry for entry in entries if not entry.name.startswith(".") and entry.name.lower() not in IGNORED]
    return sorted(seen, key=lambda entry: entry.name)


def _kind(entry: os.DirEntry[str]) -> str:
    """Tell "folder", "image", "sound" and "not a file" apart, or give the suffix. A broken link cannot be read later."""
    if not entry.is_file(follow_symlinks=False):
        try:
            mode = entry.stat().st_mode
        except OSError:  # a broken link, or one to itself
            mode = stat.S_IFREG
        if not stat.S_ISREG(mode):  # a pipe or a device would be waited for
            return "folder" if stat.S_ISDIR(mode) else "not a file"
    return media_kind(entry.name) or posixpath.splitext(entry.name)[1].lower()


UNLABELED_FOLDERS = frozenset({"unlabeled", "unlabelled"})
"""Folders of images without a label: in any case, with _ or - around the name or not."""
TRAIN = ("train", "training")
TEST = ("test", "testing", "val", "valid", "validation")
"""The first of these that exists is the test set."""


@dataclass(frozen=True)
class Parts:
    """Top folders for training and testing.

    Attributes:
        bases: folders that hold the class folders; "" is the whole.
    """

    bases: tuple[str, ...] = ("",)
    test: str | None = None
    unused: Sequence[str] = ()
    findings: Sequence[Finding] = ()

    def use(self, image: str) -> str | None:
        """Purpose of an image: "train", "test" or none."""
        top = image.split("/")[0]
        return None if top in self.unused else "test" if top == self.test else "train"

    def labels(self, walked: Walked, word: str | None) -> dict[str, str | None]:
        """Label every image with the class folder that it is in, or None. `word` is the user's for unlabelled."""
        labels: dict[str, str | None] = dict.fromkeys(walked.samples)
        for base in self.bases:
            for image in below(walked.samples, base):
                top, *inner = relative(image, base).split("/")
                if inner and not is_unlabeled(top):
                    label = clean_label(printable(top)) or printable(top)
                    labels[image] = None if label == word else label
        return labels

    def name_classes(self, labels: Mapping[str, str | None]) -> bool:
        """Tell whether the folders name the classes: there are two or more, or one beside a folder of unlabelled images.

        A single folder may merely be the one that all images are in.
        """
        known = {label for label in labels.values() if label is not None}
        apart = any(label is None and not self._is_loose(image) for image, label in labels.items())
        return len(known) > 1 or (len(known) == 1 and apart)

    def about_classes(self, walked: Walked, labels: Mapping[str, str | None]) -> list[Finding]:
        """Report what is odd about the class folders."""
        findings, noun = list[Finding](), NOUNS[walked.kind]
        for base in self.bases:
            tops = [relative(name, base) for name in below(walked.folders, base) if "/" not in relative(name, base)]
            for top in tops:
                if not is_unlabeled(top) and get_close_matches(top.lower(), UNLABELED_FOLDERS, 1, 0.85):
                    advice = f"If its {noun} have no label, rename it to unlabeled."
                    findings.append(Finding("warning", f"the folder {printable(top)!r} is taken as a class. {advice}"))
            full = {relative(image, base).split("/")[0] for image in below(walked.samples, base)}
            empty = [repr(printable(posixpath.join(base, top))) for top in tops if top not in full]
            findings += about("warning", f"there are folders without {noun}", empty, "A class without any cannot be learned.")
        known = {label for label in labels.values() if label is not None}
        loose = [repr(printable(image)) for image in labels if labels[image] is None and self._is_loose(image)]
        if known:
            findings += about("note", f"{noun} outside of the class folders are taken as unlabelled", loose)
        return findings + (_about_wrapping(walked, self.bases[0]) if len(known) == 1 else [])

    def _is_loose(self, image: str) -> bool:
        return posixpath.dirname(image) in ("", *self.bases)


def find_parts(walked: Walked) -> Parts:
    """Take train/ and test/ as parts where no other folder holds images; else they are classes of that name."""
    folders = sorted({image.split("/")[0] for image in walked.samples if "/" in image})
    train, test = (_first(folders, wanted) for wanted in (TRAIN, TEST))
    if train is None:
        return Parts()
    parts = [name for name in folders if name.lower() in (*TRAIN, *TEST)]
    others = [repr(printable(name)) for name in folders if name not in parts and not is_unlabeled(name)]
    if others:
        text = f"the folders {train!r} and {test!r} are taken as classes, because there are other folders"
        advice = "If they are parts of the data, move the other folders away."
        return Parts() if test is None else Parts(findings=about("warning", text, others, advice))
    unused = [name for name in parts if name not in (train, test)]
    which = f"the {NOUNS[walked.kind]} in {some(list(map(repr, unused)))}"
    text = f"{which} are not used: {train!r} is for training, {test!r} for testing."
    return Parts((train,) if test is None else (train, test), test, unused, [Finding("note", text)] if unused else [])


def below(names: Iterable[str], base: str) -> Iterator[str]:
    """Names in a folder or further down."""
    start = f"{base}/" if base else ""
    return (name for name in names if name.startswith(start))


def relative(name: str, base: str) -> str:
    """Name as seen from a folder that contains it."""
    return name[len(base) + 1 :] if base else name


def is_unlabeled(name: str) -> bool:
    """Tell whether a folder is called like one of unlabelled images."""
    return name.lower().strip("_- ") in UNLABELED_FOLDERS


def _first(folders: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Folder whose name, in any case, comes first among the wanted."""
    return min((name for name in folders if name.lower() in wanted), key=lambda name: wanted.index(name.lower()), default=None)


def _about_wrapping(walked: Walked, base: str) -> list[Finding]:
    """Point out a single class that consists of folders: most likely these are the classes."""
    paths = [relative(image, base).split("/") for image in below(walked.samples, base)]
    deep = {(path[0], repr(printable(path[1]))) for path in paths if len(path) > 2 and not is_unlabeled(path[0])}
    if len(deep) < 2:
        return []
    name = printable(posixpath.join(base, min(deep)[0]))
    inner = sorted(inner for _, inner in deep)
    return about(
        "warning",
        f"{name!r}, the only class, consists of folders",
        inner,
        f"If these are the classes, give {name!r} as the source.",
    )
