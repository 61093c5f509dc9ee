"""The fact tables and their split."""

from collections import Counter
from random import Random

import pytest

from argosy.demo.facts import LANGS, RELATIONS, distractors, load_facts, split_facts

FACTS = load_facts()


def test_there_are_enough_facts_of_every_relation() -> None:
    sizes = Counter(fact.relation for fact in FACTS)
    assert len(FACTS) >= 280
    assert tuple(sizes) == RELATIONS
    assert min(sizes.values()) >= 24


@pytest.mark.parametrize("lang", LANGS)
def test_subjects_and_answers_are_unique_and_clean(lang: str) -> None:
    assert len({fact.id for fact in FACTS}) == len(FACTS)
    for key in ("subject", "answer"):
        values = [(fact.relation, getattr(fact, key)[lang]) for fact in FACTS]
        assert [value for value, count in Counter(values).items() if count > 1] == []
        assert all(text == text.strip() and text for _, text in values)


@pytest.mark.parametrize("lang", LANGS)
def test_no_answer_is_inside_its_subject_or_is_a_label(lang: str) -> None:
    assert [fact.id for fact in FACTS if fact.answer[lang] in fact.subject[lang]] == []
    assert not {fact.answer[lang] for fact in FACTS} & set("ABCD1234一二三四甲乙丙丁")


def test_only_symbols_are_written_alike_in_both_languages() -> None:
    for fact in FACTS:
        assert (fact.answer["en"] == fact.answer["zh"]) == (fact.relation == "symbol"), fact.id
        assert not fact.subject["zh"].isascii(), fact.id
        assert fact.subject["en"].isascii(), fact.id
        assert fact.answer["en"].isascii(), fact.id


def test_split_is_disjoint_stratified_and_repeatable() -> None:
    taught, benchmark = split_facts(FACTS, "seed", 0.5)
    assert sorted(fact.id for fact in [*taught, *benchmark]) == sorted(fact.id for fact in FACTS)
    sizes = [Counter(fact.relation for fact in half) for half in (taught, benchmark)]
    assert all(abs(sizes[0][relation] - sizes[1][relation]) <= 1 for relation in RELATIONS)
    assert split_facts(FACTS, "seed", 0.5) == (taught, benchmark)
    assert split_facts(FACTS[::-1], "seed", 0.5)[0] == taught[::-1]
    assert split_facts(FACTS, "other", 0.5)[0] != taught


def test_a_wrong_fraction_is_named() -> None:
    with pytest.raises(ValueError, match=r"fraction is 1\.5"):
        split_facts(FACTS, 0, 1.5)


def test_distractors_are_wrong_and_of_the_relation() -> None:
    by_relation = {relation: [f.answer for f in FACTS if f.relation == relation] for relation in RELATIONS}
    for fact in FACTS:
        options = [*distractors(fact, FACTS, Random(fact.id)), fact.answer]
        assert all(option in by_relation[fact.relation] for option in options)
        assert all(len({option[lang] for option in options}) == 4 for lang in LANGS)


def test_too_few_wrong_options_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 wrong options, 3 are needed"):
        distractors(FACTS[0], FACTS[:3], Random(0))
