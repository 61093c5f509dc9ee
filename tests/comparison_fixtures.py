"""Steps that have ended, items, rows and checkpoints, made up: what pages, gates and comparisons are tried on."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from argosy.core.statistics.intervals import Floats, mean
from argosy.core.statistics.metric import Metric, as_records, probability, share
from argosy.core.store.files import write_json
from argosy.core.store.provenance import digest_of
from argosy.evidence.compare.checkpoints import Checkpoint
from argosy.evidence.compare.entries import Entry
from argosy.evidence.gate.check import Verdict, check
from argosy.evidence.gate.config import Gate
from argosy.evidence.gate.subject import Subject
from argosy.evidence.results.rows import Rows, is_text
from argosy.evidence.results.values import total
from evals.items import Item
from evals.metrics import METRICS
from tests.evaluation_fixtures import parse_item, write_items


def declared(names: Iterable[str]) -> dict[str, Metric]:
    """The kinds of metrics as their makers declare them: of benchmarks, probes and held-out text."""
    found = {}
    for name in names:
        where, measure = name.partition("/")[0], name.rpartition("/")[2]
        if where == "bench" and measure in METRICS:
            neither = "/none_" in name  # each half of a question alone, whose chains are not directed
            found[name] = replace(METRICS[measure], better="neither") if neither else METRICS[measure]
        elif where == "probe" and measure in ("acc", "prob"):
            found[name] = probability() if measure == "prob" else share()
    return found


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
    kinds = {"kinds": as_records(declared(outputs["metrics"]))} if step == "evaluate" and "metrics" in outputs else {}
    write_json(directory / "outputs.json", {"outputs": {**kinds, **outputs}, "made_from": made})
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
def benchmark(task: str, items: int) -> list[Item]:
    """`items` items in English and as many in Chinese."""
    found = []
    for lang, question in (("en", "What is the capital of country {}?"), ("zh", "{}号国家的首都是哪里？")):
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
    for name, own in files.items():
        write_items(directory / f"benchmark/{name}.jsonl", own)
    return directory


def text_rows(channel: str, bits: float, seed: str) -> Iterator[dict[str, Any]]:
    """Documents differ far more from each other than checkpoints do: paired tests see what others do not."""
    for n in range(80):
        shared, own = Random(f"{channel}/{n}"), Random(f"{seed}/{channel}/{n}")
        size = shared.randrange(200, 800)
        nats = size * math.log(2) * (bits + shared.gauss(0, 0.4) + own.gauss(0, 0.04))
        yield {"task": "heldout", "variant": channel, "id": str(n), "nats": nats, "tokens": size // 3, "bytes": size}


def checkpoint(label: str, rows: Iterable[Mapping[str, Any]] | Rows, **fields: Any) -> Checkpoint:
    """A checkpoint with these rows and the metrics that they make."""
    own = rows if isinstance(rows, Rows) else Rows(rows)
    names = [f"bench/{task}/{form}/acc" for task, form in own.answers]
    names += [f"heldout/bpb/{form}" for (_, form), group in own.groups.items() if is_text(group[0])]
    found = Checkpoint(label, label, label, label, 0, 0, label=label, **fields)
    found.metrics = {name: total(own.values(name)) for name in names} | found.metrics
    found.kinds = declared(found.metrics) | found.kinds
    found.rows = own
    return found


def entry(label: str, rows: Iterable[Mapping[str, Any]] | Rows = (), **fields: Any) -> Entry:
    """A model that is compared, of one such checkpoint."""
    only = checkpoint(label, rows, **fields)
    return Entry(label, label, [only], only)


DIFFICULTY = 3.0  # standard deviation over items, in logits


def judged(rules: Any, new: Subject, reference: Subject | None = None) -> Verdict:
    return check(Gate.model_validate({"rules": rules}), new, reference)


def abilities(items: int, accuracy: float, seed: int, *, cluster: int = 1, spread: float = DIFFICULTY) -> Floats:
    """The probability of each item to be answered right: a logit of its own, and one that a cluster shares.

    With a spread of 3 logits two runs of one model answer alike in 78 of 100 items (correlation 0.54 at 60%)."""
    rng = np.random.default_rng(seed)
    shared = np.repeat(rng.normal(size=math.ceil(items / cluster)), cluster)[:items]
    own = rng.normal(size=items)
    logits = spread * (math.sqrt(0.5) * (shared + own) if cluster > 1 else own)
    shift = brentq(lambda at: float(expit(logits + at).mean()) - accuracy, -40.0, 40.0)
    found: Floats = expit(logits + shift)
    return found


def answers(probabilities: Floats, seed: int, *, cluster: int = 1) -> list[bool]:
    """One run: items of a cluster are answered by one draw and so err together."""
    rng = np.random.default_rng(seed)
    drawn = np.repeat(rng.random(math.ceil(len(probabilities) / cluster)), cluster)[: len(probabilities)]
    return [bool(value) for value in drawn < probabilities]


def subject(label: str, right: Sequence[bool], *, cluster: int = 1, losses: Mapping[str, Sequence[float]] | None = None,
            task: str = "facts") -> Subject:
    """A checkpoint with these answers, and these losses (nats) of held-out documents of 500 bytes by channel."""
    rows = [{"task": task, "variant": "plain", "id": str(n), "item": str(n), "correct": value, "gold": 0, "chosen": 0,
             "cluster": str(n // cluster), "scores": [0.0, 0.0]} for n, value in enumerate(right)]
    for channel, nats in (losses or {}).items():
        rows += [{"task": "heldout", "variant": channel, "id": str(n), "nats": value, "bytes": 500, "tokens": 100}
                 for n, value in enumerate(nats)]
    name = f"bench/{task}/plain/acc"
    estimate = mean([float(value) for value in right], [n // cluster for n in range(len(right))])
    return Subject(checkpoint(label, rows, stderr={name: estimate.stderr}, counts={name: estimate.n},
                              headline={task: ["plain"]}))
