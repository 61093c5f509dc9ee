"""`argosy compare`: the metrics of checkpoints side by side."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from workflows.cli.checkpoints import Evaluated, evaluated
from workflows.cli.command import Command
from workflows.cli.options import add_store
from workflows.cli.table import columns

Z_95 = 1.96
PAIRED_NOTE = ("The same items for both. DIFFERENCE has a 95 % interval, P is corrected for the number of tests; "
               "`no difference` means: none that these items can show.")


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="CHECKPOINT",
        help="such as sft, pretrain/p050 or a directory; the others are compared to the first",
    )
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print a row for each metric."""
    from argosy.report.terminal import HEADINGS, change_rows

    found = [evaluated(args.store, name) for name in args.checkpoints]
    print(describe(found))
    paired = change_rows([(each.label, each.directories) for each in found])
    if paired:
        print(f"\n{columns([HEADINGS, *paired], right=range(4, 9))}\n{PAIRED_NOTE}")
    return 0


def describe(found: Sequence[Evaluated]) -> str:
    """The table; `*` where the difference to the first is beyond what chance does (see the note)."""
    names = sorted({name for each in found for name in each.metrics})
    rows = [("METRIC", *(each.label for each in found))]
    rows += [(name, *(_cell(name, each, found[0]) for each in found)) for name in names]
    note = (
        "± is a 95 % interval of one value. * differs from the first column beyond a 95 % interval of independent "
        "samples;\nthe paired comparison of the same items, below where both answered some, is sharper."
    )
    return f"{columns(rows, right=range(1, len(rows[0])))}\n{note}"


def _cell(name: str, each: Evaluated, first: Evaluated) -> str:
    if name not in each.metrics:
        return "-  "
    value, error = each.metrics[name], each.stderr.get(name)
    text = f"{value:.3f}" + ("" if error is None or math.isnan(error) else f" ±{Z_95 * error:.3f}")
    return text + (" *" if differs(name, each, first) else "  ")


def differs(name: str, a: Evaluated, b: Evaluated) -> bool:
    """Whether two values differ by more than 1.96 standard errors of their difference; False where one is unknown."""
    if not all(name in each.metrics and name in each.stderr for each in (a, b)):
        return False
    difference = abs(a.metrics[name] - b.metrics[name])
    return difference > Z_95 * math.hypot(a.stderr[name], b.stderr[name])


COMMAND = Command("compare", "show the metrics of checkpoints side by side", 70, configure, run)
