"""Groups of items that a model has seen differently often: who is in which, and what the model reads of them."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from argosy.core.statistics.contamination import Equals, Gap, default_calibration
from benchmarks.contamination.groups import NEVER, PUBLISHED, TRANSLATED, Asked, Group, facts, groups
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


def made(shift: float) -> Asked:
    """A model that has seen the items if `shift` is above 0."""
    rng = np.random.default_rng(3)
    scores = {item.id: (rng.normal(size=4) + np.array([shift, 0, 0, 0])).tolist() for item in POOL}
    right = {item.id: float(rng.random() < 0.5) for item in POOL}
    evidence = (Equals("text_order", scores), Equals("answer_order", scores), Gap("order_gap", right, right))
    return Asked.of(Group("made", PUBLISHED, 4, tuple(POOL)), evidence)


def test_answers_are_kept_as_json_and_standings_are_in_standard_deviations() -> None:
    asked = made(1.0)
    back = Asked.from_json(json.loads(json.dumps(asked.to_json())))
    assert back.score(default_calibration()) == asked.score(default_calibration())
    scores = next(e.scores for e in asked.evidence if isinstance(e, Equals))
    assert asked.standings("text_order") == pytest.approx([stats.zscore(each)[0] for each in scores.values()])


def test_sets_of_items_stand_out_where_the_items_were_seen() -> None:
    seen, clean = made(1.0), made(0.0)
    z = seen.sets(default_calibration()), clean.sets(default_calibration())
    assert len(z[0]) == len(set(z[0]))  # each is drawn anew
    assert np.mean(z[0]) > 2 > np.quantile(z[1], 0.95) > np.mean(z[1])
    assert seen.sets(default_calibration(), 1) != z[0]
