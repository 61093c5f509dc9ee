"""Measures what models that have not seen a benchmark score on it: the calibration of the gate's rule `contamination`.

    python -m argosy.evidence.gate.calibrate --task mmlu --out FILE EVALUATION EVALUATION ... [--contaminated
    EVALUATION ...]

Each EVALUATION is a directory of a step `evaluate`, of another checkpoint that is known not to have seen the benchmark
(4 or more; such as checkpoints from before its text was in the corpus, or published models of an earlier date). Without
contaminated ones, the shipped curve from z to a probability is kept.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from argosy.core.errors import ArgosyError, InputError
from argosy.core.statistics.contamination import Calibration, calibrate, default_calibration
from argosy.core.store.files import write_json
from argosy.evidence.results.contamination import evidence_of
from argosy.evidence.results.rows import read_rows


def of_evaluations(task: str, clean: Sequence[Path], contaminated: Sequence[Path] = ()) -> Calibration:
    """The calibration of one benchmark.

    Raises InputError: an evaluation cannot be read or does not have the benchmark, or there are too few."""
    known = []
    for directory in (*clean, *contaminated):
        notes: list[str] = []
        known.append(evidence_of(read_rows([directory], notes), task))
        if not known[-1][0]:
            raise InputError(" ".join([f"{directory} has no contamination measures of {task}: evaluate it with a suite "
                                       "that has memorisation: {k: 3}", *notes]))
        print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    shipped, n = default_calibration(), len(clean)
    measures, places, clusters = zip(*known, strict=True) if known else ((), (), ())
    try:
        about = f"{n} clean and {len(contaminated)} contaminated evaluations of {task}"
        return calibrate(measures[:n], measures[n:], places, about, clusters, (shipped.intercept, shipped.slope))
    except ValueError as error:
        raise InputError(f"{task}: {error}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """0: written; 2: wrong input."""
    parser = argparse.ArgumentParser("python -m argosy.evidence.gate.calibrate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clean", nargs="+", type=Path, metavar="EVALUATION", help="of checkpoints that are clean")
    parser.add_argument("--contaminated", nargs="+", type=Path, default=[], metavar="EVALUATION")
    parser.add_argument("--task", required=True, metavar="NAME")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    try:
        found = of_evaluations(args.task, args.clean, args.contaminated)
    except ArgosyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    write_json(args.out, asdict(found))
    for name, null in sorted(found.nulls.items()):
        print(f"{name}: {null.mean:+.3f} is normal, spread {null.error:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
