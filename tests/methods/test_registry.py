"""METHODS and `build`: names, options, files and modules of a user's own, and errors that name what is nearest."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch
from torch import nn

from softmatch.errors import InputError
from softmatch.methods import (
    METHODS,
    AdaMatch,
    Entry,
    Family,
    Forward,
    Match,
    Method,
    Problem,
    Supervised,
    build,
    fixmatch,
    proper_name,
    read_card,
)
from softmatch.methods.base import require, require_choice
from softmatch.weightings import Constant, Linear, Threshold
from tests.methods.networks import batch

PROBLEM = Problem(
    3, num_unlabeled=8, num_labeled=4, class_counts=(2, 1, 1), class_prior=(0.5, 0.25, 0.25), total_steps=100, momentum=0.9
)

USER_WEIGHTING = '''
"""λ = (max p)^power above the running median confidence."""
import torch
from softmatch.weightings import Weighting

class Power(Weighting):
    def __init__(self, num_classes: int, power: float = 2.0) -> None:
        super().__init__()
        self.power = power
        self.register_buffer("median", torch.tensor(1.0 / num_classes))

    def update(self, seen):
        self.median.copy_(seen.weak_probs.max(-1).values.median())

    def forward(self, probs, pseudo_labels=None):
        top = probs.max(-1).values
        return torch.where(top >= self.median, top**self.power, 0.0)

instance = Power(3)
number = 3
'''


@pytest.fixture
def weighting_file(tmp_path: Path) -> Path:
    path = tmp_path / "power.py"
    path.write_text(USER_WEIGHTING)
    return path


def train_one_step(method: Method) -> None:
    """One optimiser step of a small network; its parameters must move."""
    network = nn.Linear(5, 3)
    before = network.weight.detach().clone()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    method.step(Forward(network), batch(labeled=("weak", "strong"))).loss.backward()
    optimizer.step()
    assert not torch.equal(before, network.weight)


def size_of(method: Method) -> int:
    return sum(value.numel() for value in method.state_dict().values())


@pytest.mark.parametrize(("name", "entry"), METHODS.items(), ids=METHODS.keys())
def test_every_entry_is_described_cited_and_built(name: str, entry: Entry) -> None:
    assert entry.summary
    assert "\n" not in entry.summary
    assert len(entry.summary) <= 100
    assert entry.citation
    assert entry.builder.__doc__
    method = build(name, PROBLEM)
    assert isinstance(method, Method)
    assert entry.match == isinstance(method, Match)
    assert entry.strong == any(view.startswith("strong") for view in (*method.labeled_views, *method.unlabeled_views))
    assert entry.wraps == (entry.family == "long-tailed" or name in ("influence", "semireward"))
    assert entry.remembers == (size_of(method) != size_of(build(name, replace(PROBLEM, num_unlabeled=9))))
    if type(method).step in (Match.step, AdaMatch.step, Supervised.step):  # the others are trained in tests/contracts
        train_one_step(method)


def test_the_problem_gives_what_a_builder_has_parameters_for() -> None:
    method = build("softmatch", PROBLEM)
    assert method.weighting.mean.momentum == 0.9
    flexmatch = build("flexmatch", PROBLEM)
    assert flexmatch.state_dict()["weighting.registry.values"].shape == (9,)


def test_options_win_over_the_problem() -> None:
    method = build("softmatch", PROBLEM, {"momentum": 0.5, "k": 3.0})
    assert method.weighting.mean.momentum == 0.5
    assert method.weighting.k == 3.0


def test_class_prior_of_the_problem_is_used_when_asked_for() -> None:
    problem = Problem(num_classes=3, class_prior=(0.6, 0.3, 0.1))
    goal = build("softmatch", problem, {"align": "prior"}).state_dict()["alignment.goal"]
    torch.testing.assert_close(goal, torch.tensor([0.6, 0.3, 0.1]))


def test_unknown_name_and_option_get_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'softmach'.*'softmatch'"):
        build("softmach", PROBLEM)
    with pytest.raises(InputError, match=r"Known: .*fixmatch"):
        build("zzzzzz", PROBLEM)
    with pytest.raises(InputError, match=r"'treshold'.*'threshold'"):
        build("fixmatch", PROBLEM, {"treshold": 0.9})


COUNTS = {"class_counts": [None, (1, 2), (0, 0, 0), (1, -1, 3)]}
MIXING = {"views": [0], "alpha": [0.0], "temperature": [0.0, -1.0], "weight": [-1.0], "ramp": [2.0, 64.0]}
EMBEDDING = {"queue": [0], "smoothing": [1.5, -0.5], "threshold": [1.5, -0.1], "temperature": [0.0]}
CREST = {**COUNTS, "generations": [0], "alpha": [-1.0]}
# fmt: off
REFUSED: dict[str, dict[str, list[object]]] = {
    "pi_model": {"max_weight": [0.0, math.inf], "ramp_shape": ["step"]},
    "mean_teacher": {"ramp": [1.5, -0.1]},
    "temporal_ensembling": {"alpha": [1.0], "num_unlabeled": [0]},
    "vat": {"epsilon": [0.0], "step": [0.0], "iterations": [0], "entropy": [-1.0]},
    "mixmatch": MIXING,
    "remixmatch": {**MIXING, "strong_weight": [-0.5], "rotation_weight": [-0.5]},
    "debiaspl": {"strength": [-0.1]},
    "sequencematch": {"temperature": [0.0], "mapping": ["round"]},
    "sla": {"num_unlabeled": [0], "bounds": ["none"], "level": [1.0], "regularization": [0.0], "tolerance": [0.0],
            "max_iterations": [0], "class_prior": [[0.5, 0.5], [0.5, 0.7, -0.2]]},
    "comatch": {**EMBEDDING, "memory": [0], "graph_threshold": [2.0], "contrast_weight": [-1.0]},
    "simmatch": {**EMBEDDING, "num_labeled": [0], "bank_momentum": [1.0], "instance_weight": [-1.0]},
    "cgmatch": {"warmup": [100, -1], "history": [0], "power": [0.0, 1.5], "clip": [(0.9, 0.1)], "max_weight": [-1.0]},
    "influence": {"validation_share": [0.0, 1.0], "every": [0], "lr": [0.0], "damping": [0.0], "max_weight": [-1.0]},
    "semireward": {"warmup": [-1], "every": [0], "lr": [0.0]},
    "meta_pseudo_labels": {"choice": ["soft"], "finetune": [1.0, -0.1], "baseline": [1.0], "temperature": [0.0]},
    "darp": {"warmup": [1.0], "every": [0], "rounds": [0], "alpha": [0.0], "tolerance": [0.0], "class_prior": [None],
             "target_counts": [[1.0, 2.0], [1.0, -2.0, 3.0]]},
    "crest": CREST,
    "crest_plus": {**CREST, "final_power": [1.5], "queue": [0], "class_prior": [[1.0, 2.0]]},
    "abc": {**COUNTS, "threshold": [1.5], "weight": [0.0]},
    "cossl": {**COUNTS, "teach_from": [80.0], "mix": [1.2]},
    "adsh": {**COUNTS, "threshold": [0.0, 1.0, 1.5], "every": [0]},
    "saw": {**COUNTS, "every": [0]},
}
# fmt: on


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [(name, option, value) for name, wrong in REFUSED.items() for option, values in wrong.items() for value in values],
)
def test_options_that_make_no_sense_are_refused(name: str, option: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"\b{option}\b"):
        build(name, PROBLEM, {option: value})


def test_rules_of_options() -> None:
    require("lie in [0, 1)", alpha=0.0, ramp=None)
    with pytest.raises(InputError, match=r"^alpha must lie in \[0, 1\), not 1\.0\.$"):
        require("lie in [0, 1)", ramp=0.5, alpha=1.0)
    with pytest.raises(InputError, match=r"^choice must be \"sample\" or \"argmax\", not 'soft'\.$"):
        require_choice(Literal["sample", "argmax"], choice="soft")


def test_an_impossible_option_value_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"'softmatch' cannot be built.*momentum"):
        build("softmatch", PROBLEM, {"momentum": 2.0})


def test_builder_class_and_object() -> None:
    assert isinstance(build(fixmatch, PROBLEM, {"threshold": 0.5}), Match)
    assert isinstance(build(Linear, PROBLEM).weighting, Linear)
    weighting, method = Threshold(0.5), Supervised()
    assert build(weighting, PROBLEM).weighting is weighting
    assert build(method, PROBLEM) is method
    with pytest.raises(InputError, match="options"):
        build(method, PROBLEM, {"k": 1})


def test_weighting_class_in_a_file_trains(weighting_file: Path) -> None:
    method = build(f"{weighting_file}:Power", PROBLEM, {"power": 3.0})
    assert type(method.weighting).__name__ == "Power"
    assert method.weighting.power == 3.0
    assert "alignment.marginal.value" in method.state_dict()
    train_one_step(method)
    with pytest.raises(InputError, match=r"'powr'.*'power'"):
        build(f"{weighting_file}:Power", PROBLEM, {"powr": 1.0})


def test_weighting_object_in_a_file_trains(weighting_file: Path) -> None:
    method = build(f"{weighting_file}:instance", PROBLEM)
    assert type(method.weighting).__name__ == "Power"
    train_one_step(method)
    with pytest.raises(InputError, match="options"):
        build(f"{weighting_file}:instance", PROBLEM, {"power": 3.0})


def test_module_and_name() -> None:
    method = build("softmatch.weightings:Constant", PROBLEM, {"max_weight": 2.0})
    assert isinstance(method.weighting, Constant)
    with pytest.raises(InputError, match=r"'Constnt'.*'Constant'"):
        build("softmatch.weightings:Constnt", PROBLEM)
    with pytest.raises(InputError, match="no_such_module"):
        build("no_such_module:Name", PROBLEM)
    with pytest.raises(InputError, match=r"no file .*absent\.py"):
        build("nowhere/absent.py:Name", PROBLEM)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("raise RuntimeError('broken on line one')", "Name", "RuntimeError: broken on line one"),
        ("def f(:", "f", "SyntaxError"),
        ("def nonsense(): return 7", "nonsense", "own.py:nonsense must .* made a int"),
        ("def nothing(): pass", "nothing", "made a NoneType"),
        ("def needy(temperature): pass", "needy", "temperature"),
        ("number = 3", "number", "own.py:number must be or make .* is or made a int"),
        ("def near(): pass", "nere", "'near'"),
    ],
)
def test_faulty_files_give_errors_a_user_can_act_on(tmp_path: Path, source: str, name: str, message: str) -> None:
    path = tmp_path / "own.py"
    path.write_text(source)
    with pytest.raises(InputError, match=message):
        build(f"{path}:{name}", PROBLEM)


def test_a_module_that_raises_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raising_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="ZeroDivisionError"):
        build("raising_module:Name", PROBLEM)


def test_a_wrapper_and_its_base_are_named_together() -> None:
    method = build("saw+softmatch", PROBLEM, {"base_options": {"k": 3.0}})
    assert method.state_dict()["weighting.inner.mean.value"].shape == ()
    assert method.weighting.inner.k == 3.0
    with pytest.raises(InputError, match=r"around 'softmatch'; leave the option base='uda' out"):
        build("saw+softmatch", PROBLEM, {"base": "uda"})
    with pytest.raises(InputError, match=r"there is no method 'sawn'"):
        build("sawn+softmatch", PROBLEM)
    with pytest.raises(InputError, match="no option 'base'"):
        build("fixmatch+softmatch", PROBLEM)


def test_the_page_of_methods_lists_the_families() -> None:
    page = Path(__file__).parents[2].joinpath("docs/methods.md").read_text(encoding="utf-8")
    rows = [row for row in page.splitlines() if row.startswith("|") and "](methods/" in row]
    listed = [set(re.findall(r"\]\(methods/(\w+)\.md\)", row)) for row in rows]
    assert listed == [{name for name, entry in METHODS.items() if entry.family == family} for family in get_args(Family)]


def test_proper_names() -> None:
    assert proper_name("mean_teacher") == "Mean Teacher"
    assert proper_name("saw+softmatch") == "SAW around SoftMatch"
    assert proper_name("own.py:mine") == "own.py:mine"


def test_an_unknown_card_is_refused() -> None:
    with pytest.raises(InputError, match="there is no method 'softmach'"):
        read_card("softmach")
