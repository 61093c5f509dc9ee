"""The blocks of a model: which modules they are, what each keeps for its backward, and torch.compile for each.

One block at a time (regional compilation) takes the compiler as long for 80 blocks as for one, and leaves the names of
weights, states and exports as they are."""

import importlib.util
import math
import os
import shutil
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from argosy.core.errors import InputError
from argosy.model.train.layers.attention import blocks
from argosy.model.train.layers.experts import mixtures

_ATTENTION = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
_COMPILERS = {"cpu": ("CXX", "g++", "clang++"), "cuda": ("CC", "gcc", "clang")}  # a variable, then programs


def no_compiler(device: torch.device) -> str:
    """Say what torch.compile lacks for `device`; "" where it has all: a C++ compiler for a CPU, Triton and a C compiler
    for GPUs."""
    if device.type == "cuda" and not importlib.util.find_spec("triton"):
        return "torch.compile needs the package triton on GPUs, which is not installed"
    variable, *programs = _COMPILERS.get(device.type, _COMPILERS["cuda"])
    given = os.environ.get(variable)
    if any(shutil.which(program) for program in ([given] if given else programs)):
        return ""
    named = f"{variable}={given} is no program" if given else f"there is neither {' nor '.join(programs)}"
    return (f"torch.compile needs a C compiler, and {named}: install one (apt-get install g++; on a cluster the "
            "image train has one, its slim one has not)")


def compile_blocks(model: Any, device: torch.device) -> None:
    """Have each block compiled when it first runs, which takes the first steps minutes; of a block with experts,
    attention and norms: an expert's tokens differ from batch to batch, so that a compiler would start anew, and what
    routers decide is recorded outside of graphs (`Routing`).

    Raises InputError: there is no compiler."""
    if problem := no_compiler(device):
        raise InputError(f"compile=true: {problem}; or set compile=false")
    routers = set(mixtures(model))
    for block in blocks(model):
        eager = {part for part in block.children() if routers & set(part.modules())}
        for part in set(block.children()) - eager if eager else (block,):
            part.compile()


def recompute(model: Any, how: str, share: float) -> None:
    """Have a share of the blocks of a causal model of transformers, spread evenly, keep their input alone (`how` full),
    or their matrix products and attention too (selective); none changes nothing. The numbers stay as they are."""
    if how == "none":
        return
    settings: dict[str, Any] = {"use_reentrant": False}
    if how == "selective":
        settings["context_fn"] = partial(create_selective_checkpoint_contexts, _kept())
    model.activation_checkpointing_enable(activation_checkpointing_kwargs=settings)
    for index, block in enumerate(blocks(model)):
        block.gradient_checkpointing = math.ceil((index + 1) * share) > math.ceil(index * share)


def _kept() -> list[Any]:
    import torch.nn.attention.varlen  # which names its operation when it is imported

    aten = torch.ops.aten
    attention = [getattr(aten, f"_scaled_dot_product_{name}") for name in _ATTENTION]
    packed = torch.ops.torch_attn._varlen_attn
    return [each.default for each in (aten.mm, aten.addmm, aten.bmm, *attention, packed)]
