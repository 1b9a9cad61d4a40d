"""The hub that answers, the hub that does not, and what was fetched before."""

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

datasets = pytest.importorskip("datasets", reason="of the extra `hub`")
huggingface_hub = pytest.importorskip("huggingface_hub", reason="of the extra `hub`")

from softmatch.data.readers import hub_repositories as hub_access  # noqa: E402 (after what may be missing)
from softmatch.data.readers.hub_repositories import fetch, why_out_of_reach  # noqa: E402 (likewise)


@pytest.fixture(autouse=True)
def asked_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever has told the libraries to stay offline."""
    why_out_of_reach.cache_clear()
    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    yield
    why_out_of_reach.cache_clear()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server in the place of the hub; gives what it was asked."""
    asked = []

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there


def test_a_hub_that_answers_is_asked_once_whatever_it_says(answering: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *given, **more: (given, more, datasets.config.HF_HUB_OFFLINE))
    assert [fetch("a/b", None, split="train") for _ in range(2)] == 2 * [(("a/b", None), {"split": "train"}, False)]
    assert len(answering) == 1


def test_a_hub_that_does_not_is_not_asked_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    tried: list[float] = []
    monkeypatch.setattr("time.sleep", tried.append)  # what the library does before it tries again
    with pytest.raises(ConnectionError, match=r"it does not answer \(.+\), and nobody/nothing was not fetched before"):
        fetch("nobody/nothing")
    assert tried == []


def test_what_was_fetched_before_is_taken_and_the_libraries_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    silent(monkeypatch)
    flags = (datasets.config, "HF_HUB_OFFLINE"), (huggingface_hub.constants, "HF_HUB_OFFLINE")
    former = [getattr(*flag) for flag in flags]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: [getattr(*flag) for flag in flags])
    assert fetch("a/b") == [True, True]
    assert [getattr(*flag) for flag in flags] == former


def test_a_missing_library_is_named_with_what_else_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(hub_access.InputError, match=r"^a/b needs the library .* pip install 'softmatch\[hub\]'\. Or wait\.$"):
        hub_access.library("a/b", "Or wait.")
