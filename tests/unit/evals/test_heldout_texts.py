"""What the held-out texts that ship say is right."""

import contextlib
import io
import re
from collections import defaultdict
from fractions import Fraction

import pytest

from argosy.corpus.data.jsonl import read_jsonl
from argosy.evidence.results.suite import find_suite

FILE = find_suite("general").with_suffix(".jsonl")


@pytest.fixture(scope="module")
def shipped() -> dict[str, list[str]]:
    found = defaultdict(list)
    for record in read_jsonl(FILE):
        found[record["channel"]].append(record["text"])
    return found


def test_each_channel_is_large_enough_and_says_nothing_twice(shipped: dict[str, list[str]]) -> None:
    assert {name.rpartition("_")[0] for name in shipped} == {"encyclopaedia", "logic", "code", "mathematics"}
    assert len(shipped) == 8
    for name, some in shipped.items():
        assert 24_000 <= len("".join(some).encode()) <= 30_000, name
        assert len(set(some)) == len(some), name
        assert bool(re.search(r"[\u4e00-\u9fff]", "".join(some))) == name.endswith("_zh")


def _value(sum_: str) -> Fraction:
    """An independent reading of a sum such as 3 × 4 + 5, or 9/2."""
    total = Fraction(0)
    for term in re.split(r" (?=[+-] )", "+ " + sum_):
        sign, product = term[0], term[2:]
        parts = re.split(r" ([×÷]) ", product)
        value = Fraction(parts[0])
        for mark, part in zip(parts[1::2], parts[2::2], strict=True):
            value = value * int(part) if mark == "×" else value / int(part)
        total += value if sign == "+" else -value
    return total


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_sums_are_right(shipped: dict[str, list[str]], lang: str) -> None:
    checked = 0
    for text in shipped[f"mathematics_{lang}"]:
        text = re.sub(r"\d+x \+ \d+ = \d+", "", text)
        for chain in re.findall(r"(?<![\d/])(?<![×÷+-] )\d+(?: [×÷+=-] \d+(?![\d/x]))+", text):
            sides = chain.split(" = ")
            assert len({_value(side) for side in sides}) == 1, chain
            checked += len(sides) - 1
    assert checked > 500


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_programs_print_what_they_say(shipped: dict[str, list[str]], lang: str) -> None:
    for text in shipped[f"code_{lang}"]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "text", "exec"), {})
        assert text.endswith("".join(f"# {line}\n" for line in printed.getvalue().splitlines()))


@pytest.mark.parametrize(("lang", "row", "values", "older"), [
    ("en", r"p is (\w+) and q is (\w+), then .*? is (\w+), .*? is (\w+), .*? is (\w+), and .*? is (\w+)\.",
     ("true", "false"), r"(\w+) is (?:older|taller) than (\w+)\."),
    ("zh", r"p为(.)、q为(.)，则“.*?”为(.)，“.*?”为(.)，“.*?”为(.)，“.*?”为(.)。",
     ("真", "假"), r"(\w+)比(\w+?)(?:年长|高)。"),
])
def test_conclusions_follow(shipped: dict[str, list[str]], lang: str, row: str, values: tuple[str, str], older: str
                            ) -> None:
    rows, orders = set(), 0
    for text in shipped[f"logic_{lang}"]:
        for found in re.findall(row, text):
            p, q, *rest = (value == values[0] for value in found)
            assert rest == [p and q, p or q, q or not p, p == q], text
            rows.add((p, q))
        *pairs, concluded = re.findall(older, text) or [("", "")]
        above = set(pairs)
        for _ in range(3):
            above |= {(a, d) for a, b in above for c, d in above if b == c}
        orders += concluded in above
        assert concluded in above or not pairs
    assert (len(rows), orders > 10) == (4, True)
