"""Labels: the same in all spellings, none where there is none, suspicious where they look like a slip."""

import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softmatch.data.readers.labels import clean_label, clean_labels, look_alikes, suspicious_unlabeled
from softmatch.errors import InputError


@pytest.mark.parametrize("value", [1, 1.0, "1", "1.0", " 1 ", "1 ", "\t1.00\n", np.int64(1), np.float32(1), np.str_("1"), b"1"])
def test_one_in_all_spellings(value: object) -> None:
    assert clean_label(value) == "1"


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        (0, "0"),
        (-0.0, "0"),
        ("-0.0", "0"),
        (-1, "-1"),
        ("-2.0", "-2"),
        (1.5, "1.5"),
        (np.float32(0.1), "0.1"),
        (10**20, "1" + "0" * 20),
        (True, "true"),
        (np.True_, "true"),
        ("TRUE", "true"),
        ("False", "false"),
        ("  two  words ", "two  words"),
        ("\ufeffcat\u200b", "cat"),
        ("cafe\u0301", "café"),
        ("a\ud800", "a?"),
        *((same, same) for same in ("1.50", "01", "1.0.0", "1e3", "😀\n😀", "NaN")),
    ],
)
def test_other_labels(value: object, cleaned: str) -> None:
    assert clean_label(value) == cleaned


@pytest.mark.parametrize("value", [None, "", "  ", "\n", "\u200b", math.nan, np.float64("nan"), np.float32("nan")])
def test_no_label(value: object) -> None:
    assert clean_label(value) is None


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text() | st.integers() | st.floats() | st.booleans())
def test_cleaning_twice_changes_nothing(value: object) -> None:
    once = clean_label(value)
    assert once is None or (clean_label(once) == once and once.strip() == once and unicodedata.is_normalized("NFC", once))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(-(2**53), 2**53))
def test_whole_numbers_are_one_label_as_number_and_as_text(number: int) -> None:
    spellings = {clean_label(value) for value in (number, float(number), str(number), f"{number}.0", f" {number}.00 ")}
    assert spellings == {str(number)}


def test_many_labels_and_the_word_for_none() -> None:
    values = ["a", "NA", " NA", "na", None, 1, True, "a", 1.0, "True"]
    assert clean_labels(values, "NA") == ["a", None, None, "na", None, "1", "true", "a", "1", "true"]
    assert clean_labels(["", "x"], "") == [None, "x"]
    assert clean_labels([-1, 0], "-1") == [None, "0"]


def test_label_that_is_a_list_is_refused_with_its_row() -> None:
    with pytest.raises(InputError, match=r"data.jsonl, row 12: the label is a list"):
        clean_labels(["a", ["a", "b"]], place="data.jsonl", first=11)


@pytest.mark.parametrize("word", ["NA", "n/a", "null", "None", "NaN", "unlabeled", "Unlabelled", "?", "-1"])
def test_class_called_none_stops(word: str) -> None:
    finding = suspicious_unlabeled({"cat": 5, "dog": 4, word: 1200}, None)
    assert finding is not None
    assert finding.level == "stop"
    assert f"{word!r} (1,200 times)" in finding.text
    assert "--unlabeled ''" in finding.text
    assert suspicious_unlabeled({"cat": 5, "dog": 4, word: 1200}, "") is None
    assert suspicious_unlabeled({"cat": 5, word: 1200}, "missing") is None


@pytest.mark.parametrize("word", ["unknown", "Other", "-"])
def test_class_that_may_be_none_is_a_warning(word: str) -> None:
    finding = suspicious_unlabeled({"cat": 5, "dog": 4, word: 3}, None)
    assert finding is not None
    assert finding.level == "warning"
    assert "(3 times)" in finding.text


def test_usual_labels_are_not_suspicious() -> None:
    assert suspicious_unlabeled({"1": 5, "-1": 5}, None) is None
    assert suspicious_unlabeled({"0": 5, "1": 5, "nanny": 2, "another": 1}, None) is None


SPELLINGS = "billing|Billing, credit card|credit_card, credit card|credit  card, café|cafe, refund|refunds, e-mail|email, no|No"


@pytest.mark.parametrize("names", [*SPELLINGS.split(", "), "class 1|class1"])
def test_two_spellings_are_told_with_their_counts(names: str) -> None:
    one, other = names.split("|")
    (finding,) = look_alikes({one: 12, other: 13, "quite different": 3})
    assert finding.level == "warning"
    assert finding.text == f'The labels "{other}" (13) and "{one}" (12) look like one class written in two ways.'


@pytest.mark.parametrize("slip", ["biling", "billling", "bulling", "biliing", "illing"])
def test_slip_of_a_letter_is_told_where_it_is_rare(slip: str) -> None:
    assert len(look_alikes({"billing": 10, slip: 2})) == 1
    assert look_alikes({"billing": 10, slip: 3}) == []


CODES = (
    "class1|class2, Q1|Q2, A+|A-, A|a, C|C++, HER2+|HER2-, room 1.1|room 11, 1.5|15, typeA|typeB, group_a|group_b, "
    "group a|group ab, cat|car, class|clas-1, version 10|version 100"
)


@pytest.mark.parametrize("names", CODES.split(", "))
def test_codes_are_no_spellings(names: str) -> None:
    one, other = names.split("|")
    assert look_alikes({one: 100, other: 1}) == []


def test_real_class_names_are_left_alone() -> None:
    newsgroups = """alt.atheism comp.graphics comp.os.ms-windows.misc comp.sys.ibm.pc.hardware comp.sys.mac.hardware
        comp.windows.x misc.forsale rec.autos rec.motorcycles rec.sport.baseball rec.sport.hockey sci.crypt sci.electronics
        sci.med sci.space soc.religion.christian talk.politics.guns talk.politics.mideast talk.politics.misc talk.religion.misc"""
    animals = "airplane automobile bird cat deer dog frog horse ship truck mouse house rose nose bear beaver boy girl man woman"
    for names in (newsgroups.split(), animals.split()):
        assert look_alikes(dict.fromkeys(names, 100)) == []


def test_a_thousand_classes_and_three_spellings() -> None:
    counts = {f"intent {chr(97 + k % 26) * 3} {k}": 20 for k in range(1000)}
    assert look_alikes(counts) == []
    (finding,) = look_alikes(counts | {"Card Lost": 5, "card_lost": 4, "card lost": 1})
    assert (
        finding.text
        == 'The labels "Card Lost" (5), "card_lost" (4) and "card lost" (1) look like one class written in several ways.'
    )


def test_many_pairs_are_counted() -> None:
    words = [f"{a}{b}{c}word" for a in "bcdf" for b in "aeiou" for c in "xz"]
    findings = look_alikes({name: 2 for word in words for name in (word, word.title())})
    assert len(findings) == 11
    assert findings[-1].text.startswith("30 further pairs")
    assert len(findings[-1].places) == 30


def test_exchanged_letters_are_found_however_often_they_occur() -> None:
    (found,) = look_alikes({"square": 12, "sqaure": 10, "circle": 9})
    assert "sqaure" in found.text
