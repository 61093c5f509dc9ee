"""`argosy metrics`: which metrics are worth watching at this scale."""

import argparse
import math
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from argosy.core.errors import InputError
from argosy.core.store.files import json_text
from argosy.corpus.text.display import columns, plain
from workflows.cli.command import Command, add_store

if TYPE_CHECKING:
    from argosy.evidence.compare.watch import Watched

HEADINGS = ("METRIC", "VERDICT", "LAST", "OF", "95 %", "CHANCE", "SIGNAL", "NOISE", "SNR", "TAU", "CHECKPOINTS")
NOTE = """A curve is a metric over the evaluated checkpoints of one training step; steps that differ in their seed alone
are seeds of one model. LAST: the value of the checkpoint OF, the last one of the longest curve (of as long ones, of
that which ends at the most tokens); where there is CHANCE, of the curve that ends highest. CHECKPOINTS: of all curves.
SIGNAL: the largest difference between models, else from a curve's first to its last checkpoints. NOISE: of the last
checkpoints around their line, and between seeds; where neither is known, of the items. SNR: their ratio. TAU:
Kendall's rank correlation of the longest curve with tokens. `watch`: above chance, SNR of {ratio:g} or more, tells
checkpoints apart. `no direction`: neither higher nor lower is better. `few items`: fewer than {few}
facts, of which each may have several statements."""
MORE = "docs/report.md tells how it is decided."


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("patterns", nargs="*", metavar="METRIC", help="such as 'bench/*/acc' (default: all)")
    add_store(parser)
    parser.add_argument("--snr", type=float, default=2.0, metavar="X", help="to be worth watching (default: 2)")
    parser.add_argument("--watch", action="store_true", help="only those that are worth it, names alone")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    from argosy.core.store.step_files import read_done
    from argosy.evidence.compare.checkpoints import read_checkpoints
    from argosy.evidence.compare.watch import watchlist
    from argosy.evidence.results.items import in_order
    from workflows.nightly.candidates import find_candidates

    store = args.store.absolute()
    done = [(path, record) for path in store.glob("evaluate-*") if (record := read_done(path)) is not None]
    evaluations = [path for path, _ in in_order(done)]
    if not evaluations:
        raise InputError(f"{args.store} has no finished evaluation: 'argosy run' or 'argosy nightly' makes them")
    training = [step.directory for step in find_candidates(store).training.values()]
    checkpoints = read_checkpoints(training, evaluations)
    names = sorted({name for c in checkpoints.evaluated for name in c.metrics})
    wanted = [name for name in names if not args.patterns or any(fnmatchcase(name, p) for p in args.patterns)]
    if not wanted:
        raise InputError(f"no metric is like {', '.join(args.patterns)}; there are {len(names)}, such as {names[0]}")
    found = watchlist(checkpoints, training, ratio=args.snr, metrics=wanted)
    print(_shown(found, args))
    return 0


def _shown(found: "list[Watched]", args: argparse.Namespace) -> str:
    if args.json:
        derived = [{name: getattr(each.found, name) for name in ("signal", "noise", "ratio")} for each in found]
        return json_text([{**asdict(each), "found": {**asdict(each.found), **more}}
                          for each, more in zip(found, derived, strict=True)], indent=1)
    if args.watch:
        return "\n".join(each.metric for each in found if each.verdict == "watch")
    from argosy.evidence.compare.watch import FEW

    rows = [HEADINGS, *map(_row, found)]
    return f"{columns(rows, right=(2, *range(4, 11)))}\n\n{NOTE.format(ratio=args.snr, few=FEW)}"


def _row(each: "Watched") -> tuple[str, ...]:
    interval = "" if each.interval is None else " to ".join(map(plain, each.interval))
    chance = "" if each.chance is None else f"{each.chance:.3f}"
    numbers = (each.found.signal, each.found.noise, each.found.ratio)
    return (each.metric, each.verdict, plain(each.last), each.of, interval, chance, *map(_short, numbers),
            f"{each.trend.tau:+.2f}" if each.trend.n > 1 else "", str(each.checkpoints))


def _short(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.0f}" if 1000 <= abs(value) < math.inf else f"{value:.3g}"


COMMAND = Command("metrics", "which metrics are worth watching at this scale", 71, configure, run, MORE)
