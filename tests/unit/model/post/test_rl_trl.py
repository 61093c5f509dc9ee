"""Advantages and losses of GRPO and RLOO beside TRL's, on the answers that TRL sampled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from argosy.model.post.rl.config import RLHFConfig
from argosy.model.post.rl.methods import Outcome
from argosy.model.post.rl.networks import Clipping, PolicyLoss, advantages_of, clips, laid_out, token_weights
from tests.posttraining_fixtures import make_checkpoint, make_tokenizer

SIZE, LONGEST = 4, 10
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "grpo": ("grpo", {}, {"loss_type": "grpo"}),
    "dr_grpo": ("grpo", {"scale": "none", "normalizer": "constant"}, {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "dapo": ("grpo", {"normalizer": "token", "clip_high": 0.28}, {"loss_type": "bnpo", "epsilon_high": 0.28}),
    "gspo": ("grpo", {"ratio": "sequence_mean"}, {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "rloo": ("rloo", {}, {}),
}


def _reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [sum(ids) % 7 / 7 for ids in completion_ids]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("trl") / "base") / "checkpoints" / "final"


def _trainer(checkpoint: Path, out: Path, method: str, own: dict[str, Any]) -> tuple[Any, Any]:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    kind, arguments = (GRPOTrainer, GRPOConfig) if method == "grpo" else (RLOOTrainer, RLOOConfig)
    data = Dataset.from_dict({"prompt": [[{"role": "user", "content": f"say {word}"}] for word in ("cat", "two")]})
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    trainer = kind(model=model, reward_funcs=[_reward], train_dataset=data, processing_class=make_tokenizer(),
                   args=arguments(output_dir=str(out), use_cpu=True, bf16=False, report_to="none", beta=0.1,
                                  num_generations=SIZE, max_completion_length=LONGEST, num_iterations=2, seed=1,
                                  per_device_train_batch_size=2 * SIZE, gradient_checkpointing=False, **own))
    return trainer, model


@pytest.mark.parametrize("case", list(CASES))
def test_advantages_and_losses_equal_those_of_trl(case: str, checkpoint: Path, tmp_path: Path) -> None:
    method, choices, own = CASES[case]
    trainer, model = _trainer(checkpoint, tmp_path, method, own)
    moved(model, 0.02, seed=1)  # the policy that samples is not the reference
    records = [row for row in trainer.train_dataset for _ in range(SIZE)]
    made = trainer._generate_and_score_completions(records)
    policy_before = made["old_per_token_logps"] if method == "grpo" else None
    config = RLHFConfig.model_validate({
        "method": method, "group": {"size": SIZE}, "batch_size": 2 * SIZE, "micro_batch_size": 2 * SIZE,
        "max_new_tokens": LONGEST, "kl_coef": 0.1, "loss": choices, "rewards": {"ended": 1.0}})
    rows, mask = _rows(made), made["completion_mask"].float()
    low, high = clips(config.loss)
    clipping = Clipping(config.choice("ratio"), low, high, 2.0, 0.1 if config.choice("kl") == "loss" else 0.0)
    module = PolicyLoss(model, clipping, 1.0, torch.float32, 96)
    score = _scorer(module, rows, mask)
    old = score()
    if policy_before is not None:
        torch.testing.assert_close(old, policy_before * mask, atol=1e-5, rtol=1e-5)
    reference = _scorer(PolicyLoss(_load(checkpoint), clipping, 1.0, torch.float32, 96), rows, mask)()
    scores = torch.tensor(_reward([answer for _, answer in rows]))
    apart = (old - reference) if config.choice("kl") == "reward" else torch.zeros_like(old)
    advantages, _ = advantages_of(Outcome(scores, apart, mask), config, 0.1)
    theirs = made["advantages"]
    torch.testing.assert_close(advantages, theirs[:, None] * mask, atol=1e-5, rtol=1e-5)
    moved(model, 0.05, seed=2)  # an update later
    weights, total = token_weights(config, mask, torch.zeros(len(rows)))
    facts = torch.stack([old, old, reference, advantages, weights])[:, mask > 0]
    loss, _ = module(*laid_out(rows, "cpu"), facts)
    model.eval()
    expected = trainer._compute_loss(model, made)
    assert loss.item() / total(range(len(rows))) == pytest.approx(expected.item(), abs=1e-5)


def moved(model: Any, by: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.parameters():
            each += by * each.std() * torch.randn(each.shape, generator=generator)


def _load(checkpoint: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(checkpoint)


def _rows(made: dict[str, Tensor]) -> list[tuple[list[int], list[int]]]:
    parts = [(made[f"{name}_ids"], made[f"{name}_mask"].bool()) for name in ("prompt", "completion")]
    return [tuple(ids[row][kept[row]].tolist() for ids, kept in parts) for row in range(2 * SIZE)]  # type: ignore[misc]


def _scorer(module: PolicyLoss, rows: list[tuple[list[int], list[int]]], mask: Tensor) -> Callable[[], Tensor]:
    def score() -> Tensor:
        found = torch.zeros_like(mask)
        with torch.no_grad():
            found[mask > 0] = module(*laid_out(rows, "cpu"))
        return found

    return score
