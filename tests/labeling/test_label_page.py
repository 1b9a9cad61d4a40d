"""The page without a browser: acts, kills at any moment, and what the command line says."""

import json
import random
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from benchmarks.label_servers import Client, LabelServers, label_until_killed, lost_or_twice
from softmatch.cli.app import main
from softmatch.config import read_file
from softmatch.errors import InputError
from softmatch.labeling import trainings as module
from softmatch.labeling.label_log import LabelLog
from softmatch.labeling.trainings import Trainings
from softmatch.metrics import wilson_interval
from softmatch.runs.folder import RunFolder
from tests.report.example import make_run


def test_labels_undo_groups_and_the_table(servers: LabelServers, pictures: Path, tmp_path: Path) -> None:
    server = servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0")
    client = Client(server.address)
    assert client.state["classes"] == []
    first: list[dict[str, Any]] = []
    for number in (20, 20, 3):
        held = ",".join(str(each["id"]) for each in first)
        first += client.get(f"next?number={number}&tab=t&held={held}")["samples"]
    assert [each["purpose"] for each in first] == ["chosen"] * 42 + ["random"]
    first = [*first[:4], first[-1]]
    state = client.label([first[0]["id"]], " cat ", "new", request="one")
    assert client.label([first[0]["id"]], "cat", "new", request="one")["version"] == state["version"] == 1
    assert state["classes"] == [{"name": "cat", "count": 1}]
    assert client.label([first[0]["id"]], "Cat", "new")["classes"] == state["classes"]  # not a second class
    client.post("turn", request="c", how="undo", epoch=client.state["epoch"])
    client.label([first[4]["id"]], "dog")
    client.label([first[1]["id"]], None, "skip")
    client.label([first[2]["id"]], None, "none")
    with pytest.raises(RuntimeError, match="measure the error"):
        client.label([first[4]["id"]], "cat", "group")
    client.label([each["id"] for each in first[1:4]], "dog", "group")
    found = client.post("turn", request="u", how="undo", epoch=client.state["epoch"])
    assert sorted(found["samples"]) == sorted(each["id"] for each in first[1:4])
    assert (found["labeled"], found["skipped"], found["random"]) == (2, 2, 1)
    client.label([first[0]["id"]], "dog", "review")
    moved = {"request": "m", "how": "key", "label": "cat", "epoch": "of before", "samples": [59]}
    with pytest.raises(RuntimeError, match="409"):
        client.post("act", **moved)
    with pytest.raises(RuntimeError, match="409"):
        client.post("act", **moved, names=["gone.png"])
    client.post("act", **moved, names=[first[1]["name"]])  # which waited in a browser while files were added
    client.post("turn", request="v", how="undo", epoch=client.state["epoch"])
    server.kill(signal.SIGTERM)
    rows = [line.split(",") for line in (tmp_path / "p" / "labels.csv").read_text().splitlines()]
    assert [(row[0], row[2], row[3]) for row in rows[1:]] == [
        (first[0]["name"], "dog", "chosen"),
        (first[4]["name"], "dog", "random"),
    ]
    assert "2 labels in" in server.output.read_text()


def test_classes_are_renamed_and_a_merge_is_asked_for(servers: LabelServers, tmp_path: Path) -> None:
    rows = "".join(f"some words {number},{'known' if number < 3 else ''}\n" for number in range(12))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    client = Client(servers.start(str(tmp_path / "texts.csv"), "--project", str(tmp_path / "p"), "--port", "0").address)
    epoch = client.state["epoch"]
    for position, label in ((4, "cat"), (5, "dgo"), (6, "cat")):
        client.label([position], label, "new")

    def rename(old: str, label: str, merge: bool = False, request: str = "") -> list[str]:
        about = {"how": "rename", "old": old, "label": label, "merge": merge, "request": request or f"{old} {label} {merge}"}
        return [f"{each['name']} {each['count']}" for each in client.post("act", epoch=epoch, **about)["classes"]]

    assert rename("dgo", " dog ") == ["known 3", "cat 2", "dog 1"]
    for old, new, message in (("cat", "Dog", "class dog exists"), ("known", "x", "of the source"), ("x", "y", "no class")):
        with pytest.raises(RuntimeError, match=message):
            rename(old, new)
    with pytest.raises(RuntimeError, match="no label"):
        rename("cat", "NA")
    assert rename("cat", "Dog", True) == rename("cat", "Dog", True) == ["known 3", "dog 3"]
    found = client.post("turn", request="u", how="undo", epoch=epoch)
    assert (sorted(found["samples"]), found["sample"], found["labeled"]) == ([4, 6], None, 3)
    assert rename("dog", "known", True) == ["known 4", "cat 2"]
    found = client.post("turn", request="v", how="undo", epoch=epoch)
    assert (found["samples"], found["sample"]) == ([5], None)  # a correction: nothing to label again


def test_killed_at_random_moments_nothing_is_lost_and_nothing_is_twice(
    servers: LabelServers, pictures: Path, tmp_path: Path
) -> None:
    acknowledged: dict[str, str] = {}
    for number in range(6):
        server = servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0")
        label_until_killed(server, acknowledged, random.Random(number), longest=0.25)
    assert len(acknowledged) >= 6
    assert lost_or_twice(tmp_path / "p", acknowledged) == (0, 0)


def test_a_second_server_is_kept_out(servers: LabelServers, pictures: Path, tmp_path: Path) -> None:
    server = servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0")
    with pytest.raises(RuntimeError, match=f"is open in {server.address.split('/?')[0]}. Stop that server"):
        servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0")
    server.kill()
    servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0").kill()


def test_many_writers_at_once(servers: LabelServers, pictures: Path, tmp_path: Path) -> None:
    client = Client(servers.start(str(pictures), "--project", str(tmp_path / "p"), "--port", "0").address)
    threads = [threading.Thread(target=client.label, args=([k], "ab"[k % 2])) for k in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("state")["labeled"] == 40
    assert len((tmp_path / "p" / "log.jsonl").read_text().splitlines()) == 40


def test_a_run_is_served_read_only(servers: LabelServers, tmp_path: Path) -> None:
    make_run(tmp_path / "run", evaluation="crossfit")
    (tmp_path / "run" / "held_out.csv").write_text(
        "name,label,predicted,confidence,right\n7,upper,lower,0.9,no\n8,upper,upper,0.9,yes\n"
    )
    (tmp_path / "run" / "report.html").write_text("<script>1</script>")
    client = Client(servers.start(str(tmp_path / "run"), "--port", "0", command="serve").address)
    assert client.state["only"]
    found = client.get("run?name=run")
    assert (found["state"], found["test_error"], found["share"]) == ("finished", 0.026, 1.0)
    assert [chart["name"] for chart in found["charts"]] == ["error", "pseudo"]
    assert found["moment"]["all"]
    assert found["baseline_interval"][0] < 0.154 < found["baseline_interval"][1]
    assert [row["name"] for row in client.get("review?list=mistakes&offset=0&number=9")["rows"]] == ["7"]
    assert client.ask("GET", "/report/run")[1]["content-security-policy"] == "sandbox allow-scripts"
    for path, values in (("act", {"how": "key"}), ("train", {"how": "start"}), ("command", {"what": "predict", "name": "run"})):
        assert client.ask("POST", f"/api/{path}", json.dumps(values).encode())[0] == 400


def test_results_are_downloaded_by_name_and_only_when_they_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainings = Trainings(tmp_path, "source", [])
    code = "from pathlib import Path; p = Path({!r}); p.mkdir(exist_ok=True); (p / 'model.pt').write_text('x')"
    monkeypatch.setattr(trainings, "path", lambda name: tmp_path / "runs" / name)
    monkeypatch.setattr(module, "_spawn", lambda words, output: _python(code.format(str(Path(words[-1]).parent)), output))
    trainings.export("001", "torchscript")
    (name,) = trainings._results
    trainings._results[name][1].wait()
    found = trainings.command()
    assert found is not None
    assert (found["state"], found["result"]) == ("finished", name)
    assert zipfile.ZipFile(trainings.download(name)).namelist() == ["model.pt"]
    assert trainings.download(name).name == f"{name}.zip"
    for wrong in ("001", "../log.jsonl", f"{name}/model.pt"):
        with pytest.raises(InputError, match="no result"):
            trainings.download(wrong)
    monkeypatch.setattr(module, "_spawn", lambda words, output: _python("import sys; sys.exit(1)", output))
    trainings.predict("001")
    trainings._results[last := [*trainings._results][-1]][1].wait()
    with pytest.raises(InputError, match="no result"):
        trainings.download(last)


def test_the_network_that_is_trained_now_is_named(tmp_path: Path) -> None:
    make_run(tmp_path / "run", evaluation="crossfit")
    (tmp_path / "run" / "result.json").unlink()
    steps = read_file(tmp_path / "run" / "config.yaml")["steps"]
    trainings, records = Trainings(tmp_path, "", [], only=tmp_path / "run"), (tmp_path / "run" / "metrics.jsonl").read_text()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    seen = []
    for fold in range(1, 6):
        for folder in (tmp_path / "run" / "folds" / str(fold) / "twin", tmp_path / "run" / "folds" / str(fold)):
            RunFolder(folder).append_record({"step": steps, "test_error": fold / 10, "test_samples": 10})
            found = trainings.details("run")
            seen.append((found["part"], found["figures_of"]))
    assert seen[1] == ("Fold 2 of 5: baseline", "Fold 1 of 5: method")
    assert seen[-1] == ("Final model on all labels", "Fold 5 of 5: method")
    assert found["live"]["method"] == {"error": 0.5, "interval": wilson_interval(5, 10), "samples": 10}
    assert found["live"]["baseline"] == found["live"]["method"]
    RunFolder(tmp_path / "run" / "folds" / "5").append_record({"step": steps + 1, "test_error": 7.0, "test_samples": 10})
    assert trainings.details("run")["live"]["method"]["interval"] is None, "a damaged record"
    (tmp_path / "run" / "metrics.jsonl").write_text(records.splitlines()[0] + "\n")
    found = trainings.details("run")
    assert found["figures_of"] == "Final model on all labels"
    assert found["share"] < 1.0


def test_a_training_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LabelLog(tmp_path / "p")
    log.write("1", "key", [("a", "")], "cat", {"a": "chosen"})
    spawn, code = module._spawn, "import sys; print('softmatch: two classes are needed.'); sys.exit(2)"
    monkeypatch.setattr(sys, "executable", sys.executable)
    monkeypatch.setattr(module, "_spawn", lambda words, output: _python(code, output))
    trainings = Trainings(tmp_path / "p", "source", [])
    name = trainings.start(log)
    trainings._processes[name].wait()
    found = trainings.details(name)
    assert (found["state"], found["labels"]) == ("failed", 1)
    assert "two classes are needed" in found["output"]
    assert "--labels-from" in found["command"]
    monkeypatch.setattr(module, "_spawn", spawn)
    log.close()


def _python(code: str, output: Path) -> "subprocess.Popen[bytes]":
    with output.open("ab") as file:
        return subprocess.Popen([sys.executable, "-c", code], stdout=file, start_new_session=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("label digits", "named dataset"),
        ("label nowhere", "no file or folder nowhere"),
        ("label pictures --host 0.0.0.0", "Add --allow-network"),
        ("label pictures --project pictures/labels", "Choose a folder outside of the data"),
        ("label pictures --port 1000000", "from 0 to 65535"),
        ("label pictures --stesp 3", "--steps"),
        ("label pictures --out x", "does not read --out"),
        ("serve pictures", "not a run folder"),
    ],
)
def test_mistakes_are_explained(
    words: str, message: str, pictures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(pictures.parent)
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["label", "pictures"]) == 2
    assert "pip install 'softmatch[web]'" in capsys.readouterr().err


def test_help_imports_neither_torch_nor_the_server() -> None:
    code = (
        "import sys; from softmatch.cli.app import main; main(['label', '--help']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'starlette', 'uvicorn', 'sklearn')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
