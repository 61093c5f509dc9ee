"""A store of several model lines over training, with made-up models whose abilities differ in known ways.

    python -m tests.comparison_fixtures DIR [CHECKPOINTS] [ITEMS]     # then: argosy compare --store DIR line:base ...

Line `base` learns; `mixed` sees more Chinese text (zh and its channel better, code worse); `replay` equals `base` but
for noise. Everything is drawn from seeds, so that what a test expects can be computed.
"""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from argosy.compare.checkpoints import Checkpoint
from argosy.evaluation.contamination import contamination_metrics
from argosy.evaluation.items import write_items
from argosy.evaluation.rows.reader import Rows, is_text
from argosy.evaluation.rows.values import total
from argosy.statistics.intervals import mean
from argosy.store.files import write_json
from argosy.store.provenance import digest_of
from argosy.tracking.tracker import Tracker
from evals.chain import parse_chain
from evals.items import Item
from evals.question import Question
from evals.reading import parse_item

TASKS = ("facts", "science", "commonsense")
VARIANTS: dict[str, Any] = {
    "plain": None, "cloze": None, "permuted": {"permuted": {"k": 4}}, "none_of_the_others": None,
    "chinese_labels": {"labels": {"symbols": "numerals"}},
}  # fmt: skip
HEADLINE = [v for v in VARIANTS if parse_chain(v, VARIANTS[v]).knowledge]
CHANNELS = ("code", "knowledge_en", "knowledge_zh", "web_en", "web_zh", "books")
PROBES = ("capital", "json_brace", "refusal", "agreement")
HARD = {"plain": 0.0, "cloze": 0.1, "permuted": -0.1, "chinese_labels": -0.15, "none_of_the_others": -0.3}


@dataclass(frozen=True)
class Line:
    """A model line; `zh` and `code`: what it is better at than `base`, on the scale of abilities (logits)."""

    name: str
    zh: float = 0.0
    code: float = 0.0
    seed: str = ""
    tokens: int = 100_000


LINES = (Line("base"), Line("mixed", zh=0.9, code=-0.8, seed="m"), Line("replay", seed="r"))


def make_lines(root: Path, lines: tuple[Line, ...] = LINES, *, checkpoints: int = 20, items: int = 60,
               tasks: tuple[str, ...] = TASKS, probes: tuple[str, ...] = PROBES) -> dict[str, Path]:
    """Write data, one pretraining step a line with `checkpoints` exports, and two evaluations of each. The training
    steps' directories by line; every checkpoint has its items."""
    data = benchmark_data(root, {task: benchmark(task, items) for task in tasks}, items)
    suite = root / "suite.yaml"
    suite.write_text(yaml.safe_dump({"benchmarks": {
        "tasks": {task: [f"benchmark/{task}.jsonl"] for task in tasks}, "variants": VARIANTS}}))
    found = {}
    for line in lines:
        found[line.name] = training(root, line, checkpoints)
        digest = found[line.name].name.rpartition("-")[2]
        for number in range(1, checkpoints + 1):
            at = About(line, number, checkpoints, digest)
            _evaluation(root, at, "benchmark", _benchmark_rows(at, tasks, items), suite, data)
            _evaluation(root, at, "heldout", [*_heldout_rows(at), *_probe_rows(at, probes)], suite, data)
    return found


@dataclass(frozen=True)
class About:
    """A checkpoint: the `number`-th of `of` exports of a line."""

    line: Line
    number: int
    of: int
    digest: str

    @property
    def name(self) -> str:
        return "final" if self.number == self.of else f"p{100 * self.number // self.of:03}"

    @property
    def label(self) -> dict[str, Any]:
        return {"stage": "pretrain", "name": self.name, "step": 50 * self.number,
                "tokens": self.line.tokens * self.number, "chat": False}

    @property
    def ability(self) -> float:
        """Rises and levels off over training."""
        return 3.2 * (1 - math.exp(-3 * self.number / self.of)) - 1.6


def training(root: Path, line: Line, checkpoints: int) -> Path:
    """A pretraining step's directory with its exports and a spool that names the line."""
    every = [About(line, n, checkpoints, "") for n in range(1, checkpoints + 1)]
    exports = [{"name": a.name, "path": f"checkpoints/{a.name}", "step": a.label["step"], "tokens": a.label["tokens"]}
               for a in every]
    outputs = {"exports": exports, "final": "checkpoints/final"}
    directory = node(root, "pretrain", "pretrain", {"line": line.name}, outputs)
    for each in exports:
        (directory / each["path"]).mkdir(parents=True, exist_ok=True)
        about = {"stage": "pretrain", "step": each["step"], "tokens": each["tokens"], "chat": False}
        write_json(directory / each["path"] / "argosy.json", about)
    digest = directory.name.rpartition("-")[2]
    tracker = Tracker(directory / "tracking")
    tracker.header(node="pretrain", part="", step="pretrain", digest=digest, pipeline="", line=line.name)
    for each in exports:
        tracker.model(each["name"], directory / each["path"], stage="pretrain", step=each["step"],
                      tokens=each["tokens"])
    tracker.close()
    return directory


def node(root: Path, name: str, step: str, config: Mapping[str, Any], outputs: Mapping[str, Any], *, part: str = "",
         upstream: Mapping[str, list[str]] | None = None, run: Mapping[str, Any] | None = None) -> Path:
    """A finished step's directory."""
    made: dict[str, Any] = {"node": name, "part": part, "step": step, "version": 1, "config": dict(config),
                            "upstream": dict(upstream or {}), "external": {}}
    made["digest"] = digest_of(made)
    directory = root / "-".join(filter(None, [name, part, made["digest"]]))
    directory.mkdir(parents=True, exist_ok=True)
    about = {"seconds": 1.0, "peak_rss_mb": 700.0, "attempts": 1, "exit": 0, "ended": 1.7e9}
    write_json(directory / "run.json", {**about, **(run or {})})
    write_json(directory / "outputs.json", {"outputs": dict(outputs), "made_from": made})
    return directory


def _evaluation(root: Path, at: About, suite: str, rows: list[dict[str, Any]], file: Path, data: Path) -> Path:
    found = metrics_of(rows)
    asked = {"suite": suite, "suite_file": str(file), "data": str(data), "seed": 0, "export": at.name}
    headline = dict.fromkeys(sorted({r["task"] for r in rows if "correct" in r}), HEADLINE)
    outputs = {"checkpoint": at.label, "suite": suite, "left_out": {}, "headline": headline, **found}
    directory = node(root, "evaluate", "evaluate", {"suite": suite, "export": at.name}, outputs,
                     part=f"pretrain-{at.name}-{suite}", upstream={"checkpoint": [at.digest]}, run={"config": asked})
    write_items(directory, rows)
    digest = directory.name.rpartition("-")[2]
    tracker = Tracker(directory / "tracking")
    tracker.header(node="evaluate", part=f"{at.name}-{suite}", step="evaluate", digest=digest, pipeline="",
                   line=at.line.name)
    checkpoint = root / f"pretrain-{at.digest}" / "checkpoints" / at.name
    write_json(directory / "results.json", {"checkpoint": at.label, "suite": suite, "headline": headline, **found})
    tracker.artifact(directory / "results.json")
    logged = {**found["metrics"], **contamination_metrics(rows)}
    tracker.model_metrics(checkpoint, logged, tokens=at.label["tokens"], dataset=suite, dataset_digest="0123456789ab")
    tracker.close()
    return directory


def metrics_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """metrics, stderr and counts, as an evaluation writes them."""
    found: dict[str, dict[str, Any]] = {"metrics": {}, "stderr": {}, "counts": {}}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["variant"]), []).append(row)
    for (task, variant), group in groups.items():
        if "correct" in group[0]:
            langs = sorted({r["lang"] for r in group})
            for name, some in ((task, group), *((f"{task}_{x}", [r for r in group if r["lang"] == x]) for x in langs)):
                right, names = [float(r["correct"]) for r in some], [r["item"] for r in some]
                add(found, f"bench/{name}/{variant}/acc", right, names)
        elif "nats" in group[0]:
            _add_text(found, variant, group)
        else:
            add(found, f"probe/{task}/{variant}/acc", [float(r["acc"]) for r in group])
            add(found, f"probe/{task}/{variant}/prob", [r["prob"] for r in group])
    return found


def add(found: dict[str, dict[str, Any]], name: str, values: list[float], clusters: list[str] | None = None) -> None:
    estimate = mean(values, clusters)
    found["metrics"][name], found["stderr"][name], found["counts"][name] = estimate.value, estimate.stderr, estimate.n


def _add_text(found: dict[str, dict[str, Any]], channel: str, group: list[dict[str, Any]]) -> None:
    nats, size, tokens = (math.fsum(r[key] for r in group) for key in ("nats", "bytes", "tokens"))
    for name, value in (("bpb", nats / size / math.log(2)), ("nats", nats / tokens), ("ppl", math.exp(nats / tokens))):
        found["metrics"][f"heldout/{name}/{channel}"] = value
        found["counts"][f"heldout/{name}/{channel}"] = len(group)
    each = mean([r["nats"] / r["bytes"] / math.log(2) for r in group])
    found["stderr"][f"heldout/bpb/{channel}"] = each.stderr


@cache
def questions(task: str, items: int) -> list[tuple[str, Question]]:
    """(variant, question) of a benchmark."""
    return [(v, q) for item in benchmark(task, items) for v, spec in VARIANTS.items()
            for q in parse_chain(v, spec).questions(item, 0)]


@cache
def benchmark(task: str, items: int) -> list[Item]:
    """`items` items in English and as many in Chinese."""
    words = {"facts": ("What is the capital of country {}?", "{}号国家的首都是哪里？"),
             "science": ("Which gas does plant {} take in?", "植物{}吸收哪种气体？"),
             "commonsense": ("Where would one keep tool {}?", "工具{}一般放在哪里？")}
    found = []
    for lang, question in zip(("en", "zh"), words.get(task, words["facts"]), strict=True):
        for n in range(items):
            rng = Random(f"{task}{lang}{n}")
            word = {"en": "Place", "zh": "地方"}[lang]
            names = [f"{word} {m}" for m in rng.sample(range(900), 4)]
            found.append(parse_item({"id": f"{task}/{n}/{lang}", "lang": lang, "question": question.format(n),
                                     "choices": names, "answer": rng.randrange(4)}))
    return found


def benchmark_data(root: Path, files: Mapping[str, list[Item]], items: int) -> Path:
    """The directory of a data step with the items of each file."""
    directory = node(root, "data", "data", {"items": items}, {})
    (directory / "benchmark").mkdir(exist_ok=True)
    for name, own in files.items():
        lines = [json.dumps({"id": i.id, "lang": i.lang, "question": i.question, "choices": list(i.choices),
                             "answer": i.answer}, ensure_ascii=False) for i in own]
        (directory / "benchmark" / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return directory


def _benchmark_rows(at: About, tasks: tuple[str, ...], items: int) -> list[dict[str, Any]]:
    return [_row(at, task, variant, question) for task in tasks for variant, question in questions(task, items)]


def _row(at: About, task: str, variant: str, q: Question) -> dict[str, Any]:
    """An item's difficulty is shared by all models; what a model draws for itself is small beside it."""
    shared, own = Random(f"{q.item}"), Random(f"{at.line.seed}/{at.number}/{variant}/{q.id}")
    edge = at.ability + (at.line.zh if q.lang == "zh" else 0) + HARD.get(variant, 0) - shared.gauss(0, 1.3)
    scores = [own.gauss(-4, 0.7) for _ in q.continuations]
    scores[q.gold] += 0.9 * edge
    chosen = scores.index(max(scores))
    return {"task": task, "variant": variant, "id": q.id, "item": q.item, "lang": q.lang, "correct": chosen == q.gold,
            "correct_norm": chosen == q.gold, "chosen": chosen, "gold": q.gold,
            "scores": [round(score, 5) for score in scores]}


def _heldout_rows(at: About, documents: int = 80) -> Iterator[dict[str, Any]]:
    for i, channel in enumerate(CHANNELS):
        shift = -0.12 * at.line.zh if channel.endswith("zh") else -0.12 * at.line.code if channel == "code" else 0.0
        bits = 1.1 + 0.12 * i + 2.2 * math.exp(-4 * at.number / at.of) + shift
        yield from text_rows(channel, bits, f"{at.line.seed}/{at.number}", documents)


def text_rows(channel: str, bits: float, seed: str, documents: int = 80) -> Iterator[dict[str, Any]]:
    """Documents differ far more from each other than checkpoints do: paired tests see what others do not."""
    for n in range(documents):
        shared, own = Random(f"{channel}/{n}"), Random(f"{seed}/{channel}/{n}")
        size = shared.randrange(200, 800)
        nats = size * math.log(2) * (bits + shared.gauss(0, 0.4) + own.gauss(0, 0.04))
        yield {"task": "heldout", "variant": channel, "id": str(n), "nats": nats, "tokens": size // 3, "bytes": size}


def _probe_rows(at: About, probes: tuple[str, ...], cases: int = 40) -> Iterator[dict[str, Any]]:
    for probe in probes:
        for n in range(cases):
            shared, own = Random(f"{probe}/{n}"), Random(f"{at.line.seed}/{at.number}/{probe}/{n}")
            edge = at.ability - shared.gauss(0, 1.2) + own.gauss(0, 0.3)
            yield {"task": "probes", "variant": probe, "id": str(n), "scores": [edge], "acc": edge > 0,
                   "prob": 1 / (1 + math.exp(-edge))}


def checkpoint(label: str, rows: Iterable[Mapping[str, Any]] | Rows, **fields: Any) -> Checkpoint:
    """A checkpoint with these rows and the metrics that they make."""
    own = rows if isinstance(rows, Rows) else Rows(rows)
    names = [f"bench/{task}/{form}/acc" for task, form in own.answers]
    names += [f"heldout/bpb/{form}" for (_, form), group in own.groups.items() if is_text(group[0])]
    found = Checkpoint(label, label, label, label, 0, 0, label=label, **fields)
    found.metrics = {name: total(own.values(name)) for name in names} | found.metrics
    found.rows = own
    return found


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[2:4]]
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    make_lines(Path(sys.argv[1]), checkpoints=(sizes or [20])[0], items=(sizes[1:] or [60])[0])
