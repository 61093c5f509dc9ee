"""The headline of a benchmark: accuracy in the form that models answer best, chosen on other items than those reported.

A model is judged by the better of letters and cloze (Gu et al. 2024, "OLMES"), or by what it writes. A form is a
variant, or VARIANT/acc_norm: options in words, by log-probability per character, as OLMES scores most of its cloze
tasks. The best of several noisy accuracies is too high by that choice, so each half of the items is reported in the
form that is best on the other half."""

from collections.abc import Sequence
from hashlib import sha256
from statistics import fmean

from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import Value

HALVES = 2
BY_CHARACTER = "acc_norm"


def half_of(unit: str) -> int:
    """The half, 0 or 1, that an item falls into, with all that belong to its cluster."""
    return sha256(unit.encode()).digest()[0] % HALVES


def metric_of(task: str, form: str) -> str:
    """The name of the accuracy of a task in one form."""
    variant, _, measure = form.partition("/")
    return f"bench/{task}/{variant}/{measure or 'acc'}"


def form_text(form: str) -> str:
    """A form as a sentence names it: "cloze by character"."""
    variant, _, measure = form.replace("_", " ").partition("/")
    return f"{variant} by character" if measure else variant


def best_forms(rows: Sequence[Rows], task: str, forms: Sequence[str]) -> list[str]:
    """Choose among `forms` for each half of the items: the one with the highest mean accuracy of all checkpoints on the
    other half, as a share of what is above its chance, over the items that were asked in all forms (where there are
    any); the first of equals.

    Returns one form where both halves have the same, else that of half 0 and that of half 1; [] where nothing of the
    task was asked in one of `forms`."""
    tables = {form: [each.by_form(task, form) for each in rows] for form in forms}
    tables = {form: each for form, each in tables.items() if all(each)}
    if not tables:
        return []
    common = set.intersection(*(set(table) for each in tables.values() for table in each))
    chances = {form: next((c for each in rows if (c := each.chance(task, form)) is not None), 0.0) for form in tables}
    chosen = [_best(tables, chances, common, half) for half in reversed(range(HALVES))]
    return chosen[:1] if len(set(chosen)) == 1 else chosen


def _best(tables: dict[str, list[dict[str, Value]]], chances: dict[str, float], common: set[str], half: int) -> str:
    """The form that is furthest above its chance on the items of one half."""

    def accuracy(table: dict[str, Value]) -> float:
        values = [value.value for item, value in table.items()
                  if (not common or item in common) and half_of(value.unit) == half]
        return fmean(values) if values else 0.0

    def above(form: str) -> float:
        return (fmean(map(accuracy, tables[form])) - chances[form]) / max(1 - chances[form], 1e-9)

    return max(tables, key=above)


def headline(rows: Rows, task: str, forms: Sequence[str]) -> dict[str, Value]:
    """Return by item the values whose `estimate` is the headline: each half of the items in its form (`best_forms`)."""
    tables = [rows.by_form(task, form) for form in forms]
    return {item: value for half, table in enumerate(tables) for item, value in table.items()
            if len(tables) == 1 or half_of(value.unit) == half}
