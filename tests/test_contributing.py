"""What CONTRIBUTING.md promises: its example weighting works as it stands, and the files it names exist."""

import re
from pathlib import Path

import torch

from softmatch import Seen
from softmatch.methods import Match, Problem, build

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_example_weighting_is_short_and_works(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 20
    (tmp_path / "mine.py").write_text(code[1], encoding="utf-8")
    method = build(f"{tmp_path / 'mine.py'}:AboveMean", Problem(2, momentum=0.5))
    assert isinstance(method, Match)
    method.weighting.update(Seen(torch.tensor([[0.9, 0.1], [0.3, 0.7]])))  # mean ← ½·½ + ½·0.8 = 0.65
    assert torch.allclose(method.weighting(torch.tensor([[0.66, 0.34], [0.4, 0.6]])), torch.tensor([1.0, 0.6]))


def test_named_files_exist() -> None:
    for name in re.findall(r"`(softmatch/[^`]*)`", TEXT):
        assert (ROOT / name).exists(), name
