"""bfloat16 on a CPU without instructions for it: the products of such instructions."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from argosy.model.train.precision import _in_float32, speed_up_bfloat16


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
    (lambda *args: F.scaled_dot_product_attention(*args, is_causal=True), [(1, 2, 16, 8)] * 3),
])
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
