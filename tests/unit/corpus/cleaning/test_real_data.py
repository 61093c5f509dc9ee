"""Real dirt and real books, from a checkout of test data beside the repository; skipped where it is absent."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.dedup.deduplicator import Deduplicator
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.filters import FILTERS, make_filters
from argosy.corpus.cleaning.filters.unicode import Unicode, UnicodeConfig, clean_text, repair
from argosy.corpus.data.schemas import Document
from argosy.corpus.text.scripts import identify
from steps.clean import CleanConfig
from tests.cleaning_fixtures import document, fates, make
from tests.shared_data import shared


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def dropped(texts: Sequence[str], words: Sequence[str] = ()) -> list[str]:
    """For each text "kept" or the filter that drops it."""
    documents = [Document(str(number), text, "web") for number, text in enumerate(texts)]
    configs = [config for config in CleanConfig().filters if not issubclass(FILTERS[config.name], Deduplicator)]
    filters = make_filters(configs, Resources(sample=documents, words=words))
    return [label or "kept" for _, label, _ in fates(filters, documents)]


@pytest.mark.parametrize("name", ["in-the-wild", "synthetic", "language-names", "negative"])
def test_ftfys_cases_are_as_expected(name: str) -> None:
    cases = json.loads((shared("ftfy_cases") / f"tests__test-cases__{name}.json").read_text(encoding="utf-8"))
    wrong = [case for case in cases if repair(case["original"]) != case.get("fixed-encoding", case["fixed"])]
    assert not wrong
    batch = Batch([Document(str(number), case["original"], "web") for number, case in enumerate(cases)])
    repaired = Unicode(UnicodeConfig(), Resources())(batch)[0].texts
    assert repaired == [clean_text(case["original"]) for case in cases]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_public_word_lists_work_in_sentences(lang: str) -> None:
    listed = (shared("badwords") / lang).read_text(encoding="utf-8").splitlines()
    words = [word for word in listed if len(word.strip()) > 1]
    sentence = {
        "en": "In the letter to the editor our neighbours wrote about {} and nothing else, to everybody's surprise.",
        "zh": "他们在信里写的是{}，而且说了不止一次，大家都看到了这些话。"}
    results = dropped([sentence[lang].format(word) for word in words], words)
    assert results.count("toxicity") >= 0.97 * len(words), Counter(results)


def test_of_clean_texts_hardly_one_is_called_an_insult() -> None:
    tasks = [json.dumps(json.loads(line), ensure_ascii=False) for name in ("data__seed_tasks.jsonl",
             "human_eval__user_oriented_instructions.jsonl")
             for line in (shared("self_instruct") / name).read_text(encoding="utf-8").splitlines()]
    abstracts = [line for path in sorted(shared("zh_csl").glob("*.tsv"))
                 for line in path.read_text(encoding="utf-8").splitlines()]
    chapters = {name: [path.read_text(encoding="utf-8") for path in sorted(shared(name).glob("*.md"))]
                for name in ("en_rustbook", "zh_rustbook", "zh_d2l", "zhen_gowebbook")}
    alpaca = {lang: [" ".join(map(str, each.values())) for each in json.loads(
        (shared("llamafactory_demo") / f"data__alpaca_{lang}_demo.json").read_text(encoding="utf-8"))]
        for lang in ("en", "zh")}
    for texts in (tasks, abstracts, *chapters.values(), *alpaca.values()):
        insults = [label for _, label, _ in fates({"toxicity": make("toxicity")}, list(map(document, texts))) if label]
        assert len(insults) <= 0.005 * len(texts)


def test_clean_web_text_is_mostly_kept() -> None:
    demo = shared("data_juicer_demo")
    for name in ("redpajama-c4", "redpajama-cc-2023-06", "the-pile-nih", "the-pile-uspto"):
        results = dropped(texts_of(demo / f"demos__data_mixture__data__{name}-refined.jsonl"))
        assert results.count("kept") >= 0.9 * len(results), (name, Counter(results))


def test_chinese_and_english_books_are_told_apart_and_kept() -> None:
    pages = sorted(shared("zh_d2l").glob("*.md"))
    english = [path.read_text(encoding="utf-8") for path in pages if path.stem.endswith("_origin")]
    chinese = [path.read_text(encoding="utf-8") for path in pages if not path.stem.endswith("_origin")]
    assert Counter(map(identify, english))["en"] == len(english)
    assert {identify(text) for text in chinese} <= {"zh", "en", ""}
    for texts in (english[::7], chinese[::7]):
        results = dropped(texts)
        assert results.count("kept") >= 0.9 * len(results), Counter(results)
