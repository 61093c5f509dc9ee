"""The Hugging Face hub's form: safetensors, tokenizer and a model card; nothing is sent unless that is asked for."""

import shutil
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError, StepError
from argosy.model.weights.exports import Format, Source
from argosy.model.weights.quantize import quantization_of

CARD = "README.md"


class Hub(Format):
    name: ClassVar[str] = "hub"
    card: ClassVar[bool] = True
    dtypes: ClassVar[tuple[str, ...]] = ("weights", "float32", "bfloat16", "float16")

    def write(self, source: Source, out: Path) -> dict[str, float]:
        """Copy the checkpoint, or write it in another precision; an adapter is merged."""
        from argosy.model.weights.adapters.files import is_adapter
        from argosy.model.weights.pretrained import weights_dtype

        own = weights_dtype(source.path)
        dtype = own if source.dtype in ("", "weights") else source.dtype
        if dtype != own and quantization_of(source.path):
            raise InputError(f"dtype is {dtype}, and checkpoint {source.path} is quantized: leave dtype out")
        if dtype == own and not is_adapter(source.path):
            for each in sorted(path for path in source.path.iterdir() if path.is_file() and path.name != "argosy.json"):
                shutil.copyfile(each, out / each.name)
        else:
            source.save_whole(out, dtype)
        (out / CARD).write_text(source.card, encoding="utf-8")
        return {}


def push(folder: Path, name: str) -> str:
    """Send a folder to the hub as the private repository ORG/NAME, and return its address. The token is HF_TOKEN's, or
    that of `hf auth login`. Raises StepError: the hub refuses, or cannot be reached."""
    from huggingface_hub import HfApi

    try:
        HfApi().create_repo(name, private=True, exist_ok=True)
        return str(HfApi().upload_folder(repo_id=name, folder_path=folder))
    except Exception as error:  # of the network, of rights, of a name
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise StepError(f"the hub does not take {name}: {why}; the files are in {folder}") from error
