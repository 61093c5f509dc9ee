"""Direct Preference Optimization (Rafailov et al. 2023): preference pairs without a reward model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.arguments import trainer_arguments
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.logprobs import answer_logprobs
from argosy.posttraining.preferences import Preference, in_order, pair_accuracy
from argosy.posttraining.source import Source
from argosy.posttraining.trainer import run_trainer
from argosy.step import StepContext

NAMES = {
    "rewards/accuracies": "train/accuracy",
    "rewards/margins": "train/margin",
    "rewards/chosen": "train/reward_chosen",
    "rewards/rejected": "train/reward_rejected",
}


def train_dpo(
    config: PosttrainingConfig,
    context: StepContext,
    source: Source,
    model: Any,
    pairs: Sequence[Preference],
    beta: float,
    label_smoothing: float,
) -> tuple[int, int]:
    """Train `model` in place; the reference is the source. Returns (optimiser steps, tokens)."""
    from datasets import Dataset
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    ordered = in_order(pairs, config)
    trainer = DPOTrainer(
        model=model,
        ref_model=source.causal_model(),
        args=DPOConfig(
            **trainer_arguments(config, context.out / "state"),
            beta=beta,
            label_smoothing=label_smoothing,
            max_length=None,
        ),
        train_dataset=Dataset.from_dict(
            {name: [list(getattr(pair, name)) for pair in ordered] for name in ("prompt", "chosen", "rejected")}
        ),
        processing_class=source.tokenizer,
    )
    return run_trainer(trainer, context, NAMES)


def implicit_margins(
    model: Any, reference: Any, pairs: Sequence[Preference], beta: float, pad_id: int, batch_size: int
) -> list[float]:
    """beta * (log-ratio of the chosen answer - log-ratio of the rejected one) of each pair, in nats (eq. 7)."""

    def ratios(side: str) -> list[float]:
        prompts = [pair.prompt_ids for pair in pairs]
        answers = [getattr(pair, side)[len(pair.prompt_ids) :] for pair in pairs]
        ours = answer_logprobs(model, prompts, answers, pad_id, batch_size)
        theirs = answer_logprobs(reference, prompts, answers, pad_id, batch_size)
        return [float(a.sum() - b.sum()) for a, b in zip(ours, theirs, strict=True)]

    return [beta * (c - r) for c, r in zip(ratios("chosen_ids"), ratios("rejected_ids"), strict=True)]


def dpo_metrics(margins: Sequence[float]) -> dict[str, float]:
    """Accuracy, mean margin and loss -log sigmoid(margin) of held-out pairs."""
    import torch

    values = torch.tensor(margins)
    return {
        "heldout/preference_accuracy": pair_accuracy(margins),
        "heldout/preference_margin": float(values.mean()),
        "heldout/dpo_loss": float(-torch.nn.functional.logsigmoid(values).mean()),
    }
