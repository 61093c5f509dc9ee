"""Cleaning beside datatrove with the fastest words it can be given: `python -m benchmarks.cleaning`.

One process and one thread a side, in turns, the same documents, thresholds, shingles, bands and rows. Our filters look
at every document, and our MinHash also compares candidates by their sketches. `chain` reads Parquet, repairs, filters,
deduplicates, frees of personal data and writes: by the steps `data`, `score` and `clean` as a run has them and a pass
over what they keep, beside the stages of datatrove's FineWeb example. The last line is JSON: of each measure how many
times as fast ours is, or null where datatrove or the text is absent."""

import argparse
import importlib.util
import json
import logging
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from argosy.core.lazy import pa
from argosy.core.step.contract import Progress, Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.cleaning.batch import Batch, batches
from argosy.corpus.cleaning.dedup import About, Workspace
from argosy.corpus.cleaning.dedup.near_dedup import NearDedup, NearDedupConfig
from argosy.corpus.cleaning.filter import Filter, Resources
from argosy.corpus.cleaning.filters import RECIPES, make_filters, parse_filters
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.cleaning.scoring import KEPT, decide, score
from argosy.corpus.data.schemas import Document
from benchmarks.side_by_side import in_turns
from steps.score import ScoreConfig
from tests import datatrove_peer as peer
from tests.datatrove_peer import BANDS, CHAIN, COMPRESSION, ROWS, SHINGLE

PAPERS: Mapping[str, Mapping[str, Any]] = {
    "gopher_repetition": {"lettered_pieces": False},
    "gopher_quality": next(each for each in RECIPES["gopher"] if isinstance(each, dict) and "min_words" in each),
    "c4_quality": {"line_ends": ".?!\"'"},
    "c4_paragraphs": {},
    "fineweb_quality": {"chinese_short_line": 30}}
"""The thresholds of the papers, which are datatrove's defaults, for our filters."""
FILTERS = ({"name": "unicode"}, *({"name": name, **PAPERS[name]} for name in CHAIN),
           {"name": "near_dedup", "bands": BANDS, "rows": ROWS, "shingle": SHINGLE}, {"name": "pii"})
SHARDS = 4


def our_filters(names: Sequence[str] = CHAIN) -> dict[str, Filter[Any]]:
    """Make our filters with the papers' thresholds."""
    configs: Any = parse_filters([{"name": name, **PAPERS[name]} for name in names])
    return make_filters(configs, Resources())


def filtered(texts: Sequence[str], _: Path) -> list[str]:
    """Filter with Argosy; return what stays."""
    filters, kept = our_filters(), []
    for batch in _batched(texts):
        scored = score(batch, filters)
        codes = decide(filters, scored.scores, np.full(len(batch), "web"))[0]
        kept += [text for text, code in zip(scored.batch.texts, codes, strict=True) if code == KEPT]
    return kept


def deduplicated(texts: Sequence[str], folder: Path) -> list[str]:
    """Deduplicate with Argosy; return the ids of the documents that stay."""
    one = NearDedup(NearDedupConfig(bands=BANDS, rows=ROWS, shingle=SHINGLE), Resources())
    sizes = []
    for number, batch in enumerate(_batched(texts)):
        for name, values in one.keys(batch).items():
            np.save(folder / f"{number}.{name}.npy", values)
        sizes.append(len(batch))
    keys = [{name: np.load(folder / f"{number}.{name}.npy", mmap_mode="r") for name in ("bands", "counts", "sketches")}
            for number in range(len(sizes))]
    lengths = np.array([len(text) for text in texts])
    about = About(sizes, np.zeros(len(texts), np.int64), ["web"], lengths)
    found = one.select(keys, np.ones(len(texts), np.bool_), about, Workspace(folder / "work"))
    gone = set(found.documents.tolist())
    return [str(at) for at, _ in enumerate(texts) if at not in gone]


def _batched(texts: Sequence[str]) -> Iterator[Batch]:
    """Yield batches of documents, of the size that the score step has."""
    documents = (Document(str(at), text, "web") for at, text in enumerate(texts))
    return batches(documents, ScoreConfig.model_fields["batch_characters"].default)


def cleaned(inputs: Path, folder: Path) -> list[str]:
    """Clean a folder of Parquet files with Argosy; return files and rows of the documents that stay."""
    from steps import clean, data, score

    filters = clean.CleanConfig.model_validate({"filters": FILTERS}).filters
    _run(data.STEP, folder / "data", inputs=(str(inputs),))
    _run(score.STEP, folder / "score", data=str(folder / "data"), inputs=(str(inputs),), filters=filters)
    _run(clean.STEP, folder / "clean", data=str(folder / "data"), scored=(str(folder / "score"),), filters=filters)
    kept = KeptCorpus.of(str(folder / "clean"), [str(folder / "score")])
    rows = [(each.id, each.text) for each in kept.documents()]
    _write(folder / "out.parquet", rows)
    return [name.rpartition("/")[2] for name, _ in rows]


def _run(step: Step[Any], out: Path, **fields: Any) -> None:
    """Run a step in this process."""
    out.mkdir()
    context = StepContext(out, Tracker(out / "tracking"), Progress(None))
    write_json(out / "outputs.json", {"outputs": step.run(step.config(**fields), context).model_dump()})


def write_shards(texts: Sequence[str], folder: Path) -> Path:
    """Write the documents as Parquet files; the id of each is its file and row."""
    for number in range(SHARDS):
        name = f"{number:05}.parquet"
        some = texts[number * len(texts) // SHARDS : (number + 1) * len(texts) // SHARDS]
        _write(folder / name, [(f"{name}:{row}", text) for row, text in enumerate(some, 1)])
    return folder


def _write(path: Path, rows: Sequence[tuple[str, str]]) -> None:
    from pyarrow import parquet

    ids, texts = zip(*rows, strict=True) if rows else ((), ())
    parquet.write_table(pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())}), path,
                        compression=COMPRESSION)


MEASURES: Mapping[str, tuple[Any, Any]] = {  # ours and the peer's
    "filters": (filtered, peer.filtered_by_peer), "minhash": (deduplicated, peer.deduplicated_by_peer),
    "chain": (cleaned, peer.cleaned_by_peer)}


def measure(name: str, texts: Sequence[str], rounds: int) -> dict[str, float]:
    """Measure both sides in turns; return `ratio` (by the clock) and `cpu_ratio` (by the processor) of the medians,
    seconds, documents kept, and `agreed`, the share of documents on which both decide alike.

    Loops are compiled, and datatrove's modules are loaded, by a run over a few documents before."""
    def turn(side: Any, given: Any) -> Any:
        with TemporaryDirectory() as folder:
            return side(given, Path(folder))

    with TemporaryDirectory() as folder:
        for some, times in ((texts[:20], 1), (texts, rounds)):
            given = write_shards(some, Path(folder)) if name == "chain" else some
            turns = in_turns({side: partial(turn, work, given)
                              for side, work in zip(("ours", "datatrove"), MEASURES[name], strict=True)}, times)
    (ours, our_cpu), (theirs, their_cpu) = (
        [statistics.median(each[kind] for each in turns[side]) for kind in (0, 1)] for side in ("ours", "datatrove"))
    kept, peers = Counter(turns["ours"][-1].result), Counter(turns["datatrove"][-1].result)
    return {"ratio": theirs / ours, "cpu_ratio": their_cpu / our_cpu, "ours": ours, "datatrove": theirs,
            "ours_kept": kept.total(), "datatrove_kept": peers.total(),
            "agreed": 1 - ((kept - peers).total() + (peers - kept).total()) / len(texts),
            "megabytes": sum(len(text.encode()) for text in texts) / 1e6}


def main() -> None:
    """Measure what is asked for, or all; print the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.cleaning", description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[[], *MEASURES], help="what to measure; all by default")
    parser.add_argument("--megabytes", type=float, default=20, help="of text")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side, of which the median counts")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    texts = peer.repeated_texts(args.megabytes) if importlib.util.find_spec("datatrove") else []
    if texts:
        from loguru import logger

        logger.disable("datatrove")
        logging.disable(logging.INFO)
    for name in args.measures or MEASURES:
        figures[name] = None
        if texts:
            details = measure(name, texts, args.rounds)
            print(f"{name}: {details}", flush=True)
            figures |= {name: round(details["ratio"], 2), f"{name}_details": details}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
