"""Real dirt and real books, from a checkout of test data beside the repository; skipped where it is absent."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from argosy.cleaning.batch import Batch
from argosy.cleaning.dedup.deduplicator import Deduplicator
from argosy.cleaning.filter import Resources
from argosy.cleaning.filters import make_filters, registered
from argosy.cleaning.filters.unicode import Unicode, UnicodeConfig, clean_text
from argosy.cleaning.scoring import KEPT, decide, score
from argosy.data.schemas import Document
from argosy.text.repair import repair
from argosy.text.scripts import identify
from steps.clean import CleanConfig

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def folder(name: str) -> Path:
    if not (SHARED / name).is_dir():
        pytest.skip(f"no test data at {SHARED / name}")
    return SHARED / name


def texts_of(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def fates(texts: Sequence[str], words: Sequence[str] = ()) -> list[str]:
    """For each text "kept" or the filter that drops it."""
    documents = [Document(str(number), text, "web") for number, text in enumerate(texts)]
    configs = [config for config in CleanConfig().filters if not issubclass(registered()[config.name], Deduplicator)]
    filters = make_filters(configs, Resources(sample=documents, words=words))
    scored = score(Batch(documents), filters)
    codes, reasons = decide(filters, scored.scores, np.array(["web"] * len(texts)))
    return ["kept" if code == KEPT else reasons[code][0] for code in codes.tolist()]


@pytest.mark.parametrize("name", ["in-the-wild", "synthetic", "language-names", "negative"])
def test_ftfys_cases_are_as_expected(name: str) -> None:
    cases = json.loads((folder("ftfy_cases") / f"tests__test-cases__{name}.json").read_text(encoding="utf-8"))
    wrong = [case for case in cases if repair(case["original"]) != case.get("fixed-encoding", case["fixed"])]
    assert not wrong
    batch = Batch([Document(str(number), case["original"], "web") for number, case in enumerate(cases)])
    repaired = Unicode(UnicodeConfig(), Resources())(batch)[0].texts
    assert repaired == [clean_text(case["original"]) for case in cases]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_public_word_lists_work_in_sentences(lang: str) -> None:
    listed = (folder("badwords") / lang).read_text(encoding="utf-8").splitlines()
    words = [word for word in listed if len(word.strip()) > 1]
    sentence = {
        "en": "In the letter to the editor our neighbours wrote about {} and nothing else, to everybody's surprise.",
        "zh": "他们在信里写的是{}，而且说了不止一次，大家都看到了这些话。",
    }
    results = fates([sentence[lang].format(word) for word in words], words)
    assert results.count("toxicity") >= 0.97 * len(words), Counter(results)


def test_clean_web_text_is_mostly_kept() -> None:
    demo = folder("data_juicer_demo")
    for name in ("redpajama-c4", "redpajama-cc-2023-06", "the-pile-nih", "the-pile-uspto"):
        results = fates(texts_of(demo / f"demos__data_mixture__data__{name}-refined.jsonl"))
        assert results.count("kept") >= 0.9 * len(results), (name, Counter(results))


def test_scraps_of_pages_are_not_kept() -> None:
    texts = texts_of(folder("data_juicer_demo") / "demos__tool_quality_classifier__data__demo-dataset.jsonl")
    by_start = dict(zip((text[:12] for text in texts), fates(texts), strict=True))
    assert (by_start["JavaScript m"], by_start["Skip to cont"]) == ("boilerplate", "language")
    assert by_start["世界十大网投平台_202"] == "gopher_quality"


def test_chinese_and_english_books_are_told_apart_and_kept() -> None:
    pages = sorted(folder("zh_d2l").glob("*.md"))
    english = [path.read_text(encoding="utf-8") for path in pages if path.stem.endswith("_origin")]
    chinese = [path.read_text(encoding="utf-8") for path in pages if not path.stem.endswith("_origin")]
    assert Counter(map(identify, english))["en"] == len(english)
    assert {identify(text) for text in chinese} <= {"zh", "en", ""}
    for texts in (english[::7], chinese[::7]):
        results = fates(texts)
        assert results.count("kept") >= 0.9 * len(results), Counter(results)
