"""Rules on generated texts: what each finds, and what it leaves alone."""

from pathlib import Path

import pytest
import yaml

from argosy.corpus.text.faults import RULES, Generated, faults

ZH, EN = "请介绍北京这座城市的历史。", "Tell me about the history of the city of Paris."
CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("rule", "prompt", "text", "fault"), CASES)
def test_a_rule_finds_its_fault_and_no_other(rule: str, prompt: str, text: str, fault: bool | None) -> None:
    assert RULES[rule](Generated(prompt, text)) is fault


def test_a_cut_answer_is_unfinished_and_its_last_half_character_is_no_broken_one() -> None:
    found = faults(Generated(ZH, "北京是中国的首都，历\ufffd", ended=False))
    assert found["unfinished"]
    assert not found["broken_characters"]


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, *_ in CASES} | {"unfinished"} == set(RULES)


@pytest.mark.parametrize("text", ["", "\n", "a", "\ud800", "。" * 5000, "ab" * 20_000, "🙂" * 100])
def test_no_text_breaks_a_rule(text: str) -> None:
    for ended in (True, False):
        assert all(isinstance(fault, bool) for fault in faults(Generated(text, text, ended)).values())
