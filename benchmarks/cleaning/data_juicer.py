"""MinHash beside data-juicer's, asked in an interpreter of its own, since it pins versions that we do not have.

There this file runs as a script: with a JSONL file of texts it prints seconds and how many texts stay."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BANDS, ROWS, SHINGLE = 14, 8, 5  # as in filters.py


def deduplicate(path: Path) -> dict[str, Any]:
    """Deduplicate the texts of a JSONL file with data-juicer in this process."""
    from data_juicer.core.data import NestedDataset  # type: ignore[import-not-found]
    from data_juicer.ops.deduplicator import document_minhash_deduplicator  # type: ignore[import-not-found]
    from datasets import disable_caching

    disable_caching()
    texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
    begin, cpu = time.perf_counter(), _processor()
    one = document_minhash_deduplicator.DocumentMinhashDeduplicator(
        tokenization="space", window_size=SHINGLE, num_permutations=BANDS * ROWS, num_bands=BANDS,
        num_rows_per_band=ROWS, num_proc=1)
    hashed = NestedDataset.from_dict({"text": texts}).map(one.compute_hash, num_proc=1)
    left, _ = one.process(hashed)
    return {"seconds": time.perf_counter() - begin, "cpu": _processor() - cpu, "kept": len(left)}


def _processor() -> float:
    """Return seconds of the processor of this process and of those that it has started and that have ended."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def ratio(texts: Sequence[str], python: str, rounds: int) -> dict[str, float]:
    """Measure both sides in turns; return medians, as `peer.compared` does. `python`: an interpreter that has it."""
    from benchmarks.cleaning.filters import deduplicated
    from benchmarks.cleaning.peer import in_turns

    taken: list[dict[str, Any]] = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def theirs(folder: Path) -> None:
        path = folder / "texts.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        done = subprocess.run([python, "-P", __file__, str(path)], env=environment, check=True, capture_output=True,
                              text=True)
        taken.append(json.loads(done.stdout.splitlines()[-1]))

    with TemporaryDirectory() as folder:
        deduplicated(texts[:20], Path(folder))
    mine = in_turns({"ours": lambda folder: deduplicated(texts, folder), "theirs": theirs}, rounds)["ours"]
    seconds, cpu = (statistics.median(one[key] for one in taken) for key in ("seconds", "cpu"))
    return {"ratio": seconds / mine["seconds"], "cpu_ratio": cpu / mine["cpu"], "ours": mine["seconds"],
            "data_juicer": seconds, "ours_kept": len(mine["result"]), "data_juicer_kept": taken[-1]["kept"],
            "megabytes": sum(len(text.encode()) for text in texts) / 1e6}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path)
    print(json.dumps(deduplicate(parser.parse_args().texts)))
