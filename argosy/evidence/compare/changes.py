"""Changes between two checkpoints: each form of a benchmark and its headline, held-out text, and what is not shared."""

from collections.abc import Iterable, Sequence

from argosy.core.statistics.decisions import Method
from argosy.evidence.compare.checkpoints import HELDOUT, Checkpoint, headline_of, kind_among
from argosy.evidence.compare.metrics import Kind
from argosy.evidence.compare.test import NOTHING_IN_COMMON, OTHER_TOKENS, Contrast, alike, contrast, corrected
from argosy.evidence.results.rows.evaluations import told
from argosy.evidence.results.rows.reader import ALL, shared_suite
from argosy.evidence.results.rows.values import ASKED_OTHERWISE, shared

Pair = tuple[Checkpoint, Checkpoint]


def change(
    name: str, first: Checkpoint, second: Checkpoint, forms: Sequence[str] = (), kind: Kind | None = None
) -> Contrast | None:
    """A metric from one checkpoint to another; None where one of them does not have it.

    `forms`: those that a headline is the mean over (default: those that both were asked in). `kind`: of the metric
    (default: as the two declare it)."""
    before, after = first.side(name, second, forms), second.side(name, first, forms)
    if before is None or after is None:
        return None
    kind = kind or kind_among(name, (first, second))
    return contrast(name, kind, (first.key, second.key), *alike(name, before, after, first.rows, second.rows))


def task_of(found: Contrast) -> tuple[str, str]:
    """The benchmark and the form that a change is of."""
    _, task, form, _ = found.name.split("/")
    return task, form


def headline_changes(
    asked: Iterable[tuple[str, Checkpoint, Checkpoint]], method: Method, forms: Sequence[str] = ()
) -> list[Contrast]:
    """The headline of each (benchmark, first, second) whose items can be paired, corrected over all of them."""
    found = [change(headline_of(task), first, second, forms) for task, first, second in asked]
    return corrected([c for c in found if c is not None and c.how == "paired"], method)


def form_changes(first: Checkpoint, second: Checkpoint, task: str, method: Method) -> list[Contrast]:
    """A change for each form that both were asked in and that can be paired, corrected over the forms."""
    common = [form for form in second.variants(task) if (task, form) in first.answers]
    found = [change(f"bench/{task}/{form}/acc", first, second) for form in common]
    return corrected([c for c in found if c is not None and c.how == "paired"], method)


def text_changes(pairs: Sequence[Pair], method: Method) -> list[Contrast]:
    """Bits a byte of each channel that can be paired document by document, corrected over pairs and channels."""
    found = [change(HELDOUT + channel, *pair) for pair in pairs for channel in channels_of(*pair)]
    return corrected([c for c in found if c is not None and c.how == "paired" and c.tested.n > 1], method)


def channels_of(first: Checkpoint, second: Checkpoint) -> list[str]:
    """Channels of held-out text that both were measured on, by whatever suite."""
    both = {name for name in first.metrics if name.startswith(HELDOUT)} & second.metrics.keys()
    return sorted({name.removeprefix(HELDOUT) for name in both} - {ALL})


def not_shared(pairs: Sequence[Pair]) -> list[str]:
    """Notes on what the checkpoints of a pair were not both asked: suites, documents, questions of the same names."""
    return list(dict.fromkeys(note for pair in pairs for note in (*_texts(*pair), *_questions(*pair))))


def _texts(first: Checkpoint, second: Checkpoint) -> list[str]:
    found: dict[str, list[str]] = {}
    for channel in channels_of(first, second):
        name = HELDOUT + channel
        suites = first.rows.suites(name), second.rows.suites(name)
        if not all(suites):
            continue
        if not shared_suite(name, first.rows, second.rows):
            found.setdefault(f"they were measured with {told(suites[0][-1], suites[1][-1])}", []).append(channel)
        elif (c := change(name, first, second)) is not None and (
            c.how in (OTHER_TOKENS, NOTHING_IN_COMMON) or (c.how == "paired" and c.tested.n < 2)):
            found.setdefault("they share less than two documents of the same bytes", []).append(channel)
    return [f"Held-out text ({', '.join(channels)}): {second.label} is not compared to {first.label}, {why}: evaluate "
            "both with the same suite and data." for why, channels in found.items()]


def _questions(first: Checkpoint, second: Checkpoint) -> list[str]:
    found = []
    for group in sorted(first.answers.keys() & second.answers.keys(), key=lambda g: (g[0], g[1] != "plain", g[1])):
        both = shared(first.answers[group].values, second.answers[group].values)
        if both.others or both.otherwise:
            n, of = both.otherwise, len(both.keys) + both.otherwise
            found.append(" ".join(group) + (f" ({n:,} of {of:,} questions)" if n < of and not both.others else ""))
    if not found:
        return []
    return [f"{', '.join(found).replace('_', ' ')}: {second.label} is not compared to {first.label}, "
            f"{ASKED_OTHERWISE}: evaluate both with the same suite, seed and data."]


def same_questions(first: Checkpoint, second: Checkpoint, task: str, forms: Sequence[str]) -> list[str]:
    """Items that both were asked in all of the forms, in the same way; none where names mean other items for each."""
    found = [shared(first.answers[task, form].values, second.answers[task, form].values) for form in forms]
    if not found or any(both.others for both in found):
        return []
    return sorted(set.intersection(*(set(both.keys) for both in found)))
