"""Downloads from a real server that answers like the hub: what is fetched and used later, and what happens when it fails."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.hub_server import Hub, serving
from tests.tiny_encoder import add_sentence_settings, make_text_encoder

FETCH = """
import resource, sys
from softmatch.encoders.downloads import FILES, fetch
from softmatch.errors import InputError
if "--full" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    print(fetch("encoder", sys.argv[1], None, FILES, "give a copy."))
except InputError as error:
    print(error)
    sys.exit(2)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder with files that must not be fetched."""
    made = make_text_encoder(tmp_path_factory.mktemp("hub") / "encoder")
    add_sentence_settings(made)
    for name in ("pytorch_model.bin", "modeling_evil.py", "README.md", "onnx/model.onnx"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_bytes(b"never fetched")
    return made


@pytest.fixture
def hub(folder: Path) -> Iterator[Hub]:
    with serving(Hub(folder, "some/encoder")) as made:
        yield made


def fetch(hub: Hub, home: Path, *arguments: str, code: int = 0, **environment: str) -> tuple[str, str]:
    """Output and messages of a new process that asks for a model of the hub."""
    mine = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    given = {**mine, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.address, "HF_HOME": str(home), **environment}
    done = forked.run(["-c", FETCH, *(arguments or (hub.name,))], home, given)
    assert done.returncode == code, done.stderr
    return done.stdout.strip(), done.stderr


def test_only_what_is_needed_is_downloaded_and_then_used_without_asking(hub: Hub, folder: Path, tmp_path: Path) -> None:
    where, said = fetch(hub, tmp_path)
    assert Path(where).name == hub.commit
    assert "Downloading encoder some/encoder (" in said
    assert f"from {hub.address} to {tmp_path / 'hub'}." in said
    assert "Fetching" in said
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "modules.json"}
    there = {path.relative_to(where).as_posix() for path in Path(where).rglob("*") if path.is_file()}
    assert there == wanted | {"sentence_bert_config.json", "1_Pooling/config.json"}
    assert {name: Path(where, name).read_bytes() for name in wanted} == {name: (folder / name).read_bytes() for name in wanted}
    hub.asked.clear()
    assert fetch(hub, tmp_path) == (where, "")
    assert hub.asked == []


def test_a_proxy_is_used(hub: Hub, tmp_path: Path) -> None:
    where, _ = fetch(hub, tmp_path, HF_ENDPOINT="http://hub.invalid", HTTP_PROXY=hub.address)
    assert Path(where, "model.safetensors").is_file()
    assert {line.split()[1].startswith("http://hub.invalid/") for line in hub.asked} == {True}


def test_quiet(hub: Hub, tmp_path: Path) -> None:
    assert fetch(hub, tmp_path, HF_HUB_DISABLE_PROGRESS_BARS="1")[1] == ""


def test_a_cut_connection_leaves_nothing_that_is_used(hub: Hub, tmp_path: Path) -> None:
    hub.cut = 1000
    said, _ = fetch(hub, tmp_path, code=2)
    assert "cannot be fetched from the Hugging Face hub: the connection was cut (" in said
    assert said.endswith("Run the command again.")
    assert "cannot be reached" in fetch(Hub(tmp_path, "some/encoder"), tmp_path, HF_ENDPOINT="http://127.0.0.1:9", code=2)[0]
    hub.cut = None
    where, _ = fetch(hub, tmp_path)
    assert Path(where, "model.safetensors").stat().st_size == (hub.folder / "model.safetensors").stat().st_size


def test_no_room(hub: Hub, tmp_path: Path) -> None:
    hub.largest = 10**18
    said, _ = fetch(hub, tmp_path, code=2)
    assert f"there is no room in {tmp_path / 'hub'} (1,000,000,000,000 MB are needed, and" in said
    assert "set HF_HOME" in said
    assert hub.fetched() == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of the file size are of POSIX")
def test_a_disk_that_becomes_full(hub: Hub, tmp_path: Path) -> None:
    said, _ = fetch(hub, tmp_path, hub.name, "--full", code=2)
    assert f"there is no room in {tmp_path / 'hub'} (File too large). Free some" in said
    assert Path(fetch(hub, tmp_path)[0], "model.safetensors").stat().st_size > 4096


def test_what_the_hub_refuses(hub: Hub, tmp_path: Path) -> None:
    assert "there is no model of this name, or it is private. Check the name" in fetch(hub, tmp_path, "no/thing", code=2)[0]
    hub.gated = True
    said, _ = fetch(hub, tmp_path, code=2)
    assert f"it is gated. Accept its conditions on {hub.address}/some/encoder, then log in with `hf auth login`" in said
    assert "HF_HUB_OFFLINE is set. Unset it once, or give a copy." in fetch(hub, tmp_path, HF_HUB_OFFLINE="1", code=2)[0]
