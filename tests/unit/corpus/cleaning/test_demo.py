"""On the demo's corpus each kind of dirt is caught, and clean documents are not."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pytest

from argosy.core.store.files import write_json
from argosy.corpus.data.jsonl import read_documents
from argosy.corpus.data.schemas import Document
from argosy.corpus.demo.corpus import DemoConfig
from steps import data as data_step
from tests.cleaning_fixtures import cleaned as clean_corpus
from tests.step_fixtures import run_step

SIZES = DemoConfig(
    english_bytes=200_000, code_bytes=60_000, knowledge_repeats=6, quiz_repeats=2, answer_repeats=2, dirt_per_kind=20,
    instructions=20, preferences=20, prompts=20)  # fmt: skip


@dataclass(frozen=True)
class Cleaned:
    before: dict[str, Document]
    after: dict[str, Document]
    dropped: dict[str, tuple[Document, str, str]]
    """By id: the document, the filter, the reason."""

    def caught(self, document: Document) -> bool:
        """Dropped, or free of what its label says is wrong with it."""
        left = self.after.get(document.id)
        if left is None:
            return True
        wrong = document.metadata
        if wrong["dirt"] == "pii":
            return not any(entry["value"] in left.text for entry in wrong["pii"])
        if wrong["dirt"] == "boilerplate_lines":
            return not any(line in left.text for line in wrong["lines"])
        if wrong["dirt"] == "mojibake":
            return not any(odd in left.text for odd in ("â€", "Ã", "å", "ç", "\ufffd"))
        return False


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Cleaned:
    root: Path = tmp_path_factory.mktemp("demo")
    made = run_step(data_step.STEP, data_step.DataConfig(demo=SIZES), root / "data")
    write_json(root / "data" / "outputs.json", {"outputs": made})
    _, corpus = clean_corpus(root, root / "data")
    before = {d.id: d for d in read_documents(root / "data" / "documents")}
    return Cleaned(before, {d.id: d for d in corpus.documents()}, {each[0].id: each for each in corpus.dropped()})


def test_each_kind_of_dirt_is_caught(cleaned: Cleaned) -> None:
    caught: dict[str, list[bool]] = defaultdict(list)
    for document in cleaned.before.values():
        if "dirt" in document.metadata:
            caught[document.metadata["dirt"]].append(cleaned.caught(document))
    assert len(caught) == 10
    assert {kind: mean(results) for kind, results in caught.items() if mean(results) < 0.9} == {}


def test_clean_documents_are_kept(cleaned: Cleaned) -> None:
    total = Counter(d.channel for d in cleaned.before.values() if "dirt" not in d.metadata)
    clean = [d.id for d in cleaned.before.values() if "dirt" not in d.metadata]
    lost = [cleaned.dropped[name] for name in clean if name in cleaned.dropped]
    # Python's documentation really has copies of its own texts: those are rightly dropped.
    wrongly = [why for _, *why in lost if not why[0].endswith("_dedup")]
    assert len(wrongly) <= 0.01 * total.total(), Counter(map(tuple, wrongly))
    assert len(lost) <= 0.02 * total.total()
    for channel in ("knowledge_en", "knowledge_zh"):
        assert sum(document.channel == channel for document, *_ in lost) <= 0.01 * total[channel]
