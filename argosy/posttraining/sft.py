"""Supervised fine-tuning on conversations: the loss is on the assistant's tokens alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.arguments import trainer_arguments
from argosy.posttraining.chat import Conversation
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.order import training_order
from argosy.posttraining.source import Source
from argosy.posttraining.trainer import run_trainer
from argosy.step import StepContext


def finetune(
    config: PosttrainingConfig,
    context: StepContext,
    source: Source,
    model: Any,
    conversations: Sequence[Conversation],
) -> tuple[int, int]:
    """Train `model` in place on `conversations`. Returns (optimiser steps, tokens).

    The conversations come tokenised and labelled by the chat template, and in the order of training, so
    TRL prepares nothing: what was checked is what is learnt.
    """
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            **trainer_arguments(config, context.out / "state"),
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        train_dataset=_dataset(conversations, config),
        processing_class=source.tokenizer,
    )
    return run_trainer(trainer, context, {"mean_token_accuracy": "train/token_accuracy"})


def _dataset(conversations: Sequence[Conversation], config: PosttrainingConfig) -> Any:
    from datasets import Dataset

    lengths = [len(conversation.input_ids) for conversation in conversations]
    order = training_order(lengths, config.batch_size, config.epochs, config.seed, config.max_steps)
    columns = {
        "input_ids": [conversation.input_ids for conversation in conversations],
        "labels": [conversation.labels for conversation in conversations],
    }
    return Dataset.from_dict(columns).select(order)
