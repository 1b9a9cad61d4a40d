"""Texts of others in a report are texts, wherever they stand."""

import json
from html.parser import HTMLParser
from pathlib import Path

from softmatch import report
from softmatch.runs.folder import RunFolder
from tests.report.example import make_run

HOSTILE = "</script></title></td><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&lt;\u2028\u2029\u202e{{7*7}}{%x%}<!--"


class Elements(HTMLParser):
    """Every element of a page with the names of its attributes, and the content of its block of data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.data = ""
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.inside = tag == "script" and ("id", "data") in attrs

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        self.data += data if self.inside else ""


def page(folder: Path, word: str) -> Elements:
    """A report in which everything that can be a text is this word."""
    own = {
        "warnings": [word],
        "versions": {word: word},
        "classes": [{"name": word, "labels": 3, "error": 0.5}, {"name": word + word, "error": 0.1, "labels": 1}],
        "seed": word,
    }
    settings = {"source": word, "label": word, "views": {word: [word]}, word: word}
    run = make_run(folder, method=word, classes=(word, word + word), evaluation="crossfit", result=own, settings=settings)
    about = RunFolder(folder).read_json("result.json")
    calibration = {**about["calibration"], "temperature": 1.0, "reason": word}
    run.write_json("result.json", about | {"evaluation": about["evaluation"] | {"reason": word}, "calibration": calibration})
    record = RunFolder(folder).records()[-1]
    run.append_record(record | {"statistics": {word: 0.5, "mean": [0.1, 0.2]}})
    return Elements(report.write_report(run).read_text(encoding="utf-8"))


def test_texts_in_a_report_are_texts_wherever_they_stand(tmp_path: Path) -> None:
    plain, hostile = page(tmp_path / "plain", "word"), page(tmp_path / "hostile", HOSTILE)
    assert hostile.found == plain.found
    assert "<" not in hostile.data
    assert json.loads(hostile.data)["classes"] == [HOSTILE, HOSTILE + HOSTILE]
    assert (
        "49" not in (tmp_path / "hostile" / "report.html").read_text(encoding="utf-8").split("<script", 1)[0].split("</title>")[0]
    )
