"""`argosy probe`: probabilities of texts after a prefix, for checkpoints, or over all checkpoints of a line."""

import argparse
import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError
from argosy.core.store.files import json_text, write_atomic
from argosy.corpus.text.display import columns
from workflows.cli.command import Command, add_store, user_path
from workflows.cli.generate import open_model
from workflows.stored.last_run import model_directory

if TYPE_CHECKING:
    from argosy.evidence.report.probe import Probed
    from probes.kinds.next_token import Case

_TEXT = r'"(?:[^"\\]|\\.)*"' + r"|'(?:[^'\\]|\\.)*'|“[^”]*”"
_PROB = re.compile(rf"\s*(?:Prob|P)\(\s*((?:{_TEXT})(?:\s*,\s*(?:{_TEXT}))*)\s*\|\s*({_TEXT})\s*\)\s*", re.DOTALL)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="PROB|CHECKPOINT",
                        help="""'Prob("text" | "prefix")', one or several; then checkpoints, by name or directory""")
    parser.add_argument("--line", action="store_true",
                        help="all checkpoints of training up to each one that is named, in their order")
    parser.add_argument("--chat", action="store_true", help="the prefix is a user's turn of the chat template")
    parser.add_argument("--html", type=user_path, metavar="FILE", help="draw them in a page, one file (HTML)")
    parser.add_argument("--json", action="store_true", help="as JSON")
    add_store(parser)


def run(args: argparse.Namespace) -> int:
    """Print a row for each checkpoint and probability. Raises InputError: no probability or no checkpoint is given, one
    cannot be read, or a text has no value."""
    asked = {word: parse_prob(word) for word in args.words if word.lstrip().startswith(("Prob(", "P("))}
    names = [word for word in dict.fromkeys(args.words) if word not in asked]
    if not asked or not names:
        missing = "CHECKPOINT" if asked else "PROB"
        raise InputError(f"""{missing} is missing in {' '.join(args.words)!r}; allowed: one """
                         """or several 'Prob("text" | "prefix")', then one checkpoint or several""")
    if args.html and (args.html.is_dir() or not args.html.absolute().parent.is_dir()):
        raise InputError(f"--html {args.html}: allowed: a file to be written, in a directory that is there")
    places = line_places(args.store, names) if args.line else {
        name: model_directory(args.store, name) for name in names}  # fmt: skip
    found = [_measured(args, name, path, asked) for name, path in places.items()]
    if args.html:
        from argosy.evidence.report.probe import page

        write_atomic(args.html, page(found))
    if args.json:
        print(json_text([{"checkpoint": each.name, "tokens": each.tokens, "probabilities": each.values}
                         for each in found]))
    else:
        print(_table(found))
        if args.html:
            print(f"page: {args.html}")
    return 0


def parse_prob(text: str) -> "Case":
    """Read `Prob("text", "text" | "prefix")`. Raises InputError: it is not of that form."""
    from probes.kinds.next_token import Case

    if not (found := _PROB.fullmatch(text)):
        raise InputError(f"""PROB is {text!r}; allowed: Prob("text" | "prefix"), or Prob("text", "text" | "prefix"), """
                         "each text in quotes. In a shell, put all of it in single quotes")
    texts = tuple(_unquoted(each) for each in re.findall(_TEXT, found[1]))
    if not all(texts):
        raise InputError(f"PROB is {text!r}: a text is empty; allowed: texts of one character or more")
    return Case(prefix=_unquoted(found[2]), text=texts)


def _unquoted(text: str) -> str:
    if text.startswith("“"):
        return text[1:-1]
    try:
        return str(ast.literal_eval(text.replace("\n", "\\n")))
    except (SyntaxError, ValueError):
        raise InputError(f"PROB has the text {text}, whose escape is not one of Python's; write \\\\ for a backslash"
                         ) from None


def line_places(store: Path, names: list[str]) -> dict[str, Path]:
    """Find all checkpoints of training up to each named one: STAGE/EXPORT -> directory, in the order of training.
    Raises InputError: a name is no checkpoint of a training step of the store."""
    from workflows.nightly.candidates import find_candidates
    from workflows.stored.last_run import export_name
    from workflows.stored.lineage import lineage_of, step_directory

    steps = find_candidates(store.absolute()).training
    places: dict[str, Path] = {}
    for name in names:
        path = model_directory(store, name).absolute()
        directory = step_directory(path).absolute()
        last = next((step for step in steps.values() if step.directory == directory), None)
        if last is None:
            raise InputError(f"--line: {name!r} is no checkpoint of a training step of {store}; name one of its "
                             "stages, or leave --line out")
        end = export_name(last, path)
        for step in [*reversed(lineage_of(last, steps)), last]:
            for export, below in step.exports.items():
                places.setdefault(_label(places, step.stage, export, step.digest, step.directory / below),
                                  step.directory / below)
                if step is last and export == end:
                    break
    return places


def _label(places: dict[str, Path], stage: str, export: str, digest: str, path: Path) -> str:
    """Name a checkpoint; with its digest where two steps have one name."""
    name = f"{stage}/{export}"
    return name if places.get(name, path) == path else f"{name} ({digest[:6]})"


def _measured(args: argparse.Namespace, name: str, path: Path, asked: "dict[str, Case]") -> "Probed":
    from argosy.evidence.report.probe import Probed
    from argosy.model.weights.checkpoint import find_checkpoint
    from probes.kinds import Scope
    from probes.kinds.next_token import NextToken

    model = open_model(argparse.Namespace(store=args.store, checkpoint=str(path)), chat=args.chat)
    values: dict[str, dict[str, Any]] = {}
    for text, case in asked.items():
        probe = NextToken(name="shell", cases=(case,), chat=args.chat)
        found = probe.measure(model, Scope(None, args.chat, 0, None))
        if not found.rows:
            raise InputError(f"{text} has no value for {name}: {', '.join(found.left_out)}")
        values[text] = {measure: found.rows[0][measure] for measure in ("mass", "prob", "rank", "nats")}
    checkpoint = find_checkpoint(path)
    return Probed(name, checkpoint.tokens if checkpoint.ours else None, values)


def _table(found: "list[Probed]") -> str:
    rows = [("PROBABILITY", "CHECKPOINT", "MASS", "PROB", "RANK", "NATS")]
    for text in found[0].values:
        rows += [(text, each.name, f"{v['mass']:.4g}", f"{v['prob']:.4g}", f"{v['rank']:,}", f"{v['nats']:.3f}")
                 for each in found for v in [each.values[text]]]
    return columns(rows, right=(2, 3, 4, 5))


COMMAND = Command("probe", "the probability of a text after a prefix, over checkpoints", 77, configure, run)
