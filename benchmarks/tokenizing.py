"""Tokenizing beside `tokenizers` alone: `python -m benchmarks.tokenizing`.

Ours is the tokenize step, from cleaned shards on disk to token shards on disk, checked by decoding. The other side has
the same texts in memory already, and only calls `encode_batch_fast` of the same tokenizer on as many threads: nothing
is read, split, written or kept. In turns, in one process; the last line is the figures as JSON."""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from argosy.core.step.contract import Progress, StepContext
from argosy.core.store.files import write_json
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.cleaning.gathering import Decisions
from argosy.corpus.cleaning.kept import REPORT, write_decisions
from argosy.corpus.cleaning.scoring import KEPT
from argosy.corpus.data.schemas import Document
from argosy.corpus.data.shards import ShardWriter
from argosy.corpus.tokens.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer
from benchmarks.peers.datatrove import real_texts
from benchmarks.side_by_side import in_turns, median_ratio
from steps.tokenize import TokenizeConfig, run

_BATCHES = (100_000, 1_000_000, 10_000_000)  # characters at once of the other side, of which the fastest counts
_SHARDS = 2
_VOCABULARY = 32_000
_CHANNELS = ("books", "web")


def texts_of(megabytes: float) -> list[str]:
    """Return the real documents, Chinese and English, over and over with a number, up to so many MB."""
    real, size = real_texts(), 0
    found: list[str] = []
    while real and size < megabytes * 1e6:
        for text in real:
            found.append(f"{len(found)}\n{text}")
            size += len(found[-1].encode())
    return found


def write_corpus(texts: Sequence[str], root: Path) -> dict[str, Any]:
    """Write cleaned shards as the steps score and clean leave them; return the fields of a config that name them."""
    shards = [texts[number::_SHARDS] for number in range(_SHARDS)]
    counts = {name: {"out": 0, "bytes_out": 0} for name in _CHANNELS}
    for number, some in enumerate(shards):
        with ShardWriter(root / f"score-{number}") as writer:
            for at, text in enumerate(some):
                channel = _CHANNELS[at % len(_CHANNELS)]
                writer.write(Document(f"{number}:{at}", text, channel))
                counts[channel]["out"] += 1
                counts[channel]["bytes_out"] += len(text.encode())
    clean = root / "clean"
    write_decisions(clean, Decisions(np.full(len(texts), KEPT, np.int32)), [0, *accumulate(map(len, shards))])
    write_json(clean / REPORT, {"channels": counts})
    write_json(clean / "outputs.json", {"outputs": {"shards": _SHARDS}})
    return {"documents": str(clean), "scored": [str(root / f"score-{number}") for number in range(_SHARDS)]}


def step(config: TokenizeConfig, out: Path) -> None:
    """Run the step in an empty directory."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with redirect_stdout(StringIO()):
        run(config, StepContext(out, Tracker(None), Progress(None)))


def alone(tokenizer_directory: Path, texts: Sequence[str], characters: int) -> None:
    """Load the tokenizer, encode the texts and let go of what comes out."""
    tokenizer = load_tokenizer(tokenizer_directory)
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= characters:
            tokenizer.encode_batch_fast(batch, add_special_tokens=False)
            batch, size = [], 0
    tokenizer.encode_batch_fast(batch, add_special_tokens=False)


def measure(root: Path, megabytes: float, rounds: int) -> dict[str, Any]:
    """Return the ratio of speeds: medians over rounds of the two sides next to each other, as other work on the machine
    changes from minute to minute."""
    texts = texts_of(megabytes)
    if not texts:
        return {"tokenize_ratio": None, "reason": "no test data beside the checkout"}
    save_tokenizer(train_tokenizer(texts, _VOCABULARY, split_han=True), root / "tokenizer")
    config = TokenizeConfig(**write_corpus(texts, root), tokenizer=str(root))
    peers = {str(size): partial(alone, root / "tokenizer", texts, size) for size in _BATCHES}
    tried = {size: min(turn.seconds for turn in turns) for size, turns in in_turns(peers, 2).items()}
    best = min(tried, key=tried.__getitem__)
    turns = in_turns({"alone": peers[best], "ours": partial(step, config, root / "tokens")}, rounds)
    elapsed, processor = ({name: [turn[kind] for turn in each] for name, each in turns.items()} for kind in (0, 1))
    size = sum(len(text.encode()) for text in texts) / 1e6
    return {"tokenize_ratio": round(median_ratio(elapsed["alone"], elapsed["ours"]), 3),
            "tokenize_processor_ratio": round(median_ratio(processor["alone"], processor["ours"]), 3),
            "megabytes": round(size, 1), "megabytes_a_second": round(size / statistics.median(elapsed["ours"]), 2),
            "characters_at_once": int(best), "cores": os.cpu_count(),
            "seconds": {name: [round(value, 2) for value in elapsed[name]] for name in ("ours", "alone")}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=8, help="of text")
    parser.add_argument("--rounds", type=int, default=9, help="turns, of which the median counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), arguments.megabytes, arguments.rounds)))


if __name__ == "__main__":
    main()
