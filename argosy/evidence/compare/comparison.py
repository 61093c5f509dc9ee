"""The comparison of entries: every metric of each, each against the first, and notes on pairs that were not asked the
same questions, documents, tokens or template."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from argosy.core.config.explain import first_of, grouped
from argosy.core.errors import InputError
from argosy.core.store.step_files import read_done
from argosy.corpus.text.display import short
from argosy.evidence.compare.changes import change
from argosy.evidence.compare.checkpoints import headline_of, kind_among
from argosy.evidence.compare.entries import Compared, Entry, Pair
from argosy.evidence.compare.metrics import HEADLINE, Kind, chances, families, order
from argosy.evidence.compare.suspicion import suspects
from argosy.evidence.compare.test import OTHER_QUESTIONS, OTHER_TOKENS, corrected
from argosy.evidence.compare.words import listed
from argosy.evidence.results.headline import best_forms, form_text
from argosy.evidence.results.values import ASKED_OTHERWISE

FEW = 3  # metrics that a note names
NEAR = 0.02  # of tokens that two lines have seen, which is as good as equal
TEMPLATED = ("bench/", "probe/")  # metrics that a template could change; held-out text is read as it is


def add_headlines(entries: Sequence[Entry]) -> None:
    """Add the headline of each benchmark, in the best form that all were asked in: as a whole, and by language."""
    for task in sorted({task for e in entries for task in e.chosen.headline}):
        having = [e for e in entries if e.chosen.headline.get(task)]
        forms = sorted(set.intersection(*(set(e.chosen.headline[task]) for e in having)))
        best = best_forms([e.chosen.rows for e in having], task, forms)
        for e in having if len(forms) > 1 else ():
            langs = sorted(set(e.chosen.rows.langs(task).values()))
            for name in (task, *(f"{task}_{lang}" for lang in langs if len(langs) > 1)):
                e.chosen.add_headline(name, best)


def compare(entries: Sequence[Entry], globs: Sequence[str] = (), *, everything: bool = False) -> Compared:
    """Compare each entry to the first, metric by metric; p-values are corrected over all that is shown.

    `globs`: patterns of metrics to show, such as `bench/*/plain/*`; none: those that say most. `everything`: all
    metrics, instead of those that say most. Raises InputError: no metric matches."""
    add_headlines(entries)
    chosen = [e.chosen for e in entries]
    kinds = {name: kind_among(name, chosen) for c in chosen for name in c.metrics}
    matching = {n for n in kinds if any(fnmatchcase(n, glob) for glob in globs)}
    if globs and not matching:
        some = ", ".join(sorted(kinds)[:5])
        raise InputError(f"--metrics {' '.join(globs)} matches none of {len(kinds)} metrics, such as {some}")
    shown = matching or (set() if everything else _shown(kinds, entries)) or set(kinds)
    place = {family: number for number, family in enumerate(families(shown))}
    metrics = sorted(shown, key=lambda name: (place[kinds[name].family], order(name, kinds[name]), name))
    pairs = [_pair(entries[0], other, metrics, kinds) for other in entries[1:]]
    adjusted = iter(corrected([c for pair in pairs for c in pair.contrasts]))
    for pair in pairs:
        pair.contrasts = sorted([next(adjusted) for _ in pair.contrasts], key=lambda c: (-c.importance, c.name))
    tests = sum(c.p_adjusted is not None for pair in pairs for c in pair.contrasts)
    alone = sorted(n for n in shown if sum(n in e.chosen.metrics for e in entries) == 1) if len(entries) > 1 else []
    return Compared(list(entries), pairs, metrics, sorted(kinds.keys() - shown), alone, tests,
                    notes_of(entries, pairs, metrics, kinds), suspects(chosen), kinds)


def _shown(kinds: Mapping[str, Kind], entries: Sequence[Entry]) -> set[str]:
    """The metrics that say most: no minor measure; of a benchmark's languages the headline, where it has one."""
    tasks, constants = {task for e in entries for task in e.chosen.headline}, chances(kinds)
    found = set()
    for name in kinds:
        parts = name.split("/")
        whole = parts[1].rpartition("_")[0] if parts[0] == "bench" and len(parts) == 4 else ""
        by_form = whole in tasks and parts[2] != HEADLINE and headline_of(parts[1]) in kinds
        if not by_form and not kinds[name].minor and name not in constants:
            found.add(name)
    return found


def _pair(first: Entry, second: Entry, names: Sequence[str], kinds: Mapping[str, Kind]) -> Pair:
    both = [n for n in names if n in first.chosen.metrics and n in second.chosen.metrics
            and n not in chances(kinds)]  # they are the questions', not the model's
    found = [change(n, first.chosen, second.chosen, kind=kinds[n]) for n in both]
    return Pair(first, second, [c for c in found if c is not None])


def notes_of(entries: Sequence[Entry], pairs: Sequence[Pair], metrics: Sequence[str],
             kinds: Mapping[str, Kind]) -> list[str]:
    """Notes on the entries, on metrics whose kind nobody declared, and on what each pair does not share."""
    notes = [note for entry in entries for note in (*entry.notes, *entry.chosen.notes)]
    forms = {name.split("/")[1]: found for entry in entries for name, found in entry.chosen.forms.items()
             if name in metrics and name.split("/")[1] in entry.chosen.headline}
    notes += [f"The headline of {task} is in the form {listed([form_text(form) for form in found])}, the best "
              "for those compared, chosen on the other half of the items." for task, found in forms.items()]
    if unknown := [name for name in metrics if not kinds[name].declared]:
        notes.append(f"Nothing declares which way is better for {first_of(unknown, FEW)}: they are shown and not "
                     "tested; evaluating again declares them.")
    for pair in pairs:
        if not pair.contrasts:
            notes.append(f"{pair.first.label} and {pair.second.label} have no metric in common: evaluate both with the "
                         "same suite.")
            continue
        known = [c.tested.n for c in pair.contrasts if c.how == "paired"]
        if not known and any(c.how == "unpaired" for c in pair.contrasts):
            notes.append(f"{pair.first.label} and {pair.second.label} are compared by standard errors: no questions "
                         "of both are at hand to be paired.")
        elsewhere = [c.kind.short for c in pair.contrasts if c.how == OTHER_TOKENS]
        if elsewhere:
            notes.append(f"{', '.join(elsewhere)}: not comparable between {pair.first.label} and {pair.second.label}, "
                         "the suite, the tokens or the documents are not the same.")
        other = [f"{c.kind.family} {c.kind.short}" for c in pair.contrasts if c.how == OTHER_QUESTIONS]
        if other:
            notes.append(f"{', '.join(other)}: not compared between {pair.first.label} and {pair.second.label}, "
                         f"{ASKED_OTHERWISE}: evaluate both with the same suite, seed and data.")
        notes += template_notes(pair) + _otherwise(pair) + _partly(pair) + _elsewhere(pair)
    return list(dict.fromkeys(notes))


def _otherwise(pair: Pair) -> list[str]:
    """Benchmarks of which some questions were asked otherwise, and are left out."""
    every = grouped((c.kind.family, (c.otherwise, c.tested.n + c.otherwise)) for c in pair.contrasts
                    if c.how == "paired" and c.otherwise)
    found = {family: max(sizes) for family, sizes in every.items()}
    return [f"{family}: {n:,} of {of:,} questions are not compared between {pair.first.label} and {pair.second.label}, "
            f"{ASKED_OTHERWISE}." for family, (n, of) in sorted(found.items())]


def _partly(pair: Pair) -> list[str]:
    """Benchmarks of which the two were asked different questions, in part."""
    every = grouped((c.kind.family, (c.tested.n, c.asked)) for c in pair.contrasts
                    if c.how == "paired" and c.tested.n < c.asked - c.otherwise)
    found = {family: max(sizes) for family, sizes in every.items()}
    who = f"{pair.first.label} and {pair.second.label}"
    return [f"{family}: {who} share {n:,} of {asked:,} questions; differences are of these, values of each one's own."
            for family, (n, asked) in sorted(found.items())]


def _elsewhere(pair: Pair) -> list[str]:
    """Name two lines that are not as far."""
    first, second = pair.first, pair.second
    if {c.key for c in first.line} & {c.key for c in second.line} or min(len(first.line), len(second.line)) < 2:
        return []
    a, b = first.chosen.tokens, second.chosen.tokens
    if not a or not b or abs(a - b) <= NEAR * max(a, b):
        return []
    return [f"{first.label} has seen {short(a)} tokens, {second.label} {short(b)}: --by tokens compares them at equal "
            "ones."]


def template_notes(pair: Pair) -> list[str]:
    """Note that one of two chat models was asked in its template and the other not; a base model rightly is not."""
    first, second = _in_template(pair.first), _in_template(pair.second)
    if first is None or second is None or first == second:
        return []
    within, without = (pair.first, pair.second) if first else (pair.second, pair.first)
    return [f"{within.label} was asked in its chat template and {without.label} without one, although both are chat "
            f"models: a difference may be the template's. 'argosy evaluate {without.name} --chat auto' asks "
            f"{without.label} in it too."]


def _in_template(entry: Entry) -> bool | None:
    """Whether the newest benchmarks or probes of a chat model were asked in its template; None of others."""
    for done in filter(None, map(read_done, reversed(entry.chosen.evaluations))):
        if "chat" in done["made_from"]["config"] and any(  # results of another harness do not say
                name.startswith(TEMPLATED) for name in done["outputs"].get("metrics") or ()):
            trained = bool((done["outputs"].get("checkpoint") or {}).get("chat"))
            return bool(done["made_from"]["config"].get("chat", "auto") != "off") if trained else None
    return None
