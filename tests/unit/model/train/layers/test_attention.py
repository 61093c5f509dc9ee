"""Attention over packed documents: against each document alone, by any function, and what memory it takes."""

import copy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.nn.attention import varlen
from torch.nn.attention.flex_attention import create_mask
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.model.train.layers.attention import PACKED, Packed, additive, arguments, choose, packed_attention
from argosy.model.train.layers.loss import LossModule

SHAPE = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048}
KINDS: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {"sliding_window": 60},
    "qwen3": {"sliding_window": 60, "use_sliding_window": True, "head_dim": 8,
              "layer_types": ["full_attention", "sliding_attention"]},
    "gpt_neox": {"num_key_value_heads": 4, "tie_word_embeddings": False}}
ENDS = [[0, 5, 6, 110, 113, 400], [0, 270, 330, 400]]  # long ones, groups of short ones, a single token


def make(kind: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SHAPE, **KINDS[kind]})
    return AutoModelForCausalLM.from_config(config, dtype="float32", attn_implementation="eager")


def packed() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randint(0, 64, (2, len(ENDS), 400), generator=generator)
    sizes = [torch.tensor(ends).diff() for ends in ENDS]
    return inputs, targets, torch.stack([torch.arange(len(each)).repeat_interleave(each) for each in sizes])


@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_those_of_each_document_alone(kind: str) -> None:
    model = make(kind)
    inputs, targets, documents = packed()
    alone = torch.zeros(())
    for row, ends in enumerate(ENDS):
        for first, last in pairwise(ends):
            logits = model(inputs[row : row + 1, first:last], use_cache=False).logits[0]
            alone = alone + F.cross_entropy(logits, targets[row, first:last], reduction="sum")
    alone.backward()
    expected = {name: parameter.grad / alone.detach() for name, parameter in model.named_parameters()}
    for attention in ("eager", "sdpa", "varlen"):
        module = LossModule(copy.deepcopy(model), 1, torch.float32, 0.0, 400, attention)  # type: ignore[arg-type]
        module.zero_grad()
        loss, _ = module(inputs, targets, documents=documents)
        torch.testing.assert_close(loss, alone, rtol=1e-5, atol=0)
        loss.backward()
        for name, parameter in module.model.named_parameters():
            torch.testing.assert_close(parameter.grad / loss.detach(), expected[name], rtol=1e-4, atol=1e-6)


class _Sizes(TorchDispatchMode):
    """Collects the numbers of elements of all tensors that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, Tensor):
                self.largest = max(self.largest, each.untyped_storage().nbytes() // each.element_size())
        return result


@pytest.mark.parametrize("window", [None, 128])
def test_no_tensor_has_an_element_for_each_pair_of_tokens(window: int | None) -> None:
    model = make("mistral")
    model.config.sliding_window = window
    for layer in model.get_decoder().layers:
        layer.self_attn.config.sliding_window = window
    length = 2048
    inputs = torch.randint(0, 64, (1, length), generator=torch.Generator().manual_seed(0))
    documents = torch.arange(length)[None] // 700
    largest = {}
    for attention in ("auto", "sdpa"):
        module = LossModule(model, 1, torch.float32, 0.0, length, attention)  # type: ignore[arg-type]
        with _Sizes() as sizes:
            module(inputs, inputs, documents=documents)[0].backward()
        largest[attention] = sizes.largest
    assert largest["auto"] <= length * max(256, SHAPE["intermediate_size"])
    assert largest["sdpa"] >= length * length


def test_short_samples_keep_the_mask_and_longer_ones_need_none() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [choose("auto", cpu, length) for length in (512, 513)] == ["sdpa", PACKED]
    assert [choose("auto", gpu, 128), choose("flex", gpu, 128)] == [PACKED, "flex_attention"]
    with pytest.raises(InputError, match="attention=flex has no backward on a CPU: set attention=varlen"):
        choose("flex", cpu, 1024)


def test_on_a_gpu_the_kernel_of_several_lengths_gets_the_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def note(*tensors: Any, **named: Any) -> tuple[Tensor, Tensor]:
        calls.append({"shapes": [tuple(each.shape) for each in tensors[:3]], "longest": tensors[5], **named})
        return torch.empty_like(tensors[0]), torch.empty(4, 800)

    monkeypatch.setattr(varlen, "varlen_attn", note)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    ends = Packed.of(packed()[2])
    assert ends.ends.tolist() == [*ENDS[0], *(400 + end for end in ENDS[1][1:])]
    with FakeTensorMode(allow_non_fake_inputs=True):
        query = torch.empty(2, 4, 400, 8, device="cuda", dtype=torch.bfloat16)
        key = torch.empty(2, 2, 400, 8, device="cuda", dtype=torch.bfloat16)
        for window in (None, 100, 400):
            out, _ = packed_attention(None, query, key, key, None, scaling=0.5, sliding_window=window, packed=ends)
            assert out.shape == (2, 400, 4, 8)
        monkeypatch.setattr("argosy.model.train.layers.gather_parts", lambda part, _: part.repeat(1, 4, 1))
        monkeypatch.setattr("argosy.model.train.layers.part_of_sum", lambda of_all, _: of_all[:, :100])
        monkeypatch.setattr("argosy.model.train.layers.attention.has_kernel", lambda *_: True)
        module, group = SimpleNamespace(training=True), SimpleNamespace(size=lambda: 4, rank=lambda: 3)
        own = [torch.empty(2, heads, 100, 8, requires_grad=True) for heads in (4, 2, 2)]
        packed_attention(module, *own, None, packed=ends, group=group)[0].sum().backward()  # by the kernel's operation
        assert all(each.grad.shape == each.shape for each in own)  # type: ignore[union-attr]
    assert [call.pop("window_size") for call in calls] == [(-1, 0), (99, 0), (-1, 0), (-1, 0)]
    assert (calls[3]["shapes"], calls[3]["longest"]) == ([(200, 4, 8), (800, 2, 8), (800, 2, 8)], 100)
    assert calls[0] == {"shapes": [(800, 4, 8), (800, 2, 8), (800, 2, 8)], "longest": 400, "scale": 0.5,
                        "enable_gqa": True, "return_aux": (True,)}


@pytest.mark.parametrize(("window", "documents"), [(None, packed()[2]), (60, packed()[2]), (None, None)])
def test_parts_that_gather_keys_attend_as_whole_samples(monkeypatch: pytest.MonkeyPatch, window: int | None,
                                                        documents: Tensor | None) -> None:
    """Of four processes and one head of keys: equal outputs and sums of gradients, and no other's keys are kept."""
    generator = torch.Generator().manual_seed(0)
    whole = [torch.randn(2, heads, 400, 8, generator=generator, requires_grad=True) for heads in (3, 1, 1)]
    weights = torch.randn(2, 400, 3, 8, generator=generator)
    given: dict[str, Any] = {"sliding_window": window, "packed": None if documents is None else Packed.of(documents)}
    module: Any = SimpleNamespace(training=True)
    expected = packed_attention(module, *whole, None, **given)[0]
    (expected * weights).sum().backward()
    pair, sums, found = torch.cat(whole[1:], dim=-1)[:, 0].detach(), torch.zeros(2, 400, 16), []
    monkeypatch.setattr("argosy.model.train.layers.gather_parts", lambda part, group: pair)
    monkeypatch.setattr("argosy.model.train.layers.part_of_sum",
                        lambda of_all, group: sums.add_(of_all)[:, group.own])
    for rank in range(4):
        own, kept = slice(100 * rank, 100 * rank + 100), [0]
        group = SimpleNamespace(size=lambda: 4, rank=lambda at=rank: at, own=own)
        parts = [each[:, :, own].detach().requires_grad_() for each in whole]
        with saved_tensors_hooks(lambda each: kept.append(each.numel()) or each, lambda each: each):  # noqa: B023
            output = packed_attention(module, *parts, None, group=group, **given)[0]
        assert sum(kept) == sum(each.numel() for each in parts)
        (output * weights[:, own]).sum().backward()
        found += [(output, expected[:, own]), (parts[0].grad, whole[0].grad[:, :, own])]  # type: ignore[index]
    for one, other in (*found, (sums, torch.cat([each.grad[:, 0] for each in whole[1:]], dim=-1))):  # type: ignore[index]
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_the_blocks_of_flex_attention_allow_what_the_mask_allows() -> None:
    documents = packed()[2]
    config = SimpleNamespace(_attn_implementation="flex_attention", sliding_window=100, layer_types=["a"])
    made = arguments(config, documents, torch.float32)["attention_mask"]
    for kind, window in (("full_attention", None), ("sliding_attention", 100)):
        allowed = create_mask(made[kind].mask_mod, 2, 1, 400, 400, device="cpu")
        assert torch.equal(allowed, additive(documents, window, torch.float32) == 0)


def test_a_model_that_changes_its_scores_is_refused() -> None:
    module = SimpleNamespace(config=SimpleNamespace(model_type="gemma2"))
    query = torch.zeros(1, 2, 4, 8)
    with pytest.raises(InputError, match="does not know softcap of gemma2: set attention=eager"):
        packed_attention(module, query, query, query, None, softcap=30.0)
