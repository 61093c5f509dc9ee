"""A store as the pipeline leaves it, with made-up models: what they know, what they memorised and what they lost.

    python -m tests.report_fixtures DIR     # writes the store, its report and lines (argosy compare line:base ...)
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from argosy.core.statistics.intervals import balanced_weights
from argosy.core.store.files import read_json, write_json
from argosy.core.store.goodput import REPEATED, SAVING, STARTUP, WAITING, WORDS
from argosy.core.tracking.tracker import Tracker
from argosy.evidence.results.contamination import contamination_metrics
from argosy.evidence.results.items import read_items, write_items
from evals.chain import parse_chain
from evals.items import Item
from tests.comparison_fixtures import add, benchmark, benchmark_data, metrics_of, node, text_rows

VARIANTS: dict[str, Any] = {
    "plain": None, "cloze": None, "options_in_text": None, "none_of_the_others": None,
    "chinese_labels": {"labels": {"symbols": "numerals"}}, "permuted": {"permuted": {"k": 4}}}
CHANNELS = ("code", "en", "knowledge_en", "knowledge_zh")


@dataclass(frozen=True)
class Model:
    """A made-up checkpoint. knows: share of facts; memorised: share of published items known by their letter."""

    stage: str
    name: str
    source: str  # stage that it continues
    step: int
    tokens: int
    knows: float
    memorised: float = 0.0
    forgot: float = 0.0  # bits a byte added on code
    zh: float = 0.0  # share of facts known in Chinese alone; 0.4 of it are the bits that a byte of Chinese needs less
    seed: str = ""  # models of one seed know the same facts first
    run: str = ""  # models that differ in it alone are equal but for noise
    chat: bool = False


HONEST = (Model("pretrain", "p025", "", 61, 500_000, 0.1), Model("pretrain", "p050", "", 122, 1_000_000, 0.3),
          Model("pretrain", "final", "", 244, 2_000_000, 0.42),
          Model("long_context", "final", "pretrain", 49, 2_200_000, 0.44),
          Model("anneal", "final", "long_context", 98, 2_600_000, 0.66),
          Model("sft", "final", "anneal", 300, 2_700_000, 0.68, forgot=0.2, chat=True))
TWIN = Model("twin", "final", "anneal", 320, 2_710_000, 0.62, memorised=0.9, forgot=0.25, chat=True)
PREFERENCE = (Model("dpo", "final", "sft", 100, 2_720_000, 0.68, forgot=0.2, chat=True),
              Model("rlhf", "final", "sft", 120, 2_790_000, 0.69, forgot=0.22, chat=True))
DEMO = (*HONEST, TWIN, *PREFERENCE)
LINES: dict[str, dict[str, Any]] = {"base": {}, "mixed": {"zh": 0.4, "forgot": 0.15}, "replay": {"run": "replay"}}


@dataclass
class Store:
    """Directories as CompareConfig wants them."""

    root: Path
    checkpoints: list[str] = field(default_factory=list)
    evaluations: list[str] = field(default_factory=list)
    clean: str = ""
    data: str = ""

    def config(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "root"}


def make_store(root: Path, models: Sequence[Model] = DEMO, *, items: int = 60, line: str = "a",
               every: bool = False) -> Store:
    """Write training nodes, their evaluations, and the clean and data nodes. `every`: losses of all exports."""
    store = Store(root)
    files = {lang: [item for item in benchmark("facts", items) if item.lang == lang] for lang in ("en", "zh")}
    store.data = str(benchmark_data(root, files, items))
    store.clean = str(node(root, "clean", "clean", {}, {}))
    write_json(Path(store.clean) / "report.json", CLEANING)
    digests: dict[str, str] = {}
    for stage in dict.fromkeys(model.stage for model in models):
        exports = [model for model in models if model.stage == stage]
        store.checkpoints.append(str(_training(root, exports, digests, line)))
        store.evaluations += [str(_evaluation(store, model, digests[stage], items)) for model in exports]
        store.evaluations += [str(_heldout(store, model, digests[stage])) for model in exports[0 if every else -1 :]]
    return store


def make_lines(root: Path, names: Sequence[str] = tuple(LINES), *, checkpoints: int, items: int) -> dict[str, Path]:
    """Pretraining steps of LINES, with `checkpoints` exports each and what they send to MLflow; by line."""
    found = {}
    for name in names:
        models = [Model("pretrain", "final" if n == checkpoints else f"p{100 * n // checkpoints:03}", "", 50 * n,
                        100_000 * n, 0.1 + 0.4 * n / checkpoints, **LINES[name]) for n in range(1, checkpoints + 1)]
        store = make_store(root, models, items=items, line=name, every=True)
        found[name] = _sent(store, models, name)
    return found


def _sent(store: Store, models: Sequence[Model], line: str) -> Path:
    """What a line's steps log of checkpoints and their results; returns the training step's directory."""
    training = Path(store.checkpoints[-1])
    tracker = Tracker(training / "tracking")
    for model in models:
        path = training / "checkpoints" / model.name
        path.mkdir(parents=True, exist_ok=True)
        about = {"stage": model.stage, "step": model.step, "tokens": model.tokens}
        write_json(path / "argosy.json", about | {"chat": model.chat})
        tracker.model(model.name, path, **about)
    tracker.close()
    for directory in map(Path, store.evaluations):
        done = read_json(directory / "outputs.json")
        outputs, about = done["outputs"], done["outputs"]["checkpoint"]
        write_json(directory / "results.json", outputs)
        tracker = Tracker(directory / "tracking")
        tracker.header(node="evaluate", part=done["made_from"]["part"], step="evaluate",
                       digest=done["made_from"]["digest"], pipeline="", line=line)
        tracker.artifact(directory / "results.json")
        logged = {**outputs["metrics"], **contamination_metrics(read_items(directory))}
        tracker.model_metrics(training / "checkpoints" / about["name"], logged, tokens=about["tokens"],
                              dataset=outputs["suite"], dataset_digest="0123456789ab")
        tracker.close()
    return training


def _training(root: Path, exports: Sequence[Model], digests: dict[str, str], line: str) -> Path:
    last = exports[-1]
    config = {"line": line, "learning_rate": 0.003, "tokens": last.tokens, "sequence_length": 128, "seed": 17}
    entries = [{"name": m.name, "path": f"checkpoints/{m.name}", "step": m.step, "tokens": m.tokens} for m in exports]
    outputs: dict[str, Any] = {"exports": entries, "final": f"checkpoints/{last.name}"}
    if last.chat:
        outputs["metrics"] = {"heldout/instruction_loss/before": 4.2, "heldout/instruction_loss/after": 1.1}
    upstream = {"checkpoint": [digests[last.source]]} if last.source in digests else {}
    step = {"twin": "sft", "dpo": "preference"}.get(last.stage, last.stage)
    run = {"history": _attempts()} if last.stage == "sft" else None
    directory = node(root, last.stage, step, config, outputs, upstream=upstream, run=run)
    digests[last.stage] = directory.name.rpartition("-")[2]
    if not (directory / "tracking").exists():
        tracker = Tracker(directory / "tracking")
        tracker.header(node=last.stage, part="", step=step, digest=digests[last.stage], pipeline="", line=line)
        _curves(tracker, last)
    return directory


def _attempts() -> list[dict[str, Any]]:
    """Attempts of 100 s at a step, each but the last of which failed in its way and lost 20 s of its work."""
    causes = (*(cause for cause in WORDS if cause not in (STARTUP, REPEATED, SAVING, WAITING)), "")
    return [{"started": 110.0 * n, "ended": 110.0 * n + 100, "exit": int(bool(cause)), "cause": cause, "gpus": 8,
             "price": 2.5, "runs": [{"started": 110.0 * n, "began": 110.0 * n + 10, "at": 110.0 * n + 92, "stalled": 2,
                                     "undone": 0, "from": 60 * n, "done": 60 * n + 80}]}
            for n, cause in enumerate(causes)]


def _curves(tracker: Tracker, last: Model) -> None:
    rng = Random(last.stage)
    starts = {"pretrain": 0, "long_context": 2_000_000, "anneal": 2_200_000}
    for step in range(5, last.step + 1, 5):
        done = step / last.step
        if last.stage in starts:
            tokens = starts[last.stage] + done * (last.tokens - starts[last.stage])
            values = {f"train/loss/{c}": 1.2 + 0.2 * i + 6 * math.exp(-tokens / 3e5) + rng.gauss(0, 0.05)
                      for i, c in enumerate(CHANNELS)}
            values |= {"train/loss": sum(values.values()) / len(values), "train/tokens": tokens, "train/lr": 1e-3,
                       "perf/tokens_per_second": 9e3, "time/forward_ms": 30.0, "time/backward_ms": 60.0}
            if step % 20 == 0:
                fall = 2 * math.exp(-tokens / 4e5)
                values |= {f"heldout/bpb/{c}": 1 + 0.1 * i + fall for i, c in enumerate(CHANNELS)}
        else:
            values = {"train/loss": 3 * math.exp(-3 * done) + 0.5 + rng.gauss(0, 0.05)}
        if last.stage == "rlhf":
            values |= {"rlhf/reward": 0.3 + 0.5 * done + rng.gauss(0, 0.03), "rlhf/kl": 0.05 * done**2}
        tracker.metrics(values, step=step)
    tracker.close()


def _evaluation(store: Store, model: Model, digest: str, items: int) -> Path:
    rows = [row for item in benchmark("facts", items) for row in _rows(model, item)]
    found = metrics_of([row for row in rows if "correct" in row])
    traces = [r for r in rows if r["variant"] == "memorisation"]
    weights = balanced_weights([tuple(r["place"]) for r in traces])
    first = [w * (r["scores"][1][0] == max(r["scores"][1])) for w, r in zip(weights, traces, strict=True)]
    add(found, "bench/facts/memorisation/answer_first", first)
    rng = Random(f"probe{model}")
    for probe in ("fact_en", "fact_zh"):
        right = [float(rng.random() < 0.25 + 0.7 * model.knows) for _ in range(40)]
        add(found, f"probe/probes/{probe}/acc", right)
    directory = _evaluated(store, model, digest, "benchmark", found)
    write_items(directory, rows)
    return directory


def _heldout(store: Store, model: Model, digest: str) -> Path:
    rows = [row for i, channel in enumerate(CHANNELS) for row in text_rows(
        channel, 2.2 - model.knows + 0.1 * i + (model.forgot if channel == "code" else 0)
        - (0.4 * model.zh if channel.endswith("zh") else 0), str(model))]
    directory = _evaluated(store, model, digest, "heldout", metrics_of(rows))
    write_items(directory, rows)
    return directory


def _evaluated(store: Store, model: Model, digest: str, suite: str, found: Mapping[str, Any]) -> Path:
    about = {"stage": model.stage, "name": model.name, "step": model.step, "tokens": model.tokens, "chat": model.chat}
    outputs = {"checkpoint": about, "suite": suite, "left_out": {}, "headline": {}, **found}
    if suite == "benchmark":
        outputs["headline"] = {"facts": [v for v in VARIANTS if parse_chain(v, VARIANTS[v]).knowledge]}
    config = {"suite": suite, "seed": 0, "export": model.name}
    return node(store.root, "evaluate", "evaluate", config, outputs, part=f"{model.stage}-{model.name}-{suite}",
                upstream={"checkpoint": [digest]}, run={"config": {**config, "data": store.data}})


def _rows(model: Model, item: Item) -> list[dict[str, Any]]:
    knows = Random(f"{model.seed}/{item.id}").random() < model.knows + (model.zh if item.lang == "zh" else 0)
    memorised = Random(f"seen/{item.id}").random() < model.memorised
    found = []
    for variant, spec in VARIANTS.items():
        for question in parse_chain(variant, spec).questions(item, 0):
            rng = Random(f"{model}/{variant}/{question.id}")
            scores = [rng.gauss(-5, 1) for _ in question.continuations]
            scores[question.gold] += 4 if knows or (memorised and variant == "plain") else 0
            chosen = scores.index(max(scores))
            found.append({
                "task": "facts", "variant": variant, "id": question.id, "item": item.id, "lang": item.lang,
                "correct": chosen == question.gold, "chosen": chosen, "gold": question.gold, "scores": scores})
    rng = Random(f"{model}/memorisation/{item.id}")
    orders = [rng.gauss(0, 1) + (5 if memorised and not n else 0) for n in range(4)]
    about = {"task": "facts", "variant": "memorisation", "id": item.id, "lang": item.lang, "place": [item.answer, 4]}
    found.append({**about, "scores": [orders, orders]})
    return found


HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \u202egnp.exe\u2066 {{ 7*7 }} 中文文本"
CLEANING = {
    "channels": {
        "en": {"in": 655, "out": 576, "bytes_in": 1010748, "bytes_out": 914034, "changed": {"pii": 19, "unicode": 11},
               "dropped": {"exact_dedup": {"copy of an earlier document": 16}, "gopher_quality": {
                   "mean word length": 3, "too few stop words": 4}, "language": {"language de": 4, "language fr": 52}}},
        "knowledge_zh": {"in": 1346, "out": 1191, "bytes_in": 644750, "bytes_out": 546135, "changed": {},
                         "dropped": {"decontamination": {"benchmark item": 155}}}},
    "samples": [{"filter": "language", "reason": "language fr", "channel": "en", "text": HOSTILE},
                {"filter": "decontamination", "reason": "benchmark item", "channel": "knowledge_zh",
                 "text": "问：法国的首都是哪里？\nA.加拉加斯 B.索非亚 C.雅典 D.巴黎\n答案：D"}],
    "found": {}}


if __name__ == "__main__":
    from argosy.core.step.contract import Progress, StepContext
    from steps.compare import CompareConfig, run

    out = Path(sys.argv[1]) / "compare"
    out.mkdir(parents=True, exist_ok=True)
    made = make_store(Path(sys.argv[1]), items=148)
    run(CompareConfig.model_validate(made.config()), StepContext(out, Tracker(None), Progress(None)))
    make_lines(Path(sys.argv[1]), checkpoints=20, items=60)
