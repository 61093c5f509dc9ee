"""Weights of a checkpoint, loaded by transformers and checked: no tensor is missing, left over, of another shape or
not a number. transformers itself fills what is missing with random numbers and goes on."""

import copy
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.model.weights.adapters.files import CONFIG, attach, base_path, find_base, is_adapter
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.pretrained import load_config, load_weights, loading, settled_dtype, weights_dtype
from argosy.model.weights.quantize import whole_again

OUTPUT_LAYER = r"(lm_head|embed_out)\..*"  # of a language model; a classifier has none
_AGAIN = "export or download it again, whole"
_BASES: WeakValueDictionary[tuple[Path, str], Any] = WeakValueDictionary()  # those that adapters share


def load_model(path: Path, kind: str = "AutoModelForCausalLM", *, dtype: str = "float32", new: str = "",
               unused: str = "", **fields: Any) -> Any:
    """Load the weights in `path` into the class of transformers that is named `kind`; of an adapter, those of its base
    with the adapter added to them.

    Args:
        new: pattern of tensors that the checkpoint may lack, as it lacks those of a new head: they are drawn.
        unused: pattern of tensors that the checkpoint may have and the class has not.
        fields: more arguments of from_pretrained.

    Raises InputError: it cannot be loaded, or a tensor is missing, unexpected, of another shape or not finite;
    StepError: it has disappeared meanwhile."""
    if is_adapter(path):
        from argosy.model.weights.adapters.layers import merge

        return merge(load_adapted(path, kind, dtype=dtype, new=new, **fields))
    model, report = load_weights(path, kind, dtype=dtype, **whole_again(path), **fields)
    name = type(model).__name__
    _refuse(path, f"lacks {{}} of {name}, which would be random numbers", _others(report["missing_keys"], new))
    _refuse(path, f"has {{}}, for which {name}, as its config.json describes it, has no place",
            _others(report["unexpected_keys"], unused))
    _refuse(path, f"has another shape of {{}} than {name}, as its config.json describes it",
            {f"{key} ({list(here)}, not {list(there)})" for key, here, there in report["mismatched_keys"]})
    check_finite(path, ((key, value) for key, value in model.state_dict().items() if not value.is_meta))
    return model


def load_adapted(path: Path, kind: str = "AutoModelForCausalLM", *, new: str = "", **fields: Any) -> Any:
    """Load an adapter beside its base, not merged; args and errors as `load_model`."""
    if "quantization_config" in fields:
        raise InputError(f"lora.kind=qlora quantizes whole weights, and checkpoint {path} is an adapter beside its "
                         "base: export it with lora.merge=true, or set lora.kind=lora")
    if kind.endswith("Classification"):
        fields.setdefault("num_labels", load_config(path).num_labels)
    whole = read_record(path / CONFIG).get("modules_to_save") or ()  # trained beside the adapters, in their file
    heads = "|".join([*([new] if new else []), *(rf"{re.escape(name)}\..*" for name in whole)])
    return _attached(load_model(find_base(path), kind, new=heads, unused=OUTPUT_LAYER, **fields), path, new)


def own_dtype(path: Path) -> str:
    """Name the precision that `load_shared` loads with dtype=auto: of an adapter, that of its base."""
    return weights_dtype(base_path(path) if is_adapter(path) else path)


def settled_for(dtype: str, directories: Iterable[tuple[str, str]], *, gpu: bool) -> str:
    """Settle one precision for several language models, as `settled_dtype` does for one.

    `directories`: each with the name of its export; what is not there (a model of the hub) counts as bfloat16."""
    found = set()
    for directory, export in directories:
        own = ""
        with suppress(InputError):
            own = own_dtype(find_checkpoint(directory, export).path)
        found.add(settled_dtype(dtype, own, gpu=gpu))
    return next((each for each in sorted(found) if each != "weights"), "weights")


def load_shared(path: Path, dtype: str = "float32") -> Any:
    """Load a language model to compute with, not to train: of an adapter, its layers over the tensors of a base that
    all adapters of it in this process share."""
    if not is_adapter(path):
        return load_model(path, dtype=dtype)
    where = find_base(path)
    base = _BASES.get((where, dtype))
    if base is None:
        base = _BASES[where, dtype] = load_model(where, dtype=dtype)
    held = {id(tensor): tensor for tensor in (*base.parameters(), *base.buffers())}
    model = _attached(copy.deepcopy(base, held), path)
    model.__dict__["shared_base"] = base  # which lives as long as one that shares it
    return model


def _attached(base: Any, path: Path, new: str = "") -> Any:
    with loading(path):
        model = attach(base, path, new)
    check_finite(path, ((key, value) for key, value in model.named_parameters() if value.requires_grad))
    return model


def check_files(path: Path) -> None:
    """Check the weights in `path` as `load_model` does, a tensor at a time, for an engine that reads them itself."""
    from safetensors import safe_open

    files = sorted(path.glob("*.safetensors"))
    load_model(path, **({"device_map": "meta"} if files else {}))
    for file in files:
        with loading(path), safe_open(file, "pt") as tensors:
            check_finite(path, ((key, tensors.get_tensor(key)) for key in tensors.keys()))  # noqa: SIM118


def _others(keys: Iterable[str], pattern: str) -> set[str]:
    return {key for key in keys if not pattern or not re.fullmatch(pattern, key)}


def _refuse(path: Path, what: str, tensors: Collection[str]) -> None:
    if tensors:
        first, *more = sorted(tensors)
        named = f"{first} and {len(more)} more tensors" if more else first
        raise InputError(f"checkpoint {path} {what.format(named)}; {_AGAIN}")


def check_finite(path: Path, tensors: Iterable[tuple[str, Any]]) -> None:
    """Check the numbers of the checkpoint in `path`. Raises InputError: one is not finite."""
    for key, value in tensors:
        if not value.is_floating_point() or not value.numel():
            continue
        numbers = value.float() if value.element_size() == 1 else value  # torch compares no numbers of 8 bits
        if not all(bool(end.isfinite()) for end in numbers.aminmax()):  # both are NaN where one number is
            raise InputError(f"checkpoint {path} has NaN or infinite numbers in {key}: its training has diverged, or "
                             f"the file is damaged; take an earlier checkpoint, or {_AGAIN}")
