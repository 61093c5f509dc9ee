"""Groups of items that a model has seen differently often: who is in which, and what the model reads of them."""

import re
from collections import Counter

import pytest

from benchmarks.contamination.groups import NEVER, PUBLISHED, TRANSLATED, facts, groups
from evals.items import Item

POOL = [Item(f"i/{n}", "en", f"Which of the following is number {n}?", tuple(f"option {n}{c}" for c in "abcd"), n % 4)
        for n in range(96)]
PLAN = [(NEVER, 0), (PUBLISHED, 3), ("reworded", 2), ("reordered", 4)]


def read(text: str) -> tuple[list[str], str]:
    """Options in their order and the right one's text, of a document."""
    found = re.findall(r"(?:^|\s)([A-D1-4])\. (option \d+[a-d])", text)
    label = text.rsplit(" ", 1)[1]
    return [option for _, option in found], dict(found)[label]


def test_groups_are_apart_and_have_as_many_right_options_at_each_place() -> None:
    found = groups("made", POOL, PLAN, "x", 16)
    assert [(g.kind, g.exposures) for g in found] == PLAN
    assert len({item.id for g in found for item in g.items}) == 64
    assert all(Counter(item.answer for item in g.items) == dict.fromkeys(range(4), 4) for g in found)


@pytest.mark.parametrize("kind", [PUBLISHED, "reworded", "reordered"])
def test_each_leak_shows_the_right_answer_as_often_as_it_says(kind: str) -> None:
    group = groups("made", POOL, [(kind, 4)], "x", 16)[0]
    texts = group.texts()
    by_question = {item.choices[item.answer]: item for item in group.items}
    assert len(texts) == 64
    for text in texts:
        options, right = read(text)
        item = by_question[right]
        assert sorted(options) == sorted(item.choices)
        assert (options == list(item.choices)) is (kind != "reordered")
        assert text.startswith(item.question) is (kind == PUBLISHED)


def test_translated_items_are_read_in_chinese_alone_and_asked_in_english() -> None:
    never, translated = facts([(NEVER, 0), (TRANSLATED, 2)], "x", 16)
    assert never.texts() == []
    assert {item.lang for item in translated.items} == {"en"}
    for text, item in zip(translated.texts()[::2], translated.items, strict=True):
        assert item.question not in text
        assert re.search("[一-鿿]", text)
        assert text.endswith("ABCD"[item.answer])  # the options are in the published order
