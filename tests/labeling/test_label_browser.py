"""The page in a real browser, by keyboard: labels, undo, kills, two tabs, a training, phone, dark mode, screen reader."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.label_servers import LabelServers, Server
from tests.labeling.conftest import KINDS, make_pictures
from tests.report.chrome import Chrome

TINY = [
    *("--steps", "400", "--evaluate-every", "10", "--folds", "2", "--network", "mlp"),
    *("--labeled-batch", "8", "--unlabeled-batch", "16", "--threads", "1"),
]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    browser = Chrome(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("page") / "pictures", 90)


@pytest.fixture(scope="module")
def project(source: Path) -> Path:
    return source.parent / "project"


def until(chrome: Chrome, script: str, wanted: Callable[[Any], bool] = bool, patience: float = 60.0) -> Any:
    """Wait until an expression has a wanted value."""
    deadline = time.monotonic() + patience
    while not wanted(found := chrome.run(script)):
        assert time.monotonic() < deadline, (
            f"{script} is {found!r}; {chrome.problems[-3:]}; {chrome.run('document.body.innerText')}"
        )
        time.sleep(0.03)
    return found


def start(servers: LabelServers, source: Path, project: Path) -> Server:
    return servers.start(str(source), "--project", str(project), "--port", "0", *TINY)


def enter(chrome: Chrome, server: Server, **look: Any) -> None:
    chrome.open("about:blank")  # the page of a server that was killed goes on asking for it
    chrome.open(server.address, **look)
    until(chrome, "location.search === '' && document.querySelector('.stage img')?.complete")


def shown(chrome: Chrome) -> int:
    """Number of the picture that is shown, in its file's name."""
    return int(until(chrome, "document.querySelector('.stage img')?.alt")[:3])


def label(chrome: Chrome, number: int) -> None:
    """Label the next samples with the right classes, by keyboard alone."""
    for _ in range(number):
        kind = KINDS[shown(chrome) % 3]
        key = chrome.run(
            f"[...document.querySelectorAll('.class')].find(b => b.title === '{kind}')?.querySelector('kbd').textContent"
        )
        before = chrome.run("document.querySelector('.stage img').alt")
        if key:
            chrome.press(key.lower())
        else:
            chrome.press("n")
            chrome.send("Input.insertText", text=kind)
            chrome.press("Enter")
        until(chrome, f"document.querySelector('.stage img')?.alt !== '{before}'")


def saved(chrome: Chrome, number: int) -> None:
    until(chrome, "document.getElementById('saved').textContent", lambda said: said == f"{number} labelled, saved")


def labels(project: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in (project / "log.jsonl").read_text().splitlines():
        for change in json.loads(line)["changes"]:
            found[change["name"]] = change["label"]
    return {name: label for name, label in found.items() if label is not None}


def test_thirty_labels_by_keyboard_undo_reload_and_a_kill(
    chrome: Chrome, servers: LabelServers, source: Path, project: Path
) -> None:
    server = start(servers, source, project)
    enter(chrome, server)
    assert "No classes yet" in chrome.run("document.querySelector('.classes').textContent")
    assert chrome.run("document.querySelector('.rename').disabled")
    until(chrome, "document.querySelector('.finding') === null")
    any_samples = 0  # which are shown while there are no suggestions; those that were fetched ahead are replaced then
    while not chrome.run("document.querySelector('.reason')?.textContent.startsWith('Typical of')"):
        label(chrome, 1)
        any_samples += 1
        time.sleep(1.0)
        assert any_samples < 12
    label(chrome, 12 - any_samples)
    saved(chrome, 12)
    last = shown(chrome)
    chrome.press("1")
    saved(chrome, 13)
    chrome.press("z")
    saved(chrome, 12)
    until(chrome, "document.querySelector('.stage img')?.alt", lambda name: int(name[:3]) == last)
    chrome.press("Z", shift=True)
    saved(chrome, 13)
    chrome.press("z")
    saved(chrome, 12)
    chrome.press("s")
    chrome.press("x")
    chrome.send("Page.reload")
    until(chrome, "document.querySelector('.stage img')?.complete")
    label(chrome, 8)
    saved(chrome, 20)
    until(chrome, "Number(document.querySelector('main').dataset.ahead) > 4")
    assert chrome.problems == []
    server.kill()
    label(chrome, 2)  # the page goes on, and says that these are not saved
    until(chrome, "document.getElementById('away').textContent", lambda said: "2 acts wait in this browser" in said)
    assert chrome.run("document.getElementById('saved').textContent") == "2 not saved"
    assert len(labels(project)) == 20
    again = servers.start(str(source), "--project", str(project), "--port", server.address.split(":")[2].split("/")[0], *TINY)
    chrome.send("Page.navigate", url=again.address)
    until(chrome, "location.search === '' && document.querySelector('.stage img')?.complete")
    saved(chrome, 22)  # those that had waited too, each once
    assert chrome.run("document.getElementById('away').hidden")
    label(chrome, 8)
    saved(chrome, 30)
    found = labels(project)
    assert len(found) == 30
    assert all(kind == KINDS[int(name[:3]) % 3] for name, kind in found.items())
    again.kill()


def watch(chrome: Chrome) -> None:
    """See a training move, and its live errors with their interval and number of samples."""
    lengths, notes = set[float](), set[str]()
    deadline = time.monotonic() + 240
    wanted = {f"so far, on 15 samples of fold {fold} of 2" for fold in (1, 2)}
    while len(lengths) < 3 or not notes & wanted or not any(note.startswith("95 % interval ") for note in notes):
        lengths.add(chrome.run("(p => p.hidden ? 0 : p.value)(document.querySelector('progress'))"))
        notes |= set(chrome.run("[...document.querySelectorAll('.tiles dd.note')].map(note => note.textContent)"))
        assert not chrome.run("document.querySelector('.lead').textContent").startswith("Finished"), f"{lengths}; {notes}"
        assert time.monotonic() < deadline, f"{lengths}; {notes}; {chrome.run('document.body.innerText')}"
        time.sleep(0.05)


def test_group_review_and_a_training(chrome: Chrome, servers: LabelServers, source: Path, project: Path) -> None:
    server = start(servers, source, project)
    enter(chrome, server)
    chrome.run("location.hash = 'training'")
    until(chrome, "document.querySelector('button.main')?.disabled === false")
    chrome.run("document.querySelector('button.main').focus()")
    chrome.press("Enter")
    until(chrome, "document.querySelector('.lead').textContent", lambda said: said.startswith("Running · 30 labels"))
    watch(chrome)

    chrome.run("location.hash = 'group'")
    until(chrome, "document.querySelectorAll('.cell').length > 3")
    members = chrome.run("[...document.querySelectorAll('.cell')].map(c => Number(c.title.slice(0, 3)) % 3)")
    kind = max(set(members), key=members.count)
    chrome.press(
        chrome.run(
            f"[...document.querySelectorAll('.class')].find(b => b.title === '{KINDS[kind]}').querySelector('kbd').textContent"
        ).lower()
    )
    chrome.press("ArrowRight")
    chrome.press(" ")
    assert chrome.run("document.querySelectorAll('.cell.out').length") == 1
    chrome.run("location.hash = 'review'")  # and back: what was unticked is kept
    until(chrome, "document.querySelector('#list') !== null")
    chrome.run("location.hash = 'group'")
    until(chrome, "document.querySelectorAll('.cell.out').length === 1")
    said = f"Label {len(members) - 1} as {KINDS[kind]}"
    assert said in chrome.run("document.querySelector('button.main').textContent")
    chrome.press("Enter")
    saved(chrome, 30 + len(members) - 1)
    lines = (project / "log.jsonl").read_text().splitlines()
    assert {change["purpose"] for change in json.loads(lines[-1])["changes"]} == {"group"}
    chrome.press("z")
    saved(chrome, 30)
    until(chrome, "document.querySelectorAll('.cell.out').length === 1")  # the same group, with what was unticked in it
    until(chrome, "document.querySelector('button.main').textContent", lambda text: said in text)
    chrome.press("s")
    until(chrome, "document.querySelectorAll('.cell.out').length === 0")

    chrome.run("location.hash = 'review'")
    until(chrome, "document.querySelector('#list') !== null")
    chrome.run("(l => { l.value = 'labels'; l.dispatchEvent(new Event('change')) })(document.getElementById('list'))")
    until(chrome, "document.querySelector('main > .fine').textContent.includes('All labels')")
    name, before = chrome.run("(c => [c.title, c.querySelector('strong').textContent])(document.querySelector('.cell'))")
    cell = f"[...document.querySelectorAll('.cell')].find(c => c.title === '{name}').querySelector('strong')"
    other = chrome.run(
        f"[...document.querySelectorAll('.class')].find(b => b.title !== '{before}').querySelector('kbd').textContent"
    )
    chrome.press(other.lower())
    until(
        chrome,
        f"{cell}.textContent !== '{before}'",
    )
    saved(chrome, 30)
    assert labels(project)[name] != before
    chrome.press("z")
    until(
        chrome,
        f"{cell}.textContent === '{before}'",
    )

    chrome.run("location.hash = 'training'")
    until(chrome, "document.querySelector('.lead').textContent", lambda said: said.startswith("Finished"), 240)
    until(chrome, "document.querySelectorAll('.chart canvas').length", lambda number: number == 3)
    assert "errors on" in chrome.run("document.querySelector('.verdict').textContent")
    assert " to " in chrome.run("document.querySelectorAll('.tiles dd.note')[0].textContent")
    warned = "document.querySelector('.caution').textContent"
    assert "measured on samples that were chosen" in chrome.run(warned)
    chrome.run("location.hash = 'enough'")
    until(chrome, "document.querySelector('.lead').textContent", lambda said: said.startswith("With 30 labels the error is"))
    assert "measured on samples that were chosen" in chrome.run(warned)
    assert chrome.run("document.querySelector('figure').hidden")  # one training is no curve
    chrome.run("[...document.querySelectorAll('button')].find(b => b.textContent === 'Predict all samples').click()")
    until(
        chrome,
        "document.querySelector('.lead[role=status]').textContent",
        lambda said: said.startswith("The predictions are ready"),
    )
    assert len(next((project / "predictions").iterdir()).read_text().splitlines()) == 91
    until(chrome, "document.querySelector('.lead a') !== null")
    fetched = chrome.run("fetch(document.querySelector('.lead a').href).then((answer) => answer.text())")
    assert len(fetched.splitlines()) == 91
    assert f"softmatch curve {project / 'runs' / '001'}" in chrome.run("document.querySelector('main').textContent")

    runs = project / "runs"  # a second training, measured on random samples
    shutil.copytree(runs / "001", runs / "002")
    shutil.copy(runs / "001.json", runs / "002.json")
    result = json.loads((runs / "002" / "result.json").read_text()) | {"measured_on": "random", "labels": 60}
    (runs / "002" / "result.json").write_text(json.dumps(result))
    chrome.run("location.hash = 'label'")
    until(chrome, "document.querySelector('.stage') !== null")
    chrome.run("location.hash = 'enough'")
    lead = until(chrome, "document.querySelector('.lead')?.textContent", lambda said: said and said.startswith("With 60 labels"))
    assert "cannot be compared" in lead
    assert chrome.run("document.querySelector('figure').hidden")
    assert chrome.run("document.querySelector('.runs').textContent.split('on chosen samples').length") == 2
    assert chrome.problems == []
    server.kill()


def test_two_tabs_phone_dark_and_screen_reader(chrome: Chrome, servers: LabelServers, source: Path, tmp_path: Path) -> None:
    server = start(servers, source, tmp_path / "project")
    enter(chrome, server, width=390, height=844, dark=True)
    assert chrome.run("document.documentElement.scrollWidth - innerWidth") <= 0
    assert chrome.run("document.documentElement.scrollHeight - innerHeight") <= 0
    assert chrome.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    small = "[...document.querySelectorAll('.actions button')].filter(b => b.getBoundingClientRect().height < 44).length"
    assert chrome.run(small) == 0
    fits = "(n => n.scrollWidth - n.clientWidth)(document.getElementById('screens'))"
    assert chrome.run(fits) <= 0
    label(chrome, 2)
    first = chrome.run("document.querySelector('.stage img').alt")
    other = Chrome(tmp_path / "profile")
    try:
        other.open(server.address)
        until(other, "document.querySelector('.stage img')?.complete")
        assert other.run("document.querySelector('.stage img').alt") != first
        label(other, 3)
        saved(other, 5)
        saved(chrome, 5)  # within a poll
        for screen in ("group", "training", "review", "enough"):
            chrome.run(f"location.hash = '{screen}'")
            chrome.settle()
            assert chrome.run("document.documentElement.scrollWidth - innerWidth") <= 0
        assert other.problems == []
    finally:
        other.close()
    chrome.run("location.hash = 'label'")
    until(chrome, "document.querySelector('.stage img')?.complete")
    nodes = chrome.send("Accessibility.getFullAXTree")["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node}
    nameless = [role for role, name in named if role in ("button", "link", "image", "textbox", "combobox") and not name]
    assert nameless == []
    assert ("image", chrome.run("document.querySelector('.stage img').alt")) in named
    chrome.press("1")
    assert chrome.run("document.getElementById('spoken').textContent").startswith("Labelled ")
    names = "[...document.querySelectorAll('.class')].map(b => b.title).join()"
    one, other = chrome.run(names).split(",")[:2]
    for new, pressed in (("new name", 1), (other, 2)):  # a merge is asked for once
        chrome.run("document.querySelector('.rename').click()")
        chrome.send("Input.insertText", text=new)
        for _ in range(pressed):
            assert chrome.run("document.getElementById('renaming').open")
            chrome.press("Enter")
        until(chrome, f"({names}).split(',').includes({json.dumps(one)})", lambda found: not found)
        one = new
        if pressed == 1:
            assert "new name" in until(chrome, names)
    chrome.press("z")
    until(chrome, names, lambda found: "new name" in found)
    chrome.press("?")
    assert chrome.run("document.getElementById('help').open")
    assert chrome.problems == []
    server.kill()


def test_a_picture_that_cannot_be_read_gets_no_label(chrome: Chrome, servers: LabelServers, tmp_path: Path) -> None:
    source = make_pictures(tmp_path / "pictures", 12)
    for path in sorted(source.iterdir())[1:]:
        path.write_bytes(path.read_bytes()[:60])
    server = servers.start(str(source), "--project", str(tmp_path / "project"), "--port", "0")
    chrome.open("about:blank")
    chrome.open(server.address)
    broken = "(document.querySelector('.stage .problem')?.textContent.slice(0, 3) ?? '')"
    if until(chrome, f"{broken} || document.querySelector('.stage img')?.naturalWidth && 'read'") == "read":
        chrome.press("s")
    name = until(chrome, broken)
    chrome.press("n")
    chrome.send("Input.insertText", text="left")
    chrome.press("Enter")
    until(chrome, "document.getElementById('alert').textContent", lambda said: "so it gets no label" in said)
    assert chrome.run(broken) == name
    chrome.press("s")
    until(chrome, broken, lambda other: other not in ("", name))
    assert labels(tmp_path / "project") == {}
    server.kill()
