"""Recordings as features of a frozen encoder of the transformers library: the right numbers, and runs from a folder."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import softmatch
from softmatch.data.preparations import encoder_features as module
from softmatch.data.preparations import preparation_from
from softmatch.data.preparations.encoder_features import EncoderPreparation, fit_sound_encoder
from softmatch.data.understanding import Reading
from softmatch.errors import InputError
from softmatch.inference.export import export
from softmatch.inference.suggest import cold_start, suggest
from tests.recordings import tone, two_birds, write_sound
from tests.tiny_encoder import make_sound_encoder, make_vit

KINDS = ("wav2vec2", "hubert", "ast")
TINY = {"steps": 60, "labeled_batch": 8, "unlabeled_batch": 12, "threads": 1, "baseline": False}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SOFTMATCH_CACHE", str(folder))
        patch.setattr(module, "has_bf16_units", lambda device: False)  # so that every machine computes the same
        yield folder


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: make_sound_encoder(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_birds(tmp_path_factory.mktemp("birds") / "calls", 5, 30)


@pytest.fixture(scope="module")
def run(source: Path, encoders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    test = two_birds(folder / "test", 8, 0, seed=1)
    result = softmatch.train(source, test=test, out=folder / "run", encoder=str(encoders["ast"]), **TINY)
    assert result.test_error <= 0.3  # guessing: 0.5
    return folder / "run"


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_library_for_each_recording_alone(kind: str, encoders: dict[str, Path], tmp_path: Path) -> None:
    import transformers

    waves = [tone(pitch, seconds, 16_000) for pitch, seconds in ((400, 0.3), (900, 0.5), (700, 0.3), (1500, 0.42))]
    paths = [write_sound(tmp_path / f"{n}.wav", wave, 16_000, "FLOAT") for n, wave in enumerate(waves)]
    extractor = transformers.AutoFeatureExtractor.from_pretrained(encoders[kind])
    model = transformers.AutoModel.from_pretrained(encoders[kind], dtype=torch.float32).eval()
    wanted = []
    for wave in waves:
        with torch.no_grad():
            found = model(**extractor(wave.astype(np.float32), sampling_rate=16_000, return_tensors="pt"))
        wanted.append(found.pooler_output[0] if kind == "ast" else found.last_hidden_state[0].mean(0))
    prepared = EncoderPreparation.find(str(encoders[kind]), "sound", seconds=0.5)
    assert torch.allclose(prepared(paths), torch.stack(wanted), atol=1e-4)
    assert not torch.allclose(wanted[0], wanted[1], atol=1e-2), "the encoder tells these recordings apart"


def test_directions_are_chosen_and_saved_and_rates_and_lengths_brought_to_those_of_the_encoder(
    encoders: dict[str, Path], tmp_path: Path
) -> None:
    paths = [write_sound(tmp_path / f"{n}.wav", tone(300 + 100 * n, 0.3)) for n in range(19)]
    paths.append(write_sound(tmp_path / "long.flac", tone(500, 9.0, 22_050), 22_050))
    made = fit_sound_encoder(str(encoders["wav2vec2"]), paths, [path.name for path in paths], None, "cpu", True)
    assert made.items.shape == (20, 16)
    text = "\n".join(finding.text for finding in made.findings)
    assert "1 of 20 recordings are longer than 0.3 s" in text
    assert "All are brought to 16,000 Hz" in text
    assert made.preparation.settings()["reading"] == {"rate": 16_000, "length": 4800}
    plain = EncoderPreparation.find(str(encoders["wav2vec2"]), "sound", seconds=0.3)
    again = preparation_from(made.preparation.settings(), made.preparation.tensors())
    features, reduced = F.normalize(plain(paths), dim=1), again(paths)
    assert torch.allclose(torch.cdist(reduced, reduced), torch.cdist(features, features), atol=1e-3), "all directions are kept"


def test_what_is_odd_is_named(encoders: dict[str, Path], tmp_path: Path) -> None:
    paths = [write_sound(tmp_path / f"{n}.wav", tone(300 + 100 * n, 0.3)) for n in range(4)]
    paths.append(write_sound(tmp_path / "silent.wav", np.zeros(2400)))
    paths.append(write_sound(tmp_path / "one.wav", np.array([0.5])))
    paths.append(write_sound(tmp_path / "loud.wav", np.clip(20 * tone(200, 0.3), -1, 1)))
    paths.append(tmp_path / "bad.wav")
    paths[-1].write_text("no sound")
    made = fit_sound_encoder(str(encoders["hubert"]), paths, [path.name for path in paths], None, "cpu", True)
    text = "\n".join(finding.text for finding in made.findings)
    assert list(made.kept) == list(range(7))
    assert bool(torch.isfinite(made.items).all())
    for part in ("without a sound", "'silent.wav'", "(clipping)", "'loud.wav'", "'bad.wav' (", "less than 0.025 s", "'one.wav'"):
        assert part in text, part


def test_a_run_predicts_suggests_and_exports(run: Path, source: Path, tmp_path: Path) -> None:
    folder = two_birds(tmp_path / "new", 8, 0, seed=2)
    (folder / "rising" / "bad.wav").write_text("no sound")
    found = softmatch.predict(run, folder)
    assert found.error is not None
    assert found.error <= 0.35
    assert found.file is not None
    with found.file.open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert "bad.wav cannot be read" in rows["rising/bad.wav"]["problem"]
    assert sum(bool(row["label"]) for row in rows.values()) == 16
    assert suggest(run, 4, out=tmp_path / "more.csv")
    assert export(run, "safetensors", out=tmp_path / "model").difference < 1e-6
    with pytest.raises(InputError, match="no place for an encoder of recordings"):
        export(run, "onnx")
    assert (run / "report.html").stat().st_size > 10_000


def test_features_are_kept_on_disk(run: Path, source: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the encoder computes again")

    monkeypatch.setattr(EncoderPreparation, "_compute", never)
    settings = softmatch.load_model(run).preparation.settings()
    softmatch.train(source, out=tmp_path / "run", encoder=settings["encoder"], **{**TINY, "steps": 2})


def test_first_suggestions_are_clusters_of_features(source: Path, encoders: dict[str, Path], tmp_path: Path) -> None:
    assert cold_start(source, 4, out=tmp_path / "first.csv", reading=Reading(encoder=str(encoders["wav2vec2"])))


def test_what_does_not_fit_is_refused(source: Path, encoders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="an encoder of recordings stays as it is"):
        softmatch.train(source, out=tmp_path / "run", encoder=str(encoders["ast"]), tune="last-1", **TINY)
    with pytest.raises(InputError, match=r"is not for recordings: its preprocessor_config\.json has no sampling_rate"):
        softmatch.train(source, out=tmp_path / "run", encoder=str(make_vit(tmp_path / "vit")), **TINY)
