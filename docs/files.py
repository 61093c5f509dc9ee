"""The page docs/files.md: the files that steps leave for other steps, with their fields, as the code declares them.

    python docs/files.py      # writes the page again

Steps, readers, outputs, fields, types and meanings are those of the classes in the code; files.yaml names each file."""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_type_hints

import yaml

import steps
from argosy.core.statistics.metric import Metric
from argosy.core.step.contract import Step
from argosy.core.tracking.spool import Owner
from argosy.corpus.data import schemas
from argosy.corpus.data.shards import COLUMNS
from argosy.corpus.data.sources import Cut, InputFile
from argosy.evidence.results.items import FIRST
from argosy.model.train.heldout import ChannelLoss
from argosy.model.weights.export import Export
from workflows.compose import every_stage

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/files.md"
EVERY, MODELS = "every step", "every step that makes a model"
FILES: Mapping[str, Mapping[str, str]] = yaml.safe_load((ROOT / "docs/files.yaml").read_text(encoding="utf-8"))
COLUMNS_OF = {("score", "documents-<number>.parquet"): COLUMNS, ("evaluate", "items.parquet"): FIRST}
RECORDS = [schemas.Document, schemas.Conversation, schemas.Message, schemas.ToolCall, schemas.Function,
           schemas.Preference, schemas.Feedback, schemas.Prompt, schemas.Item, InputFile, Cut, Export, ChannelLoss,
           Metric, Owner]
HEAD = """# Files

Every file that a step leaves for another step. Paths are relative to the step's directory,
`<store>/<stage>[-<part>]-<digest>`. `python docs/files.py` writes this page from the code and `docs/files.yaml`."""


def page() -> str:
    """Return the text of the page."""
    every = sorted(_steps(), key=lambda step: step.name)
    outputs = {step.name: get_type_hints(step.run)["return"] for step in every}
    shared = [cls for cls, n in Counter(outputs.values()).items() if n > 1]
    readers = _readers()
    parts = [HEAD, _section(f"## {EVERY.capitalize()}", "", _files(EVERY)),
             _section(f"## {MODELS.capitalize()}", ", ".join(step.name for step in every if step.makes_model) + ".",
                      _files(MODELS))]
    for step in every:
        cls = outputs[step.name]
        named = f" Outputs: `{cls.__name__}`." if cls in shared else ""
        read = f" Read by {', '.join(readers[step.name])}." if step.name in readers else ""
        parts.append(_section(f"## {step.name}", _about(sys.modules[step.run.__module__]) + read + named,
                              _files(step.name), "" if cls in shared else _fields(cls, "output")))
    parts.append("## Records and outputs of several steps")
    parts += [_section(f"### {cls.__name__}", _about(cls), _fields(cls, "field")) for cls in [*shared, *RECORDS]]
    return "\n\n".join(parts) + "\n"


def is_named(step: str, path: str, *, model: bool) -> bool:
    """Tell whether files.yaml has a file of a step; `model`: it makes one."""
    names = itertools.chain(FILES.get(step, {}), FILES[EVERY], FILES[MODELS] if model else ())
    patterns = [re.sub("<[a-z]+>", "*", name) for entry in names for name in entry.split(", ")]
    return any(fnmatchcase(path, pattern + "*" * pattern.endswith("/")) for pattern in patterns)


def _steps() -> Iterator[Step[Any]]:
    for module in pkgutil.iter_modules(steps.__path__):
        if module.name != "noop":
            yield importlib.import_module(f"steps.{module.name}").STEP


def _readers() -> dict[str, dict[str, None]]:
    """Return the stages that read a step's directory, by step."""
    found: dict[str, dict[str, None]] = {}
    for node in every_stage():
        for before in itertools.chain(*node.upstream.values()):
            found.setdefault(before.step, {})[node.name] = None
    return found


def _section(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _about(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def _files(step: str) -> str:
    rows = []
    for name, text in FILES.get(step, {}).items():
        columns = COLUMNS_OF.get((step, name))
        filled = text.replace("{columns}", ", ".join(columns or ())).replace("|", "\\|")
        rows.append(f"| `{name.replace(', ', '`, `')}` | {filled} |")
    return "\n".join(["| file | contents |", "|---|---|", *rows]) if rows else ""


def _fields(cls: type, first: str) -> str:
    """Make the table of the fields of a class: a pydantic model, a dataclass, a tuple or a dictionary with types."""
    types, said = get_type_hints(cls), {}
    for base in [cls] if issubclass(cls, dict | tuple) else reversed(cls.__mro__):
        if base.__module__.partition(".")[0] in ("argosy", "steps"):
            said |= _strings(base)
    optional = getattr(cls, "__optional_keys__", ())
    rows = [f"| `{name}`{' (optional)' if name in optional else ''} | {_type(types[name])} | {text} |"
            for name, text in said.items() if name in types and name not in ("model_config", "joined_from")]
    return "\n".join([f"| {first} | type | meaning |", "|---|---|---|", *rows])


def _strings(cls: type) -> dict[str, str]:
    """Read the string below each field of a class; "" where there is none."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    found = {}
    for field, below in itertools.zip_longest(body, body[1:]):
        if isinstance(field, ast.AnnAssign):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            found[ast.unparse(field.target)] = " ".join(below.value.value.split()) if is_text else ""
    return found


def _type(annotation: Any) -> str:
    plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    text = annotation.__name__ if plain else str(annotation)
    return "`" + re.sub(r"\b[a-z_]+(\.[a-z_]+)*\.(?=[A-Z])", "", text).replace("|", "\\|") + "`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
