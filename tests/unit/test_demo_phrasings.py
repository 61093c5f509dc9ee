"""Wordings of facts and quiz layouts."""

from itertools import product
from random import Random

import pytest

from argosy.demo.facts import LANGS, RELATIONS, load_facts
from argosy.demo.phrasings import LABELS, LAYOUTS, question, quiz, statement, wordings

FACTS = load_facts()
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


def test_the_plain_form_is_short() -> None:
    facts = [fact for fact in FACTS if fact.relation == "capital"][:4]
    english = quiz(FRANCE, "en", facts, Random(1), wording=0)
    chinese = quiz(FRANCE, "zh", facts, Random(1), wording=0)
    letter = "ABCD"[english.answer_index]
    assert english.text_prompt == "What is the capital of France?\nA. {} B. {} C. {} D. {}\nAnswer:".format(
        *english.options
    )
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


def test_unknown_forms_are_named() -> None:
    with pytest.raises(ValueError, match="labels is 'roman'"):
        quiz(FRANCE, "en", FACTS, Random(1), labels="roman")
