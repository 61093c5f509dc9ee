"""The headline: the form that models can answer best, without the luck of choosing the highest of several numbers."""

from random import Random
from statistics import fmean, stdev

from argosy.evidence.results.headline import best_forms, form_text, half_of, headline, metric_of
from argosy.evidence.results.rows import Rows


def _rows(rates: dict[str, float], seed: str, items: int = 100) -> Rows:
    """Answers in several forms; two neighbouring items are of one cluster."""
    rng = Random(seed)
    return Rows({"task": "t", "variant": form, "id": f"i{n}", "cluster": f"c{n // 2}", "correct": rng.random() < rate,
                 "chosen": 0, "gold": 0, "scores": [0.0, 0.0]} for form, rate in rates.items() for n in range(items))


def _value(rows: Rows, forms: list[str]) -> float:
    return fmean(value.value for value in headline(rows, "t", forms).values())


def test_the_best_of_equal_forms_is_not_better_than_they_are() -> None:
    equal = dict.fromkeys("abcdefgh", 0.5)
    found = [_rows(equal, f"{seed}") for seed in range(200)]
    chosen = [_value(rows, best_forms([rows], "t", list(equal))) for rows in found]
    highest = [max(_value(rows, [form]) for form in equal) for rows in found]
    assert abs(fmean(chosen) - 0.5) < 3 * stdev(chosen) / 200**0.5
    assert fmean(highest) > 0.55  # what choosing on the same items would say


def test_the_form_of_those_compared_is_one_and_the_best_of_all() -> None:
    base, tuned = _rows({"letters": 0.25, "cloze": 0.7}, "base"), _rows({"letters": 0.9, "cloze": 0.6}, "tuned")
    assert best_forms([base], "t", ["letters", "cloze"]) == ["cloze"]
    assert best_forms([tuned], "t", ["letters", "cloze"]) == ["letters"]
    assert best_forms([base, tuned], "t", ["letters", "cloze"]) == ["cloze"]  # 0.65 of both against 0.58
    assert best_forms([base, _rows({"letters": 0.9}, "other")], "t", ["letters", "cloze"]) == ["letters"]
    assert best_forms([base], "other task", ["letters"]) == []


def test_a_form_that_is_guessed_more_easily_is_not_better_for_that() -> None:
    rows = [*_rows({"letters": 0.4}, "a").groups["t", "letters"], *_rows({"yes_no": 0.52}, "b").groups["t", "yes_no"]]
    found = Rows({**row, "scores": [0.0] * (4 if row["variant"] == "letters" else 2)} for row in rows)
    assert best_forms([found], "t", ["letters", "yes_no"]) == ["letters"]


def test_options_in_words_count_by_the_better_of_whole_text_and_character() -> None:
    rows = [{**row, "correct": False, "correct_norm": bool(n % 4)}
            for n, row in enumerate(_rows({"cloze": 0.0}, "x").groups["t", "cloze"])]  # fmt: skip
    found = Rows([*rows, *_rows({"letters": 0.5}, "y").groups["t", "letters"]])
    assert best_forms([found], "t", ["letters", "cloze", "cloze/acc_norm"]) == ["cloze/acc_norm"]
    assert _value(found, ["cloze/acc_norm"]) == 0.75
    assert found.forms("t", ["cloze", "cloze/acc_norm"]) == ["cloze", "cloze/acc_norm"]
    assert metric_of("t", "cloze/acc_norm") == "bench/t/cloze/acc_norm"
    assert metric_of("t", "letters") == "bench/t/letters/acc"
    assert [form_text(each) for each in ("cloze/acc_norm", "none_own")] == ["cloze by character", "none own"]


def test_each_half_is_reported_in_the_form_that_is_best_on_the_other() -> None:
    rows = _rows({"a": 0.0, "b": 0.0}, "")
    for row in rows.groups["t", "a"]:
        row["correct"] = half_of(row["cluster"]) == 0
    for row in rows.groups["t", "b"]:
        row["correct"] = half_of(row["cluster"]) == 1
    forms = best_forms([rows], "t", ["a", "b"])
    assert forms == ["b", "a"]
    assert _value(rows, forms) == 0.0
    assert len(headline(rows, "t", forms)) == 100
