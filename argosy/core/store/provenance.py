"""Provenance of a result: the record of all that it was made from, and its digest. Equal digests mean equal results.

Used by the graph, which names directories by it, and by a step that is run by hand, so both write the same record.
Files from outside count by their content, wherever they lie."""

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from argosy.core.config.explain import grouped, numbered
from argosy.core.config.schema import Config, Role
from argosy.core.errors import InputError
from argosy.core.store.files import read_record, write_json
from argosy.core.store.remote import identity_of, is_uri
from argosy.core.store.step_files import NODE, check_files, read_done

_RACY_NS = 2_000_000_000  # a file this fresh may change again without a new mtime: its identity is not kept

IDENTITIES = ".identities.json"  # of a store: hashes of files from outside
External = str | list[str]


class Identities:
    """Identities of files and directories from outside: names and SHA-256 of bytes.

    A file's is `<name>:<sha256>`; a directory's is the SHA-256 of its sorted relative names and hashes. The name of a
    file counts because a step may use it (a channel's name, a document's source); where it lies does not.

    Args:
        cache: a JSON file that keeps hashes by path, size, mtime and inode; None keeps them in memory."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache = cache
        self._known: dict[str, Any] = read_record(cache) if cache else {}
        self._changed = False

    def of_config(self, config: Config, where: str) -> dict[str, External]:
        """Return the identities of the external fields of `config` that are set; `where` names it in errors. Raises
        InputError: a file does not exist or cannot be read."""
        found: dict[str, External] = {}
        for field in config.fields_with(Role.EXTERNAL):
            value = getattr(config, field)
            if isinstance(value, str) and value:
                found[field] = self.of(value, f"{where}.{field}")
            elif value and isinstance(value, dict):  # what a path is called counts too
                found[field] = [f"{name}={self.of(item, f'{where}.{field}.{name}')}" for name, item in value.items()]
            elif value:
                found[field] = [self.of(item, f"{where}.{field}") for item in value]
        return found

    def of(self, given: str, field: str) -> str:
        """Return the identity of a path, or of a URI as its store says: sizes, and ETags, hashes or times. Raises
        InputError: it does not exist or cannot be read; StepError: its store cannot be reached."""
        return identity_of(given, field) if is_uri(given) else self.of_path(Path(given), field)

    def of_path(self, path: Path, field: str) -> str:
        """Return the identity of one file or directory."""
        try:
            if path.is_dir():
                return self._of_directory(path, field)
            if not stat.S_ISREG(path.stat().st_mode):
                raise InputError(f"{field}: {path} is a device, a pipe or a socket, allowed: a file or a folder")
            return f"{_text(path, field)}:{self._of_file(path)}"
        except FileNotFoundError:
            todo = "a * is not expanded here: give the folder" if "*" in path.name else "correct the path"
            todo = "a URL is not taken: download it, and give the path" if ":/" in str(path) else todo
            raise InputError(f"{field}: {path} does not exist (looked in {Path.cwd()}); {todo}") from None
        except OSError as error:
            raise InputError(f"{field}: cannot read {error.filename or path}: {error.strerror}") from None

    def save(self) -> None:
        """Keep the hashes for the next plan; a cache that cannot be written is no error."""
        if self._cache and self._changed:
            with suppress(OSError):
                write_json(self._cache, self._known, durable=False)
                self._changed = False

    def _of_directory(self, path: Path, field: str) -> str:
        files = sorted((str(file.relative_to(path)), file) for file in path.rglob("*") if file.is_file())
        lines = "".join(f"{name}\0{self._of_file(file)}\n" for name, file in files if _text(file, field))
        return "directory:" + hashlib.sha256(lines.encode()).hexdigest()

    def _of_file(self, path: Path) -> str:
        state = path.stat()
        key, stamp = os.path.abspath(path), _stamp(state)
        known = self._known.get(key)
        if known and known[:3] == stamp:
            return str(known[3])
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if time.time_ns() - state.st_mtime_ns > _RACY_NS:
            self._known[key] = [*stamp, digest]
            self._changed = True
        return digest


def _text(path: Path, field: str) -> str:
    """The name of a file, which a digest and documents' sources can hold."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{field}: the name of {str(path)!a} is not UTF-8: rename the file") from None
    return path.name


Stamps = dict[str, list[int]]


def stamps(config: Config) -> Stamps:
    """Return size, time and inode of each external file of `config`: equal ones mean that nobody has changed it; files
    of URIs are not among them, who reads them compares what their store says."""
    roots = [Path(path) for _, path in config.paths_with(Role.EXTERNAL) if not is_uri(path)]
    files = [file for root in roots for file in ([root] if root.is_file() else root.rglob("*")) if file.is_file()]
    return {str(file): _stamp(file.stat()) for file in files}


def _stamp(state: os.stat_result) -> list[int]:
    return [state.st_size, state.st_mtime_ns, state.st_ino]


DIGITS = 12  # 48 bits: a clash among a million directories is below one in five hundred


def made_from(step: str, version: int, config: Config, *, node: str, part: str,
              upstream: Mapping[str, list[str]], external: Mapping[str, External]) -> dict[str, Any]:
    """Make the record that `outputs.json` and `node.json` carry; `digest` is of all the rest."""
    record: dict[str, Any] = {
        "node": node, "part": part, "step": step, "version": version, "config": config.identity(),
        "upstream": dict(upstream), "external": dict(external)}
    record["digest"] = digest_of(record)
    return record


def digest_of(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of `record`, shortened."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List the differences between two records of `made_from`, a short text each."""
    found = []
    if old.get("version") != new.get("version"):
        found.append(f"version of step {new.get('step')} {old.get('version')} -> {new.get('version')}")
    found += _changes(str(new.get("node")), old.get("config", {}), new.get("config", {}))
    for kind, text in (("external", "input file of"), ("upstream", "upstream of")):
        was, now = old.get(kind, {}), new.get(kind, {})
        fields = [field for field in sorted({*was, *now}) if was.get(field) != now.get(field)]
        if fields:
            found.append(f"{text} {new.get('node')}.{', '.join(fields)} changed")
    return found


_ABSENT = object()


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted key and value of everything below `value`; an empty mapping is a value."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from flat(item, f"{prefix}{key}.")
        else:
            yield prefix + key, item


def _changes(key: str, old: Any, new: Any) -> Iterator[str]:
    """Yield what differs below a dotted key; items of lists that have names are compared by these."""
    before, after = _named(old), _named(new)
    if before is not None and after is not None and (before or after):
        for name in [*after, *(name for name in before if name not in after)]:
            yield from _changes(f"{key}.{name}", before.get(name, _ABSENT), after.get(name, _ABSENT))
        if isinstance(new, (list, tuple)) and list(before) != list(after) and before.keys() == after.keys():
            yield f"{key} order {_shown(list(before))} -> {_shown(list(after))}"
    elif old != new:
        yield f"{key} {_shown(old)} -> {_shown(new)}"


def _named(value: Any) -> Mapping[str, Any] | None:
    """Return an object as it is, and a list of objects with names by these; None: it is neither."""
    if isinstance(value, Mapping):
        return value
    objects = isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) and "name" in item for item in value)
    if objects and value:
        return dict(zip(numbered([str(item["name"]) for item in value]), value, strict=True))
    return None


def _shown(value: Any) -> str:
    text = "(absent)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def provenance_of(step: str, version: int, config: Config, node: Mapping[str, Any]) -> dict[str, Any]:
    """Make the record in a step's process: from what the graph passes (`node`), else from the files of its config."""
    identities = Identities()
    upstream = node["upstream"] if "upstream" in node else _upstream(config, identities)
    external = node["external"] if "external" in node else identities.of_config(config, step)
    return made_from(step, version, config, node=node.get("node", step), part=node.get("part", ""),
                     upstream=upstream, external=external)


def check_inputs(config: Config, where: str, node: Mapping[str, Any], cache: Path) -> None:
    """Check that a step reads what the graph (`node`) has seen: the same external files, and whole upstream results.
    Raises InputError: a file has changed since then, or is missing in a finished step's directory."""
    if node.get("external"):
        now = Identities(cache).of_config(config, where)
        if changed := [field for field in now if now[field] != node["external"].get(field)]:
            raise changed_inputs(where, changed)
    for field, directory in config.paths_with(Role.UPSTREAM):
        check_files(directory, f"{where}.{field}")


def changed_inputs(where: str, fields: Iterable[str]) -> InputError:
    """Make the error that external files changed between planning and the end of reading."""
    names = ", ".join(f"{where}.{field}" for field in fields)
    return InputError(f"files of {names} have changed since this step was planned, so its result would not be what its "
                      "digest says: run the same command again, which plans anew")


def _upstream(config: Config, identities: Identities) -> dict[str, list[str]]:
    return grouped((name, _digest_of_directory(Path(directory), name, identities))
                   for name, directory in config.paths_with(Role.UPSTREAM))


def _digest_of_directory(path: Path, field_name: str, identities: Identities) -> str:
    done = read_done(path)
    if done is not None:
        return str(done["made_from"].get("digest", ""))
    if (path / NODE).exists():
        raise InputError(f"{field_name}: {path} is a step's directory that is not done; run that step first")
    return identities.of_path(path, field_name)
