"""Mixtures of experts: losses, gradients and loads against transformers, a phase that resumes, what is refused."""

import copy
import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from argosy.core.errors import InputError
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.layers.experts import parallelize_experts
from argosy.model.train.layers.loss import LossModule
from argosy.model.train.parallelism.pipeline import Stage, spread
from argosy.model.train.phase import build_model
from steps import pretrain
from tests.training_fixtures import Recorder, digests, make_data, run_here
from workflows.compose import compose

EXPERTS: dict[str, Any] = {"count": 4, "per_token": 2, "balance_loss": 0.1, "router_z_loss": 0.05}
MODEL: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
                         "num_key_value_heads": 1, "max_position_embeddings": 64, "initializer_range": 0.2}
KINDS = ("mixtral", "qwen3_moe")


def make(kind: str, **experts: Any) -> Any:
    torch.manual_seed(0)
    given = {**EXPERTS, **({"dense_layers": (0,), "intermediate_size": 24} if kind == "qwen3_moe" else {}), **experts}
    return build_model(ModelConfig(model_type=kind, experts=given, **MODEL), 320, {"eos_token_id": 1})


def samples(*lengths: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets, (samples, 16): so many of them, then padding."""
    inputs, targets = torch.randint(0, 320, (2, len(lengths), 16)).unbind()
    for row, length in zip(targets, lengths, strict=True):
        row[length:] = IGNORED
    return inputs, targets


def theirs(model: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    """Transformers' loss with its balance loss, and the z-loss of the router logits that it gives."""
    real = targets != IGNORED
    out = model(input_ids=inputs, attention_mask=real.long(), labels=targets, shift_labels=targets,
                output_router_logits=True)
    kept = [logits[real.flatten()] for logits in out.router_logits]
    return out.loss + 0.05 * torch.cat(kept).logsumexp(dim=1).square().mean()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_transformers_own_over_micro_batches_by_their_targets(kind: str) -> None:
    """The balance is that of a micro-batch: the step's loss is the mean of them, each weighing as its targets do. The
    second time the backward computes the blocks again."""
    model = make(kind)
    reference = copy.deepcopy(model)
    module: Any = LossModule(model, 1, torch.float32, 0.0, 16)
    batches = [samples(16, 9), samples(16, 16)]
    torch.stack([theirs(reference, *each) * (each[1] != IGNORED).sum() / 57 for each in batches]).sum().backward()
    for again in (False, True):
        if again:
            model.activation_checkpointing_enable({"use_reentrant": False})
        model.zero_grad()
        for each in batches:
            (module(*each)[0] / 57).backward()
        expected = dict(reference.named_parameters())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=0, atol=1e-5)
        total = module.routing.take()
        sent, balance = total[:-3].view(-1, 4), float(total[-3] / total[-1])
        assert float(sent.sum()) == 57 * 2 * len(sent)  # once, however often it is computed
        assert balance == pytest.approx(sum(
            float(reference(input_ids=i, attention_mask=(t != IGNORED).long(), labels=t, shift_labels=t,
                            output_router_logits=True).aux_loss.detach() * (t != IGNORED).sum())
            for i, t in batches) / 57, abs=1e-5)
    loss, _ = module(*batches[0])
    assert float(loss.detach() / 25) == pytest.approx(float(theirs(reference, *batches[0]).detach()), abs=1e-5)


def test_stages_pass_on_what_the_losses_and_loads_of_the_whole_model_are_made_of() -> None:
    """The first of three stages of one process has no experts."""
    sizes, experts = {**MODEL, "num_hidden_layers": 3}, {**EXPERTS, "dense_layers": (0,)}
    model = build_model(ModelConfig(model_type="qwen3_moe", experts=experts, **sizes), 320, {})
    module: Any = LossModule(model, 1, torch.float32, 0.0, 16)
    inputs, targets = samples(16, 9)
    whole, _ = module(inputs, targets)
    whole.backward()
    expected, gradients = module.routing.take(), [each.grad for each in model.parameters()]
    model.zero_grad()
    stages = [Stage(module, span, 3) for span in spread(3, 3)]
    states, routed = inputs, None
    for stage in stages:
        states, routed = stage(states, routed, targets=targets)
    loss, _ = stages[-1].loss.score(states, targets, routed=routed)
    loss.backward()
    assert torch.equal(loss, whole)
    assert torch.equal(module.routing.take(), expected)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 60}, words=150)
    return directory


PRESET = compose("moe", None, ()).pretrain
SMALL: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 8, "micro_batch_size": 4, "tokens": 6 * 256,
                         "warmup_tokens": 0, "log_every": 3, "save_every": 2, "heldout_points": 1, "dtype": "float32",
                         "mixture": {}, "exports": (1.0,), "threads": 1}


def train(data: Path, out: Path, tracker: Recorder, **model: Any) -> Any:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, **model}
    given = {**PRESET.model_dump(), **SMALL, "model": {**PRESET.model.model_dump(), **sizes}}
    return run_here(pretrain, out, tracker, **{**given, "tokenized": data, "tokenizer": data})


def test_a_phase_logs_loads_and_resumes_with_the_same(data: Path, tmp_path: Path) -> None:
    whole, died, again = Recorder(), Recorder(crash_at=6), Recorder()
    outputs = train(data, tmp_path / "whole", whole)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "died", died)
    assert train(data, tmp_path / "died", again) == outputs
    assert digests(tmp_path / "died") == digests(tmp_path / "whole")
    assert {**died.logged, **again.logged} == whole.logged
    logged = {name: value for (name, step), value in whole.logged.items() if step == 6}
    with (tmp_path / "whole/tracking/expert_load.csv").open() as file:
        table = {row.pop("block"): [float(each) for each in row.values()] for row in csv.DictReader(file)}
    assert list(table) == ["0", "1"]
    for block, shares in table.items():
        assert sum(shares) == pytest.approx(1.0, abs=1e-5)
        assert logged[f"train/experts/max_load/{block}"] == pytest.approx(16 * max(shares), abs=1e-4)
        assert logged[f"train/experts/min_load/{block}"] == pytest.approx(16 * min(shares), abs=1e-4)
        assert 0 < logged[f"train/experts/entropy/{block}"] <= 1
    assert logged["train/experts/max_load"] == max(logged[f"train/experts/max_load/{block}"] for block in table)
    assert logged["train/balance_loss"] > 3.9  # 4 of even routing to 4 experts
    assert logged["train/router_z_loss"] > 0
    assert outputs.heldout["en"].bpb < outputs.heldout_before["en"].bpb


@pytest.mark.parametrize(("kind", "experts", "message"), [
    ("mixtral", {"count": 4, "per_token": 5}, r"experts\.per_token=5 exceeds experts\.count=4, allowed: 1 to 4"),
    ("llama", {"count": 4}, "experts are of model_type mixtral or qwen3_moe, and this is llama"),
    ("qwen3_moe", None, r"model_type=qwen3_moe needs experts, such as experts=\{count: 8"),
    ("mixtral", {"count": 4, "dense_layers": (0,)}, "dense_layers is of model_type qwen3_moe, and this is mixtral"),
    ("mixtral", {"count": 4, "normalized": False}, "normalized=false is of model_type qwen3_moe"),
    ("qwen3_moe", {"count": 4, "dense_layers": (0, 1)}, r"dense_layers=\[0, 1\] of num_hidden_layers=2, allowed"),
    ("qwen3_moe", {"count": 4, "dense_layers": (2,)}, r"dense_layers=\[2\] .*allowed: some of 0 to 1")])
def test_experts_that_cannot_be_are_refused(kind: str, experts: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelConfig(model_type=kind, experts=experts, **MODEL)


def test_experts_that_cannot_be_divided_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda _: 3)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda _: 0)
    with pytest.raises(InputError, match="expert_parallel=3 does not divide the model's 4 experts: choose a divisor"):
        parallelize_experts(make("mixtral"), None)
    dense = build_model(ModelConfig(**MODEL), 320, {})
    with pytest.raises(InputError, match=r"needs a model of experts, and this one \(llama\) is dense"):
        parallelize_experts(dense, None)
