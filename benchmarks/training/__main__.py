"""Speed of the training loop, beside the Trainer of Hugging Face and a plain loop of torch.

python -m benchmarks.training

The same Llama, samples, batch, attention and precision, AdamW and clipping, no ZeRO. Each side is a process of its own,
in the environment that it usually has, and they take turns within each round. A ratio is the median over rounds of the
peer's seconds over ours in that round, so that what other work takes from the machine is taken from all. The last line
is JSON; its ratios are the worse of the two sizes.
"""

import argparse
import json
import statistics
from collections.abc import Mapping

from benchmarks.side_by_side import Side, answer, environment
from benchmarks.training.sides import SIDES, THREADS, config

TURNS = {"1m": (10, 16), "29m": (3, 8)}  # measured steps of a turn, and rounds
WORST = {"trainer_ratio": min, "loop_ratio": min, "channel_cost": max}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.training", description=__doc__)
    parser.add_argument("--rounds", type=float, default=1.0, metavar="X", help="X times the usual rounds")
    parser.add_argument("--side", choices=tuple(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=tuple(TURNS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        answer(SIDES[args.side](args.size))
        return
    found = {size: measure(size, args.rounds) for size in TURNS}
    figures = {key: choose(of[key] for of in found.values()) for key, choose in WORST.items()}
    figures |= {f"{key}_{size}": value for size, of in found.items() for key, value in of.items()}
    print(json.dumps({"name": "training", "unit": "tokens/s", **figures, "threads": THREADS}))


def measure(size: str, share: float) -> dict[str, float]:
    """Return the figures of a size of model, of `share` of its rounds."""
    steps, rounds = TURNS[size]
    sides = {}
    for name in SIDES:
        with environment(name, THREADS):
            sides[name] = Side("benchmarks.training", "--side", name, "--size", size)
        sides[name].ask(steps=steps)  # the first pass allocates
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    last, order = {}, list(sides)
    for _ in range(max(1, round(rounds * share))):
        for name in order:
            last[name] = sides[name].ask(steps=steps)["result"]
            seconds[name].append(last[name]["seconds"] / steps)
        order = [*order[1:], order[0]]
        times = ", ".join(f"{name} {1000 * each[-1]:.1f} ms" for name, each in seconds.items())
        print(f"{size}, a step: {times}", flush=True)
    channels = sides["ours"].ask(steps=0)["result"]["seconds"]
    for side in sides.values():
        side.close()
    return _figures(seconds, channels, last["ours"].get("mfu"))


def _figures(seconds: Mapping[str, list[float]], channels: float, mfu: float | None) -> dict[str, float]:
    """`seconds`: of a step, by side and round; `channels`: of a step's losses by channel."""
    median = {name: statistics.median(each) for name, each in seconds.items()}

    def ratio(peer: str) -> float:
        return statistics.median(a / b for a, b in zip(seconds[peer], seconds["ours"], strict=True))

    found = {"trainer_ratio": ratio("trainer"), "loop_ratio": ratio("plain"), "channel_cost": channels / median["ours"],
             **({} if mfu is None else {"mfu": mfu}),
             **{name: config().tokens_per_step / each for name, each in median.items()}}  # fmt: skip
    return {name: float(f"{value:.4g}") for name, value in found.items()}


if __name__ == "__main__":
    main()
