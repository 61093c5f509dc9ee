"""Clean prose, one filter applied to one text, and a corpus that is scored by shard and cleaned."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.lazy import np
from argosy.core.store.files import write_json
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters import FILTERS, make_filters, parse_filters
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.cleaning.scoring import KEPT, decide, score
from argosy.corpus.data.inventory import OWN, identify, write_inventory
from argosy.corpus.data.jsonl import JsonlWriters
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.sources import InputFile
from steps.clean import STEP, CleanConfig
from steps.score import STEP as SCORE
from steps.score import ScoreConfig
from tests.step_fixtures import run_step

PROSE = (
    "The harbour was quiet in the morning, and the fishermen sat on the wall to mend their nets. "
    "A boat that had left before dawn came back with a small catch of herring. "
    "Nobody spoke about the storm of the week before, but all of them looked at the sky.")
CHINESE = (
    "清晨的港口十分安静，渔民们坐在堤岸上修补渔网。天亮前出海的小船回来了，只带回不多的鲱鱼。"
    "谁也没有提起上周的风暴，但是大家都在看天。")


def make(name: str, resources: Resources | None = None, **thresholds: Any) -> Filter[Any]:
    configs: Any = parse_filters([{"name": name, **thresholds}])
    return next(iter(make_filters(configs, resources or Resources()).values()))


def document(text: str, lang: str = "", channel: str = "web") -> Document:
    return Document("id", text, channel, lang)


def outcome(name: str, text: str, lang: str = "", resources: Resources | None = None, channel: str = "web",
            **thresholds: Any) -> str:
    """The text that comes out, or "dropped: <reason>"."""
    [(left, _, reason)] = fates({name: make(name, resources, **thresholds)}, [document(text, lang, channel)])
    return f"dropped: {reason}" if reason else left


def fates(filters: Mapping[str, Filter[Any]], documents: Sequence[Document]) -> list[tuple[str, str, str]]:
    """The text that comes out of each document, and the filter and the reason by which it goes, "" where it stays."""
    scored = score(Batch(documents), filters)
    codes, reasons = decide(filters, scored.scores, np.array([document.channel for document in documents]))
    return [(text, *(("", "") if code == KEPT else reasons[code]))
            for text, code in zip(scored.batch.texts, codes.tolist(), strict=True)]


def make_data(root: Path, documents: Sequence[Document]) -> Path:
    """Write what a data step leaves of documents of its own."""
    names = [f"documents/{channel}" for channel in sorted({document.channel for document in documents})]
    with JsonlWriters(root) as writers:
        for document in documents:
            writers.write(f"documents/{document.channel}", document.to_record())
        writers.write_all("sample/documents", (document.to_record() for document in documents))
        writers.open("items")
    paths = [(root / f"{name}.jsonl", f"{name}.jsonl") for name in names]
    files = [identify(InputFile(str(path), name, "", "documents", path.stat().st_size, OWN, name), most=400)
             for path, name in paths]
    write_inventory(root, files, [])
    write_json(root / "outputs.json", {"outputs": {}})
    return root


def cleaned(root: Path, data: Path, shards: int = 1, **config: Any) -> tuple[dict[str, Any], KeptCorpus]:
    """Score the shards of `data` and clean them: the clean step's outputs, and what it has kept."""
    clean = CleanConfig(data=str(data), shards=shards, **config)
    scoring = tuple(FILTERS[one.name].scoring_config(one) for one in clean.filters)
    scored = [root / f"score-{number}" for number in range(shards)]
    for number, out in enumerate(scored):
        part = ScoreConfig(data=str(data), filters=scoring, word_lists=clean.word_lists, shard=number, shards=shards)
        write_json(out / "outputs.json", {"outputs": run_step(SCORE, part, out)})
    outputs = run_step(STEP, clean.model_copy(update={"scored": tuple(map(str, scored))}), root / "clean")
    write_json(root / "clean" / "outputs.json", {"outputs": outputs})
    return outputs, KeptCorpus.of(str(root / "clean"), [str(out) for out in scored])
