"""The command that makes augmented texts: parse, call, print. torch is imported only when it is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

INTERRUPTED = 130


def augment(
    file: str,
    /,
    *,
    via: str,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    text: str | None = None,
    language: str = "en",
    temperature: float = 0.9,
    seed: int = 0,
    batch: int = 32,
    device: str = "auto",
    processes: int = 1,
) -> None:
    """Make augmented versions of texts, such as back-translations, and write them beside the texts as columns aug_0, aug_1, ….

    `softmatch train` draws one of them as the strong view of a text. Everything else in the table stays as it is. What is made is
    kept at once, by its content: after an interruption the same command goes on where it was, and the same texts in another file
    cost nothing. How good the versions are decides what they are worth: look at the examples that are printed.

    Examples:

    - softmatch augment tickets.csv --via de,ru
    - softmatch augment tickets.csv --via fr --text message --processes 4
    - softmatch augment tickets.csv --via models/en-de+models/de-en --device cuda
    - softmatch augment news.jsonl --via my_translator.py:portuguese
    - softmatch augment tickets.csv --via words,words --out tickets-words.csv

    Parameters
    ----------
    file:
        A table of texts: .csv, .tsv, .jsonl, .parquet, or .txt with a text on every line.
    via:
        What makes each column, separated by commas: a language such as de, ru or fr, into which texts are translated and back
        (needs softmatch[translate]); FORTH+BACK, folders or hub ids of two translation models; file.py:name, a function of your
        own from a list of texts to a list of texts; words, which needs no model.
    out:
        File to write, of the same format. Default: FILE with -augmented in its name. Nothing is overwritten.
    text:
        Column of the texts, where it is not obvious.
    language:
        Of the texts.
    temperature:
        Of the words' probabilities when translating; the lower, the more literal. 0: no draws, the models' own search.
    seed:
        Of all draws.
    batch:
        Sentences or texts at a time.
    device:
        For translation models: auto, cpu, cuda, cuda:1, mps.
    processes:
        That work at the same time, each with the models in its memory.
    """
    from softmatch.augmenting.files import augment_file
    from softmatch.augmenting.showing import Showing

    with Showing() as showing:
        try:
            found = augment_file(
                file,
                via,
                out,
                text,
                language=language,
                temperature=temperature,
                seed=seed,
                batch=batch,
                device=device,
                processes=processes,
                progress=showing,
                note=showing.note,
            )
        except KeyboardInterrupt:
            made = f"; {showing.made:,} new pieces are kept, and the same command goes on from there" if showing.made else ""
            print(f"softmatch: interrupted{made}. No file was written.", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None
    print(found.describe())
