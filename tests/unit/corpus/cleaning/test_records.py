"""The user's own records: cleaned by the filters of documents, drawn as often as their channel says."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from argosy.core.errors import InputError
from argosy.corpus.cleaning import records
from argosy.corpus.cleaning.records import CurationConfig, curate, draw
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl

ITEM = {"question": "Which river flows through the city of Wuhan?", "choices": ["Yangtze", "Rhine", "Nile", "Po"]}
LONG = "Tell me in a few words what the keeper of the old lighthouse wrote into his book on the ninth of May"


def chat(question: str, answer: str, channel: str = "a") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
            "channel": channel}


def pair(question: str, chosen: str, rejected: str) -> dict[str, Any]:
    sides = {"chosen": chosen, "rejected": rejected}
    return {"prompt": [{"role": "user", "content": question}], "channel": "a",
            **{side: [{"role": "assistant", "content": text}] for side, text in sides.items()}}


def run(out: Path, kind: str, records: list[dict[str, Any]], **config: Any) -> tuple[list[dict[str, Any]], Any]:
    with JsonlWriters(out) as writers:
        kept, found = curate(kind, records, CurationConfig(**config), [ITEM], writers)
    return kept, found.to_json()


@pytest.mark.parametrize("characters", [1, 2_000_000])
def test_items_copies_and_near_copies_are_dropped_and_kept_aside(
    characters: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORDS", characters)
    good = [chat(LONG, "Storm."), chat("What is 2 and 2?", "4", "b")]
    bad = [chat(f"Now: {ITEM['question']}", "Yangtze"), chat(f"  {LONG} ", "Storm.\n"),
           chat(f"{LONG} then", "Another."), chat("Say a thing", f"{ITEM['question']} I know.", "b")]
    kept, found = run(tmp_path, "instructions", [*good, *bad])
    assert kept == good
    assert found == {"read": {"a": 4, "b": 2}, "kept": {"a": 1, "b": 1}, "dropped": {
        "decontamination": {"benchmark item": 2}, "exact_dedup": {"copy of an earlier document": 1},
        "near_dedup": {"near copy of an earlier document": 1}},
        "compared_by": {"exact_dedup": "text", "near_dedup": "text"}}
    aside = [record for name in found["dropped"]
             for record in read_jsonl(tmp_path / f"rejects/instructions_{name}.jsonl")]
    assert sorted(record["messages"][0]["content"] for record in aside) == sorted(
        record["messages"][0]["content"] for record in bad)
    items = {(record["suite"], record["match"]) for record in aside if record["filter"] == "decontamination"}
    assert items == {("benchmark", "question")}
    assert Counter(record["filter"] for record in aside) == {"decontamination": 2, "exact_dedup": 1, "near_dedup": 1}


def test_records_that_differ_in_a_sign_or_a_number_are_no_copies(tmp_path: Path) -> None:
    told = "Work out the task at the end of these words as you have learnt it at school, write the result alone, " * 3
    sums = [f"{a} {sign} {b}" for a in (12, 19) for b in (4, 6) for sign in "+-*/"]
    code = ["while (i < n) i++;", "while (i < n) i--;", "while (i > n) i++;", "*p", "&p", "!p"]
    texts = [*sums, *(f"What is {each}?" for each in sums), *(told + each for each in [*sums, *code]), *code]
    prompts = [{"prompt": [{"role": "user", "content": text}], "channel": "a"} for text in texts]
    for kind, own in (("prompts", prompts), ("instructions", [chat(text, "1") for text in texts])):
        kept, found = run(tmp_path, kind, [*own, own[0]])
        assert kept == own
        assert found["dropped"] == {"exact_dedup": {"copy of an earlier document": 1}}
    pairs = [pair(told, first, second) for first, second in (("12 + 4", "12 - 4"), ("12 - 4", "12 + 4"))]
    assert run(tmp_path, "preferences", pairs)[0] == pairs
    words: Any = [{"name": "exact_dedup", "normalise": "words"}]
    kept, found = run(tmp_path, "prompts", prompts[:4], filters=words)
    assert (len(kept), found["compared_by"]) == (1, {"exact_dedup": "words"})


WORDS = ("We are given an exercise of the second volume of an old school book whose pages are loose and whose author "
         "nobody remembers and we are to read it slowly and say in our own words what the expression {} means "
         "and whether it holds for every choice of the letters that our teacher allows before the bell rings for lunch "
         "this day")
UNLIKE = ("a*b a/b a-b a+b a·b ab", "p∧q p∨q", "A→B A←B", "n! n", "x2 x3", "f'(x) f(x)", "⌈x⌉ ⌊x⌋", "s[1:] s[:1]",
          ".5 5", "a<b|and|c>d a<c|and|b>d", "(a+b)*c a+(b*c)", "a**b a*b", "vec!(x) vec(x)", "total*cost total-cost")
ALIKE = (("what the", "waht the"), ("an old", "a old"), ("lunch", "lunch. Thank you very much"),
         ("loose and", "loose, and"), ("We are given", "We're given"), ("every choice", "every-choice"),
         ("this day", "this day!"))


def test_prompts_that_differ_in_an_operator_are_kept_and_natural_near_copies_are_not(tmp_path: Path) -> None:
    for kinds in UNLIKE:
        own = [chat(WORDS.format(each.replace("|", " ")), "1") for each in kinds.split()]
        assert run(tmp_path, "instructions", own)[0] == own
    for expression in ("well-known word", "a < b"):
        first = WORDS.format(expression)
        for old, new in ALIKE:
            own = [chat(first, "1"), chat(first.replace(old, new, 1), "1")]
            assert run(tmp_path, "instructions", own)[0] == own[:1], (old, new)
    hyphens = [chat(WORDS.format(each), "1") for each in ("well-known word", "well known word")]
    assert run(tmp_path, "instructions", hyphens)[0] == hyphens[:1]


def test_one_prompt_may_have_several_pairs_and_both_labels(tmp_path: Path) -> None:
    pairs = [pair(LONG, "Storm.", "Nothing at all."), pair(LONG, "Rain and wind from the sea.", "I do not know")]
    assert run(tmp_path, "preferences", pairs)[0] == pairs
    turns = chat("q", "a")["messages"]
    feedback = [{"prompt": turns[:1], "completion": turns[1:], "label": label, "channel": "a"}
                for label in (True, False)]
    assert run(tmp_path, "feedback", [*feedback, feedback[0]])[0] == feedback


def test_nothing_left_names_the_filter(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dropped all 1 records of data\.instructions, most by 'decontamination'"):
        run(tmp_path, "instructions", [chat(ITEM["question"], "Yangtze")])  # type: ignore[arg-type]
    assert len(run(tmp_path, "instructions", [chat(str(ITEM["question"]), "Yangtze")], filters=[])[0]) == 1


def test_filters_that_change_texts_are_refused() -> None:
    with pytest.raises(ValidationError, match="the filter pii changes texts, allowed for records: filters that drop"):
        CurationConfig(filters=("pii",))  # type: ignore[arg-type]


def test_a_channel_is_drawn_as_often_as_its_number_says() -> None:
    records = [chat(str(number), "x", channel) for channel in "abc" for number in range(1000)]

    def drawn(**times: float) -> dict[str, Counter[str]]:
        found = list(draw(records, times, 3))
        assert found == sorted(found, key=records.index)
        return {channel: Counter(record["messages"][0]["content"] for record in found if record["channel"] == channel)
                for channel in "abc"}

    half, more = drawn(a=2.5, b=0.2), drawn(b=0.5)
    assert set(half["a"].values()) == {2, 3}
    assert half["a"].total() == pytest.approx(2500, abs=50)
    assert half["b"].total() == pytest.approx(200, abs=40)
    assert set(half["c"].values()) == {1}
    assert half["b"].keys() < more["b"].keys()
    assert drawn(a=2.5, b=0.2) == half
    assert {channel: found.total() for channel, found in drawn(a=1, other=0).items()} == {"a": 1000, "b": 0, "c": 0}
