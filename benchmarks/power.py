"""Power: the share of true differences of two checkpoints that a test finds, by how alike the checkpoints answer.

python -m benchmarks.power [--items 2000] [--effect 0.03] [--runs 1000]

Items differ in difficulty (normal in logits); the wider they do, the more alike any two models answer. Each run draws
both models' answers and makes the comparison that the gate makes of items that are not related (McNemar). Beside it,
what `items_needed` and `power` plan with.
"""

import argparse
import json

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from argosy.core.statistics.decisions import items_needed, paired_stderr, power
from argosy.core.statistics.intervals import Floats
from argosy.core.statistics.paired import mcnemar

ACCURACY, ALPHA = 0.6, 0.05
SPREADS = (0.0, 1.5, 3.0, 5.0)  # of difficulties, in logits


def simulated(spread: float, items: int, effect: float, runs: int, seed: int = 0) -> tuple[float, float]:
    """The correlation of right answers over items, and the share of runs in which the better one is found better."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=items) * spread
    low, high = (_right(difficulty, accuracy) for accuracy in (ACCURACY, ACCURACY + effect))
    alike, found = 0.0, 0
    for _ in range(runs):
        first, second = ((rng.random(items) < chances).astype(float) for chances in (low, high))
        test = mcnemar(second.tolist(), first.tolist())
        found += test.p_value < ALPHA and test.value > 0
        alike += float(np.corrcoef(first, second)[0, 1])
    return alike / runs, found / runs


def _right(difficulty: Floats, accuracy: float) -> Floats:
    """The chance of each item to be answered right, with this mean."""
    ability = brentq(lambda at: float(np.mean(expit(at - difficulty))) - accuracy, -40.0, 40.0)
    chances: Floats = expit(ability - difficulty)
    return chances


def main() -> None:
    """A line for each spread; the last line is JSON."""
    parser = argparse.ArgumentParser("python -m benchmarks.power", description=__doc__)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--effect", type=float, default=0.03)
    parser.add_argument("--runs", type=int, default=1000)
    args = parser.parse_args()
    rows = []
    for spread in SPREADS:
        alike, found = simulated(spread, args.items, args.effect, args.runs)
        planned = power(args.effect, paired_stderr(ACCURACY, ACCURACY + args.effect, alike, args.items))
        needed = items_needed(args.effect, ACCURACY, alike)
        rows.append({"correlation": round(alike, 3), "found": found, "planned": round(planned, 3),
                     "items_for_80": needed})
        print(f"correlation {alike:.2f}: found in {found:.3f} of {args.runs}, planned {planned:.3f}; "
              f"{needed} items find it in 80 of 100")
    print(json.dumps({"name": "power", "unit": "share found", "items": args.items, "effect": args.effect,
                      "rows": rows}))


if __name__ == "__main__":
    main()
