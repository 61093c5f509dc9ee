"""Filters of good prose, languages, repairs, letters of a corpus, recipes; each filter's texts: test_outcomes.py."""

import random
import re
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import FILTERS, RECIPES, make_filters
from argosy.corpus.cleaning.filters.unicode import Unicode, UnicodeConfig, clean_text
from argosy.corpus.cleaning.scoring import labels
from argosy.corpus.text.scripts import identify
from steps.clean import CleanConfig
from tests.cleaning_fixtures import CHINESE, PROSE, document, fates, make, outcome
from tests.shared_data import shared

ASKING = {name for name, one in FILTERS.items() if issubclass(one.config_class, ModelFilterConfig)}
WHOLE_PAGES = {"c4_quality", "c4_paragraphs"}  # which want them


@pytest.mark.parametrize("text", [PROSE, CHINESE])
@pytest.mark.parametrize("name", sorted({*FILTERS} - WHOLE_PAGES - ASKING))
def test_good_prose_passes_every_filter_unchanged(name: str, text: str) -> None:
    assert outcome(name, text) == text


@pytest.mark.parametrize("what", ["words", "mean_word_length"])
def test_gopher_quality_refuses_ranges_that_nothing_is_in(what: str) -> None:
    with pytest.raises(ValueError, match=f"min_{what} is 50.* and max_{what} is 5.*, so that no text passes"):
        make("gopher_quality", **{f"min_{what}": 50, f"max_{what}": 5})


GERMAN = ("Der Zug kommt um acht Uhr morgens am Bahnhof an, und die Kinder sind nicht da. Das Wetter war schlecht, "
          "deshalb blieben alle zu Hause und lasen, bis es dunkel wurde.")
SENTENCES = {
    "de": GERMAN, "fr": "Il faisait mauvais, alors tout le monde est resté chez soi.",
    "es": "El tren llega a las ocho de la mañana y los niños no están.",
    "it": "Il tempo era brutto, quindi tutti sono rimasti a casa.", "pt": "Ontem compramos uma casa nova na cidade.",
    "nl": "Het weer was slecht, dus bleef iedereen thuis.", "sv": "Vädret var dåligt, så alla stannade hemma.",
    "pl": "Pogoda była zła, więc wszyscy zostali w domu.", "tr": "Hava kötüydü, bu yüzden herkes evde kaldı.",
    "vi": "Thời tiết xấu nên mọi người đều ở nhà.", "ru": "Погода была плохая, поэтому все остались дома.",
    "ja": "天気が悪かったので、みんな家にいました。", "ko": "날씨가 나빠서 모두 집에 있었습니다.",
    "cs": "Vlak přijíždí v osm hodin ráno a děti tam nejsou.", "fi": "Juna saapuu kahdeksalta aamulla asemalle.",
    "en": PROSE, "zh": CHINESE}


def named(*texts: str) -> list[str]:
    return [each.lang for each in make("language")(Batch([document(text) for text in texts]))[0].documents]


def test_sentences_of_many_languages_are_told() -> None:
    assert named(*SENTENCES.values()) == list(SENTENCES)
    assert [named(text)[0] for text in SENTENCES.values()] == list(SENTENCES)


@pytest.mark.parametrize("wrong", [{"allowed": ["english"]}, {"least": {"xx": 0.5}}])
def test_a_language_that_is_not_told_from_others_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} has '(english|xx)', .* allowed: zh, en, ja"):
        outcome("language", PROSE, **wrong)


@pytest.mark.parametrize("text", ["", "42", "x = 3.14 * r ** 2", "```\n" + GERMAN + "\n```", "GPT-4 "
"API v2", "https://a.de/und/der/die"])
def test_nothing_is_told_of_what_is_no_prose(text: str) -> None:
    assert named(text) == [""]


def test_the_scan_of_books_says_what_their_text_says() -> None:
    pages = [path.read_text(encoding="utf-8") for name in ("zh_d2l", "en_rustbook", "zh_rustbook")
             for path in sorted(shared(name).glob("*.md"))[::3]]
    pages = [page for page in pages if len(page) > 400]
    assert named(*pages) == [identify(page) for page in pages]


def test_chinese_markdown_with_code_is_chinese() -> None:
    """Its words are mostly names, hosts ("com" is Portuguese) and code."""
    page = ("# 队列 (Queue)\n\n## 用法\n\n先放进去的先取出来，取空了就等着。\n\n"
            '<p align="left"> <img src="https://static.example.com/png/do-as-no.png"/> </p>\n\n'
            "```java\nclass Box { int take(int com, String os) { do { wait.as(com); } while (os.no()); } }\n```\n\n"
            "- [java.util.Queue#poll()](https://docs.example.com/api/java/util/Queue.html)\n"
            "com.example.queue.Box put take poll peek offer client server object class buffer\n")
    assert outcome("language", page, "zh") == page
    assert named(page) == ["zh"]


PIECES = [CHINESE, PROSE, "“It’s a café” — that’s…", "Съешь же ещё этих булок", "Ἀθῆναι", "각하", "naïve", "a\u0301",
          "각", "&amp;", "\u200b", "\x85", "\r\n", "锟斤拷", "烫烫烫", "\ue000", "\ufffd", "é ", "\u212b", "😀", "ação",
          " ", "１３", "ݽ", "one\x0ctwo"]


LOST = re.compile("锟斤拷|烫烫烫|屯屯屯|[\ufffd\ue000-\uf8ff]")


def misread(text: str, rng: random.Random) -> str:
    codec = rng.choice(("latin-1", "cp1252", "cp1251", "cp1250", "cp1254", "macroman", "cp437", "gb18030"))
    return text.encode().decode(codec, "replace")


def test_the_fast_way_is_the_slow_way() -> None:
    rng = random.Random(7)
    drawn = ["".join(misread(piece, rng) if rng.random() < 0.3 else piece for piece in rng.choices(PIECES, k=4))
             for _ in range(400)]
    texts = [*PIECES, *(misread(piece, rng) for piece in PIECES for _ in range(4)), *drawn, *(chr(code) * 2 for code in
             range(1, 0x3000))]
    one = Unicode(UnicodeConfig(), Resources())
    repaired, scores = one(Batch([document(text) for text in texts]))
    wanted = [clean_text(text) for text in texts]
    assert [text for text, got, want in zip(texts, repaired.texts, wanted, strict=True) if got != want] == []
    assert np.array_equal(scores["visible"], [sum(not c.isspace() for c in text) for text in wanted])
    lost = [len("".join(LOST.findall(text))) / max(len(text), 1) for text in wanted]
    assert np.array_equal(scores["broken_share"], lost)
    assert len({*lost}) > 20


REPEATED = "- [Back to the directory of all chapters](preface.md)"
CODE = "from harbour import boats as all_of_the_boats"


def test_lines_of_many_documents_go() -> None:
    texts = [f"{REPEATED}\n\nPage {number}. {PROSE}\n\n```\n{CODE}\n```" for number in range(30)]
    sample = [document(text) for text in texts]
    text = f"{PROSE}\n  {REPEATED}\n{CODE}\n```\n{CODE}\n```\n{CHINESE}"
    kept, scores = make("boilerplate", Resources(sample=sample))(Batch([document(text)]))
    assert kept.texts == [f"{PROSE}\n{CODE}\n```\n{CODE}\n```\n{CHINESE}"]
    assert scores["lines"].tolist() == [1]
    for few in (Resources(sample=sample[:9]), Resources()):
        assert make("boilerplate", few)(Batch([document(text)]))[0].texts == [text]
    other = make("boilerplate", Resources(sample=sample), repeated_share=1)
    assert other(Batch([document(text)]))[0].texts == [text]


@pytest.mark.parametrize(("text", "expected"), [
    ("", ""), ("\n", ""), ("a", "a"), ("a\n\n\n\nb  \n", "a\n\nb"), ("\n\na\n \n\t\nb", "a\n\nb"),
    ("  a b\n", "  a b"),
    (f"{PROSE}\n首页 | 新闻中心\n", PROSE), (f"Home | About | Our cats | Blog\n{PROSE}", PROSE),
    (f"{PROSE} | Home", f"{PROSE} | Home"), (f"{CHINESE}\n京ICP证030173号", CHINESE)])  # fmt: skip
def test_surplus_and_menus(text: str, expected: str) -> None:
    alone = make("boilerplate")(Batch([document(text)]))[0].texts[0]
    among = make("boilerplate")(Batch([document(each) for each in ("", text, "\n", text, "x\n")]))[0].texts
    assert (alone, among[1], among[3]) == (expected, expected, expected)


@pytest.mark.parametrize(("base", "letters"), [(PROSE, "abcdefghijklmnopqrstuvwxyz"), (CHINESE, "")])
def test_gibberish_is_told_from_the_corpus(base: str, letters: str) -> None:
    rng = random.Random(1)
    pieces = base.split() if letters else list(base)
    sample = [document((" " if letters else "").join(rng.choices(pieces, k=200))) for _ in range(250)]
    drawn = letters or [chr(code) for code in range(0x4E00, 0x9FA0)]
    drawn_texts = ["".join(rng.choices(drawn, k=300)) for _ in range(20)]
    for known, texts, reason in ((sample, [*drawn_texts, "=" * 80 + " ok"], "gibberish"), (sample, [base], ""),
                                 ([document(base)], drawn_texts, "")):  # the last is too little to learn from
        filters = {"gibberish": make("gibberish", Resources(sample=known))}
        assert {label for _, label, _ in fates(filters, list(map(document, texts)))} == {reason}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_its_filters_alone_or_in_a_list(name: str) -> None:
    config = CleanConfig.model_validate({"filters": name})
    assert labels(config.filters) == [each if isinstance(each, str) else each["name"] for each in RECIPES[name]]
    longer = CleanConfig.model_validate({"filters": [name, {"name": "line_dedup", "min_documents": 9}]})
    assert longer.filters[:-1] == config.filters
    assert len(make_filters(config.filters, Resources())) == len(config.filters)


def test_an_unknown_recipe_is_named_with_those_there_are() -> None:
    with pytest.raises(ValidationError, match=r"unknown recipe 'finweb'; did you mean 'fineweb'\?"):
        CleanConfig.model_validate({"filters": "finweb"})
    with pytest.raises(ValidationError, match=r"filters are a list: \[pii\]"):
        CleanConfig.model_validate({"filters": "pii"})
