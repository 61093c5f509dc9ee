"""Distillation: held to torch's own divergence, and to a plain step; what it teaches, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from argosy.core.errors import InputError
from argosy.core.store.files import read_json, write_json
from argosy.model.train.layers.distil import linear_divergence
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import load_model
from steps import pretrain, sft
from tests import posttraining_fixtures
from tests.posttraining_fixtures import make_tokenizer
from tests.training_fixtures import make_data, run_here
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs

STUDENT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
           "num_key_value_heads": 1, "max_position_embeddings": 64}
FIELDS: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 8, "tokens": 60 * 256, "dtype": "float32",
                          "learning_rate": 1e-2, "heldout_points": 1}


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_divergence_and_gradients_are_those_of_torch(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    hidden, weight, taught, head = (torch.randn(*shape, generator=generator) for shape in (
        (300, 16), (56, 16), (300, 24), (50, 24)))  # rows of the larger vocabulary that are no tokens
    shares = torch.rand(300, generator=generator) * (torch.rand(300, generator=generator) > 0.3)
    found: list[tuple[Tensor, ...]] = []
    for own in (True, False):
        inputs = [each.clone().requires_grad_() for each in (hidden, weight)]
        if own:
            loss = linear_divergence(*inputs, taught, head, shares, temperature)
        else:
            logits, theirs = (inputs[0] @ inputs[1][:50].T).double(), (taught @ head.T).double()
            each = F.kl_div(F.log_softmax(logits / temperature, 1), F.log_softmax(theirs / temperature, 1),
                            reduction="none", log_target=True).sum(1)
            loss = (each * shares).sum() * temperature**2
        (3 * loss).backward()
        found.append((loss.detach(), *(each.grad for each in inputs if each.grad is not None)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-5, atol=1e-4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 80}, words=150)
    larger = STUDENT | {"hidden_size": 32, "num_hidden_layers": 2}
    run_here(pretrain, directory / "teacher", tokenized=directory, tokenizer=directory, model=larger, **FIELDS)
    return directory


def apart(student: Path, teacher: Path, rows: Tensor) -> float:
    """Mean divergence of two models' next-token distributions over rows of tokens."""
    with torch.no_grad():
        own, theirs = (F.log_softmax(load_model(find_checkpoint(path).path)(input_ids=rows).logits, -1)
                       for path in (student, teacher))
    return float(F.kl_div(own, theirs, reduction="none", log_target=True).sum(-1).mean())


def test_a_step_of_sft_learns_the_teachers_answers(tmp_path: Path) -> None:
    """Tokens of prompts are no part of it; a model that is its own teacher learns nothing."""
    student, teacher = (posttraining_fixtures.make_checkpoint(tmp_path / str(seed), seed) for seed in range(2))
    given = {"checkpoint": student, "data": posttraining_fixtures.make_data(tmp_path / "data"), "max_steps": 1,
             "learning_rate": 1e-4, "warmup_ratio": 0, "dtype": "float32", "heldout_limit": 8, "teacher_share": 1.0}
    before = load_model(find_checkpoint(student).path)
    for name, taught in (("itself", student), ("another", teacher)):
        run_here(sft, tmp_path / name, teacher=taught, **given)
        after = load_model(find_checkpoint(tmp_path / name).path)
        moved = max(float((new - old).abs().max()) for new, old in zip(after.parameters(), before.parameters(),
                                                                      strict=True))
        assert (moved < 1e-6) == (name == "itself"), moved
    rows = torch.tensor([make_tokenizer()("say red twice please red red say blue twice")["input_ids"]])
    assert apart(tmp_path / "another", teacher, rows) < apart(student, teacher, rows)


def test_teachers_that_cannot_teach_are_refused(data: Path, tmp_path: Path) -> None:
    stranger = posttraining_fixtures.make_checkpoint(tmp_path / "stranger")
    given = {"tokenized": data, "tokenizer": data, "model": STUDENT, **FIELDS}
    for fields, message in (({"teacher": stranger}, "has a tokenizer with other tokens than the model that learns"),
                            ({"teacher": data / "teacher", "processes": 2, "pipeline_parallel": 2, "engine": "fsdp",
                              "micro_batch_size": 4},
                             "pipeline_parallel=2 has each process compute a part .*: set pipeline_parallel=1"),
                            ({"teacher_share": 0.9}, "teacher_share is 0.9, and there is no teacher")):
        with pytest.raises((InputError, ValidationError), match=message):
            run_here(pretrain, tmp_path / "out", **given, **fields)


def test_the_plan_refuses_them_before_any_stage_starts(tmp_path: Path) -> None:
    own, other = (posttraining_fixtures.make_checkpoint(tmp_path / name) for name in ("own", "other"))
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["further"])
    tokenizer.save_pretrained(find_checkpoint(own).path)
    reward = find_checkpoint(posttraining_fixtures.make_checkpoint(tmp_path / "reward")).path / "config.json"
    write_json(reward, read_json(reward) | {"architectures": ["LlamaForSequenceClassification"]})

    def planned(*overrides: str) -> None:
        fields = [f"start.model={find_checkpoint(own).path}", "stages=sft", "sft.max_length=0", *overrides]
        check_inputs(lifecycle(compose("finetune", None, fields)), {"sft"})

    planned(f"sft.teacher={own}")
    with pytest.raises(InputError, match=r"^sft.teacher: teacher=.*other.* has a tokenizer with other tokens"):
        planned(f"sft.teacher={other}")
    with pytest.raises(InputError, match=r"^sft.teacher: .* \(a reward model, a classifier\): it predicts no tokens"):
        planned(f"sft.teacher={reward.parent}")
    with pytest.raises(InputError, match=r"sft.teacher_share is 0.5, and there is no teacher"):
        planned("sft.teacher_share=0.5")
