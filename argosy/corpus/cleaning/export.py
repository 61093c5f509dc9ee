"""Cleaned documents as files for others: shards of a bounded size by channel, with a manifest of counts and hashes.

All files are made beside their place first: a folder gets its name when all of it is on the disk; of a store each file
appears whole, the manifest last, and first a mark by which what an interrupted export has left is told from files of
the same names that nobody may replace."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, get_args

from argosy.core.errors import InputError
from argosy.core.store.files import explain, make_directory, publish, read_record, temporary_of, write_json
from argosy.core.store.remote import is_uri, names_at, read_small, remove, upload
from argosy.core.store.step_files import OUTPUTS
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.data.shards import SHARD_BYTES, Format, ShardWriter

FORMATS: tuple[str, ...] = get_args(Format)
MANIFEST = ".manifest.json"  # hidden: datasets and data.inputs would read it as documents
MARK = ".export"  # of a store
_OWN = re.compile(rf"[^/]+/documents-\d{{5,}}\.({'|'.join(map(re.escape, FORMATS))})")
_FIELD = "--out"


def export(corpus: KeptCorpus, out: str, format: Format = "parquet", shard_bytes: int = SHARD_BYTES,
           replace: bool = False) -> dict[str, Any]:
    """Write the kept documents below `out`, a folder or a URI; return the manifest.

    Args:
        shard_bytes: UTF-8 bytes of text in a file.
        replace: an earlier export at `out` gives way.

    The same documents and arguments give the same bytes. Raises InputError: `out` is not empty, or cannot be written,
    or nothing is kept; StepError: the disk is full, or the store fails."""
    if is_uri(out):
        names = names_at(out, _FIELD)
        interrupted = MARK in names and all(name == MARK or _OWN.fullmatch(name) for name in names)
        earlier = _earlier(names, out, replace) if names and not interrupted else []
        with tempfile.TemporaryDirectory(prefix="argosy-export-") as folder:
            manifest = _write(corpus, Path(folder), format, shard_bytes)
            _send(Path(folder), manifest, out, earlier)
        return manifest
    target = Path(os.path.realpath(out))  # a link to a folder stays one
    if target.is_file():
        raise InputError(f"{_FIELD} {target} is a file, allowed: a folder that is empty or absent, or a URI")
    if os.path.ismount(target):
        raise InputError(f"{_FIELD} {target} is the root of a file system, which cannot be replaced as a whole: "
                         f"choose a folder below it, such as {target / 'cleaned'}")
    if target.is_dir() and any(target.iterdir()):
        paths = target.rglob("*") if (target / MANIFEST).is_file() else target.iterdir()
        _earlier([path.relative_to(target).as_posix() for path in paths if path.is_symlink() or not path.is_dir()],
                 str(target), replace)
    temporary = temporary_of(make_directory(target.parent) / target.name)
    _remove_abandoned(target)
    try:
        manifest = _write(corpus, temporary, format, shard_bytes)
        publish(temporary, target)
    except OSError as error:
        raise (explain(error, target.parent) or error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def _earlier(names: Sequence[str], out: str, replace: bool) -> list[str]:
    """Return the files of the export that is at `out` and may give way. Raises InputError: there is something else, or
    it may not be replaced."""
    if MANIFEST not in names:
        some = f" ({', '.join(sorted(names)[:3])})" if names else ""
        raise InputError(f"{_FIELD} {out} is not empty{some}, and no export: choose an empty folder")
    if not replace:
        raise InputError(f"{_FIELD} {out} holds an export already: choose another folder, or give --replace")
    manifest = json.loads(read_small(f"{out.rstrip('/')}/{MANIFEST}"))
    known = _files(manifest)
    if others := sorted({*names} - {*known, MANIFEST, MARK}):
        raise InputError(f"{_FIELD} {out} holds files that no export has written ({', '.join(others[:3])}): move them "
                         "away, or choose another folder")
    return known


def _files(manifest: dict[str, Any]) -> list[str]:
    return [file["name"] for channel in manifest["channels"].values() for file in channel["files"]]


def _write(corpus: KeptCorpus, folder: Path, format: Format, shard_bytes: int) -> dict[str, Any]:
    """Write all shards and the manifest below a folder."""
    writers: dict[str, ShardWriter] = {}
    with ExitStack() as stack:
        for document, changed in corpus.changed():
            if (writer := writers.get(document.channel)) is None:
                writer = stack.enter_context(ShardWriter(folder / document.channel, format, shard_bytes))
                writers[document.channel] = writer
            writer.write(document, changed)
    if not writers:
        raise InputError(f"{corpus.clean} keeps no document: there is nothing to export")
    channels: dict[str, dict[str, Any]] = {name: {"documents": writer.documents, "text_bytes": writer.bytes, "files": [
        {"name": f"{name}/{file}", "documents": documents, "text_bytes": size, **_identity(folder / name / file)}
        for file, documents, size in writer.files]} for name, writer in sorted(writers.items())}
    clean = read_record(corpus.clean / OUTPUTS).get("made_from", {}).get("digest", "")
    manifest = {"format": format, "clean": clean, "channels": channels,
                **{key: sum(channel[key] for channel in channels.values()) for key in ("documents", "text_bytes")}}
    write_json(folder / MANIFEST, manifest)
    return manifest


def _identity(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _send(folder: Path, manifest: dict[str, Any], uri: str, earlier: Sequence[str]) -> None:
    """Upload an export, in place of an earlier or an interrupted one: without a manifest it is none."""
    (folder / MARK).touch()
    upload(folder, [MARK], uri, _FIELD)
    if earlier:
        remove(uri, [MANIFEST], _FIELD)
    upload(folder, _files(manifest), uri, _FIELD)
    remove(uri, sorted({*names_at(uri, _FIELD)} - {*_files(manifest), MARK}), _FIELD)
    upload(folder, [MANIFEST], uri, _FIELD)


def _remove_abandoned(target: Path) -> None:
    """Remove what exports to the same folder left that were killed on this machine."""
    for path in target.parent.glob(f".{target.name}.*.tmp"):
        process = path.name.removeprefix(f".{target.name}.").partition("-")[0]
        if process.isdigit() and not Path(f"/proc/{process}").exists() and Path("/proc").exists():
            shutil.rmtree(path, ignore_errors=True)
