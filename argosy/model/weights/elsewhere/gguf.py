"""GGUF files, which llama.cpp and its kin load: what is in one, and its weights dequantized to a directory."""

import hashlib
import shutil
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from argosy.core.store.files import make_directory, publish, read_record, temporary_of, write_json
from argosy.core.store.lease import locked
from argosy.model.weights.checkpoint import ABOUT_GGUF
from argosy.model.weights.pretrained import load_tokenizer, require_gguf


def describe(path: Path) -> dict[str, Any]:
    """Describe a GGUF file: `quantization` (its tensors' types, those of most numbers first), `bytes`, `sha256`.

    Raises InputError: the package gguf is not installed."""
    require_gguf(path)
    from gguf import GGUFReader

    numbers: Counter[str] = Counter()
    for tensor in GGUFReader(path).tensors:
        numbers[tensor.tensor_type.name] += int(tensor.n_elements)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"quantization": " ".join(name for name, _ in numbers.most_common()), "bytes": path.stat().st_size,
            "sha256": digest}


def in_words(about: dict[str, Any]) -> str:
    """Say what `describe` found, and what becomes of it."""
    return (f"a GGUF file of {about['bytes'] / 1e6:,.1f} MB, quantized as {about['quantization']}, SHA-256 "
            f"{about['sha256'][:16]}: its weights are dequantized to float32")


def unpack(path: Path, folder: Path) -> Path:
    """Write the model of a GGUF file below `folder`, as a directory that transformers loads; returns it.

    What is there of a file with the same bytes is not made again. Raises InputError: it cannot be read."""
    from argosy.model.weights.export import save_weights
    from argosy.model.weights.load import load_model

    require_gguf(path)
    readers = "-".join(version(package) for package in ("transformers", "gguf"))  # another one may read other numbers
    with open(path, "rb") as file:
        name = f"{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}-{readers}"
    target = folder / name / path.stem
    with locked(make_directory(target.parent) / ".lock", create=True):  # another command may be at it
        if not read_record(target / ABOUT_GGUF):
            about = describe(path)
            print(f"{path.name} is {in_words(about)}, in {target}", flush=True)
            temporary = temporary_of(target)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            load_tokenizer(path).save_pretrained(temporary)
            save_weights(load_model(path), temporary)
            write_json(temporary / ABOUT_GGUF, about)
            publish(temporary, target)
    return target
