"""Adapters on the disk, in PEFT's files, and the base that they belong to.

An export that is an adapter has `base.json` beside them: the place of its base, relative to its own, so that both are
found when the store has moved, and a digest of the base's files, so that no other weights are taken for it."""

import enum
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.core.store.files import read_record, write_json, write_tensors

if TYPE_CHECKING:
    from argosy.model.weights.adapters.layers import Adapted

BASE, CONFIG, WEIGHTS = "base.json", "adapter_config.json", "adapter_model.safetensors"
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM has room for
_IDENTITY = ("*.safetensors", "config.json", CONFIG, BASE)


def is_adapter(path: Path) -> bool:
    """Tell whether the checkpoint in `path` is an adapter that names its base."""
    return (path / BASE).is_file() and (path / CONFIG).is_file()


def write_adapter(made: "Adapted", tensors: Mapping[str, Any], directory: Path, place: Path) -> None:
    """Write adapters, whose `tensors` are by PEFT's names, below `directory`, which will lie in `place`, in PEFT's
    files, with what they need to find their base."""
    directory.mkdir(exist_ok=True)
    write_tensors(dict(sorted(tensors.items())), directory / WEIGHTS, {"format": "pt"})
    base = made.base.resolve()
    fields = made.settings.to_dict() | {"inference_mode": True, "base_model_name_or_path": "/".join(base.parts[-3:])}
    write_json(directory / CONFIG, {name: _plain(value) for name, value in sorted(fields.items())})
    write_json(directory / BASE, {"path": os.path.relpath(base, place.resolve()), "sha256": _identity(base)})


def _plain(value: Any) -> Any:
    if isinstance(value, set):
        return sorted(value)
    return value.value if isinstance(value, enum.Enum) else value


def _identity(directory: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted({path for pattern in _IDENTITY for path in directory.glob(pattern)}):
        with open(path, "rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def base_path(path: Path) -> Path:
    """Return the place of the base of the adapter in `path`, whether it is there or not."""
    return Path(os.path.normpath(path.resolve() / str(read_record(path / BASE).get("path", ""))))


def find_base(path: Path) -> Path:
    """Return the directory of the base of the adapter in `path`. Raises InputError: it is not there, or has other files
    than it had."""
    found = base_path(path)
    if not any(found.glob("*.safetensors")):
        raise InputError(f"checkpoint {path} is an adapter of the weights in {found}, which are not there: run their "
                         "step again (a store is moved or copied whole), or export the merged model with "
                         "lora.merge=true")
    if _identity(found) != read_record(path / BASE).get("sha256"):
        raise InputError(f"checkpoint {path} is an adapter of other weights than those now in {found}: run its own "
                         "step again, which trains it beside these")
    return found


def served_adapter(path: Path, engine: str) -> tuple[Path, int]:
    """Return the base of the adapter in `path`, and vLLM's least limit of its rank, for an engine that adds it itself.
    Raises InputError: the engine does not."""
    fields, base = read_record(path / CONFIG), find_base(path)
    rank = next((size for size in _RANKS if size >= int(fields.get("r", 0))), None)
    other = fields.get("use_dora") or fields.get("modules_to_save") or is_adapter(base)
    if engine != "vllm" or rank is None or other:
        raise InputError(f"checkpoint {path} is an adapter beside its base: of the engines vLLM adds one itself, of "
                         f"rank {_RANKS[-1]} at most, no DoRA, without modules_to_save and not over an adapter: take "
                         "Argosy's own engine (transformers), or export the merged model with lora.merge=true")
    return base, rank


def attach(model: Any, path: Path, new: str = "") -> Any:
    """Put the adapters in `path` into the model of its base; returns it.

    `new`: pattern of tensors that the file may lack. Raises InputError: they do not fit."""
    from peft import LoraConfig
    from safetensors.torch import load_file

    from argosy.model.weights.adapters.layers import PREFIX, inject, peft_name

    inject(model, LoraConfig.from_pretrained(str(path)))
    held = load_file(path / WEIGHTS)
    wanted = {peft: tensor for name, tensor in model.state_dict(keep_vars=True).items() if (peft := peft_name(name))
              and not (peft not in held and new and re.fullmatch(new, peft.removeprefix(PREFIX)))}
    if wrong := sorted(held.keys() ^ wanted.keys()) or [name for name, tensor in wanted.items()
                                                        if held[name].shape != tensor.shape]:
        raise InputError(f"adapter {path} does not fit its base in {wrong[0]}: its files were changed, or written "
                         "by another version; run its step again")
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(held[name])
    return model
