"""Precision and optimizers: what a device lacks is refused, float16 skips what overflows, states go on."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from argosy.core.errors import InputError
from argosy.model.train import blocks, precision
from argosy.model.train.config import ContinueConfig, TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.config.numerics import GaLoreConfig
from argosy.model.train.engines.torch import LossScale
from argosy.model.train.optim import narrow
from argosy.model.train.phase import build_model
from argosy.model.train.precision import set_precision
from argosy.model.train.state import carry_optimizer, keep_optimizer
from tests.training_fixtures import TINY_MODEL, random_batch, tiny_engine, weights_of


def goes_on(tmp_path: Path, **fields: Any) -> None:
    """Train four steps, and two with a state between them: the weights are the same to the bit."""
    tmp_path.mkdir(exist_ok=True)
    whole, first, second = (tiny_engine(**fields) for _ in range(3))
    for step in range(4):
        whole.train_step(random_batch(step), 1e-2)
        (first if step < 2 else second).train_step(random_batch(step), 1e-2)
        if step == 1:
            first.save(tmp_path)
            second.load(tmp_path)
    assert torch.equal(weights_of(whole), weights_of(second))
    assert not torch.equal(weights_of(first), weights_of(second))


@pytest.mark.parametrize(("fields", "capability", "message"), [
    ({"dtype": "float16"}, None, "dtype=float16 .* has none: set dtype=bfloat16, or float32"),
    ({"tf32": True}, None, "tf32=true needs a GPU of compute capability 8.0 or more, and this phase has none"),
    ({"tf32": True}, (7, 5), "this GPU is of 7.5: set tf32=false"),
    ({"fp8": True}, None, "fp8=true needs a GPU of compute capability 8.9"),
    ({"fp8": True}, (8, 0), "this GPU is of 8.0: set fp8=false"),
    ({"fp8": True}, (9, 0), "needs the package torchao, which is not installed: .* image train .*; or set fp8=false")])
def test_what_the_device_lacks_is_refused(fields: dict[str, Any], capability: Any, message: str,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
    monkeypatch.setitem(sys.modules, "torchao", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=message):
        set_precision(None, TrainConfig(**fields), torch.device("cuda" if capability else "cpu"))


@pytest.fixture
def torchao(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """A package in the place of torchao's, whose interface it has."""
    made = {}
    for name in ("torchao", "torchao.float8", "torchao.optim"):
        made[name] = ModuleType(name)
        made[name].__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, made[name])
    return made


def test_a_gpu_that_can_gets_tf32_and_8_bits_for_the_blocks(monkeypatch: pytest.MonkeyPatch,
                                                           torchao: dict[str, ModuleType]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    replaced: list[str] = []

    def convert(model: Any, config: Any, module_filter_fn: Any) -> None:
        replaced.extend(name for name, each in model.named_modules()
                        if isinstance(each, torch.nn.Linear) and module_filter_fn(each, name))

    vars(torchao["torchao.float8"]).update(convert_to_float8_training=convert, Float8LinearConfig=dict)
    before = torch.get_float32_matmul_precision()
    try:
        model = build_model(ModelConfig.model_validate(TINY_MODEL), 64, {})
        set_precision(model, TrainConfig(tf32=True, fp8=True), torch.device("cuda"))
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)
    assert len(replaced) == 7
    assert all(name.endswith("_proj") for name in replaced)


@pytest.fixture
def _float16_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU computes float16 too, slowly: what is refused there is what a GPU runs."""
    monkeypatch.setattr(precision, "_problem", lambda config, capability: "")


@pytest.mark.usefixtures("_float16_here")
def test_float16_learns_what_float32_does(tmp_path: Path) -> None:
    half, full = tiny_engine(dtype="float16"), tiny_engine()
    for step in range(3):
        ours, theirs = (each.train_step(random_batch(step), 1e-2) for each in (half, full))
        assert float(ours[0].sum()) == pytest.approx(float(theirs[0].sum()), rel=2e-3)
        assert float(ours[2]) == pytest.approx(float(theirs[2]), rel=2e-2)
    goes_on(tmp_path, dtype="float16")


@pytest.mark.usefixtures("_float16_here")
def test_a_gradient_that_overflows_skips_the_step_and_halves_the_scale(tmp_path: Path) -> None:
    trained = tiny_engine(dtype="float16")
    assert trained._scale is not None
    trained._scale.restore(torch.tensor([2.0**40, 7, 0], dtype=torch.float64))
    before = weights_of(trained)
    assert not trained.train_step(random_batch(0), 1e-2)[2].isfinite()
    assert torch.equal(weights_of(trained), before)
    assert trained.measures() == {"train/loss_scale": 2.0**39, "train/skipped_steps": 1.0}
    trained.save(tmp_path)
    other = tiny_engine(dtype="float16")
    other.load(tmp_path)
    assert other.measures() == trained.measures()
    while not other.train_step(random_batch(0), 1e-2)[2].isfinite():
        pass
    assert not torch.equal(weights_of(other), before)


def test_the_scale_is_that_of_torch() -> None:
    ours, theirs = LossScale(torch.device("cpu")), torch.amp.GradScaler("cpu")
    assert ours.scaled(torch.ones(())) == theirs.scale(torch.ones(()))
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    for value in (1.0, float("inf"), 2.0, float("nan"), 3.0):
        gradient = torch.full((3,), value) * ours.value
        parameter.grad = gradient.clone()
        theirs.unscale_(optimizer)
        norm, finite = ours.unscale([gradient], gradient.norm())
        theirs.step(optimizer)
        theirs.update()
        assert ours.value == theirs.get_scale()
        assert finite == bool(torch.tensor(value).isfinite())
        if finite:
            assert torch.equal(gradient, parameter.grad)
            assert float(norm) == pytest.approx(value * 3**0.5)


class _Eight:
    """A tensor of 8 bits with one scale, of torchao's interface."""

    def __init__(self, like: torch.Tensor) -> None:
        self.codes, self.scale = torch.zeros(like.shape, dtype=torch.int8), torch.zeros(1)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["codes", "scale"], None

    def value(self) -> torch.Tensor:
        return self.codes.float() * self.scale

    def set(self, value: torch.Tensor) -> None:
        self.scale = value.abs().max().reshape(1) / 127
        self.codes = (value / self.scale.clamp(min=1e-30)).round().to(torch.int8)


class _Momentum8bit(torch.optim.Optimizer):
    def __init__(self, groups: Any, lr: float, betas: Any) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        for group in self.param_groups:
            group["lr"] = torch.tensor(group["lr"])

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state.setdefault("exp_avg", _Eight(parameter))
                state["step"] = state.get("step", torch.tensor(0.0)) + 1
                state["exp_avg"].set(state["exp_avg"].value().lerp(parameter.grad, 0.1))
                parameter -= group["lr"] * state["exp_avg"].value() / (1 - 0.9 ** state["step"])


def test_an_optimizer_goes_on_in_equal_bytes(tmp_path: Path, torchao: dict[str, ModuleType],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    torchao["torchao.optim"].AdamW8bit = _Momentum8bit  # type: ignore[attr-defined]
    monkeypatch.setattr(narrow, "no_compiler", lambda device: "")
    for optimizer in ("adafactor", "adamw_8bit"):
        goes_on(tmp_path / optimizer, optimizer=optimizer)
    goes_on(tmp_path, optimizer="galore", galore={"update_gap": 3})  # the state is between two projectors
    for rounding in ("kahan", "stochastic"):
        goes_on(tmp_path / rounding, optimizer="adamw_bf16", rounding=rounding, dtype="bfloat16")


@pytest.mark.parametrize("fields", [
    {}, {"optimizer": "muon"}, {"optimizer": "adafactor"}, {"optimizer": "galore"},
    {"optimizer": "adamw_bf16", "dtype": "bfloat16"}])
def test_a_phase_with_the_optimizer_of_the_one_before_is_one_run(tmp_path: Path, fields: dict[str, Any]) -> None:
    whole, before, after = (tiny_engine(keep_optimizer=True, **fields) for _ in range(3))
    for step in range(2):
        whole.train_step(random_batch(step), 1e-2)
        before.train_step(random_batch(step), 1e-2)
    keep_optimizer(before.config, before, tmp_path)
    after.module.load_state_dict(before.module.state_dict())  # what the checkpoint gives
    given = ContinueConfig(carry_optimizer=True, checkpoint=str(tmp_path), **fields)
    carry_optimizer(given, after)
    for step in range(2, 4):
        whole.train_step(random_batch(step), 1e-2)
        after.train_step(random_batch(step), 1e-2)
    assert torch.equal(weights_of(whole), weights_of(after))
    other = ContinueConfig(carry_optimizer=True, checkpoint=str(tmp_path), optimizer="adamw" if fields else "adafactor")
    with pytest.raises(InputError, match=r"cannot go on with what \w+ kept .*: set optimizer="):
        carry_optimizer(other, after)
    if fields.get("optimizer") == "galore":
        with pytest.raises(InputError, match=r"galore.rank=0.5 cannot go on with what 0.25 kept"):
            carry_optimizer(given.model_copy(update={"galore": GaLoreConfig(rank=0.5)}), after)
    with pytest.raises(InputError, match="kept no optimizer; set keep_optimizer=true of that phase"):
        carry_optimizer(given.model_copy(update={"checkpoint": str(tmp_path / "none")}), after)


@pytest.mark.usefixtures("torchao")
def test_without_a_compiler_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks.shutil, "which", lambda program: None)  # type: ignore[attr-defined]
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(InputError, match=r"compile=true: .* there is neither g\+\+ nor clang.* or set compile=false"):
        tiny_engine(compile=True)
    with pytest.raises(InputError, match=r"adamw_8bit: torch.compile needs a C compiler.*or set optimizer=adafactor"):
        tiny_engine(optimizer="adamw_8bit")
    monkeypatch.setattr(blocks.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    assert "triton" in blocks.no_compiler(torch.device("cuda"))
