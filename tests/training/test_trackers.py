"""Each tracker with its real library, where it is installed: what it has of a run that was interrupted and resumed."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import softmatch
from softmatch.errors import InputError
from softmatch.report.drawn_charts import draw_charts
from softmatch.runs.folder import RunFolder
from softmatch.training.trackers import TRACKERS, final_figures, final_table, numbers, role_prefix
from tests.training.test_tracking import FAST

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


class Breaks:
    """A watcher that ends the run at a record of the method."""

    def understood(self, task: Any, run: Any) -> None: ...

    def note(self, text: str) -> None: ...

    def record(self, role: str, record: Any, steps: int) -> None:
        if role == "softmatch" and record["step"] == 4:
            raise KeyError("broken")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for key, value in {
        "MLFLOW_TRACKING_URI": (tmp_path / "store").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "TRACKIO_DIR": str(tmp_path / "trackio"),
    }.items():
        monkeypatch.setenv(key, value)


def interrupted_and_resumed(*names: str) -> Path:
    """A run that was begun twice; nothing of the first time is left but what the trackers have."""
    with pytest.raises(KeyError, match="broken"):
        softmatch.train("two-moons", out="run", listeners=names, watcher=Breaks(), **FAST)
    shutil.rmtree("run/checkpoints")  # all records of the method come again
    softmatch.train(resume="run", listeners=names)
    return Path("run")


def test_tensorboard_has_one_run_with_each_record_once() -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator

    run = interrupted_and_resumed("tensorboard")
    found = EventAccumulator(str(run / "tensorboard"), {TENSORS: 0, "images": 0, "scalars": 0}).Reload()
    records = RunFolder(run).records()
    for name in ("test_error", "loss", "quantity"):
        events = [(event.step, event.value) for event in found.Scalars(name)]
        assert events == [(record["step"], pytest.approx(record[name], rel=1e-5)) for record in records]
    assert [event.step for event in found.Scalars("baseline/test_error")] == [2, 4, 6]
    assert {"report/evaluation_error", "report/losses"} <= set(found.Tags()["images"])
    assert found.Scalars("final/error")[0].value == pytest.approx(_result(run)["test_error"])
    texts = {
        tag: found.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in ("settings/text_summary", "result/text_summary")
    }
    assert "| steps | 6 |" in texts["settings/text_summary"]
    assert texts["result/text_summary"] == final_table(_result(run))


def _result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = RunFolder(run).read_json("result.json")
    return found


@pytest.mark.parametrize("store", ["file", "sqlite"])
def test_mlflow_has_one_run_with_each_record_once(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    if store == "sqlite":
        pytest.importorskip("sqlalchemy", reason="the extra is not installed")
        pytest.importorskip("alembic", reason="the extra is not installed")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    run = interrupted_and_resumed("mlflow")
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("softmatch").experiment_id])
    assert (found.info.run_name, found.info.status) == ("run", "FINISHED")
    assert (found.data.params["steps"], found.data.params["source"]) == ("6", "two-moons")
    for name in ("test_error", "baseline/test_error"):
        assert [metric.step for metric in client.get_metric_history(found.info.run_id, name)] == [2, 4, 6]
    figures = final_figures(_result(run))
    assert {key: found.data.metrics[key] for key in figures} == pytest.approx(figures)
    paths = {each.path for folder in (None, "model", "report") for each in client.list_artifacts(found.info.run_id, folder)}
    assert {"report.html", "result.json", "result.md", "model/model.safetensors", "report/evaluation_error.png"} <= paths
    loaded = client.download_artifacts(found.info.run_id, "model", str(tmp_path))
    assert (Path(loaded) / "model.safetensors").read_bytes() == (run / "model" / "model.safetensors").read_bytes()


def test_wandb_offline_has_one_run() -> None:
    pytest.importorskip("wandb", reason="the extra is not installed")
    run = interrupted_and_resumed("wandb")
    memory = RunFolder(run / "trackers").read_json("wandb.json")
    assert memory["sent"] == {"baseline": 6, "softmatch": 6}
    folders = [path for path in Path("wandb").glob("offline-run-*") if path.name.endswith(memory["id"])]
    assert folders  # of the same id, which `wandb sync` joins
    assert any(b"test_error" in path.read_bytes() for folder in folders for path in folder.glob("*.wandb"))


def test_trackio_has_one_run_with_each_record_once() -> None:
    pytest.importorskip("trackio", reason="the extra is not installed")
    run = interrupted_and_resumed("trackio")
    code = (
        "import json, trackio; from trackio.sqlite_storage import SQLiteStorage; (run,) = trackio.Api().runs('softmatch'); "
        "logs = SQLiteStorage.get_logs(run.project, run.name, run_id=run.id); "
        "print(json.dumps([run.name, [log['step'] for log in logs if 'test_error' in log], sorted(logs[-1])]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout  # it reads TRACKIO_DIR
    name, steps, last = json.loads(out.splitlines()[-1])
    assert (name, steps) == (RunFolder(run / "trackers").read_json("trackio.json")["id"], [2, 4, 6])
    assert {"final/error", "final/gain", "report/evaluation_error", "result"} <= set(last)


def test_several_trackers_at_once_and_a_lost_server(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("tensorboard")
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    softmatch.train("two-moons", out="run", baseline=False, listeners=["mlflow", "tensorboard", "mlflow"], **FAST)
    said = [record.getMessage() for record in caplog.records if record.name == "softmatch"]
    assert len(said) == 1
    assert said[0].startswith("softmatch: mlflow failed in start: MlflowException: ")
    assert [path.name for path in Path("run/trackers").iterdir()] == ["tensorboard.json"]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_library_is_reported_before_training(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, TRACKERS[name].module, None)  # type: ignore[arg-type]  # as if it were not there
    with pytest.raises(
        InputError, match=rf"--track {name} needs a library that is not installed: pip install 'softmatch\[{name}\]'"
    ):
        softmatch.train("two-moons", out="run", listeners=[name])
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("role", "prefix"),
    [("softmatch", ""), ("baseline", "baseline/"), ("2/5 softmatch", "fold-2/"), ("2/5 baseline", "fold-2/baseline/")],
)
def test_figures_of_other_networks_have_a_prefix(role: str, prefix: str) -> None:
    assert role_prefix(role, "softmatch") == prefix


def test_numbers_of_a_record() -> None:
    record = {"step": 3, "role": "x", "loss": 0.5, "quality": None, "test_error": float("nan"), "test_error_of": "the folds"}
    record |= {"statistics": {"mean": 0.25, "marginal": [0.1, None]}, "test_class_errors": [0.0] * 11, "curve": {"weight": [1.0]}}
    assert numbers(record) == {"loss": 0.5, "statistics/mean": 0.25, "statistics/marginal/0": 0.1}


def test_the_final_table_has_error_interval_baseline_and_gain() -> None:
    result = {"method": "softmatch", "test_error": 0.028, "test_error_interval": [0.017, 0.045], "supervised_test_error": 0.106}
    result |= {"difference": -0.078, "difference_interval": [-0.102, -0.056]}
    assert final_table(result).splitlines()[2:] == [
        "| error of softmatch | 2.8 % | 1.7 % to 4.5 % |",
        "| error of the baseline | 10.6 % |  |",
        "| gain | +7.8 points | +5.6 points to +10.2 points |",
    ]
    assert final_figures(result)["final/gain_low"] == 0.056
    assert final_figures({"test_error": None}) == {}


def test_charts_are_drawn(tmp_path: Path) -> None:
    softmatch.train("two-moons", out=tmp_path / "run", **FAST)
    drawn = draw_charts(RunFolder(tmp_path / "run"))
    assert {"evaluation_error", "quantity_and_quality_of_pseudo_labels", "losses", "mu_and_sigma_of_the_confidence"} <= set(drawn)
    assert all(picture.shape == (400, 700, 3) and picture.std() > 0 for picture in drawn.values())
