"""Sentences of a comparison, the most important first; every number in them is one of its contrasts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from argosy.core.config.explain import first_of, grouped
from argosy.core.statistics.decisions import DECISION, NAMES
from argosy.core.statistics.metric import BITS
from argosy.evidence.compare.changes import Comparison, TaskComparison, is_headline, task_of
from argosy.evidence.compare.checkpoints import HELDOUT
from argosy.evidence.compare.entries import Compared, Pair
from argosy.evidence.compare.metrics import HEADLINE
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.words import amount, listed, meaning, percent, points, reverse, tested_text
from argosy.evidence.results.contamination import CANNOT_TELL, LIKELY, NOT_SEEN, Seen, has_seen
from argosy.evidence.results.headline import form_text

REASONS = 3  # reasons that a sentence gives


def unseen(found: Mapping[str, Mapping[str, Seen]]) -> Iterator[tuple[str, str]]:
    """Tell who has not seen which tests (kind `clean`), and of whom that cannot be told and why (`note`).

    `found`: by benchmark and label of a checkpoint."""
    clean = {(task, who): seen for task, of in found.items() for who, seen in of.items() if seen.verdict == NOT_SEEN}
    if clean:
        (task, who), most = max(clean.items(), key=lambda each: each[1].found.score if each[1].found else 0.0)
        yield "clean", (f"Not seen, as far as these items can show: {_places(clean, found)}. The highest score is that "
                        f"of {who} on {task}, {most.interval}; 0 is as clean models.")
    if reasons := grouped((seen.why, (task, who)) for task, of in found.items() for who, seen in of.items()
                          if seen.verdict == CANNOT_TELL):
        parts = [f"{_places(places, found)} ({why})" for why, places in reasons.items()]
        yield "note", f"Cannot tell whether it was seen: {first_of(parts, REASONS, '; ')}."


def _places(places: Iterable[tuple[str, str]], found: Mapping[str, Mapping[str, Seen]]) -> str:
    """`facts and science; mmlu by sft`: a benchmark alone where it is of all of its checkpoints."""
    of = grouped(places)
    whole = [task for task, names in of.items() if len(names) == len(found[task])]
    parts = [f"{listed(whole)} by {'any' if len(found[whole[0]]) > 1 else of[whole[0]][0]}"] if whole else []
    return "; ".join([*parts, *(f"{task} by {listed(names)}" for task, names in of.items() if task not in whole)])


def _likely(who: str, seen: Seen) -> str:
    return f"{who} has likely seen the test: {seen.numbers}."


@dataclass(frozen=True)
class Sentence:
    """A sentence on a task, or on none. `kind`: `best`, or `undecided` where nothing is; `seen` (likely) or `clean` (of
    the test); `better`, `worse` or `level` (a stage); `forgotten` or `learnt` (held-out text); `note`."""

    kind: str
    text: str
    about: str = ""


def stage_sentences(found: Comparison) -> list[Sentence]:
    """The sentences of a report, the most important first."""
    labels = {c.key: c.label for c in found.checkpoints.every}
    said: list[Sentence] = []
    for task in found.tasks:
        said += [*_best(task, labels), *_seen_at_stage(task, labels), *_of_stages(task, labels)]
    clean = unseen({t.task: {labels[key]: s for key, s in t.suspicions.items()} for t in found.tasks})
    said += [Sentence(kind, text) for kind, text in clean]
    return [*said, *_texts(found, labels), *_flagged(found)] or [
        Sentence("note", "No benchmark, probe or held-out text was evaluated, so there is nothing to compare yet.")]


def _flagged(found: Comparison) -> Iterator[Sentence]:
    """Yield channels of general text that a checkpoint reads worse than its suite allows."""
    for c in found.checkpoints.finals:
        if costs := [f"{where.removeprefix('heldout/')} {why}" for where, why in sorted(c.warnings.items())
                     if where.startswith("heldout/")]:
            yield Sentence("note", f"Held-out text of {c.label}: {listed(costs)}.")


def _best(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    if task.highest is None:
        yield Sentence("undecided", f"No best on {task.task}: {task.no_best}.", task.task)
        return
    highest = next(s for s in task.standings if s.checkpoint == task.highest)
    forms = listed([form_text(form) for form in task.headline])
    value = f"{labels[task.highest]}, {percent(highest.headline)} right in the form {forms} ({highest.items} items)"
    text = f"No best on {task.task}: {task.no_best}. The highest is {value}."
    if task.best:
        text = f"Best on {task.task}: {value}."
    behind = [c for c in task.others if c.verdict == "worse"]
    if behind:
        nearest = min(behind, key=lambda c: -c.difference.value)
        lead = points(reverse(nearest.difference), sign=False)
        how = f"by {lead}" if len(behind) == 1 else f"(of the nearest, {labels[nearest.second]}, by {lead})"
        text += f" It is ahead of {listed([labels[c.second] for c in behind])} {how}."
    if task.others:
        how = " (the form is the best one on the other half of the items)" if len(task.forms) > 1 else ""
        text += (f" It was selected and tested by that number{how}, corrected over all pairs of candidates "
                 f"({NAMES[DECISION]}).")
    yield Sentence("best" if task.best else "undecided", text, task.task)


def _seen_at_stage(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    first = max((s for s in task.standings if s.plain is not None), key=lambda s: s.plain or 0.0, default=None)
    for key, seen in task.suspicions.items():
        if seen.verdict == LIKELY:
            rank = ""
            if first is not None and first.checkpoint == key:
                rank = f"Plain accuracy ranks {labels[key]} first ({percent(first.plain or 0.0)}), but "
            yield Sentence("seen", rank + _likely(labels[key], seen), task.task)


def _of_stages(task: TaskComparison, labels: dict[str, str]) -> Iterator[Sentence]:
    for whole in filter(is_headline, task.stages):
        each = [c for c in task.stages if (c.first, c.second) == (whole.first, whole.second) and c is not whole]
        kind = whole.verdict if whole.verdict in ("better", "worse") else "level"
        yield Sentence(kind, _stage(whole, each, labels, whole.second in task.seen), task.task)


def _stage(whole: Contrast, each: Sequence[Contrast], labels: dict[str, str], seen: bool) -> str:
    first, second = labels[whole.first], labels[whole.second]
    if whole.verdict in ("better", "worse"):
        text = f"{second} is {whole.verdict} than {first} in the headline: {tested_text(whole)}."
    else:
        text = (f"{second} against {first} in the headline: {meaning(whole)} ({tested_text(whole)}, "
                f"{whole.tested.items} items).")
    for verdict in ("better", "worse"):
        names = [task_of(c)[1] for c in each if c.verdict == verdict]
        where = f"all {len(each)} forms" if len(names) == len(each) else listed(names)
        text += f" {verdict.capitalize()} in {where}." if names and len(each) > 1 else ""
    return text + (" It has seen the test, so read this with care." if seen else "")


def _texts(found: Comparison, labels: dict[str, str]) -> Iterator[Sentence]:
    for verdict, kind, word in (("worse", "forgotten", "forgot"), ("better", "learnt", "got better at")):
        for second in dict.fromkeys(t.second for t in found.texts):
            here = [t for t in found.texts if t.second == second and t.verdict == verdict]
            if here:
                parts = [f"{t.name.removeprefix(HELDOUT)} {tested_text(t)}, {t.tested.n} documents" for t in here]
                yield Sentence(kind, f"{labels[second]} {word} held-out text, against {labels[here[0].first]}: "
                               f"{'; '.join(parts)}.")
    if found.texts and all(t.verdict != "worse" for t in found.texts):
        fewest, most = min(t.tested.n for t in found.texts), max(t.tested.n for t in found.texts)
        documents = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        widest = max(t.difference.high for t in found.texts)
        yield Sentence("note", f"Held-out text: no loss that matters ({BITS} bits a byte or more) is shown by these "
                       f"documents ({documents} a channel), of any stage against the one before. Losses of up to "
                       f"{widest:.3f} bits a byte are within the intervals.")


NAMED = 3  # metrics that a sentence names


def sentences(found: Compared) -> list[tuple[str, str]]:
    """The sentences by kind: `seen` (likely) or `clean` (of the test), `better`, `worse`, `level` or `note`."""
    told = list(_seen(found))
    said = [each for each in told if each[0] == "seen"]
    said += [each for pair in found.pairs if pair.contrasts for each in _pair(pair)]
    if len(found.entries) == 1:
        said.append(("note", f"{found.entries[0].label} alone: name a second checkpoint to compare it with."))
    said += [each for each in told if each[0] != "seen"]
    return said + [("note", note) for note in found.notes]


def _seen(found: Compared) -> Iterator[tuple[str, str]]:
    labels = {e.chosen.key: e.label for e in found.entries}
    for task in found.seen:
        for key, seen in task.suspicions.items():
            if seen.verdict == LIKELY:
                yield "seen", f"{task.task}: {_likely(labels[key], seen)}"
    yield from unseen({t.task: {labels[key]: s for key, s in t.suspicions.items()} for t in found.seen})


def _pair(pair: Pair) -> Iterator[tuple[str, str]]:
    first, second = pair.first.label, pair.second.label
    for verdict, words in (("better", "is better than"), ("worse", "is worse than")):
        here = pair.section(verdict)
        if here:
            whole = len(pair.contrasts)
            count = f"{len(here)} of {whole} metrics" if whole > 1 else "the one metric of both"
            named = first_of([f"{c.kind.family} {c.kind.short} {tested_text(c)}" for c in here], NAMED, "; ")
            yield verdict, f"{second} {words} {first} in {count}: {named}{_doubt(here, pair)}."
    if not pair.section("better") and not pair.section("worse"):
        yield "level", (f"Nothing tells {second} from {first}: none of {len(pair.contrasts)} metrics differs beyond "
                        "noise and by as much as matters.")
    yield from _headlines(pair)
    noise = [("same", "no difference that matters"), ("cannot tell", "too noisy to say")]
    parts = [f"{words} in {len(pair.section(verdict))}" for verdict, words in noise if pair.section(verdict)]
    if parts and (pair.section("better") or pair.section("worse")):
        yield "level", f"Of the rest of {second} against {first}: {listed(parts)}."


def _headlines(pair: Pair) -> Iterator[tuple[str, str]]:
    """The benchmarks' one numbers that do not differ beyond noise."""
    whole = [c for c in pair.contrasts if c.name.endswith(f"/{HEADLINE}/acc") and c.kind.short == HEADLINE]
    for verdict, words in (("same", "no difference beyond"), ("cannot tell", "cannot tell, differences up to")):
        here = sorted((c for c in whole if c.verdict == verdict), key=lambda c: c.kind.family)
        if here:
            names = listed([c.kind.family for c in here])
            amounts = listed([amount(c, c.most) for c in here])
            possible = " are possible" if verdict == "cannot tell" else ""
            plural = "s" if len(here) > 1 else ""
            who = f"{pair.second.label} against {pair.first.label}"
            yield "level", f"{who} in the headline{plural} of {names}: {words} {amounts}{possible}."


def _doubt(here: list[Contrast], pair: Pair) -> str:
    """The number of these metrics that are of benchmarks which one of the two has likely seen."""
    doubted = [c for c in here if seen_by(pair, c.name)]
    if not doubted:
        return ""
    tests = listed(sorted({c.kind.family for c in doubted}))
    return f" ({len(doubted)} of these {'is' if len(doubted) == 1 else 'are'} of {tests}, which was likely seen)"


def seen_by(pair: Pair, metric: str) -> bool:
    """Whether one of the two has likely seen the benchmark of a metric: a difference is not knowledge, or not only."""
    return any(has_seen(e.chosen.seen, metric) for e in (pair.first, pair.second))
