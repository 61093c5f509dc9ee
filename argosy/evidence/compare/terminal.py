"""A comparison for a terminal, as wide as it is: metrics that got better, were forgotten, or are noise."""

from collections.abc import Iterator

from argosy.core.statistics.decisions import NAMES, TABLE
from argosy.corpus.text.display import FEW, NARROW, NARROWEST, fitted, letter, plain, short, visible, width
from argosy.evidence.compare.entries import SECTIONS, Compared, Pair
from argosy.evidence.compare.sentences import sentences
from argosy.evidence.compare.test import Contrast
from argosy.evidence.compare.words import PROMISE, TITLES, difference_text, meaning, p_text, unit_of, value_text
from argosy.evidence.results.contamination import LIKELY, WORDS


def seen_lines(found: Compared, wide: int, *, everything: bool) -> list[str]:
    """Lines for a terminal: every score, likely ones first; of many, a few of the others without `everything`."""
    names = {e.chosen.key: f"{letter(n)} {visible(e.label)}" for n, e in enumerate(found.entries)}
    every = [(names[key], task.task, seen) for task in found.seen for key, seen in task.suspicions.items()
             if seen.found]
    every.sort(key=lambda each: each[2].verdict != LIKELY)
    shown = [each for n, each in enumerate(every) if everything or n < FEW or each[2].verdict == LIKELY]
    rows: list[tuple[str, ...]] = [("SEEN THE TEST?", "BENCHMARK", "", "SCORE [95 %]", "PROBABILITY", "P", "ITEMS")]
    for who, task, seen in shown:
        s = seen.found
        assert s is not None
        rows.append((who, visible(task), WORDS[seen.verdict], seen.interval, plain(s.probability), p_text(s.p_value),
                     str(s.items)))
    if wide < NARROW:
        rows = [(*row[:3], row[3].partition(" [")[0], *row[4 : 6 if wide >= NARROWEST else 5]) for row in rows]
    more = [f"… and {len(every) - len(shown)} more, which are not likely (--all)"] if len(every) > len(shown) else []
    return [*fitted(rows, wide, (0, 1), right=range(3, len(rows[0]))), *more] if shown else []


NOISE = ("same", "cannot tell", "untested")
WIDE = 126


def terminal(found: Compared, columns_wide: int, *, everything: bool = False) -> str:
    """The whole text; no line is wider than `columns_wide`, as far as names can be cut."""
    parts = ["\n".join(_entries(found, columns_wide))]
    parts.append("\n".join(seen_lines(found, columns_wide, everything=everything)))
    if len(found.entries) == 1:
        parts.append("\n".join(_alone(found, columns_wide)))
    parts += ["\n".join(_pair(pair, columns_wide, everything)) for pair in found.pairs if pair.contrasts]
    parts.append("\n".join(_end(found)))
    return "\n\n".join(part for part in parts if part)


def _entries(found: Compared, wide: int) -> list[str]:
    rows = [("", "COMPARED", "CHECKPOINT", "TOKENS", "STEP", "METRICS", "FROM")]
    for number, e in enumerate(found.entries):
        c = e.chosen
        rows.append((letter(number), visible(e.label), visible(c.label), short(c.tokens) if c.tokens else "–",
                     str(c.step or "–"), str(len(c.metrics)), e.source))
    return fitted(rows, wide, (1, 2), right=(3, 4, 5))


def _alone(found: Compared, wide: int) -> list[str]:
    c = found.entries[0].chosen
    rows = [("METRIC", "VALUE", "95 %", "N")]
    for name in found.metrics:
        bounds = c.interval(name)
        kind = found.kinds[name]
        inside = f"{value_text(kind, bounds[0])} to {value_text(kind, bounds[1])}" if bounds else "–"
        rows.append((visible(name), value_text(kind, c.metrics[name]), inside, str(c.counts.get(name, "–"))))
    return fitted(rows, wide, (0,), right=(1, 2, 3))


def _pair(pair: Pair, wide: int, everything: bool) -> Iterator[str]:
    yield f"{visible(pair.second.label)} against {visible(pair.first.label)}"
    yield "=" * min(wide, width(f"{visible(pair.second.label)} against {visible(pair.first.label)}"))
    shown = [(v, pair.section(v)) for v in SECTIONS if pair.section(v)]
    cut = {v: here if everything or v not in NOISE else here[:FEW] for v, here in shown}
    rows = [_row(c, wide) for v, _ in shown for c in cut[v]]
    lines = iter(fitted([_headings(wide), *rows], wide, (0,), right=range(1, 6 if wide >= NARROW else 5)))
    heading = next(lines)
    for verdict, here in shown:
        yield f"\n{TITLES[verdict]}: {len(here)}"
        yield heading
        for _ in cut[verdict]:
            yield next(lines)
        if len(here) > len(cut[verdict]):
            yield f"… and {len(here) - len(cut[verdict])} more (--all)"


def _headings(wide: int) -> tuple[str, ...]:
    full = ("METRIC", "BEFORE", "AFTER", "DIFFERENCE [95 %]", "P", "N", "")
    few = ("METRIC", "BEFORE", "AFTER", "DIFFERENCE", "P")
    return full if wide >= NARROW else (*few, "") if wide >= NARROWEST else few


def _row(c: Contrast, wide: int) -> tuple[str, ...]:
    values = (value_text(c.kind, c.before), value_text(c.kind, c.after))
    said = unit_of(c.kind) if c.verdict in ("better", "worse", "changed") else meaning(c)
    if wide < WIDE:
        said = said.partition(",")[0].removesuffix(" possible").replace("no difference beyond", "below")
    n = str(c.tested.n) if c.tested.n else "–"
    if wide >= NARROW:
        return (visible(c.name), *values, difference_text(c), p_text(c.p_adjusted), n, said)
    row = (visible(_brief(c.name)), *values, difference_text(c).partition(" [")[0], p_text(c.p_adjusted))
    return (*row, said) if wide >= NARROWEST else row


def _brief(name: str) -> str:
    """A name without the parts that every name of its kind has."""
    for prefix in ("bench/", "probe/probes/", "probe/"):
        name = name.removeprefix(prefix)
    return name.removesuffix("/acc")


def _end(found: Compared) -> Iterator[str]:
    if found.tests:
        yield (f"P is corrected over all {found.tests} tests shown ({NAMES[TABLE]}: {PROMISE}).\n"
               "N: questions or documents that both answered, which are paired; "
               "without: two standard errors, taken as independent.")
    if found.alone:
        yield f"Of one of them only, so not compared: {len(found.alone)} metrics, such as {visible(found.alone[0])}."
    if found.hidden:
        yield f"Not shown: {len(found.hidden)} further metrics (--all, or --metrics 'bench/*')."
    for kind, note in sentences(found):
        if kind in ("note", "seen"):
            yield f"Note: {visible(note)}"
