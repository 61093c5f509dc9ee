"""Generated answers on one checkpoint: our decoder beside the same generate_until requests through lm-eval's HFLM.

python -m benchmarks.generation

Two tasks that are published so, with the files of `../shared/data`: `gsm8k`, eight worked examples before each problem
and up to 64 tokens, and `letters`, multiple choice of OpenBookQA with five examples, a stop at the line and up to 8
tokens (as lm-eval's generative MMLU). Both sides get the same prompts, stops and limits in turns, with two threads and
float32; lm-eval the batch size with which it is fastest. The texts have to be equal, but for 1 in 50
at most, after near ties. The last line is JSON; `ratio` is our tokens a second over lm-eval's, of both tasks together;
`ratios` has each.
"""

import argparse
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.side_by_side import THREADS, Duel, make_model, needed
from evals.chain import parse_chain
from evals.formats import read_items
from evals.items import AnyItem

BATCHES = (4, 8, 16, 32)
FORMS: dict[str, tuple[str, str, str, list[Any]]] = {  # folder, file, format, chain
    "gsm8k": ("gsm8k", "*test.jsonl", "gsm8k", [{"few_shot": {"n": 8}}, {"generative": {"max_tokens": 64}}]),
    "letters": ("commonsense_mc", "*openbookqa*test*.json", "instructions",
                [{"few_shot": {"n": 5}}, {"generative": {"max_tokens": 8}}]),
}  # fmt: skip
EQUAL = 0.98  # of the texts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.generation", description=__doc__)
    parser.add_argument("--items", type=int, default=64, help="items of each task")
    parser.add_argument("--rounds", type=int, default=2, help="turns that the items of a task are dealt to")
    parser.add_argument("--tuning", type=int, default=16, help="items to find the peer's best batch size with")
    parser.add_argument("--checkpoint", default="", help="a model that transformers loads, instead of a random one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), args)))


def measure(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The figures."""
    asked = {name: requests(name, args.items) for name in FORMS}
    model = Path(args.checkpoint or folder / "model")
    if not args.checkpoint:
        make_model(model, [prompt for some in asked.values() for prompt, _, _ in some], written=True)
    duel = Duel(_ours, _peer, model)
    duel.tune(BATCHES, asked=asked["letters"][: args.tuning])
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    cpu: dict[str, float] = defaultdict(float)
    tokens: Counter[tuple[str, str]] = Counter()
    pairs: list[tuple[str, str]] = []
    for turn in range(args.rounds):
        for at, (name, some) in enumerate(asked.items()):
            part, found = some[turn :: args.rounds], {}
            for side in ("ours", "peer") if (turn + at) % 2 else ("peer", "ours"):
                batch = {"batch": duel.batch} if side == "peer" else {}
                answer = duel.sides[side].ask(asked=part, **batch)
                seconds[name, side] += answer.seconds
                cpu[side] += answer.cpu
                tokens[name, side] += answer.result["tokens"]
                found[side] = answer.result["texts"]
            pairs += zip(found["ours"], found["peer"], strict=True)
            print(f"{name}: {len(part)}, ours {seconds[name, 'ours']:.1f} s, peer {seconds[name, 'peer']:.1f} s in all",
                  flush=True)  # fmt: skip
    equal = sum(one == other for one, other in pairs) / len(pairs)
    assert equal >= EQUAL, f"{equal:.3f} of the texts are equal"
    peaks = {f"{side}_peak_mib": round(duel.sides[side].close()) for side in duel.sides}
    share = sum(tokens[name, "ours"] for name in FORMS) / sum(tokens[name, "peer"] for name in FORMS)
    return {"name": "generation", "unit": "tokens/s", **_figures(seconds, tokens),
            "cpu_ratio": round(share * cpu["peer"] / cpu["ours"], 3), **peaks, "equal": round(equal, 4),
            "peer_batch": duel.batch, "threads": THREADS, "of": "GSM8K 8-shot, OpenBookQA 5-shot letters",
            "model": args.checkpoint or "random Llama of 8 layers, 512 hidden units, float32"}  # fmt: skip


def _figures(seconds: Mapping[tuple[str, str], float], tokens: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Speeds of both sides, and their ratios."""
    def speed(side: str, names: Sequence[str]) -> float:
        return sum(tokens[name, side] for name in names) / sum(seconds[name, side] for name in names)

    rates = {side: speed(side, list(FORMS)) for side in ("ours", "peer")}
    ratios = {name: round(speed("ours", [name]) / speed("peer", [name]), 3) for name in FORMS}
    return {"ratio": round(rates["ours"] / rates["peer"], 3), "ours": round(rates["ours"], 2),
            "peer": round(rates["peer"], 2), "ratios": ratios}  # fmt: skip


def requests(name: str, count: int) -> list[tuple[str, list[str], int]]:
    """(prompt, stops, most tokens) of the first items of a task."""
    folder, file, form, chain = FORMS[name]
    path = next(needed(folder).glob(file))
    items: list[AnyItem] = read_items(path, limit=4 * count, format=form).items
    questions, _ = parse_chain(name, chain).all_questions(items[:count], 0, items)
    return [(question.prompt, list(about.stops), about.max_tokens)
            for question in questions if (about := question.generation)]  # fmt: skip


def _ours(model: str) -> Any:
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint

    loaded = LanguageModel.load(find_checkpoint(model), dtype="float32")

    def work(asked: list[Any]) -> dict[str, Any]:
        [(stops, tokens)] = {(tuple(stops), tokens) for _, stops, tokens in asked}
        texts = loaded.generate([prompt for prompt, _, _ in asked], stops, tokens)
        return {"texts": texts, "tokens": sum(map(len, loaded.encode(texts, special=False)))}

    return work


def _peer(model: str) -> Any:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    loaded = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)

    def work(asked: list[Any], batch: int) -> dict[str, Any]:
        loaded.batch_size_per_gpu = batch
        each = [(prompt, {"until": stops, "max_gen_toks": most, "do_sample": False}) for prompt, stops, most in asked]
        texts = loaded.generate_until([Instance("generate_until", {}, pair, n) for n, pair in enumerate(each)],
                                      disable_tqdm=True)  # fmt: skip
        return {"texts": texts, "tokens": sum(len(loaded.tok_encode(text, add_special_tokens=False)) for text in texts)}

    return work


if __name__ == "__main__":
    main()
