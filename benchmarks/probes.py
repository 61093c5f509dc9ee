"""Sentences of probes on one checkpoint: our scorer beside the same loglikelihood requests through lm-eval's HFLM.

python -m benchmarks.probes

BLiMP's minimal pairs, and ParaRel's facts in several wordings with each of several objects (a cloze fact asks which is
likeliest), where `../shared/data` has them, else generated ones of the same kinds. Both sides score the same whole
sentences in turns, with two threads and float32; lm-eval has the batch size with which it is fastest. Every
log-probability has to agree to 1e-4. The last line is JSON; `ratio` is our sentences a second over lm-eval's, of both
kinds together; `ratios` has each.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.side_by_side import THREADS, Side, best_batch, command, largest_difference, shared
from benchmarks.small_model import SHAPE, make_model

KINDS = ("blimp", "pararel")
PATTERNS, CANDIDATES = 4, 20
BATCHES = (16, 32, 64, 128)


def main() -> None:
    """Measure and print."""
    command("probes", __doc__, _arguments, {"ours": _ours, "peer": _peer}, measure)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sentences", type=int, default=4000, help="of each kind")
    parser.add_argument("--rounds", type=int, default=2, help="turns that the sentences are dealt to")
    parser.add_argument("--tuning", type=int, default=400, help="sentences to find the peer's best batch size with")


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    sentences = {"blimp": blimp(args.sentences), "pararel": pararel(args.sentences)}
    make_model(folder / "model", [each for kind in KINDS for each in sentences[kind]] * 4)
    sides = {name: Side("benchmarks.probes", "--side", name, "--model", str(folder / "model"))
             for name in ("ours", "peer")}  # fmt: skip
    tuning = [each for kind in KINDS for each in sentences[kind][: args.tuning // 2]]
    batch = args.batch or best_batch(sides["peer"], BATCHES, sentences=tuning)
    sides["ours"].ask(sentences=tuning[:8])  # the first pass, which the peer's tuning had
    seconds = {(kind, name): 0.0 for kind in KINDS for name in sides}
    cpu = dict.fromkeys(sides, 0.0)
    difference = 0.0
    for turn in range(args.rounds):
        for number, kind in enumerate(KINDS):
            size = len(sentences[kind]) // args.rounds
            part = sentences[kind][turn * size : (turn + 1) * size]
            order = ("ours", "peer") if (turn + number) % 2 else ("peer", "ours")
            asked = {name: sides[name].ask(sentences=part, **({"batch": batch} if name == "peer" else {}))
                     for name in order}  # fmt: skip
            for name, found in asked.items():
                seconds[kind, name] += found["seconds"]
                cpu[name] += found["cpu_s"]
            difference = max(difference, largest_difference(asked["ours"]["result"], asked["peer"]["result"]))
            print(f"{kind}, turn {turn + 1}: {len(part)} sentences, ours {asked['ours']['seconds']:.1f} s, "
                  f"peer {asked['peer']['seconds']:.1f} s", flush=True)  # fmt: skip
    assert difference <= 1e-4, f"log-probabilities differ by {difference}"
    peaks = {name: side.close() for name, side in sides.items()}
    totals = {name: sum(seconds[kind, name] for kind in KINDS) for name in sides}
    count = sum(len(sentences[kind]) // args.rounds * args.rounds for kind in KINDS)
    ratios = {kind: round(seconds[kind, "peer"] / seconds[kind, "ours"], 3) for kind in KINDS}
    return {"name": "probes", "ratio": round(totals["peer"] / totals["ours"], 3), "unit": "sentences/s",
            "cpu_ratio": round(cpu["peer"] / cpu["ours"], 3),
            "ours": round(count / totals["ours"], 2), "peer": round(count / totals["peer"], 2), "ratios": ratios,
            "ours_peak_mib": round(peaks["ours"]), "peer_peak_mib": round(peaks["peer"]),
            "largest_difference": float(f"{difference:.2g}"), "sentences": count, "peer_batch": batch,
            "of": "BLiMP, ParaRel" if shared("blimp").is_dir() else "generated", "threads": THREADS,
            "model": SHAPE}  # fmt: skip


def _ours(model: str) -> Any:
    from argosy.evaluation.checkpoint import find_checkpoint
    from argosy.evaluation.language_model import LanguageModel

    loaded = LanguageModel.load(find_checkpoint(model))

    def work(sentences: list[str]) -> dict[str, list[float]]:
        return {"scores": [score.logprob for score in loaded.text_loglikelihood(sentences)]}

    return work


def _peer(model: str) -> Any:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    loaded = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)

    def work(sentences: list[str], batch: int) -> dict[str, list[float]]:
        loaded.batch_size_per_gpu = batch
        requests = [Instance("loglikelihood", {}, ("", text), n) for n, text in enumerate(sentences)]
        return {"scores": [score for score, _ in loaded.loglikelihood(requests, disable_tqdm=True)]}

    return work


def blimp(count: int) -> list[str]:
    """Good and bad sentences of pairs, an equal number of each set."""
    files = sorted(shared("blimp").glob("*.jsonl"))
    if not files:
        return _made_pairs(count)
    each = -(-count // 2 // len(files))
    records = [record for file in files for record in _records(file)[:each]]
    Random(0).shuffle(records)
    return [record[key] for record in records[: count // 2] for key in ("sentence_good", "sentence_bad")]


def pararel(count: int) -> list[str]:
    """Facts in PATTERNS wordings with CANDIDATES objects of their relation, the right one among them."""
    folder, found = shared("pararel"), []
    rng = Random(0)
    for file in sorted(folder.glob("*graphs_json*.jsonl")):
        facts = folder / file.name.replace("pattern_data__graphs_json", "trex_lms_vocab")
        if not facts.is_file():
            continue
        patterns = [record["pattern"] for record in _records(file)][:PATTERNS]
        pairs = _records(facts)
        objects = sorted({pair["obj_label"] for pair in pairs})
        for pair in rng.sample(pairs, min(8, len(pairs))):
            others = [each for each in objects if each != pair["obj_label"]]
            chosen = (pair["obj_label"], *rng.sample(others, min(CANDIDATES - 1, len(others))))
            found += [pattern.replace("[X]", pair["sub_label"]).replace("[Y]", each)
                      for pattern in patterns for each in chosen]  # fmt: skip
    return found[:count] if found else _made_facts(count)


def _records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _made_pairs(count: int) -> list[str]:
    rng = Random(0)
    nouns, verbs = ["cat", "teacher", "river", "child", "author"], ["sleep", "run", "sing", "write", "wait"]
    return [f"The {noun} near the {other}s {verb}{end} every day." for _ in range(count // 2)
            for noun, other, verb in [(rng.choice(nouns), rng.choice(nouns), rng.choice(verbs))]
            for end in ("s", "")]  # fmt: skip


def _made_facts(count: int) -> list[str]:
    rng = Random(0)
    places = [f"{a}{b}" for a in ("Nor", "Sud", "Ost", "West", "Mar") for b in ("burg", "ville", "heim", "stad")]
    patterns = ("{x} was born in {y}.", "{x}, who was born in {y}", "the birthplace of {x} is {y}.", "{x} is from {y}.")
    return [pattern.format(x=f"Person {n}", y=each) for n in range(count // CANDIDATES // PATTERNS)
            for pattern in patterns for each in rng.sample(places, CANDIDATES)]  # fmt: skip


if __name__ == "__main__":
    main()
