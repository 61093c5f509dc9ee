"""A reward model: the language model with a head of one number, trained on preference pairs.

The loss is that of Bradley and Terry: -log sigmoid(r(chosen) - r(rejected)) (Ouyang et al. 2022, eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.arguments import trainer_arguments
from argosy.posttraining.batches import by_length, pad_right
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.preferences import Preference, in_order, pair_accuracy
from argosy.posttraining.source import Source
from argosy.posttraining.trainer import run_trainer
from argosy.step import StepContext


def load_reward_model(source: Source, seed: int | None = None) -> Any:
    """The checkpoint as a sequence classifier with one output, float32; a new head is drawn from `seed`."""
    import torch
    from transformers import AutoModelForSequenceClassification

    if seed is not None:
        torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(source.path, num_labels=1, dtype="float32")
    model.config.pad_token_id = source.tokenizer.pad_token_id
    return model


def train_reward_model(
    config: PosttrainingConfig, context: StepContext, source: Source, model: Any, pairs: Sequence[Preference]
) -> tuple[int, int]:
    """Train `model` in place on `pairs`. Returns (optimiser steps, tokens)."""
    from datasets import Dataset
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    ordered = in_order(pairs, config)
    trainer = RewardTrainer(
        model=model,
        args=RewardConfig(**trainer_arguments(config, context.out / "state"), max_length=None),
        train_dataset=Dataset.from_dict(
            {"chosen_ids": [p.chosen_ids for p in ordered], "rejected_ids": [p.rejected_ids for p in ordered]}
        ),
        processing_class=source.tokenizer,
    )
    return run_trainer(trainer, context, {"accuracy": "train/accuracy", "margin": "train/margin"})


def rewards_of(model: Any, conversations: Sequence[Sequence[int]], pad_id: int, batch_size: int) -> list[float]:
    """The reward of each conversation, given as token ids up to its end-of-turn token."""
    import torch

    rewards = [0.0] * len(conversations)
    model.eval()
    with torch.no_grad():
        for batch in by_length(conversations, batch_size):
            rows = [conversations[index] for index in batch]
            ids = pad_right(rows, pad_id).to(model.device)
            mask = pad_right([[1] * len(row) for row in rows], 0).to(model.device)
            values = model(input_ids=ids, attention_mask=mask).logits[:, 0].tolist()
            for index, value in zip(batch, values, strict=True):
                rewards[index] = value
    return rewards


def preference_metrics(model: Any, pairs: Sequence[Preference], pad_id: int, batch_size: int) -> dict[str, float]:
    """Part of the pairs whose better answer gets the higher reward, and the mean difference of the two."""
    chosen = rewards_of(model, [pair.chosen_ids for pair in pairs], pad_id, batch_size)
    rejected = rewards_of(model, [pair.rejected_ids for pair in pairs], pad_id, batch_size)
    margins = [better - worse for better, worse in zip(chosen, rejected, strict=True)]
    return {
        "heldout/preference_accuracy": pair_accuracy(margins),
        "heldout/preference_margin": sum(margins) / len(margins),
    }
