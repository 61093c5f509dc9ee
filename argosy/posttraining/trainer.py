"""Run a TRL trainer as part of a step: metrics, progress, resumable states, an equal result after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argosy.posttraining.finite import check_values, check_weights
from argosy.posttraining.state import latest_state, mark_complete
from argosy.step import StepContext

COMMON = {"loss": "train/loss", "learning_rate": "train/lr", "grad_norm": "train/grad_norm"}


def run_trainer(trainer: Any, context: StepContext, names: Mapping[str, str]) -> tuple[int, int]:
    """Train from the newest complete state (or the beginning) to the end.

    Args:
        trainer: a transformers Trainer made with `trainer_arguments(config, <out>/state)`.
        context: where metrics and progress go.
        names: Trainer's name of a metric -> ours; others are not logged. COMMON ones are always logged.

    Returns:
        (optimiser steps, input tokens seen), counted from the beginning of the stage.

    Raises:
        StepError: a weight or a logged value is not a finite number.
    """
    trainer.add_callback(_callback(context, {**COMMON, **names}))
    resume = latest_state(Path(trainer.args.output_dir))
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return trainer.state.global_step, int(trainer.state.num_input_tokens_seen)


def _callback(context: StepContext, names: Mapping[str, str]) -> Any:
    from transformers import TrainerCallback

    class StepCallback(TrainerCallback):
        """Forwards Trainer's logs to the step's tracker and marks its states complete."""

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
            mark_complete(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    return StepCallback()
