"""Recordings on the page, in a real browser: drawn, played, labelled by a key."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.label_servers import LabelServers
from tests.labeling.test_label_browser import TINY, until
from tests.recordings import two_birds
from tests.report.chrome import Chrome


@pytest.fixture
def chrome(tmp_path: Path) -> Iterator[Chrome]:
    browser = Chrome(tmp_path / "profile")
    yield browser
    browser.close()


def test_a_recording_is_drawn_and_played_and_labelled(chrome: Chrome, servers: LabelServers, tmp_path: Path) -> None:
    source = two_birds(tmp_path / "calls", 2, 12)
    (source / "unlabeled" / "bad.wav").write_text("no sound")
    server = servers.start(str(source), "--project", str(tmp_path / "project"), "--port", "0", *TINY)
    chrome.open(server.address)
    until(chrome, "document.querySelector('.stage .recording img')?.complete")
    assert until(chrome, "document.querySelector('.stage audio').duration || 0") == pytest.approx(0.3, abs=0.01)
    assert chrome.run("document.querySelector('.stage img').naturalHeight") == 256
    first = chrome.run("document.querySelector('.file').textContent")
    assert first.endswith(".wav")
    chrome.press("1")
    until(chrome, f"document.querySelector('.file').textContent !== {first!r}")
    chrome.run("document.querySelector('.stage audio').pause()")
    chrome.press(".")
    until(chrome, "!document.querySelector('.stage audio').paused || document.querySelector('.stage audio').ended")
    until(
        chrome,
        "document.body.innerText.includes('1 of 17 labelled here') || document.body.innerText.includes('1 of 16 labelled here')",
    )
    assert not [each for each in chrome.problems if "bad" not in each and "422" not in each]
