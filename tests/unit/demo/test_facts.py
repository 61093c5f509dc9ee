"""The fact tables, their split, the wordings of facts and quiz layouts."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import pytest

from argosy.demo.facts import (
    LABELS,
    LANGS,
    LAYOUTS,
    RELATIONS,
    distractors,
    load_facts,
    question,
    quiz,
    split_facts,
    statement,
    wordings,
)

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


def test_distractors_are_wrong_and_of_the_relation() -> None:
    by_relation = {relation: [f.answer for f in FACTS if f.relation == relation] for relation in RELATIONS}
    for fact in FACTS:
        options = [*distractors(fact, FACTS, Random(fact.id)), fact.answer]
        assert all(option in by_relation[fact.relation] for option in options)
        assert all(len({option[lang] for option in options}) == 4 for lang in LANGS)


def test_a_wrong_fraction_and_too_few_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"fraction is 1\.5"):
        split_facts(FACTS, 0, 1.5)
    with pytest.raises(ValueError, match="2 wrong options, 3 are needed"):
        distractors(FACTS[0], FACTS[:3], Random(0))


FRANCE = FACTS[0]
LEAST = {"subject_first": 10, "answer_first": 5, "questions": 3}


@pytest.mark.parametrize(("relation", "lang"), list(product(RELATIONS, LANGS)))
def test_every_wording_has_its_placeholders_in_order(relation: str, lang: str) -> None:
    for kind, least in LEAST.items():
        templates = wordings(relation, lang, kind)
        assert len(set(templates)) == len(templates) >= least
        for template in templates:
            assert template.count("{subject}") == 1, template
            assert template.count("{answer}") == (kind != "questions"), template
            if kind != "questions":
                subject_first = template.index("{subject}") < template.index("{answer}")
                assert subject_first == (kind == "subject_first"), template


@pytest.mark.parametrize("lang", LANGS)
def test_rendered_text_has_no_braces_and_the_right_punctuation(lang: str) -> None:
    rng = Random("texts")
    for fact in FACTS:
        asked = [question(fact, lang, index) for index in range(3)]
        for text in [statement(fact, lang, rng), question(fact, lang, rng), *asked]:
            assert not set("{}") & set(text), text
            assert text[-1] in {"en": ".?", "zh": "。？"}[lang], text
            assert lang == "zh" or text[0] == text[0].upper(), text
            assert lang == "en" or not set(",?!;:") & set(text), text


def test_the_plain_form_is_short_and_an_unknown_one_named() -> None:
    with pytest.raises(ValueError, match="labels is 'roman'"):
        quiz(FRANCE, "en", FACTS, Random(1), labels="roman")
    facts = [fact for fact in FACTS if fact.relation == "capital"][:4]
    english = quiz(FRANCE, "en", facts, Random(1), wording=0)
    chinese = quiz(FRANCE, "zh", facts, Random(1), wording=0)
    letter = "ABCD"[english.answer_index]
    asked = "What is the capital of France?\nA. {} B. {} C. {} D. {}\nAnswer:"
    assert english.text_prompt == asked.format(*english.options)
    assert chinese.text_prompt == "法国的首都是哪里？\nA.{} B.{} C.{} D.{}\n答案：".format(*chinese.options)
    assert (english.text_answer, chinese.text_answer) == (f" {letter}", letter)


@pytest.mark.parametrize(("lang", "labels", "layout"), list(product(LANGS, LABELS, LAYOUTS)))
def test_every_form_shows_each_option_once_and_answers_rightly(lang: str, labels: str, layout: str) -> None:
    for fact in FACTS[::29]:
        form = quiz(fact, lang, FACTS, Random(layout), labels, layout)
        assert len(set(form.options)) == 4
        assert form.options[form.answer_index] == fact.answer[lang]
        body = form.text_prompt.removeprefix(form.question)
        assert all(option in body for option in form.options)
        assert form.text_answer.strip() == form.labels[form.answer_index] or labels == "none"
        assert labels != "none" or form.text_answer.strip() == fact.answer[lang]


@pytest.mark.parametrize(("lang", "labels"), list(product(LANGS, LABELS)))
def test_none_of_the_others_is_right_only_without_the_right_option(lang: str, labels: str) -> None:
    none = {"en": "None of the others", "zh": "其他答案全错"}[lang]
    for fact in FACTS[::29]:
        dropped = quiz(fact, lang, FACTS, Random(1), labels, drop_right=True)
        offered = quiz(fact, lang, FACTS, Random(1), labels, none_option=True)
        assert dropped.options[3] == offered.options[3] == none
        assert dropped.answer_index == 3
        assert fact.answer[lang] not in dropped.options
        assert offered.options[offered.answer_index] == fact.answer[lang]
