"""What a new checkpoint is held against, and checkpoints by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from argosy.config_explain import nearest
from argosy.errors import InputError
from argosy.identity import Identities
from workflows.lineage import step_directory
from workflows.nightly.found import FINAL, Found, Trained, from_elsewhere, read_trained


@dataclass(frozen=True)
class Chosen:
    """One checkpoint."""

    trained: Trained
    export: str

    @property
    def key(self) -> str:
        """What ties results to it."""
        return self.trained.key(self.export)

    @property
    def label(self) -> str:
        """For people: `sft/p100 (0a1b2c)`."""
        return f"{self.trained.stage}/{self.export} ({self.trained.digest.removeprefix('directory:')[:6]})"


def reference_for(new: Chosen, found: Found, alias: Chosen | None) -> Chosen | None:
    """The registry's, for last checkpoints of its stage and of later ones; else the newest earlier one of the line.

    An intermediate checkpoint, and one of a stage before the reference's, would be worse than that by its nature: it
    is compared with its counterpart, which is the checkpoint of its stage and name that an earlier run made, and
    where there is none with the checkpoint that it goes on from.
    """
    late = alias is not None and depth(new.trained, found) >= depth(alias.trained, found)
    if alias is not None and late and new.export == new.trained.final and alias.key != new.key:
        return alias
    return _counterpart(new, found) or _before(new, found)


def depth(trained: Trained, found: Found) -> int:
    """How many stages of training went before."""
    count, seen = 0, {trained.digest}
    while (before := found.trained.get(trained.source)) is not None and before.digest not in seen:
        trained, count = before, count + 1
        seen.add(before.digest)
    return count


def _counterpart(new: Chosen, found: Found) -> Chosen | None:
    earlier = [
        each
        for each in found.trained.values()
        if each.line == new.trained.line and each.stage == new.trained.stage and each is not new.trained
        and (each.ended, each.digest) < (new.trained.ended, new.trained.digest)
        and (new.export in each.exports or new.export == new.trained.final)
    ]  # fmt: skip
    if not earlier:
        return None
    newest = max(earlier, key=lambda each: (each.ended, each.digest))
    return Chosen(newest, newest.final if new.export == new.trained.final else new.export)


def _before(new: Chosen, found: Found) -> Chosen | None:
    place = new.trained.exports.index(new.export)
    if place:
        return Chosen(new.trained, new.trained.exports[place - 1])
    source = found.trained.get(new.trained.source)
    return Chosen(source, source.final) if source else None


def by_key(key: str, found: Found) -> Chosen | None:
    """The checkpoint `<digest>/<export>`."""
    digest, _, export = key.rpartition("/")
    trained = found.trained.get(digest)
    return Chosen(trained, export) if trained is not None and export in trained.exports else None


def by_name(name: str, found: Found, store: Path, identities: Identities) -> list[Chosen]:
    """Checkpoints by `<digest>/<export>`, by STAGE or STAGE/EXPORT (the newest), or by a directory.

    A training step's directory, or a stage, is all of its checkpoints; `STAGE/final` the last one.

    Raises:
        InputError: there is no such checkpoint; names the nearest.
    """
    if chosen := by_key(name, found):
        return [chosen]
    for path in (store / name, Path(name).expanduser()):
        if path.is_dir() and name not in ("", "."):
            return _in_directory(path.absolute(), found, identities)
    stage, _, export = name.partition("/")
    known = [each for each in found.trained.values() if each.stage == stage]
    if not known:
        names = sorted({each.stage for each in found.trained.values()})
        near = nearest(stage, names)
        raise InputError(f"checkpoint {name!r} is none: give STAGE, STAGE/EXPORT or a directory; "
                         f"{'nearest' if near else 'stages'}: {', '.join(near or names) or 'none in this store'}")
    return _exports(max(known, key=lambda each: (each.ended, each.digest)), export)


def last_by_name(name: str, found: Found, store: Path) -> Chosen:
    """The checkpoint of that name; of a stage or a step's directory its final one.

    Raises:
        InputError: there is no such checkpoint; names the nearest.
    """
    several = by_name(name, found, store, Identities())
    if len(several) == 1:
        return several[0]
    return next((each for each in several if each.export == each.trained.final), several[-1])


def _in_directory(path: Path, found: Found, identities: Identities) -> list[Chosen]:
    try:
        directory = step_directory(path)
    except InputError:
        line = found.lines[0] if found.lines else "argosy"
        model = from_elsewhere(path, line, identities)
        return _exports(found.trained.setdefault(model.digest, model), "")
    trained = found.add(read_trained(directory, found.notes))
    if trained is None:
        raise InputError(f"{path} has no checkpoint that generates text, or is not done")
    return _exports(trained, "" if path == directory else path.name)


def _exports(trained: Trained, export: str) -> list[Chosen]:
    if not export:
        return [Chosen(trained, name) for name in trained.exports]
    name = trained.final if export == FINAL else export
    if name not in trained.exports:
        raise InputError(f"{trained.directory.name} has no checkpoint {export!r}; there are: "
                         f"{', '.join(trained.exports)}")
    return [Chosen(trained, name)]
