"""Speed and memory of post-training, beside TRL's trainers.

python -m benchmarks.posttraining

Each work (see benchmarks/posttraining/sides.py) is done by ours and by TRL's trainer with the same model, examples,
batch and precision, a process each. They take turns within each round; a ratio is the median over rounds of what ours
does in a second over what theirs does in that round. TRL has the fastest of the layouts that its trainer offers. The
last line is JSON: `sft_ratio` (of tokens a second), and `memory_ratio`, TRL's peak memory over ours, the worst of all.
"""

import argparse
import contextlib
import json
import statistics
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.posttraining.sides import WORKS
from benchmarks.side_by_side import Side, answer, environment
from benchmarks.training.sides import THREADS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.posttraining", description=__doc__)
    parser.add_argument("--rounds", type=float, default=1.0, metavar="X", help="X times the usual rounds")
    parser.add_argument("--only", choices=tuple(WORKS), help="this work alone")
    parser.add_argument("--side", choices=("ours", "trl"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        with contextlib.redirect_stdout(sys.stderr):  # what is printed while a side is made is no answer
            turn = WORKS[args.only].sides[args.side]()
        answer(turn)
        return
    figures: dict[str, Any] = {}
    for name in [args.only] if args.only else WORKS:
        figures |= {f"{name}_{key}": value for key, value in measure(name, args.rounds).items()}
    figures["memory_ratio"] = min(value for key, value in figures.items() if key.endswith("_memory_ratio"))
    print(json.dumps({"name": "posttraining", "threads": THREADS, **figures}))


def measure(name: str, share: float) -> dict[str, Any]:
    """Return the figures of a work, of `share` of its rounds."""
    work = WORKS[name]
    layout = _fastest(name)
    sides = {side: _start(name, side) for side in work.sides}
    turns = {"ours": {"steps": work.steps}, "trl": {"steps": work.steps, **layout}}
    for side, each in sides.items():
        each.ask(**turns[side])  # the first pass allocates
    speeds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(max(1, round(work.rounds * share))):
        for side in list(sides)[:: 1 if number % 2 else -1]:
            found = sides[side].ask(**turns[side])["result"]
            speeds[side].append(found["done"] / found["seconds"])
        last = ", ".join(f"{side} {each[-1]:,.1f}" for side, each in speeds.items())
        print(f"{name}, {work.unit}: {last}", flush=True)
    peaks = {side: each.close() for side, each in sides.items()}
    ratio = statistics.median(a / b for a, b in zip(speeds["ours"], speeds["trl"], strict=True))
    found = {"ratio": ratio, "memory_ratio": peaks["trl"] / peaks["ours"],
             **{side: statistics.median(each) for side, each in speeds.items()},
             **{f"{side}_peak_mib": peak for side, peak in peaks.items()}}  # fmt: skip
    return {key: float(f"{value:.4g}") for key, value in found.items()} | {"unit": work.unit, "layout": layout}


def _start(name: str, side: str) -> Side:
    with environment(side, THREADS):
        return Side("benchmarks.posttraining", "--only", name, "--side", side)


def _fastest(name: str) -> Mapping[str, Any]:
    """Return the layout in which TRL's trainer is fastest, found by a process of its own, which has its own memory."""
    work = WORKS[name]
    if len(work.layouts) == 1:
        return work.layouts[0]
    side = _start(name, "trl")
    seconds = [[side.ask(steps=work.steps, **layout)["result"]["seconds"] for _ in range(2)][1]
               for layout in work.layouts]
    side.close()
    print(f"{name}, TRL by layout: " + ", ".join(f"{layout} {each:.1f} s" for layout, each in
                                                 zip(work.layouts, seconds, strict=True)), flush=True)
    return work.layouts[seconds.index(min(seconds))]


if __name__ == "__main__":
    main()
