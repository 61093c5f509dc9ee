"""Whether a checkpoint was asked in its chat template: two chat models that were not asked alike differ by that too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.comparison.entry import Entry
from argosy.comparison.kinds import kind_of
from argosy.report.words import listed
from argosy.step_files import RUN, read_done
from argosy.storage import read_record

if TYPE_CHECKING:
    from argosy.comparison.compared import Pair

ASKED = ("bench/", "probe/")  # metrics that a template could change; held-out text is read as it is


@dataclass(frozen=True)
class Asking:
    """How an evaluation asked.

    Attributes:
        in_template: whether in the chat template.
        trained: whether the checkpoint was trained on one, by its argosy.json.
        ours: whether it has an argosy.json; of a model from elsewhere nothing says whether it is a chat model, but that
            somebody asked it in its template.
        suite: as `argosy evaluate --suite` takes it.
    """

    directory: Path
    in_template: bool
    trained: bool
    ours: bool
    suite: str
    metrics: frozenset[str]

    @property
    def of_chat_model(self) -> bool:
        """Whether the checkpoint is one, as far as this evaluation tells."""
        return self.trained or (self.in_template and not self.ours)


def template_notes(pair: Pair) -> list[str]:
    """Benchmarks and probes that one of two chat models was asked in its template and the other not, and what to do.

    A base model is rightly asked without: against a chat model it gets no note.
    """
    first, second = (_askings(entry.chosen.evaluations) for entry in (pair.first, pair.second))
    if not all(any(each.of_chat_model for each in some) for some in (first, second)):
        return []
    names = {name for c in pair.contrasts for name in _made_of(c.name, pair.second) if name.startswith(ASKED)}
    notes = []
    for entry, other, within, without in ((pair.first, pair.second, first, second),
                                          (pair.second, pair.first, second, first)):  # fmt: skip
        plain = {name: asking for name in names
                 if (asked := _newest(name, within)) is not None and asked.in_template
                 and (asking := _newest(name, without)) is not None and not asking.in_template}  # fmt: skip
        if plain:
            notes.append(f"{_families(plain)}: {entry.label} was asked in its chat template and {other.label} without "
                         f"one, although both are chat models: a difference may be the template's. "
                         f"{_remedy(other, plain, without)}")
    return notes


def _askings(evaluations: Sequence[Path]) -> list[Asking]:
    """Of a checkpoint's evaluations, the newest last; of those whose numbers are MLflow's alone nothing is known."""
    return [_asking(path, done) for path in evaluations if (done := read_done(path)) is not None]


def _asking(directory: Path, done: Mapping[str, Any]) -> Asking:
    config, outputs = done["made_from"]["config"], done["outputs"]
    about = outputs.get("checkpoint") or {}
    trained, chat = bool(about.get("chat")), config.get("chat", "auto")
    return Asking(directory, chat == "on" or (chat == "auto" and trained), trained, bool(about.get("stage")),
                  _suite(directory, config), frozenset(outputs.get("metrics") or ()))


def _suite(directory: Path, config: Mapping[str, Any]) -> str:
    """The name of one of ours, else the file."""
    file = Path(read_record(directory / RUN).get("config", {}).get("suite_file") or "")
    shipped = file.parent.name == "suites" and file.parent.parent.name in ("evals", "probes")
    return str(config.get("suite", "")) if shipped or not file.name else str(file)


def _made_of(name: str, entry: Entry) -> list[str]:
    """A metric, or the forms' that a headline is the mean of."""
    task, forms = name.rsplit("/", 2)[0], entry.forms.get(name)
    return [f"{task}/{form}/acc" for form in forms] if forms else [name]


def _newest(name: str, askings: Sequence[Asking]) -> Asking | None:
    """The one whose value of a metric counts."""
    return next((each for each in reversed(askings) if name in each.metrics), None)


def _families(names: Mapping[str, Asking]) -> str:
    found = sorted({kind_of(name).family for name in names})
    probes = any(name.startswith("probe/") for name in names)
    return listed(found) + (" (of probes: those that ask in a template)" if probes else "")


def _remedy(entry: Entry, plain: Mapping[str, Asking], askings: Sequence[Asking]) -> str:
    """What to type; and what hides an older evaluation that did ask in the template."""
    newest = {each.directory: each for each in plain.values()}.values()
    suites = " ".join(f"--suite {suite}" for suite in sorted({each.suite for each in newest} - {""}))
    chat = "auto" if all(each.trained for each in newest) else "on"
    store = sorted({each.directory.parent for each in newest})[0]
    at = "" if store == Path("runs") else f" --store {store}"
    name = entry.name if ":" not in entry.name and "@" not in entry.name else entry.chosen.label
    said = (f"'argosy evaluate {name} {suites} --chat {chat}{at}', with the other options as they were, asks "
            f"{entry.label} in it too")
    older = any(name in each.metrics and each.in_template for name in plain for each in askings)
    hidden = listed(sorted(each.directory.name for each in newest))
    return f"{said}; an older evaluation did: without {hidden} in the store, it counts again." if older else f"{said}."
