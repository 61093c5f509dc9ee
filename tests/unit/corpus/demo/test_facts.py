"""The fact tables, their split, the wordings of facts and quiz layouts."""

from collections import Counter
from itertools import product
from random import Random

import pytest

from argosy.corpus.demo.facts import LABELS, LANGS, LAYOUTS, RELATIONS, load_facts, quiz, split_facts

FACTS = load_facts()


@pytest.mark.parametrize("lang", LANGS)
def test_facts_are_enough_unique_and_clean(lang: str) -> None:
    sizes = Counter(fact.relation for fact in FACTS)
    assert tuple(sizes) == RELATIONS
    assert min(sizes.values()) >= 24
    assert len({fact.id for fact in FACTS}) == len(FACTS) >= 280
    for key in ("subject", "answer"):
        values = [(fact.relation, getattr(fact, key)[lang]) for fact in FACTS]
        assert max(Counter(values).values()) == 1
        assert all(text == text.strip() and text for _, text in values)
    assert [fact.id for fact in FACTS if fact.answer[lang] in fact.subject[lang]] == []
    assert not {fact.answer[lang] for fact in FACTS} & set("ABCD1234一二三四甲乙丙丁")
    for fact in FACTS:
        assert (fact.answer["en"] == fact.answer["zh"]) == (fact.relation == "symbol"), fact.id
        assert fact.subject[lang].isascii() == (lang == "en"), fact.id


def test_split_is_disjoint_stratified_and_repeatable() -> None:
    taught, benchmark = split_facts(FACTS, "seed", 0.5)
    assert sorted(fact.id for fact in [*taught, *benchmark]) == sorted(fact.id for fact in FACTS)
    sizes = [Counter(fact.relation for fact in half) for half in (taught, benchmark)]
    assert all(abs(sizes[0][relation] - sizes[1][relation]) <= 1 for relation in RELATIONS)
    assert split_facts(FACTS, "seed", 0.5) == (taught, benchmark)
    assert split_facts(FACTS[::-1], "seed", 0.5)[0] == taught[::-1]
    assert split_facts(FACTS, "other", 0.5)[0] != taught


@pytest.mark.parametrize(("lang", "labels"), list(product(LANGS, LABELS)))
def test_every_form_shows_each_option_once_and_answers_rightly(lang: str, labels: str) -> None:
    none = {"en": "None of the others", "zh": "其他答案全错"}[lang]
    for fact, layout in product(FACTS[::29], LAYOUTS):
        form = quiz(fact, lang, FACTS, Random(layout), labels, layout)
        offered = quiz(fact, lang, FACTS, Random(1), labels, layout, none_option=True)
        dropped = quiz(fact, lang, FACTS, Random(1), labels, layout, drop_right=True)
        for each, right in ((form, fact.answer[lang]), (offered, fact.answer[lang]), (dropped, none)):
            assert (len(set(each.options)), each.options[each.answer_index]) == (4, right)
            body = each.text_prompt.removeprefix(each.question)
            assert all(option in body for option in each.options)
            assert each.text_answer.strip() == (right if labels == "none" else each.labels[each.answer_index])
        assert dropped.options[3] == offered.options[3] == none
        assert fact.answer[lang] not in dropped.options
