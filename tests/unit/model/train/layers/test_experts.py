"""What experts compute against transformers, and the same divided over two processes."""

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn

from argosy.core.errors import InputError
from argosy.model.train.layers.experts import compute_experts, parallelize_experts, use_experts

COUNT, HIDDEN, INNER = 4, 8, 6


class Mixture(nn.Module):
    """A block that routes tokens, with the tensors that transformers keeps the experts in."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: Any = nn.Linear(HIDDEN, COUNT, bias=False)
        experts: Any = nn.Module()
        experts.gate_up_proj = nn.Parameter(torch.randn(COUNT, 2 * INNER, HIDDEN))
        experts.down_proj = nn.Parameter(torch.randn(COUNT, HIDDEN, INNER))
        experts.act_fn = nn.functional.silu
        self.experts = experts

    def forward(self, hidden: Tensor, compute: Any) -> Tensor:
        weights, index = self.gate(hidden).softmax(dim=-1).topk(2)
        experts = self.experts
        made: Tensor = compute(hidden, index, weights, experts.gate_up_proj, experts.down_proj, experts.act_fn)
        return made


@pytest.mark.parametrize("tokens", [1, 40])
def test_experts_equal_transformers(tokens: int) -> None:
    from transformers import MixtralConfig, MixtralForCausalLM
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    torch.manual_seed(0)
    config = MixtralConfig(vocab_size=16, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=1,
                           num_attention_heads=2, num_key_value_heads=1, num_local_experts=COUNT, initializer_range=0.5)
    model = MixtralForCausalLM(config)
    reference: Any = copy.deepcopy(model).get_submodule("model.layers.0.mlp.experts")
    reference.config = copy.deepcopy(config)
    reference.config._experts_implementation = "eager"
    use_experts(model)
    ours = model.get_submodule("model.layers.0.mlp.experts")
    assert isinstance(ours, MixtralExperts)
    index = torch.rand(tokens, COUNT).topk(2).indices
    hidden, weights = torch.randn(tokens, HIDDEN), torch.rand(tokens, 2)
    results = []
    for module in (ours, reference):
        given = [each.clone().requires_grad_() for each in (hidden, weights)]
        made = module(given[0], index, given[1])
        made.square().sum().backward()
        parameters = [each.grad if each.grad is not None else torch.zeros_like(each) for each in module.parameters()]
        results.append([made.detach(), *(each.grad for each in given), *parameters])
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def on_two(rank: int, folder: str) -> None:
    """Compute with half of the experts and a part of the tokens, of which this process may have none."""
    from argosy.model.train.layers.experts import exchange_tokens

    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Mixture().double()
    names = parallelize_experts(model, dist.group.WORLD)
    assert all(getattr(model.get_parameter(name), "expert_parallel") for name in names)  # noqa: B009
    found = [names]
    for sizes in ((20, 30), (9, 0)):
        hidden = torch.randn(sum(sizes), HIDDEN, dtype=torch.float64).split(sizes)[rank].clone().requires_grad_()
        model.zero_grad()
        made = model(hidden, partial(exchange_tokens, group=dist.group.WORLD))
        made.square().sum().backward()
        grads = [each.grad for each in (hidden, model.gate.weight, *model.experts.parameters())]
        found.append([made.detach(), *grads])
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_with_half_of_the_experts_compute_what_one_does(tmp_path: Path) -> None:
    """Outputs, and the gradients of tokens, router and experts; a router's gradient is a sum over the processes."""
    spawn(on_two, (str(tmp_path),), 2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    torch.manual_seed(0)
    model = Mixture().double()
    assert first[0] == second[0] == ["experts.gate_up_proj", "experts.down_proj"]
    for number, size in enumerate((50, 9), start=1):
        hidden = torch.randn(size, HIDDEN, dtype=torch.float64).requires_grad_()
        model.zero_grad()
        made = model(hidden, compute_experts)
        made.square().sum().backward()
        a, b = first[number], second[number]
        parts = [torch.cat([a[0], b[0]]), torch.cat([a[1], b[1]]), a[2] + b[2],
                 *(torch.cat(each) for each in zip(a[3:], b[3:], strict=True))]
        whole = [made.detach(), *(each.grad for each in (hidden, model.gate.weight, *model.experts.parameters()))]
        for mine, theirs in zip(parts, whole, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


def test_experts_that_cannot_be_divided_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda _: 3)
    monkeypatch.setattr(dist, "get_rank", lambda _: 0)
    with pytest.raises(InputError, match="expert_parallel=3 does not divide the model's 4 experts: choose a divisor"):
        parallelize_experts(Mixture(), None)
    dense: Any = nn.Linear(2, 2)
    dense.config = type("Config", (), {"model_type": "llama"})
    with pytest.raises(InputError, match=r"needs a model of experts, and this one \(llama\) is dense"):
        parallelize_experts(dense, None)
