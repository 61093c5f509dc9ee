"""`argosy cases`: a page to browse the questions that two checkpoints answer differently."""

import argparse
import re
import webbrowser
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.core.config.explain import first_of
from argosy.core.errors import InputError
from argosy.core.store.files import write_atomic
from workflows.cli.command import Command, add_store, checked, page_file, positive

if TYPE_CHECKING:
    from argosy.evidence.compare.entries import Entry
    from argosy.evidence.results.rows import Group

_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")
_FEW = 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoints", nargs=2, metavar="CHECKPOINT", help="A and B, as 'argosy compare' names them")
    add_store(parser)
    parser.add_argument("--task", action="append", default=[], metavar="GLOB",
                        help="benchmarks, such as mmlu or 'arc*'; may be repeated (default: all that both were asked)")
    parser.add_argument("--form", action="append", default=[], metavar="GLOB",
                        help="forms of the questions, such as plain; may be repeated (default: all)")
    share = checked(float, "percentage points, from 0 to 100", lambda value: 0 <= value <= 100)
    parser.add_argument("--change", type=share, default=10.0, metavar="POINTS",
                        help="a question differs too where the right options' share of the probability moves by so "
                        "many points (default: 10)")
    parser.add_argument("--most", type=positive, default=5000, metavar="N",
                        help="questions in the page (default: 5000)")
    parser.add_argument("--html", type=page_file, metavar="FILE", help="file to write (default: cases-A-B.html)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def run(args: argparse.Namespace) -> int:
    """Write the page, and say where. Raises InputError: a checkpoint has no answers here, they share no benchmark or
    form, or no browser was found."""
    from argosy.evidence.report.cases import find_cases, page
    from steps.compare import question_texts
    from workflows.stored.names import Names

    file = args.html or Path("-".join(["cases", *(_NOT_IN_A_NAME.sub("_", n) for n in args.checkpoints)]) + ".html")
    entries = Names(args.store).entries(args.checkpoints)
    cases = find_cases(entries, _groups(entries, args.task, args.form), args.change / 100, args.most)
    texts = question_texts([entry.chosen for entry in entries], [case.key for case in cases.chosen], tell=print)
    text = page(cases, texts)
    write_atomic(file, text, durable=False)
    shown = f"{len(cases.chosen):,} of {cases.count:,}" if len(cases.chosen) < cases.count else f"{cases.count:,}"
    print(f"page: {file} ({shown} questions that differ, {len(text.encode()) / 1e6:.1f} MB)")
    if args.open and not webbrowser.open(file.absolute().as_uri()):
        raise InputError("no browser was found: open the file above in one")
    return 0


def _groups(entries: "Sequence[Entry]", tasks: Sequence[str], forms: Sequence[str]) -> "list[Group]":
    """List the (task, form) that both were asked and that the patterns name. Raises InputError: there is none; says
    what there is."""
    for entry in entries:
        if not entry.chosen.answers:
            raise InputError(f"{entry.name} has no answers item by item here (its numbers are from {entry.source}): "
                             "evaluate it in this store, or name the store that has its evaluations with --store")
    both = sorted(entries[0].chosen.answers.keys() & entries[1].chosen.answers.keys())
    if not both:
        raise InputError(f"{entries[0].name} and {entries[1].name} were asked no benchmark in common: evaluate both "
                         "with the same suite")
    for option, place, globs in (("--task", 0, tasks), ("--form", 1, forms)):
        names = sorted({group[place] for group in both})
        both = [group for group in both if not globs or any(fnmatchcase(group[place], glob) for glob in globs)]
        if not both:
            raise InputError(f"{option} {' '.join(globs)} matches none of what both were asked: "
                             f"{first_of(names, _FEW)}")
    return sorted(both, key=lambda group: (group[0], group[1] != "plain", group[1]))


COMMAND = Command("cases", "browse the questions that two checkpoints answer differently", 72, configure, run)
