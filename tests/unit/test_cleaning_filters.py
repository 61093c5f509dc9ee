"""Filters of form: encoding, boilerplate, language, quality, repetition, gibberish; their numbers against others."""

from __future__ import annotations

import random

import pytest

from argosy.cleaning.filter import Drop, Resources
from argosy.cleaning.registry import registry
from argosy.documents import Document
from tests.cleaning_fixtures import CHINESE, PROSE, document, make, outcome


@pytest.mark.parametrize("text", [PROSE, CHINESE])
@pytest.mark.parametrize("name", registry())
def test_good_prose_passes_every_filter_unchanged(name: str, text: str) -> None:
    assert outcome(name, text) == text


MISREAD = [
    (text, encoding)
    for text in (CHINESE, "“It’s a café” — that’s what the guide said…", "Съешь же ещё этих мягких булок")
    for encoding in ("latin-1", "cp1251", "macroman")
    if not (text == CHINESE and encoding == "cp1251")  # which lacks a byte of it
]


@pytest.mark.parametrize(("text", "encoding"), MISREAD)
def test_mojibake_is_repaired(text: str, encoding: str) -> None:
    broken = text.encode().decode(encoding)
    assert outcome("unicode", broken) == text
    if encoding == "latin-1":
        assert outcome("unicode", broken.encode().decode(encoding)) == text  # read wrongly twice


@pytest.mark.parametrize(
    "text",
    [
        "C’est « déjà vu », à Liège – où l’été…",
        "ÄÖÜ äöü ß",
        "Українська мова: її ВІКІ",
        "Χαίρετε “όλοι”",
        "Brontë…”",
        "£5 × 3 ÷ 2 ±½",
    ],
)
def test_accents_and_symbols_are_no_mojibake(text: str) -> None:
    assert outcome("unicode", text) == text


def test_lost_characters_are_dropped_and_invisible_ones_removed() -> None:
    assert outcome("unicode", CHINESE.encode("gbk").decode("utf-8", "replace")).startswith("dropped")
    assert outcome("unicode", "锟斤拷" * 5 + CHINESE).startswith("dropped")
    assert outcome("unicode", "a\u200bb\r\nc\x07 &amp; &#20013;\ufeff") == "ab\nc & 中"
    assert outcome("unicode", "<a>&amp;</a>") == "<a>&amp;</a>"
    assert outcome("unicode", "\u200b\ufeff").startswith("dropped")


def test_boilerplate_lines_go_and_prose_about_them_stays() -> None:
    page = f"Home | About | Blog | Contact\nWe use cookies. Accept all cookies?\n{PROSE}\nCopyright 2024 Someone Inc."
    assert outcome("boilerplate", page) == PROSE
    page = f"首页 | 新闻中心 | 关于我们\n{CHINESE}\n版权所有 某某公司"
    assert outcome("boilerplate", page) == CHINESE
    assert outcome("boilerplate", "Home | Shop | Cart\nSkip to main content\nshort").startswith("dropped")
    prose = "The baker sold cookies, and her privacy was respected by all who came home late."
    assert outcome("boilerplate", prose) == prose


@pytest.mark.parametrize(
    ("text", "lang", "expected"),
    [
        ("Der Zug kommt um acht Uhr morgens am Bahnhof an und die Kinder sind nicht da.", "en", "language de"),
        ("電車は朝の八時に駅に着きます。", "zh", "language ja"),
        ("Поезд прибывает на вокзал в восемь часов утра.", "", "language ru"),
        (CHINESE, "en", "declared en, is zh"),
        (PROSE, "zh", "declared zh, is en"),
    ],
)
def test_wrong_language_is_dropped(text: str, lang: str, expected: str) -> None:
    assert outcome("language", text, lang) == f"dropped: {expected}"


def test_language_is_filled_in_and_code_is_left_alone() -> None:
    filled = make("language")(document(CHINESE))
    assert isinstance(filled, Document)
    assert filled.lang == "zh"
    mixed = "使用 `git commit -m message` 提交更改，然后运行 python setup.py install 来安装这个软件包。"
    assert outcome("language", mixed, "zh") == mixed
    assert outcome("language", "x = 3.14 * r ** 2", "en") == "x = 3.14 * r ** 2"


def test_gopher_quality_reasons() -> None:
    assert outcome("gopher_quality", "Too short.") == "dropped: too short"
    assert outcome("gopher_quality", "a b c d e f g h i j k l of the") == "dropped: mean word length"
    assert outcome("gopher_quality", "1234 5678 9012 " * 9 + "of the day") == "dropped: too few alphabetic words"
    assert outcome("gopher_quality", "\n".join(f"- the item of number {n} and more" for n in range(9))).endswith(
        "bullets"
    )
    assert outcome("gopher_quality", "\n".join("read more of the story and..." for _ in range(4))).startswith("dropped")
    assert outcome("gopher_quality", "网投平台世界杯官网广告牌制作灯箱制作标识牌制作") == "dropped: too few stop words"
    assert outcome("gopher_quality", "短句子") == "dropped: too short"


@pytest.mark.parametrize("seed", range(20))
def test_repetition_counts_are_datatroves(seed: int) -> None:
    other = pytest.importorskip("datatrove.pipeline.filters.gopher_repetition_filter")
    from argosy.cleaning.filters import gopher_repetition as ours

    rng = random.Random(seed)
    tokens = tuple(
        rng.choice(("red", "green", "blue", "or", "a")[: rng.randint(2, 5)]) for _ in range(rng.randint(10, 120))
    )
    for n in (2, 3, 5, 10):
        assert ours.duplicate_ngram_characters(tokens, n) == other.find_all_duplicate(list(tokens), n)
        assert ours.repeated_characters(tokens, 5) >= ours.duplicate_ngram_characters(tokens, max(n, 5))
    assert ours.duplicates(tokens) == other.find_duplicates(list(tokens))


def test_repetition_is_dropped_in_both_languages() -> None:
    assert outcome("gopher_repetition", "Buy the best watches now and save money today. " * 20).startswith("dropped")
    assert outcome("gopher_repetition", "\n".join([PROSE] * 3)).endswith("duplicate lines")
    assert outcome("gopher_repetition", "手表批发价格优惠欢迎来电咨询，" * 12).startswith("dropped")


@pytest.mark.parametrize(("base", "letters"), [(PROSE, "abcdefghijklmnopqrstuvwxyz"), (CHINESE, "")])
def test_gibberish_is_told_from_the_corpus(base: str, letters: str) -> None:
    rng = random.Random(1)
    pieces = base.split() if letters else list(base)
    sample = [document((" " if letters else "").join(rng.choices(pieces, k=200))) for _ in range(250)]
    one = make("gibberish", Resources(sample=sample))
    drawn = letters or [chr(code) for code in range(0x4E00, 0x9FA0)]
    for _ in range(20):
        text = "".join(rng.choices(drawn, k=300))
        assert isinstance(one(document(text)), Drop)
    assert isinstance(one(document(base)), Document)
    assert isinstance(one(document("=" * 80 + " ok")), Drop)


def test_gibberish_passes_what_it_has_learnt_nothing_about() -> None:
    assert outcome("gibberish", "xqzj kwvp zzxq jjkw " * 5, resources=Resources(sample=[document(PROSE)])).startswith(
        "xqzj"
    )
