"""Rows of a checkpoint's evaluations: answers item by item, losses by document, and the values of a metric."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from argosy.core.errors import InputError
from argosy.core.store.step_files import read_done
from argosy.evidence.results.items import ITEMS, measured, read_items, settings_of
from argosy.evidence.results.values import Record, Value, item_means, item_of, number, plain, weighted

Group = tuple[str, str]  # task (or suite) and variant (or probe, or channel)
LN2 = math.log(2)
GROUPS = ("groups", "groups_of_tasks")  # of all items alike (categories too), and of the tasks' means
ALL = "all"  # of held-out text, the channels together


class Answers:
    """All answers to one task in one variant."""

    def __init__(self, rows: Sequence[Record]) -> None:
        self.rows = rows

    @cached_property
    def by_item(self) -> dict[str, float]:
        """Share of right answers among each item's questions (1 or 0 where it has one)."""
        return {item: value.value for item, value in self.values.items()}

    @cached_property
    def values(self) -> dict[str, Value]:
        """The same, with what tells an item from another one of the same name."""
        return item_means(plain(self.rows, "acc"))

    @cached_property
    def chance(self) -> float:
        """Accuracy of guessing; 0 of an answer that is generated."""
        return sum(len(r.get("golds") or "1") / len(r["scores"]) for r in self.rows if r["scores"]) / len(self.rows)


class Rows:
    """Rows by task and variant.

    Args:
        settings: of the suite (`settings_of`), which losses of documents hang on: with others, it is another suite."""

    def __init__(self, records: Iterable[Record] = (), settings: str = "") -> None:
        self.groups: dict[Group, list[Record]] = {}
        self.parts: list[Rows] = []
        """the evaluations that it is made of, the newest last; none where it is one"""
        for record in records:
            if record.get("calibration"):
                continue  # asked to measure a preference for places: it counts in acc_pride alone
            if "task" in record and "variant" in record and "id" in record:
                task = measured(str(record["task"]), settings) if is_text(record) else str(record["task"])
                self.groups.setdefault((task, str(record["variant"])), []).append(record)

    def update(self, other: "Rows") -> None:
        """Take what a newer evaluation found instead of what is here; what is newest comes last."""
        self.parts.append(other)
        for derived in ("_named", "answers"):
            self.__dict__.pop(derived, None)
        for group, rows in other.groups.items():
            self.groups.pop(group, None)
            self.groups[group] = rows

    @cached_property
    def answers(self) -> dict[Group, Answers]:
        """Answers by task and variant, where they are right or wrong."""
        found = {group: [row for row in rows if "correct" in row] for group, rows in self.groups.items()}
        return {group: Answers(rows) for group, rows in found.items() if rows}

    def values(self, name: str, suite: str = "") -> dict[str, Value]:
        """Return by row's id the values that the metric `name` is made of; empty where the rows do not say.

        `suite`: of held-out text, whose rows are meant; "": the newest one's. Suites may measure one channel in
        different ways (other documents, another stride), so theirs are never mixed."""
        parts = name.split("/")
        if parts[0] == "bench" and len(parts) == 4:
            return self._bench(parts[1], parts[2], parts[3])
        if parts[0] == "heldout" and len(parts) >= 3:
            return self._heldout(parts[1], "/".join(parts[2:]), suite)
        if parts[0] == "probe" and len(parts) >= 4:
            return self._probe(parts[1], parts[2:-1], parts[-1])
        return {}

    def forms(self, task: str, named: Sequence[str] = ()) -> list[str]:
        """The variants that a benchmark was asked in, or those of the `named` forms; the published one first."""
        asked = {form for name, form in self.answers if name == task}
        forms = [form for form in named if form.partition("/")[0] in asked] if named else asked
        return sorted(forms, key=lambda form: (form != "plain", form))

    def by_form(self, task: str, form: str) -> dict[str, Value]:
        """Answers to a benchmark in one form: by item the share of right ones among its questions."""
        variant, _, measure = form.partition("/")
        return item_means(self._bench(task, variant, measure or "acc"))

    def suites(self, name: str) -> list[str]:
        """The suites whose rows a metric of held-out text could be made of, the newest last; none for other metrics."""
        parts = name.split("/")
        if parts[0] != "heldout" or len(parts) < 3:
            return []
        found = [suite for suite, _, _ in self._texts("/".join(parts[2:]))]
        return list(reversed(dict.fromkeys(reversed(found))))

    def langs(self, task: str) -> dict[str, str]:
        return {item_of(r): str(r.get("lang") or "")
                for (name, _), group in self.groups.items() if name == task for r in group}

    def chance(self, task: str, form: str) -> float | None:
        """Accuracy of guessing at a benchmark in one form; None where no answer of it is known."""
        rows = [row for row in self._asked(task, form.partition("/")[0])[0] if "correct" in row]
        return Answers(rows).chance if rows else None

    def _bench(self, task: str, variant: str, measure: str) -> dict[str, Value]:
        rows, by_task = self._asked(task, variant)
        found = plain(rows, measure)
        return weighted(found, {str(r["id"]): str(r["task"]) for r in rows}) if by_task else found

    def _asked(self, task: str, variant: str) -> tuple[Sequence[Record], bool]:
        """Rows of a task, of one of its categories, of a group of lm-eval's tasks, or of a task's items in one
        language; and whether they are of tasks that count the same each."""
        if (task, variant) in self.groups:
            return self.groups[task, variant], False
        by_size, by_task = (self._named[of].get((task, variant), []) for of in GROUPS)
        if by_size or by_task:
            return by_size or by_task, not by_size
        whole, _, lang = task.rpartition("_")
        return [r for r in self.groups.get((whole, variant), ()) if r.get("lang") == lang], False

    @cached_property
    def _named(self) -> dict[str, dict[Group, list[Record]]]:
        """Group rows by key of GROUPS, then by the group's name, which metrics give beside the task, and variant."""
        found: dict[str, dict[Group, list[Record]]] = {of: {} for of in GROUPS}
        for (_, variant), rows in self.groups.items():
            for of, row in ((of, row) for row in rows for of in GROUPS):
                for name in row.get(of) or ():
                    found[of].setdefault((str(name), variant), []).append(row)
        return found

    def _probe(self, suite: str, names: Sequence[str], measure: str) -> dict[str, Value]:
        """Read a probe, or one group of its rows (relation, phenomenon): probe/<suite>/<name>/<group>/<measure>"""
        if (suite, "/".join(names)) in self.groups or len(names) == 1:
            return plain(self.groups.get((suite, "/".join(names)), ()), measure)
        rows = self.groups.get((suite, "/".join(names[:-1])), ())
        return plain([row for row in rows if str(row.get("group")) == names[-1]], measure)

    def _heldout(self, measure: str, channel: str, suite: str) -> dict[str, Value]:
        below = {"bpb": "bytes", "nats": "tokens"}.get(measure)
        every = self._texts(channel)
        wanted = suite or (self.suites(f"heldout/{measure}/{channel}") or [""])[-1]
        found = {}
        for _, variant, rows in (each for each in every if each[0] == wanted and below):
            for r in rows:
                size, nats = number(r.get(below or "")), number(r.get("nats"))
                if nats is not None and size:
                    name = f"{variant}/{r['id']}"
                    found[name] = Value(name, nats, size * (LN2 if measure == "bpb" else 1.0), name, (wanted, size))
        return found

    def _texts(self, channel: str) -> list[tuple[str, str, list[Record]]]:
        """(suite, channel, rows of its documents), the newest last."""
        every = [(suite, variant, [r for r in rows if is_text(r)])
                 for (suite, variant), rows in self.groups.items() if channel in (variant, ALL)]
        return [each for each in every if each[2]]


def is_text(record: Record) -> bool:
    """Whether a row is of a held-out document, of which it has the loss; probes' cases have no tokens beside."""
    return "nats" in record and ("bytes" in record or "tokens" in record)


def read_rows(evaluations: Sequence[Path], notes: list[str]) -> Rows:
    """The rows of one checkpoint's evaluations, of the later ones where two asked the same; the unusable are noted."""
    found = Rows()
    for directory in evaluations:
        done = read_done(directory) or {}
        metrics = done.get("outputs", {}).get("metrics", {})
        try:
            records = read_items(directory)
        except InputError:
            why = f"{ITEMS} is broken" if (directory / ITEMS).is_file() else f"it has no {ITEMS}"
            if any(name.startswith(("bench/", "heldout/bpb/")) for name in metrics):
                notes.append(f"{directory.name} is not compared item by item: {why}.")
            continue
        usable = [record for record in records if _is_usable(record)]
        if broken := len(records) - len(usable):
            notes.append(f"{directory.name}: {broken} rows of its items are broken and left out.")
        if not any(map(is_text, usable)) and any(name.startswith("heldout/bpb/") for name in metrics):
            notes.append(f"{directory.name} has no loss by document: its held-out loss is not compared.")
        found.update(Rows(usable, settings_of(done.get("made_from", {}))))
    return found


def _is_usable(record: Record) -> bool:
    """Whether a row is of the format: scores that hold its answer, a loss of some text."""
    try:
        if not all(key in record for key in ("task", "variant", "id")):
            return False
        if "correct" in record:
            scores = [float(score) for score in record["scores"]]
            places = (int(record["chosen"]), int(record["gold"]))
            return not scores or 0 <= min(places) <= max(places) < len(scores)  # a generated answer has none
        if is_text(record):
            return math.isfinite(float(record["nats"])) and float(record.get("bytes", 1)) > 0
    except (KeyError, TypeError, ValueError):
        return False
    return True


def shared_suite(name: str, first: Rows, second: Rows) -> str:
    """The newest suite of `second` that measured a metric of held-out text for `first` too; "" where there is none."""
    known = first.suites(name)
    return next((suite for suite in reversed(second.suites(name)) if suite in known), "")
