"""The page of `argosy cases`: the questions that two checkpoints answer differently, all of them in one file, to be
filtered, searched and marked for a suite of probes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from argosy.evidence.compare.comparison import compare
from argosy.evidence.compare.entries import Compared, Entry
from argosy.evidence.compare.test import Contrast
from argosy.evidence.report.items import Asked, Key, shares_of
from argosy.evidence.report.page import as_script
from argosy.evidence.report.tables import render
from argosy.evidence.results.rows import Group
from argosy.evidence.results.values import Record, plain, shared


class Case(NamedTuple):
    """A question that two answered: the rows of both, and how much it changed."""

    key: Key
    rows: tuple[Record, Record]
    right: tuple[bool, bool]
    change: float
    """the second's share of the right options' probability less the first's; of a generated answer, 1 or -1 where one
    of two is right"""


@dataclass
class Cases:
    """Questions that two entries answer differently; `compared` is the comparison of all that both were asked."""

    compared: Compared
    totals: dict[Group, tuple[int, int, int, int]] = field(default_factory=dict)
    """questions of both, that only the second has right, that only the first has, that differ otherwise"""
    chosen: list[Case] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Questions that differ."""
        return sum(sum(each[1:]) for each in self.totals.values())


def find_cases(entries: Sequence[Entry], groups: Sequence[Group], least: float, most: int) -> Cases:
    """Look for the questions of `groups` (task, form) that the two entries answer differently: right or wrong, another
    option or text, or a share of the right options that moved by `least` or more.

    At most `most`, as many of each form; of a form those that differ in being right come first, then the largest."""
    found = Cases(compare(entries, [f"bench/{task}/{form}/acc" for task, form in groups]))
    ranked: list[tuple[int, int, Case]] = []
    for number, group in enumerate(groups):
        first, second = (entry.chosen.rows.groups[group] for entry in entries)
        every = _paired(first, second, group)
        own = [case for case in every if _differs(case, least)]
        ways = [case.right[1] - case.right[0] for case in own]
        found.totals[group] = (len(every), ways.count(1), ways.count(-1), ways.count(0))
        own.sort(key=lambda case: (case.right[0] == case.right[1], -abs(case.change), case.key))
        ranked += [(rank, number, case) for rank, case in enumerate(own)]
    found.chosen = [case for *_, case in sorted(ranked, key=lambda each: each[:2])[:most]]
    return found


def _paired(first: Sequence[Record], second: Sequence[Record], group: Group) -> list[Case]:
    """Pair the questions as a comparison does (argosy.evidence.results.values)."""
    sides = [{str(row["id"]): row for row in rows if "correct" in row} for rows in (first, second)]
    both = shared(*(plain(side.values(), "acc") for side in sides))
    found = []
    for name in () if both.others else both.keys:
        rows = sides[0][name], sides[1][name]
        right = bool(rows[0]["correct"]), bool(rows[1]["correct"])
        parts = [_right_share(row) for row in rows]
        change = float(right[1] - right[0]) if None in parts else (parts[1] or 0.0) - (parts[0] or 0.0)
        found.append(Case((*group, name), rows, right, change))
    return found


def _right_share(row: Record) -> float | None:
    shares = shares_of(row.get("scores"))
    return sum(shares[place] for place in row.get("golds") or [row["gold"]]) / 1000 if shares else None


def _differs(case: Case, least: float) -> bool:
    first, second = case.rows
    return (case.right[0] != case.right[1] or abs(case.change) >= least or first.get("chosen") != second.get("chosen")
            or first.get("text") != second.get("text"))


def page(found: Cases, asked: Mapping[Key, Asked]) -> str:
    """Render the page. `asked`: the questions, as far as they could be made again."""
    contrasts: dict[str, Contrast] = {c.name: c for c in found.compared.pairs[0].contrasts}
    groups = list(found.totals)
    labels = [entry.label for entry in found.compared.entries]
    data = {"labels": labels, "groups": groups, "items": list(_records(found.chosen, groups, asked))}
    rows = [(*group, *totals, contrasts.get(f"bench/{group[0]}/{group[1]}/acc"))
            for group, totals in found.totals.items()]
    texts = sum(case.key in asked for case in found.chosen)
    return render("cases.html.j2", found=found, labels=labels, rows=rows, texts=texts, data=as_script(data, exact=True))


def _records(cases: Sequence[Case], groups: Sequence[Group], asked: Mapping[Key, Asked]) -> Any:
    """Yield the data of each question, in the order of their groups and names: a prompt (`p`) goes on from the first
    `k` characters of the one before, since few-shot examples are the same for many.

    `d`: the change, in thousandths; `s`: shares of the options, in thousandths."""
    before = ""
    for case in sorted(cases, key=lambda case: case.key):
        first, second = case.rows
        about = asked.get(case.key)
        item: dict[str, Any] = {"g": groups.index(case.key[:2]), "i": case.key[2], "r": list(map(int, case.right)),
                                "d": round(1000 * case.change), "l": second.get("lang") or ""}
        if first.get("scores") and second.get("scores"):
            item |= {"s": [shares_of(row["scores"]) for row in case.rows], "c": [row["chosen"] for row in case.rows],
                     "y": second.get("golds") or [second["gold"]]}
        else:
            item |= {"t": [row.get("text") or "" for row in case.rows],
                     "x": [row.get("extracted") or "" for row in case.rows]}
        if about is not None:
            kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, about.prompt, strict=False)))
            item |= {"k": kept, "p": about.prompt[kept:], "b": about.before, "o": list(about.options),
                     "q": list(about.prompts), "w": about.answer}
            before = about.prompt
        yield item
