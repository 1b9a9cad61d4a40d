"""Every framework trains the network that a plain loop trains, and goes on after a stop as if there had been none."""

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from softmatch.distributed.launching import free_port
from tests.forked import Forked

EXAMPLES = Path(__file__).parents[2] / "examples"
STEPS, STOP = 12, 7
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning"
)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def state(network: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


@cache
def plain() -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Network and method after `STEPS` steps of the loop without a framework: that of accumulate.py with whole batches."""
    _, network, method = example("accumulate")["main"](STEPS, pieces=1)
    return state(network), state(method)


def same(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> None:
    assert set(one) == set(two)
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


def part(of: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key.removeprefix(f"{name}."): value for key, value in of.items() if key.startswith(f"{name}.")}


def in_two_processes(folder: Path, code: str) -> None:
    """Run code in two processes as torchrun would start them."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [{**os.environ, **meeting, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [Forked(["-c", code], folder, environment) for environment in ranks]
    errors = [process.communicate(timeout=600)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors


def call(name: str) -> str:
    return f"import runpy; runpy.run_path({str(EXAMPLES / name)!r} + '.py')['main']"


def test_pieces_of_a_batch_make_the_step_of_the_whole_batch() -> None:
    """With statistics of the whole batch; those of each piece are others, as the documentation says."""
    network, method = plain()
    error, exact, learned = example("accumulate")["main"](STEPS, pieces=4)
    same(network, state(exact))
    same(method, state(learned))
    assert error < 0.75
    _, _, simple = example("accumulate")["main"](STEPS, pieces=4, exact=False)
    assert int(simple.state_dict()["weighting.mean.updates"]) == 4 * int(method["weighting.mean.updates"])


def test_ddp_trains_what_one_process_trains_and_resumes(tmp_path: Path) -> None:
    one, two, resumed = (str(tmp_path / name) for name in ("one", "two", "resumed"))
    main = example("plain_loop")["main"]
    main(6, checkpoint=one)
    main(6, checkpoint=resumed, stop_after=4)
    main(6, checkpoint=resumed)
    in_two_processes(tmp_path, f"{call('plain_loop')}(6, checkpoint={two!r})")
    whole, shared, continued = (torch.load(path) for path in (one, two, resumed))
    assert whole["loader"] == shared["loader"] == continued["loader"]
    for name in ("network", "method"):
        same(whole[name], shared[name])
        assert all(torch.equal(whole[name][key], continued[name][key]) for key in whole[name])


def test_fsdp(tmp_path: Path) -> None:
    in_two_processes(tmp_path, f"{call('fsdp_loop')}({STEPS}, 'saved.pt')")
    saved = torch.load(tmp_path / "saved.pt")
    same(plain()[0], saved["network"])
    same(plain()[1], saved["method"])


def test_lightning(tmp_path: Path) -> None:
    fit: Callable[..., Any] = example("lightning_loop")["fit"]
    fit(STEPS, STOP, tmp_path)
    one = state(fit(STEPS, STEPS, resume=tmp_path / "last.ckpt"))
    code = f"import runpy, pathlib; runpy.run_path({str(EXAMPLES / 'lightning_loop.py')!r})['fit']"
    in_two_processes(tmp_path, f"{code}({STEPS}, {STEPS}, pathlib.Path('.'), devices=2)")
    two = torch.load(tmp_path / "last.ckpt", weights_only=False)["state_dict"]
    for found in (one, two):
        same(plain()[0], part(found, "network"))
        same(plain()[1], part(found, "method"))


def test_hf_trainer(tmp_path: Path) -> None:
    main = example("hf_trainer")["main"]
    main(tmp_path, STEPS, stop_after=STOP)
    _, model = main(tmp_path, STEPS, resume=True)
    same(plain()[0], part(state(model), "network"))
    same(plain()[1], part(state(model), "method"))


def test_accelerate_launched_on_two_processes_resumes_on_one(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(f"{call('accelerate_loop')}({STOP}, folder='saved')")
    words = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", str(free_port())]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words, "first.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert f"40 labels, {STOP} steps, 2 process(es)" in done.stdout, done.stderr
    second = Forked(["-c", f"{call('accelerate_loop')}({STEPS}, folder='saved', resume=True)"], tmp_path)
    assert f"40 labels, {STEPS} steps, 1 process(es)" in second.communicate(timeout=600)[0]
    same(plain()[0], load_file(tmp_path / "saved" / "model.safetensors"))
    same(plain()[1], torch.load(tmp_path / "saved" / "custom_checkpoint_0.pkl"))


@pytest.mark.skipif(sys.platform != "linux", reason="Ray is tested on Linux only")
@pytest.mark.usefixtures("ray_cluster")
def test_ray_train_on_two_workers(tmp_path: Path) -> None:
    found = example("ray_train")["main"](tmp_path, steps=STEPS, every=STOP)
    assert found["step"] == STEPS
    saved = {state["loader"]["step"]: state for state in map(torch.load, tmp_path.rglob("state.pt"))}
    assert set(saved) == {STOP, STEPS}
    same(plain()[0], saved[STEPS]["network"])
    same(plain()[1], saved[STEPS]["method"])
