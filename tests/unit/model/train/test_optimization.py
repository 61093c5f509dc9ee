"""Schedules, Muon, parameter groups, RoPE and bfloat16 products: against other implementations of the same."""

import math
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peft.optimizers import create_loraplus_optimizer
from pydantic import ValidationError
from transformers import get_scheduler

from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.optim import GaLoreAdamW, MuonAdamW, learning_rate, make_optimizer, narrow, set_rate
from argosy.model.train.phase import build_model, lengthen
from argosy.model.train.precision import _in_float32, speed_up_bfloat16
from argosy.model.weights.adapters import LoRAConfig
from argosy.model.weights.adapters.layers import add_adapters

TINY = ModelConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2,
                   num_key_value_heads=2)


def tiny() -> Any:
    torch.manual_seed(0)
    return build_model(TINY, 64, {})


@pytest.mark.parametrize("schedule", ["cosine", "linear", "wsd", "constant"])
def test_schedules_equal_those_of_transformers(schedule: Any) -> None:
    config = TrainConfig(schedule=schedule, tokens=100 * 64, global_batch_size=4, sequence_length=16,
                         warmup_tokens=20 * 64, learning_rate=0.5, final_learning_rate=0.0, decay_fraction=0.25)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    name = {"wsd": "warmup_stable_decay", "constant": "constant_with_warmup"}.get(schedule, schedule)
    extra = {"num_decay_steps": 20, "decay_type": "linear"} if schedule == "wsd" else {}
    theirs = get_scheduler(name, optimizer, num_warmup_steps=21, num_training_steps=101,
                           scheduler_specific_kwargs=extra)
    for step in range(config.steps):
        optimizer.step()
        theirs.step()
        assert learning_rate(config, step) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9), step


def test_schedule_ends_at_its_floor_and_short_phases_work() -> None:
    config = TrainConfig(tokens=10**6, warmup_tokens=1000, learning_rate=1.0, final_learning_rate=0.1)
    assert learning_rate(config, config.steps) == pytest.approx(0.1)
    short = TrainConfig(tokens=1000, warmup_tokens=999, learning_rate=1.0)
    assert short.steps == 1
    assert learning_rate(short, 0) == 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_muon_equals_torch_on_matrices(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(shape)) for shape in ((8, 24), (24, 8), (2, 8, 24))]  # the last of experts
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in (*ours[:2], *ours[2])]
    a = MuonAdamW([{"params": ours, "matrices": True, "weight_decay": 0.1}], dtype, lr=0.02)
    b = torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        for p in ours:
            p.grad = torch.randn_like(p)
        for q, grad in zip(theirs, (ours[0].grad, ours[1].grad, *ours[2].grad), strict=True):  # type: ignore[misc]
            q.grad = grad
        a.step()
        b.step()
    for p, q in zip((*ours[:2], *ours[2]), theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-3)  # torch's is bfloat16 inside


def test_galore_is_adamw_in_the_space_of_a_gradient_s_largest_singular_vectors() -> None:
    """By numpy, over three projectors, of which none says which sign a singular vector has."""
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(*shape)) for shape in ((6, 9), (9, 6), (2, 8, 8))]
    made = GaLoreAdamW([{"params": ours, "matrices": True, "weight_decay": 0.1, "rank": 0.3, "update_gap": 2,
                         "scale": 0.5}], lr=0.02, betas=(0.9, 0.95))  # fmt: skip
    weights = [each.detach().double().numpy().copy() for each in ours]
    kept: dict[Any, Any] = {}
    for step in range(6):
        for parameter in ours:
            parameter.grad = torch.randn_like(parameter)
        made.step()
        for number, parameter in enumerate(ours):
            for at in np.ndindex(*parameter.shape[:-2]):
                weight, gradient = weights[number][at], parameter.grad[at].double().numpy()
                weight, gradient = (weight.T, gradient.T) if len(weight) >= weight.shape[1] else (weight, gradient)
                basis, first, second = kept.get((number, at), (None, 0.0, 0.0))
                if step % 2 == 0:
                    basis = np.linalg.svd(gradient)[0][:, :math.ceil(0.3 * len(weight))]
                    basis *= np.sign((basis * made.state[parameter]["projector"][at].numpy()).sum(0))
                first = 0.9 * first + 0.1 * basis.T @ gradient
                second = 0.95 * second + 0.05 * (basis.T @ gradient) ** 2
                kept[number, at] = basis, first, second
                adam = first / (1 - 0.9 ** (step + 1)) / (np.sqrt(second / (1 - 0.95 ** (step + 1))) + 1e-8)
                weight -= 0.02 * 0.1 * weight + 0.02 * 0.5 * basis @ adam
    for parameter, weight in zip(ours, weights, strict=True):
        torch.testing.assert_close(parameter.detach().double().numpy(), weight, rtol=0, atol=1e-6)


def hashed(numbers: Any) -> Any:
    """MurmurHash3's last steps, in numpy's whole numbers."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        numbers = (numbers ^ (numbers >> np.uint32(shift))) * np.uint32(factor)
    return numbers


def as_bfloat16(numbers: Any, bits: Any = None) -> Any:
    """Rounded to nearest, ties to even, or up where the 16 `bits` exceed what is left."""
    whole = numbers.view(np.uint32)
    more = 0x7FFF + (whole >> np.uint32(16) & np.uint32(1)) if bits is None else bits
    return (whole + more.astype(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("rounding", ["kahan", "stochastic"])
def test_adamw_in_bfloat16_is_that_of_numpy_for_any_cut(rounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "CHUNK", 24)  # a few rows at a time
    generator, one = np.random.default_rng(0), np.float32(1)
    weight = as_bfloat16(generator.normal(size=(7, 24)).astype(np.float32))
    cuts = [(slice(0, 4), slice(0, 24)), (slice(4, 7), slice(0, 10)), (slice(4, 7), slice(10, 24))]
    parts = [torch.nn.Parameter(torch.tensor(weight[cut]).bfloat16()) for cut in cuts]
    made = narrow.AdamWBF16([{"params": parts, "weight_decay": 0.1}], rounding, 5, lr=1e-3, betas=(0.9, 0.999))
    made.located = {part: ("w", [each.start for each in cut], (7, 24)) for part, cut in zip(parts, cuts, strict=True)}
    places = np.arange(7 * 24, dtype=np.uint32).reshape(7, 24) * np.uint32(0x9E3779B1)
    mean = square = lost = np.zeros((7, 24), np.float32)
    for step in range(1, 21):
        gradient = as_bfloat16(generator.normal(size=(7, 24)).astype(np.float32))
        for part, cut in zip(parts, cuts, strict=True):
            part.grad = torch.tensor(gradient[cut]).bfloat16()
        made.step()
        key = hashed(np.array([step * 0x9E3779B1 % 2**32 ^ crc32(b"5/w") ^ 2**31], np.uint32))
        bits = hashed(places + key)
        mean = mean + np.float32(0.1) * (gradient - mean)
        square = square + np.float32(0.001) * (gradient * gradient - square)
        change = mean / (1 - np.float32(0.9)**step) / (np.sqrt(square / (1 - np.float32(0.999)**step)) + 1e-8 * one)
        exact = (weight + lost) * (one - np.float32(1e-4)) - np.float32(1e-3) * change
        mean, square = as_bfloat16(mean), as_bfloat16(square, bits >> np.uint32(16))
        weight = as_bfloat16(exact, None if rounding == "kahan" else bits & np.uint32(0xFFFF))
        lost = as_bfloat16(exact - weight) if rounding == "kahan" else lost
    for kind, expected in (("", weight), ("exp_avg", mean), ("exp_avg_sq", square), ("compensation", lost)):
        for part, cut in zip(parts, cuts, strict=True):
            found = made.state[part].get(kind, torch.zeros_like(part)) if kind else part.detach()
            near = np.isclose(found.float().numpy(), expected[cut], rtol=2**-8 if kind != "compensation" else 0.1)
            assert near.mean() > 0.97, kind  # the last bit of a float32 result may round to another number


def test_rounding_at_random_is_right_on_average_and_draws_anew_at_each_step() -> None:
    numbers = torch.tensor([1 / 3, -1e-3, 70000.5, 1e-39, 1.0, math.inf, math.nan]).view(-1, 1)
    made = narrow.rounded(numbers.expand(-1, 2**16).contiguous(), torch.arange(2**16, dtype=torch.int32)).double()
    torch.testing.assert_close(made, made.bfloat16().double(), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(made.mean(1), numbers[:, 0].double(), rtol=1e-12, atol=0, equal_nan=True)
    parameter = torch.nn.Parameter(torch.full((100, 100), 1.0).bfloat16())
    groups = [{"params": [parameter], "weight_decay": 0.0}]
    trained = narrow.AdamWBF16(groups, "stochastic", 0, lr=1e-5, betas=(0.0, 0.999))
    trained.located = {parameter: ("w", (0, 0), (100, 100))}
    for _ in range(100):
        parameter.grad = torch.ones_like(parameter)
        trained.step()
    walked = 1 - parameter.detach().double()
    assert float(walked.mean()) == pytest.approx(1e-3, rel=0.05)  # each step is 1/390 of bfloat16's last place
    assert float(walked.std()) == pytest.approx((1e-3 * 2**-8) ** 0.5, rel=0.1)  # as of steps that are independent


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "galore"])
def test_only_hidden_matrices_decay_and_every_parameter_is_trained(optimizer: Any) -> None:
    model = tiny()
    made = make_optimizer(model, TrainConfig(optimizer=optimizer, weight_decay=0.1))
    decayed = {id(p) for g in made.param_groups if g["weight_decay"] for p in g["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in decayed}
    assert all(name.endswith("_proj.weight") for name in names)
    assert len(names) == 2 * 7
    assert sum(len(g["params"]) for g in made.param_groups) == len(list(model.parameters()))


def test_the_second_matrices_of_adapters_learn_at_a_multiple_of_the_rate_as_pefts_do(tmp_path: Path) -> None:
    """Of LoRA+; the first are the same in both."""
    tiny().save_pretrained(tmp_path)
    ours, theirs = (add_adapters(tiny(), LoRAConfig(rank=4), 0, tmp_path) for _ in range(2))
    a = make_optimizer(ours, TrainConfig(lora=LoRAConfig(rank=4, rate_ratio=16), beta2=0.999, weight_decay=0))
    b = create_loraplus_optimizer(theirs, torch.optim.AdamW, lr=1e-2, loraplus_lr_ratio=16)
    for step in range(3):
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            if one.requires_grad:
                one.grad = torch.randn(one.shape, generator=torch.Generator().manual_seed(step))
                other.grad = one.grad.clone()
        set_rate(a, 1e-2)
        a.step()
        b.step()
    for (name, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def test_lengthening_keeps_the_weights_and_slows_the_rotations() -> None:
    model = tiny()
    longer = lengthen(model, 512, 500_000.0)
    assert longer.config.max_position_embeddings == 512
    for key, value in model.state_dict().items():
        assert torch.equal(value, longer.state_dict()[key])
    expected = 500_000.0 ** (-torch.arange(0, 16, 2) / 16)
    torch.testing.assert_close(longer.get_decoder().rotary_emb.inv_freq, expected)
    assert longer.get_input_embeddings().weight is longer.get_output_embeddings().weight
    ids = torch.arange(40)[None]
    assert not torch.allclose(model(ids).logits, longer(ids).logits)


@pytest.mark.parametrize(("fields", "message"), [
    ({"global_batch_size": 12, "micro_batch_size": 8}, "does not divide"),
    ({"processes": 3}, "processes=3 does not divide global_batch_size=32"),
    ({"processes": 4, "micro_batch_size": 3}, "micro_batch_size=3 does not divide global_batch_size=32 / processes=4"),
    ({"exports": (0.5,)}, "end with 1.0"),
    ({"exports": (0.9, 0.5, 1.0)}, "must rise"),
    ({"optimizer": "muon", "engine": "zero"}, "set engine=fsdp"),
    ({"engine": "deepspeed"}, "name: zero, stage: 0"),
    ({"engine": {"name": "ddp", "stage": 1}}, "engine ddp has no option stage; it has: none"),
    ({"engine": "zerro"}, "no engine 'zerro', allowed: auto, torch, ddp, fsdp, zero"),
    ({"engine": {"name": "zero", "stage": 2, "nvme_path": "/nvme", "offload": "optimizer"}}, "nvme_path is of stage=3"),
    ({"engine": {"name": "zero", "stage": 0, "param_dtype": "bfloat16"}}, "is for stage=1, 2 and 3 without nvme_path"),
    ({"tokens": 4096, "warmup_tokens": 4096}, "warmup_tokens=4096 is not below tokens=4096"),
    ({"mixture": {"en": math.inf, "code": 1}}, r"mixture\.en\s+Input should be a finite number"),
    ({"weight_decay": math.nan}, "finite number"),
    ({"optimizer": "adafactor", "engine": "zero"}, "needs whole rows and columns, and engine=zero may cut"),
    ({"optimizer": "galore", "engine": "fsdp"}, "needs whole matrices, and engine=fsdp may cut .*: set engine=torch"),
    ({"galore": {"rank": 0.5}}, "galore is for optimizer=galore, and this is adamw: set that, or leave"),
    ({"optimizer": "adamw_8bit", "engine": "fsdp"}, "needs whole blocks of 256 .* engine=fsdp .*: set engine=torch"),
    ({"optimizer": "adamw_bf16", "engine": "zero"}, "is for engine=torch, ddp and fsdp, and engine=zero keeps float32"),
    ({"optimizer": "adamw_bf16", "dtype": "float32"}, "optimizer=adamw_bf16 is with dtype=bfloat16, .* or leave optim"),
    ({"optimizer": "adamw_bf16", "frozen": ["lm_head"]}, "frozen exports .* optimizer=adamw_bf16 rounds them"),
    ({"rounding": "stochastic"}, "rounding is for optimizer=adamw_bf16, and this is adamw: set that, or leave it out"),
    ({"dtype": "float16", "engine": "zero"}, "engine=torch, ddp and fsdp alone: .* or dtype=bfloat16"),
    ({"fp8": True, "dtype": "float32"}, "fp8=true is with dtype=bfloat16, and this is float32"),
    ({"compile": True, "recompute": "selective"}, "compile=true and recompute=selective exclude each other"),
    ({"compile": True, "processes": 2, "pipeline_parallel": 2, "micro_batch_size": 4,
      "pipeline_schedule": "zero_bubble"}, "would run twice, .* set pipeline_schedule=1f1b"),
    ({"fp8": True, "engine": {"name": "zero", "stage": 2}}, "fp8=true is for engine=torch, ddp and fsdp")])
def test_config_errors_say_what_is_allowed(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TrainConfig(**fields)


def bfloat16(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16().requires_grad_()


@pytest.fixture(autouse=True)
def _replaced() -> None:
    speed_up_bfloat16()


@pytest.mark.parametrize(("product", "shapes"), [
    (torch.mm, [(5, 7), (7, 3)]),
    (torch.bmm, [(2, 5, 7), (2, 7, 3)]),
    (torch.addmm, [(5, 3), (5, 7), (7, 3)]),
    (lambda *args: torch.baddbmm(*args, beta=0.5, alpha=2.0), [(2, 5, 3), (2, 5, 7), (2, 7, 3)]),
    (lambda *args: F.linear(args[0], args[1], args[2]), [(4, 6, 7), (3, 7), (3,)]),
    (lambda *args: F.scaled_dot_product_attention(*args, is_causal=True), [(1, 2, 16, 8)] * 3)])
def test_products_and_their_gradients_are_float32_rounded_once(product: Any, shapes: list[tuple[int, ...]]) -> None:
    narrow = [bfloat16(*shape, seed=number) for number, shape in enumerate(shapes)]
    wide = [tensor.detach().float().requires_grad_() for tensor in narrow]
    ours, theirs = product(*narrow), product(*wide)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours.float(), theirs, rtol=2**-8, atol=2**-8)
    ours.sum().backward()
    theirs.sum().backward()
    for a, b in zip(narrow, wide, strict=True):
        torch.testing.assert_close(a.grad.float(), b.grad, rtol=2**-5, atol=2**-5)


def test_the_kernels_that_replace_round_float32_products_once() -> None:
    """Holds on any CPU: the kernels themselves, whether they were put in place or not."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    a, b = bfloat16(5, 7, seed=0).detach(), bfloat16(7, 3, seed=1).detach()
    expected = (a.float() @ b.float()).bfloat16()
    assert torch.equal(_in_float32("mm")(keys, a, b), expected)
    out = torch.empty(5, 3, dtype=torch.bfloat16)
    assert _in_float32("mm.out")(keys, a, b, out=out) is out
    assert torch.equal(out, expected)
    assert torch.equal(_in_float32("mm")(keys, a.float(), b.float()), a.float() @ b.float())
