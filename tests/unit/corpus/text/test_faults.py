"""Rules on generated texts: what each finds, and what it leaves alone."""

import pytest

from argosy.corpus.text.faults import RULES, Generated, faults

ZH, EN = "请介绍北京这座城市的历史。", "Tell me about the history of the city of Paris."
CASES = [
    ("empty", EN, " \n…", True), ("empty", EN, "No.", False),
    ("loop", EN, "and then the cat sat on the mat " * 6, True), ("loop", EN, "Well: " + "ha" * 12, True),
    ("loop", EN, "Paris was founded by the Parisii, taken by the Romans, and became the capital under Clovis.", False),
    ("loop", ZH, "北京是首都。" * 5, True), ("loop", EN, "-----------------------", False),
    ("wrong_language", ZH, "Beijing is the capital of China and it was founded by the Mongols.", True),
    ("wrong_language", ZH, "北京是中国的首都，有三千多年的历史。", False),
    ("wrong_language", "Translate this into English: 北京", "It is the capital of China, and this is that.", None),
    ("wrong_language", EN, "42", None),
    ("broken_characters", EN, "caf\ufffd", True), ("broken_characters", EN, "café – “naïve” 😀\n\tdone", False),
    ("special_tokens", EN, "Paris.<|im_end|>\n<|im_start|>user", True),
    ("special_tokens", EN, "Paris.\nUser: and Rome?", True),
    ("special_tokens", EN, "A user: someone who uses a < b and c > d.", False),
    ("special_tokens", "What does <|im_end|> mean?", "<|im_end|> ends a turn.", None),
    ("echo", ZH, "请介绍北京这座城市的历史。北京……", True), ("echo", EN, "Paris is old.", False),
    ("echo", "Hi", "Hi there", None),
    ("invalid_json", EN, "no", None), ("invalid_json", "Answer in JSON.", "The answer is {", True),
    ("invalid_json", "以json输出", '```json\n{"答案": "北京"}\n```', False),
    ("ascii_punctuation", ZH, "北京是首都,历史悠久,文化丰富.", True),
    ("ascii_punctuation", ZH, "北京是首都，历史悠久（约 3.000 年），文化丰富。", False),
    ("ascii_punctuation", EN, "Paris, a city.", None),
    ("mixed_scripts", ZH, "我們認識你们这里的問題。", True), ("mixed_scripts", ZH, "我们认识你们这里的问题。", False),
    ("mixed_scripts", EN, "Paris", None)]  # fmt: skip


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
