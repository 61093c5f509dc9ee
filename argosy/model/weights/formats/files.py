"""Checkpoints as files in each layout, and from one to another.

hf is a directory that transformers loads. megatron is a file of safetensors for each tensor-parallel rank; torchtitan a
checkpoint of torch.distributed, as its `initial_load_path` takes it. Beside the weights of either, `hf/` keeps the
model's config.json and tokenizer, without which there is no way back."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from argosy.core.errors import ArgosyError, InputError
from argosy.core.lazy import torch
from argosy.core.store.files import make_directory, publish, temporary_of, write_tensors
from argosy.model.weights.adapters.files import BASE, CONFIG, is_adapter
from argosy.model.weights.checkpoint import adapter_alone
from argosy.model.weights.formats import layouts
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_config

FORMATS = ("hf", "megatron", "torchtitan")
SIDE = "hf"  # the folder of the config and the tokenizer
_SHARD = "tensor-{:02d}-of-{:02d}.safetensors"
_TITAN = ("tok_embeddings.", "layers.", "norm.", "lm_head.", "output.")  # what is the model's of a training's state


def format_of(directory: Path) -> str:
    """Tell the layout of the checkpoint in `directory`, one of FORMATS. Raises InputError: it is none of them."""
    if (directory / ".metadata").is_file():
        return "torchtitan"
    if list(directory.glob("tensor-*-of-*.safetensors")):
        return "megatron"
    if list(directory.glob("model*.safetensors")) or is_adapter(directory):
        return "hf"
    if adapter := adapter_alone(directory):
        raise InputError(f"{directory} is {adapter}")
    raise InputError(f"{directory} holds no weights that are known, allowed: model*.safetensors (transformers), "
                     "tensor-*-of-*.safetensors (megatron), .metadata with its files (torchtitan); save other weights "
                     "as safetensors first")


def convert(source: Path, layout: str, out: Path, *, tensor: int = 1, like: Path | None = None) -> layouts.Shape:
    """Write the checkpoint in `source` to the directory `out` in another layout; every number stays as it is.

    An adapter is added to its base, and then hf is another layout too.

    Args:
        layout: of FORMATS.
        tensor: tensor-parallel ranks, of megatron.
        like: a directory with config.json and tokenizer; None: that of `source` itself.

    Raises InputError: the model cannot be converted, or `out` holds something already."""
    now = format_of(source)
    if layout == now and not is_adapter(source):
        raise InputError(f"{source} is in the layout {layout} already, allowed: another one of {', '.join(FORMATS)}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} is there already: name a directory that is new or empty")
    side = like or (source if now == "hf" else source / SIDE)
    if not (side / "config.json").is_file():
        raise InputError(f"{side} has no config.json of transformers, which says the model's shapes: name a directory "
                         "that has it, and the tokenizer, with --like")
    shape = layouts.read_shape(load_config(side), "torchtitan's llama3 or qwen3" if layout == "torchtitan" else "")
    with _reading(source):
        weights = _read(source, now, shape)
    make_directory(out.parent)
    temporary = temporary_of(out)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        _write(weights, layout, shape, temporary, tensor)
        copy_side(side, temporary if layout == "hf" else temporary / SIDE)
        publish(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return shape


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    try:
        yield
    except ArgosyError:
        raise
    except Exception as error:
        raise InputError(f"the weights in {source} cannot be read: {error}; copy the checkpoint again") from error


def _read(source: Path, layout: str, shape: layouts.Shape) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    if layout == "torchtitan":
        return layouts.from_torchtitan(_read_distributed(source), shape)
    if layout == "megatron":
        return layouts.from_megatron([load_file(path) for path in _shards_in(source)], shape)
    if is_adapter(source):
        model = load_model(source, dtype="auto")
        return {name: tensor for name, tensor in model.state_dict().items() if name not in model.all_tied_weights_keys}
    weights = {name: tensor for path in sorted(source.glob("model*.safetensors"))
               for name, tensor in load_file(path).items() if not name.endswith("rotary_emb.inv_freq")}
    head = weights.get(layouts.HEAD)
    if shape.tied and head is not None:  # some write the embedding twice
        if not head.equal(weights.get(layouts.EMBEDDING, head)):
            raise InputError(f"{source}: tie_word_embeddings is true, and {layouts.HEAD} differs from "
                             f"{layouts.EMBEDDING}: set it to false in config.json, so that both are kept")
        del weights[layouts.HEAD]
    return weights


def _shards_in(source: Path) -> Sequence[Path]:
    found = sorted(source.glob("tensor-*-of-*.safetensors"))
    wanted = [_SHARD.format(rank, len(found)) for rank in range(len(found))]
    if [path.name for path in found] != wanted:
        raise InputError(f"{source} has {', '.join(path.name for path in found)}, allowed: all shards of one "
                         f"checkpoint, such as {', '.join(wanted)}")
    return found


def _read_distributed(source: Path) -> dict[str, Tensor]:
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata
    from torch.distributed.checkpoint.state_dict_loader import load

    kept: dict[str, Any] = {}
    for name, each in FileSystemReader(source).read_metadata().state_dict_metadata.items():
        if isinstance(each, TensorStorageMetadata) and name.startswith(_TITAN):
            kept[name] = torch.empty(each.size, dtype=each.properties.dtype)
    load(kept, checkpoint_id=source, no_dist=True)
    return kept


def _write(weights: layouts.Weights, layout: str, shape: layouts.Shape, out: Path, tensor: int) -> None:
    out.mkdir()
    if layout == "torchtitan":
        from torch.distributed.checkpoint.state_dict_saver import save

        save(layouts.to_torchtitan(weights, shape), checkpoint_id=out, no_dist=True)
    elif layout == "megatron":
        for rank, shard in enumerate(layouts.to_megatron(weights, shape, tensor)):
            write_tensors(shard, out / _SHARD.format(rank, tensor), {"format": "pt"})
    else:
        write_tensors(dict(sorted(weights.items())), out / "model.safetensors", {"format": "pt"})


def copy_side(side: Path, target: Path) -> None:
    """Copy what is no weights: config, tokenizer, chat template, argosy.json."""
    target.mkdir(exist_ok=True)
    for path in sorted(side.iterdir()):
        apart = "safetensors" in path.name or path.name in (BASE, CONFIG)
        if path.is_file() and path.suffix in (".json", ".jinja", ".model", ".txt") and not apart:
            shutil.copyfile(path, target / path.name)
