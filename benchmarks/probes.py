"""Sentences of probes on one checkpoint: our scorer beside the same loglikelihood requests through lm-eval's HFLM.

python -m benchmarks.probes

Three kinds of probes. `blimp` and `pararel`: half of what the shipped suites ask, BLiMP's minimal pairs, whose
sentences are scored whole, and ParaRel's facts in several wordings, each with 15 objects of which a cloze fact asks
which is likeliest (differences of whole sentences). `next_token`: Prob(object | prefix), which a probe of that kind
asks, of as many of ParaRel's wordings that end with the object. Both sides get the same sentences of `../shared/data`
in turns, with two threads and float32; lm-eval the batch size with which it is fastest. Every log-probability (of
`pararel`: every difference) has to agree to 1e-4. The last line is JSON; `ratio` is our sentences a second over
lm-eval's, of all kinds together; `ratios` has each.
"""

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from argosy.evidence.results.suite import load_suite
from benchmarks.side_by_side import Duel, make_model, needed, shared
from probes.kinds.relation import Question, Relation, fill, questions, read_relations
from probes.sources import read_pairs

KINDS = ("blimp", "pararel", "next_token")
BATCHES = (16, 32, 64, 128)
HALF, BLIMP_FILES = 2, 67
Groups = list[list[str]]  # sentences that are held against each other; of next_token a prefix, then what may follow


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.probes", description=__doc__)
    parser.add_argument("--part", type=int, default=HALF, help="1/N of what the shipped suites ask")
    parser.add_argument("--rounds", type=int, default=2, help="turns that the sentences of a kind are dealt to")
    parser.add_argument("--tuning", type=int, default=400, help="sentences to find the peer's best batch size with")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    groups = {"blimp": blimp(args.part), "pararel": pararel(args.part), "next_token": next_token(args.part)}
    make_model(folder / "model", [text for kind in KINDS for group in groups[kind] for text in group] * 4)
    duel = Duel(_ours, _peer, folder / "model")
    tuning = [text for kind in KINDS[:2] for group in groups[kind] for text in group[:2]]
    tuning = Random(0).sample(tuning, min(args.tuning, len(tuning)))
    duel.tune(BATCHES, kind="blimp", groups=[tuning])
    for turn in range(args.rounds):
        for kind in KINDS:
            part = groups[kind][turn :: args.rounds]
            duel.turn(kind, sum(map(len, part)) - (len(part) if kind == "next_token" else 0), kind=kind, groups=part)
    return {"name": "probes", "unit": "sentences/s", **duel.figures(), "of": "BLiMP, ParaRel"}


def _ours(model: str) -> Any:
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint
    from probes.measures import branch_scores

    loaded = LanguageModel.load(find_checkpoint(model))

    def work(kind: str, groups: Groups) -> dict[str, list[float]]:
        if kind == "pararel":
            return _differences([[score.logprob for score in each] for each in branch_scores(loaded, groups)])
        if kind == "next_token":
            return {"scores": [found.logprob for found in loaded.loglikelihood(_pairs(groups))]}
        return {"scores": [found.logprob for found in loaded.text_loglikelihood([t for each in groups for t in each])]}

    return work


def _peer(model: str) -> Any:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    loaded = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)

    def work(kind: str, groups: Groups, batch: int) -> dict[str, list[float]]:
        loaded.batch_size_per_gpu = batch
        texts = _pairs(groups) if kind == "next_token" else [("", text) for group in groups for text in group]
        requests = [Instance("loglikelihood", {}, pair, n) for n, pair in enumerate(texts)]
        scores = [score for score, _ in loaded.loglikelihood(requests, disable_tqdm=True)]
        found = iter(scores)
        return _differences([[next(found) for _ in group] for group in groups]) if kind == "pararel" else {
            "scores": scores}

    return work


def _pairs(groups: Groups) -> list[tuple[str, str]]:
    return [(prefix, f" {text}") for prefix, *texts in groups for text in texts]


def _differences(groups: list[list[float]]) -> dict[str, list[float]]:
    """Differences of each group's scores to its first, which is the right one's."""
    return {str(n): [score - group[0] for score in group] for n, group in enumerate(groups)}


def blimp(part: int) -> Groups:
    """Good and bad sentence of as many pairs as are that part of the shipped suite's, of the files that there are."""
    [probe] = load_suite("blimp").probes or []
    wanted = BLIMP_FILES * probe["most"] // part
    files = sum(1 for _ in needed("blimp").glob("*.jsonl"))
    cases = read_pairs(shared("blimp"), "", -(-wanted // files), Counter())
    return _mixed([[case.pair.good, case.pair.bad] for case in cases])


def pararel(part: int) -> Groups:
    """A group a fact and wording of the shipped suite: the sentence with each object, the right one first."""
    relations = read_relations(needed("pararel"), (), Counter())
    return _mixed([group for question in _facts(part, relations, seed=0) for group in question.sentences()])


def next_token(part: int) -> Groups:
    """Make as many of other facts: the words before the object of wordings that end with it, then each object."""
    ending = [each.model_copy(update={"patterns": kept}) for each in read_relations(needed("pararel"), (), Counter())
              if (kept := tuple(p for p in each.patterns if p.rstrip(" .").endswith(" [Y]")))]
    asked = _facts(part, ending, seed=1)
    found = [[fill(pattern.rstrip(" ."), question.subject, "").rstrip(), *question.candidates]
             for question in asked for pattern in question.patterns]
    return _mixed(found)


def _facts(part: int, relations: list[Relation], seed: int) -> list[Question]:
    [probe] = load_suite("pararel").probes or []
    return [question for relation in relations
            for question in questions(relation, seed, facts=max(1, probe["most"] // part), patterns=probe["patterns"],
                                      candidates=probe["candidates"])]  # fmt: skip


def _mixed(groups: Groups) -> Groups:
    """Shuffle the groups, so that turns are alike."""
    Random(0).shuffle(groups)
    return groups


if __name__ == "__main__":
    main()
