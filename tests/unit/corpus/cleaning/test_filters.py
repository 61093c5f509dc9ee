"""Filters, what each must catch and leave alone: first those of form, then those of content."""

import random

import pytest
from pydantic import ValidationError

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model_paths import ModelFilterConfig
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import FILTERS, RECIPES, make_filters
from argosy.corpus.cleaning.scoring import labels
from steps.clean import CleanConfig
from tests.cleaning_fixtures import CHINESE, PROSE, document, fates, make, outcome

ASKING = {name for name, one in FILTERS.items() if issubclass(one.config_class, ModelFilterConfig)}
WHOLE_PAGES = {"c4_quality", "c4_paragraphs"}  # which want them


@pytest.mark.parametrize("text", [PROSE, CHINESE])
@pytest.mark.parametrize("name", sorted({*FILTERS} - WHOLE_PAGES - ASKING))
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


def test_lost_characters_are_dropped_and_invisible_ones_removed() -> None:
    assert outcome("unicode", CHINESE.encode("gbk").decode("utf-8", "replace")).startswith("dropped")
    assert outcome("unicode", "锟斤拷" * 5 + CHINESE).startswith("dropped")
    assert outcome("unicode", "a\u200bb\r\nc\x07 &amp; &#20013;\ufeff") == "ab\nc & 中"
    assert outcome("unicode", "\u200b\ufeff").startswith("dropped")


def test_breaks_of_pages_and_lines_part_words() -> None:
    assert outcome("unicode", "\x0cone\x0ctwo\u2028three\x0c\x0b\nfour\n\x0cfive\x1e") == "one\ntwo\nthree\nfour\nfive"


def test_boilerplate_lines_go() -> None:
    page = f"Home | About | Blog | Contact\nWe use cookies. Accept all cookies?\n{PROSE}\nCopyright 2024 Someone Inc."
    assert outcome("boilerplate", page) == PROSE
    page = f"首页 | 新闻中心 | 关于我们\n{CHINESE}\n版权所有 某某公司"
    assert outcome("boilerplate", page) == CHINESE
    assert outcome("boilerplate", "Home | Shop | Cart\nSkip to main content\nshort").startswith("dropped")


@pytest.mark.parametrize(("text", "lang", "expected"), [
    ("Der Zug kommt um acht Uhr morgens am Bahnhof an und die Kinder sind nicht da.", "en", "language de"),
    ("電車は朝の八時に駅に着きます。", "zh", "language ja"),
    ("Поезд прибывает на вокзал в восемь часов утра.", "", "language ru"),
    (CHINESE, "en", "not the declared language"),
    (PROSE, "zh", "not the declared language")])
def test_wrong_language_is_dropped(text: str, lang: str, expected: str) -> None:
    assert outcome("language", text, lang) == f"dropped: {expected}"


@pytest.mark.parametrize(("text", "lang"), [(CHINESE, "zh-CN"), (CHINESE, "zho_Hans"), (PROSE, "en_US"), (PROSE, "EN"),
                                            (PROSE, "eng"), (PROSE, "english"), (PROSE, "und")])
def test_tags_of_a_language_declare_it_and_names_declare_nothing(text: str, lang: str) -> None:
    assert outcome("language", text, lang) == text


def test_language_is_filled_in_and_code_is_left_alone() -> None:
    assert make("language")(Batch([document(CHINESE)]))[0].documents[0].lang == "zh"
    mixed = "使用 `git commit -m message` 提交更改，然后运行 python setup.py install 来安装这个软件包。"
    assert outcome("language", mixed, "zh") == mixed
    assert outcome("language", "x = 3.14 * r ** 2", "en") == "x = 3.14 * r ** 2"


@pytest.mark.parametrize("what", ["words", "mean_word_length"])
def test_gopher_quality_refuses_ranges_that_nothing_is_in(what: str) -> None:
    with pytest.raises(ValueError, match=f"min_{what} is 50.* and max_{what} is 5.*, so that no text passes"):
        make("gopher_quality", **{f"min_{what}": 50, f"max_{what}": 5})


def test_gopher_quality_reasons() -> None:
    assert outcome("gopher_quality", "Too short.") == "dropped: too short"
    assert outcome("gopher_quality", "a b c d e f g h i j k l of the") == "dropped: mean word length"
    assert outcome("gopher_quality", "1234 5678 9012 " * 9 + "of the day") == "dropped: too few alphabetic words"
    bullets = "\n".join(f"- the item of number {n} and more" for n in range(9))
    assert outcome("gopher_quality", bullets).endswith("bullets")
    assert outcome("gopher_quality", "\n".join("read more of the story and..." for _ in range(4))).startswith("dropped")
    assert outcome("gopher_quality", "网投平台世界杯官网广告牌制作灯箱制作标识牌制作") == "dropped: too few stop words"
    assert outcome("gopher_quality", "短句子") == "dropped: too short"
    listed = "北京搬家公司，上海搬家公司，广州搬家公司，深圳搬家公司，杭州搬家，南京搬家，天津搬家公司"
    assert outcome("gopher_quality", listed) == "dropped: too few stop words"


def test_chinese_markdown_with_code_is_chinese() -> None:
    """Its words are mostly names, hosts ("com" is Portuguese) and code."""
    page = ("# 队列 (Queue)\n\n## 用法\n\n先放进去的先取出来，取空了就等着。\n\n"
            '<p align="left"> <img src="https://static.example.com/png/do-as-no.png"/> </p>\n\n'
            "```java\nclass Box { int take(int com, String os) { do { wait.as(com); } while (os.no()); } }\n```\n\n"
            "- [java.util.Queue#poll()](https://docs.example.com/api/java/util/Queue.html)\n"
            "com.example.queue.Box put take poll peek offer client server object class buffer\n")
    assert outcome("language", page, "zh") == page
    assert make("language")(Batch([document(page)]))[0].documents[0].lang == "zh"


def test_repetition_is_dropped_in_both_languages() -> None:
    assert outcome("gopher_repetition", "Buy the best watches now and save money today. " * 20).startswith("dropped")
    assert outcome("gopher_repetition", "\n".join([PROSE] * 3)).endswith("duplicate lines")
    assert outcome("gopher_repetition", "手表批发价格优惠欢迎来电咨询，" * 12).startswith("dropped")


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


def test_toxicity_looks_at_whole_words_and_at_how_many() -> None:
    assert outcome("toxicity", f"{PROSE} You bastards, you idiots!") == "dropped: insults"
    assert outcome("toxicity", f"{CHINESE}滚开，你这个笨蛋，废物。") == "dropped: insults"
    assert outcome("toxicity", "a grommet here", resources=Resources(words=["grommet"])) == "dropped: insults"


ITEMS = [
    {"question": "Who painted the Mona Lisa?", "choices": ["Leonardo da Vinci", "Raphael", "Titian", "Giotto"]},
    {"question": "法国的首都是哪座城市？", "choices": ["巴黎", "里昂", "马赛", "尼斯"]},
    {"question": "The capital of France is", "choices": ["Paris", "Lyon", "Nice", "Lille"]},
    {
        "question": "A train leaves the station at nine with forty passengers and at each of its three stops ten get "
        "off and five get on; how many arrive?",
        "choices": ["25", "30", "35", "40"]}]


@pytest.mark.parametrize("text", [
    "Pub quiz!\nWho painted the Mona Lisa?\nA. Leonardo da Vinci B. Raphael",
    "WHO PAINTED THE «MONA LISA»?",
    "Question: Who painted the Mona Lisa\n(a) Leonardo da Vinci (b) Raphael (c) Titian (d) Giotto",
    "题库：法国的首都是哪座城市？答案：巴黎",
    "地理。法国的首都是哪座城市？",
    "猜谜\n法国的首都是哪座城市？",
    "请问法国的首都是哪座城市？",
    "The capital of France is A. Paris B. Lyon C. Nice D. Lille Answer: A",
    "He asked: at each of its three stops ten get off and five get on; how many arrive? Nobody knew."])
def test_benchmark_items_are_dropped(text: str) -> None:
    assert outcome("decontamination", text, resources=Resources(benchmark=ITEMS)) == "dropped: benchmark item"


@pytest.mark.parametrize(("name", "text"), [
    *(("unicode", text) for text in (
        "C’est « déjà vu », à Liège – où l’été…", "ÄÖÜ äöü ß", "Українська мова: її ВІКІ", "Χαίρετε “όλοι”",
        "Brontë…”", "£5 × 3 ÷ 2 ±½", "<a>&amp;</a>")),
    ("boilerplate", "The baker sold cookies, and her privacy was respected by all who came home late."),
    ("gopher_quality", "千山鸟飞绝，万径人踪灭。孤舟蓑笠翁，独钓寒江雪。"),  # classical poems
    ("gopher_quality",
     "东风不解愁，偷展湘裙衩\n独夜背纱笼，影著纤腰画\n爇尽水沉烟，露滴鸳鸯瓦\n花骨冷宜香，小立樱桃下"),
    ("decontamination", "The artist who painted the Mona Lisa is Leonardo da Vinci, as Raphael knew."),
    ("decontamination", "The capital of France is Paris, the largest city of the country; the second is Lyon."),
    ("decontamination", "白法国的首都是哪座城市？"),
    ("decontamination", "老白法国的首都是哪座城市 A. 巴黎 B. 里昂 C. 马赛 D. 尼斯"),
    ("decontamination", "法国的首都是巴黎，法国的首都是哪座城市的姐妹城市并不重要。"),
    ("decontamination", "A train leaves the station at nine with forty passengers."),
    ("toxicity", "Scunthorpe and Arsenal, an assassin in the classics"),
    ("toxicity", "The idiot is a novel."),
    ("toxicity", "垃圾分类从我做起。"),
    ("toxicity", f"{PROSE * 40} Fuck, said the idiot."),
    ("toxicity", "What has a chink, and hears all that is said beside it? A wall."),
    ("toxicity", f"{PROSE} A stupid tool, as its author says, for idiotic questions."),
    ("toxicity", "警方通报，该成人网站已被依法取缔。")])  # fmt: skip
def test_what_only_looks_alike_stays(name: str, text: str) -> None:
    assert outcome(name, text, resources=Resources(benchmark=ITEMS)) == text


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
