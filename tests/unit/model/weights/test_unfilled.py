"""Models without memory: the numbers of each weight alone are those of the model that is made or loaded whole."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from argosy.core.errors import InputError
from argosy.model.weights import export
from argosy.model.weights.export import save_weights
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import random_model
from argosy.model.weights.unfilled import give_memory, like, numbers_of, unfilled, unfilled_random

SHAPE = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}
EXPERTS = {"moe_intermediate_size": 24, "num_experts": 4, "num_local_experts": 4}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {"tie_word_embeddings": True, "pad_token_id": 3}), ("mistral", {}), ("qwen2", {}), ("qwen3", {}),
    ("gpt_neox", {}), ("mixtral", EXPERTS), ("qwen3_moe", EXPERTS)]


def config(kind: str, more: dict[str, Any]) -> Any:
    return AutoConfig.for_model(kind, **{**SHAPE, **more})


def assert_has(model: Any, whole: Any) -> None:
    """`model` has no memory, the numbers of the weights of `whole`, and its buffers."""
    numbers = numbers_of(model)
    assert numbers is not None
    assert all(each.is_meta for each in model.parameters())
    expected = dict(whole.named_parameters())
    assert list(numbers) == list(expected)
    assert all(torch.equal(numbers[name], each) for name, each in expected.items())
    assert all(torch.equal(numbers.read(name, (1,), (5,)), each[1:6]) for name, each in expected.items()
               if each.ndim == 1)
    assert all(torch.equal(numbers.read(name, (1, 2), (2, 3)), each[1:3, 2:5]) for name, each in expected.items()
               if each.ndim == 2)
    for (name, own), (_, there) in zip(model.named_buffers(), whole.named_buffers(), strict=True):
        assert torch.equal(own, there), name


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_weights_drawn_alone_are_those_of_the_whole_model(kind: str, more: dict[str, Any]) -> None:
    torch.manual_seed(5)
    whole, then = random_model(config(kind, more)), torch.rand(4)
    torch.manual_seed(5)
    model = unfilled_random(config(kind, more))
    assert torch.equal(torch.rand(4), then)
    assert_has(model, whole)


@pytest.mark.parametrize(("kind", "more"), KINDS)
def test_weights_read_alone_are_those_of_the_loaded_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str,
                                                          more: dict[str, Any]) -> None:
    monkeypatch.setattr(export, "FILE_BYTES", 2**12)  # several files, with an index
    save_weights(random_model(config(kind, more)), tmp_path)
    assert len(list(tmp_path.glob("model-0000?-of-0000?.safetensors"))) > 2
    whole = load_model(tmp_path)
    assert_has(unfilled(tmp_path), whole)
    longer = config(kind, {**more, "max_position_embeddings": 128})
    assert_has(like(unfilled(tmp_path), longer), like(whole, longer))


def test_memory_keeps_tied_weights_tied() -> None:
    model = unfilled_random(config(*KINDS[0]))
    numbers, names = numbers_of(model), {id(each): name for name, each in model.named_parameters()}
    assert numbers is not None
    with torch.no_grad():
        give_memory(model, torch.device("cpu"), lambda bare, made: made.copy_(numbers[names[id(bare)]]))
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert all(torch.equal(each, numbers[name]) for name, each in model.named_parameters())


def test_what_is_missing_or_not_finite_is_refused(tmp_path: Path) -> None:
    save_weights(random_model(config(*KINDS[3])), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name][3, 4] = torch.nan
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    numbers = numbers_of(unfilled(tmp_path))
    assert numbers is not None
    numbers.check(name, numbers[name][:3])
    with pytest.raises(InputError, match=rf"NaN or infinite numbers in {name}"):
        numbers.check(name, numbers[name])
    del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=f"lacks {name}"):
        unfilled(tmp_path)
