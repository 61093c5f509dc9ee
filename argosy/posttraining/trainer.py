"""TRL trainers as parts of a step: arguments, metrics, progress, resumable states, an equal result after a crash."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.stage import Stage, Trained, check_values, check_weights
from argosy.step.contract import StepContext
from argosy.training.parallel import Group
from argosy.training.state import delete_old, latest_state, mark_complete

PREFIX = "checkpoint-"  # Trainer's name of a state


def trainer_arguments(kind: type[Any], stage: Stage[PosttrainingConfig], **own: Any) -> Any:
    """Make TRL's arguments of type `kind`: deterministic, resumable, and silent but for our callback.

    The data are given in the order of training (see argosy.posttraining.config), so that one sequential epoch is the
    whole run. The callback decides when resumable states are complete and deletes the old ones, because Trainer's
    own rotation can leave a broken one behind. `own`: fields that only this kind has."""
    arguments = kind(**{**_shared(stage), **own})
    _ = arguments.device  # counts the GPUs; with more than one, Trainer would make the model nn.DataParallel
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments


def _shared(stage: Stage[PosttrainingConfig]) -> dict[str, Any]:
    config = stage.config
    gpu = stage.group.device.type != "cpu"
    return {
        "output_dir": str(stage.context.out / "state"),
        "seed": config.seed,
        "full_determinism": True,
        "use_cpu": not gpu,
        "bf16": config.dtype != "float32",
        "gradient_checkpointing": False,
        "num_train_epochs": 1,
        "max_steps": config.max_steps or -1,
        "train_sampling_strategy": "sequential",
        "per_device_train_batch_size": config.micro_batch,
        "gradient_accumulation_steps": config.batch_size // (config.micro_batch * stage.group.world),
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "constant_with_warmup" if config.schedule == "constant" else config.schedule,
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
        # Without the search, DDP forms other buckets after its first step: a resumed run would add up in another order.
        "ddp_find_unused_parameters": True,
    }


COMMON = {"loss": "train/loss", "learning_rate": "train/lr", "grad_norm": "train/grad_norm"}


def run_trainer(trainer: Any, stage: Stage[PosttrainingConfig], names: Mapping[str, str]) -> Trained:
    """Train from the newest complete state (or the beginning) to the end.

    Args:
        trainer: a transformers Trainer made with `trainer_arguments`.
        names: Trainer's name of a metric -> ours; others are not logged. COMMON ones are always logged.

    Returns:
        (optimizer steps, input tokens), counted from the beginning of the stage.

    Raises:
        StepError: a weight or a logged value is not a finite number."""
    trainer.add_callback(_callback(stage.context, stage.group, {**COMMON, **names}))
    resume = latest_state(Path(trainer.args.output_dir), PREFIX, stage.group.rank)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if hasattr(trainer.model.config, "output_router_logits"):  # set for the balance loss, and generating fails with it
        trainer.model.config.output_router_logits = False
    return Trained(trainer.state.global_step, int(trainer.state.num_input_tokens_seen))


def _callback(context: StepContext, group: Group, names: Mapping[str, str]) -> Any:
    from transformers import TrainerCallback

    class StepCallback(TrainerCallback):
        """Bridge from Trainer's events to the step's tracker, progress and complete states."""

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            check_weights(model, state.global_step)
            control.should_log |= state.global_step >= state.max_steps  # the last steps count, too
            context.progress.update(state.global_step, state.max_steps, "steps")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            values = {names[key]: float(value) for key, value in (logs or {}).items() if key in names}
            if not values:
                return
            check_values(values, state.global_step)
            context.tracker.metrics(values, step=state.global_step)
            note = f"loss {values['train/loss']:.3f}" if "train/loss" in values else ""
            context.progress.update(state.global_step, state.max_steps, "steps", note, force=True)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            group.barrier()  # each rank has written its random state
            if group.rank == 0:
                mark_complete(Path(args.output_dir) / f"{PREFIX}{state.global_step}")
                delete_old(Path(args.output_dir), PREFIX)

    return StepCallback()
