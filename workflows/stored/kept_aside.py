"""Tells people what steps could not use, and what they dropped."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argosy.core.config.explain import first_of
from argosy.core.store.step_files import read_done
from argosy.corpus.data.rejects import remedy

_SHOWN = 3  # reasons, names and files
_MUCH = 1 / 3  # of a channel that one filter drops


def kept_aside(directories: Mapping[str, str]) -> Iterator[str]:
    """Yield lines for finished nodes whose outputs have `rejected` (counts by reason), `damaged` (files that could not
    be read whole, and why), `skipped` (files), `notes`, or `lost` (channel -> filter -> share of the documents that it
    dropped); parts of one stage together.

    `directories`: by the node's id."""
    stages: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, directory in directories.items():
        if done := read_done(directory):
            stages.setdefault(name.partition("/")[0], []).append((directory, done["outputs"]))
    damaged = {file: why for parts in stages.values() for _, outputs in parts
               for file, why in (outputs.get("damaged") or {}).items()}
    for file, why in list(damaged.items())[:_SHOWN]:
        yield f"warning: {file} was not read whole ({why}). {remedy(why)}"
    if len(damaged) > _SHOWN:
        yield f"warning: {_count(len(damaged) - _SHOWN, 'more file')} not read whole"
    for stage, parts in stages.items():
        yield from _of_stage(stage, parts)


def _of_stage(stage: str, parts: list[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    rejecting = [(directory, outputs["rejected"]) for directory, outputs in parts
                 if outputs.get("rejected") and Path(directory, "rejects").is_dir()]
    rejected = sum((Counter(counts) for _, counts in rejecting), Counter[str]())
    if rejected:
        reasons = [f"{reason} ({count})" for reason, count in sorted(rejected.items(), key=lambda item: -item[1])]
        places = first_of([f"{directory}/rejects" for directory, _ in rejecting], _SHOWN)
        yield f"{stage}: {_count(rejected.total(), 'line')} kept aside in {places}: {first_of(reasons, _SHOWN)}"
    for _, outputs in parts:
        if skipped := outputs.get("skipped"):
            files = _count(len(skipped), "file")
            yield f"{stage}: {files} left out, empty, linked or of unknown format: {first_of(skipped, _SHOWN)}"
        for note in outputs.get("notes") or ():
            yield f"{stage}: {note}"
        for channel, shares in outputs.get("lost", {}).items():
            ranked = sorted(shares.items(), key=lambda item: -item[1])
            each = ", ".join(f"{one} {share:.1%}" for one, share in ranked)
            text = f"channel {channel} lost {sum(shares.values()):.1%}: {each}"
            worst, share = ranked[0] if ranked else ("", 0.0)
            if share > _MUCH:
                yield (f"{stage}: warning: {text}: look with `argosy data dropped {worst}`, then change its thresholds "
                       f"in clean.filters or let it skip the channel ({{name: {worst}, skip_channels: [{channel}]}})")
            elif shares:
                yield f"{stage}: {text}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" + ("" if number == 1 else "s")
