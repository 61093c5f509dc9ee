"""Tests of the contamination score on models of 25 and of 135 million parameters, by exposures and kind of leak.

python -m benchmarks.contamination_size [--part pretrained real] [--model DIR] [--work DIR] [--figure]

`pretrained`: two models of 25 million parameters (one for MMLU's items, one for OpenBookQA's), trained from random
weights on text in which groups of items stand 0, 1, 2, 4 and 16 times as published, reworded, reordered or translated.
`real`: SmolLM2-135M-Instruct, untouched on six benchmarks, and after training on groups with LoRA and in full; DIR has
it as transformers saves it. The shipped calibration judges each group as a benchmark of its own; that of a model of
25 million parameters judges the groups of the other models too. `items`: AUC of the items of a group against the other
items of the same benchmark that were never seen, by where the published order stands among others; `letters`: the same
of the right letter; `sets`: AUC of z of resampled sets of 40 items. `--work`: folder that keeps the answers of each
model; those that it has are not made again. `--figure`: draws docs/figures/contamination-size.svg. The last line is
JSON.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from argosy.core.statistics.contamination import Calibration, calibrate, default_calibration
from argosy.core.statistics.intervals import auc, quantile
from argosy.core.store.files import read_json, write_json
from argosy.evidence.results.contamination import Seen
from benchmarks.contamination import models, runs
from benchmarks.contamination.figure import draw_figure
from benchmarks.contamination.groups import PUBLISHED, Asked

PARTS = {"pretrained": tuple(runs.POOLS), "real": ("untouched", *runs.RATES)}
LEAST = 4  # exposures of a contaminated case of the calibration at 25 million parameters
Run = Callable[[], list[Asked]]


def main() -> None:
    """Train and ask, or read what was asked; judge, print."""
    choices = [*PARTS, *(name for names in PARTS.values() for name in names)]
    parser = argparse.ArgumentParser("python -m benchmarks.contamination_size", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=choices, default=list(PARTS), help="or single models of a part")
    parser.add_argument("--model", type=Path, default=os.environ.get("ARGOSY_REAL_MODEL"), help="for the part `real`")
    parser.add_argument("--work", type=Path, help="folder that keeps answers")
    parser.add_argument("--figure", action="store_true")
    args = parser.parse_args()
    names = [name for part in args.part for name in PARTS.get(part, (part,))]
    if not models.DATA.is_dir():
        parser.error(f"{models.DATA} is absent: the benchmark trains on its text and items")
    if args.model is None and set(names) & set(PARTS["real"]):
        parser.error("--model is absent; allowed: a directory with SmolLM2-135M-Instruct (or --part pretrained)")
    with tempfile.TemporaryDirectory() as folder:
        found = {name: kept(args.work or Path(folder), name, _run(name, args.model)) for name in names}
    report(found, args.figure)


def _run(name: str, model: Path | None) -> Run:
    if name in runs.POOLS:
        return partial(runs.pretrained, name)
    assert model is not None
    return partial(runs.untouched, model) if name == "untouched" else partial(runs.tuned, model, name)


def kept(folder: Path, name: str, run: Run) -> list[Asked]:
    """Answers of a model: read where they are kept, else asked and kept."""
    path = folder / f"{name}.json"
    if not path.exists():
        started = time.process_time()
        found = run()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, [each.to_json() for each in found])
        print(f"{name}: {time.process_time() - started:.0f} processor seconds", flush=True)
    return [Asked.from_json(each) for each in read_json(path)]


def report(found: Mapping[str, Sequence[Asked]], figure: bool) -> None:
    """Tables, the figure, the line of JSON."""
    rows = {name: judged(groups, default_calibration()) for name, groups in found.items()}
    own = {f"{name} by {other}": judged(found[name], calibration_of(found[other], other))
           for other in runs.POOLS if other in found for name in found if name != other}
    for name, group in rows.items():
        print(table(name, group))
    for name, group in own.items():
        print(table(name, group))
    if figure:
        draw_figure(rows)
    print(json.dumps({"name": "contamination_size", "unit": "AUC", "runs": rows, "calibrated": own}))


def calibration_of(groups: Sequence[Asked], about: str) -> Calibration:
    """The calibration by a model's groups: those never seen, and those published that were seen often enough."""
    clean = [group for group in groups if group.clean]
    seen = [group for group in groups if group.kind == PUBLISHED and group.exposures >= LEAST]
    return calibrate([each.evidence for each in clean], [each.evidence for each in seen],
                     [each.places for each in (*clean, *seen)], about)


def judged(groups: Sequence[Asked], calibration: Calibration) -> list[dict[str, Any]]:
    """Verdict and AUCs of each group."""
    never: dict[str, list[Asked]] = {}
    for group in groups:
        if group.clean:
            never.setdefault(group.source, []).append(group)
    return [_judged(group, [each for each in never[group.source] if each is not group], calibration)
            for group in groups]


def _judged(group: Asked, never: Sequence[Asked], calibration: Calibration) -> dict[str, Any]:
    found = group.score(calibration)
    row = {"source": group.source, "kind": group.kind, "exposures": group.exposures,
           "verdict": Seen(group.source, found).verdict,
           **{name: value for name, value in asdict(found).items() if name not in ("parts", "left_out")}}
    if not never:
        return row
    for name in ("text_order", "answer_order"):
        area = auc(group.standings(name), [value for each in never for value in each.standings(name)])
        row[name] = {"auc": area.value, "error": quantile(0.95) * area.stderr}
    below = [z for number, each in enumerate(never) for z in each.sets(calibration, number + 1)]
    return {**row, "sets": auc(group.sets(calibration), below).value}


def table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each group."""
    lines = [f"{title:<28} {'score':>6} {'z':>6} {'p':>7} {'prob.':>6} {'verdict':<12} {'items':>11} letters sets"]
    for row in rows:
        name = f"{row['source']} {row['kind']} {row['exposures'] or ''}"
        line = (f"{name:<28} {row['score']:>6.2f} {row['z']:>6.2f} {row['p_value']:>7.4f} {row['probability']:>6.2f} "
                f"{row['verdict']:<12}")
        if "sets" in row:
            items, letters = row["text_order"], row["answer_order"]
            line += f" {items['auc']:>4.2f} ± {items['error']:.2f} {letters['auc']:>7.2f} {row['sets']:.2f}"
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
