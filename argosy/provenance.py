"""What a result was made from, and the digest of that: equal digests mean equal results.

Used by the graph, which names directories by it, and by a step that is run by hand, so both write the same record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.config import Config, Role
from argosy.errors import InputError
from argosy.identity import External, Identities
from argosy.step_files import NODE, read_done

if TYPE_CHECKING:
    from argosy.step import Step

DIGITS = 12  # 48 bits: a clash among a million directories is below one in five hundred


def made_from(step: Step[Any], config: Config, *, node: str, part: str,
              upstream: Mapping[str, list[str]], external: Mapping[str, External]) -> dict[str, Any]:
    """The record that `outputs.json` and `node.json` carry; `digest` is of all the rest."""
    record: dict[str, Any] = {
        "node": node, "part": part, "step": step.name, "version": step.version, "config": config.identity(),
        "upstream": dict(upstream), "external": dict(external),
    }
    record["digest"] = digest_of(record)
    return record


def digest_of(record: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of `record`, shortened."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two records of `made_from`, a short text each."""
    found = []
    if old.get("version") != new.get("version"):
        found.append(f"version of step {new.get('step')} {old.get('version')} -> {new.get('version')}")
    before, after = (dict(flat(record.get("config", {}))) for record in (old, new))
    for key in [*after, *(k for k in before if k not in after)]:
        if before.get(key, _ABSENT) != after.get(key, _ABSENT):
            found.append(f"{new.get('node')}.{key} {_shown(before, key)} -> {_shown(after, key)}")
    for kind, text in (("external", "input file of"), ("upstream", "upstream of")):
        was, now = old.get(kind, {}), new.get(kind, {})
        fields = [field for field in sorted({*was, *now}) if was.get(field) != now.get(field)]
        if fields:
            found.append(f"{text} {new.get('node')}.{', '.join(fields)} changed")
    return found


_ABSENT = object()


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted key and value of everything below `value`; an empty mapping is a value."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from flat(item, f"{prefix}{key}.")
        else:
            yield prefix + key, item


def _shown(values: Mapping[str, Any], key: str) -> str:
    text = json.dumps(values[key], ensure_ascii=False) if key in values else "(absent)"
    return text if len(text) <= 60 else text[:57] + "..."


def provenance_of(step: Step[Any], config: Config, node: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a step's process: by what the graph knows (`node`), else by the files that its config names."""
    identities = Identities()
    upstream = node["upstream"] if "upstream" in node else _upstream(config, identities)
    external = node["external"] if "external" in node else identities.of_config(config, step.name)
    return made_from(step, config, node=node.get("node", step.name), part=node.get("part", ""),
                     upstream=upstream, external=external)


def _upstream(config: Config, identities: Identities) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in config.fields_with(Role.UPSTREAM):
        value = getattr(config, name)
        directories = [value] if isinstance(value, str) else value
        found[name] = [_digest_of_directory(Path(item), name, identities) for item in directories if item]
    return {name: digests for name, digests in found.items() if digests}


def _digest_of_directory(path: Path, field_name: str, identities: Identities) -> str:
    done = read_done(path)
    if done is not None:
        return str(done["made_from"].get("digest", ""))
    if (path / NODE).exists():
        raise InputError(f"{field_name}: {path} is a step's directory that is not done; run that step first")
    return identities.of_path(path, field_name)
