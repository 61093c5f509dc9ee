"""The part of Hugging Face's TrainingArguments that all our trainers share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from argosy.errors import InputError
from argosy.posttraining.config import PosttrainingConfig


def trainer_arguments(config: PosttrainingConfig, state: Path) -> dict[str, Any]:
    """Keyword arguments of every TRL config: deterministic, resumable, and silent but for our callback.

    The data are given in the order of training (see argosy.posttraining.order), so that one sequential epoch
    is the whole run. `state` holds the resumable states; the callback decides when they are complete and deletes
    the old ones, because Trainer's own rotation can leave a broken one behind.
    """
    import torch

    gpu = torch.cuda.is_available()
    devices = int(os.environ.get("WORLD_SIZE", "0")) or max(1, torch.cuda.device_count())
    if config.batch_size % (config.micro_batch_size * devices):
        raise InputError(
            f"batch_size={config.batch_size} is not a multiple of micro_batch_size={config.micro_batch_size} x "
            f"{devices} devices; lower micro_batch_size, or raise batch_size"
        )
    return {
        "output_dir": str(state),
        "seed": config.seed,
        "full_determinism": True,
        "use_cpu": not gpu,
        "bf16": config.dtype != "float32",
        "gradient_checkpointing": False,
        "num_train_epochs": 1,
        "max_steps": config.max_steps or -1,
        "train_sampling_strategy": "sequential",
        "per_device_train_batch_size": config.micro_batch_size,
        "gradient_accumulation_steps": config.batch_size // (config.micro_batch_size * devices),
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.schedule,
        "warmup_steps": config.warmup_ratio,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "include_num_input_tokens_seen": "non_padding",
        "logging_strategy": "steps",
        "logging_steps": config.log_every,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": config.save_every,
        "eval_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_num_workers": 0,
        "dataloader_pin_memory": gpu,
    }
