"""The PPO loop: sample, score, update; resumable to the same bytes.

A step draws its randomness from (seed, step) alone, so a state holds weights, optimiser and KL coefficient, and
no generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from argosy.posttraining.finite import check_values, check_weights
from argosy.posttraining.ppo.loss import KLController
from argosy.posttraining.ppo.rollout import Models, collect
from argosy.posttraining.ppo.update import update
from argosy.posttraining.ppo.value_model import load_value_model
from argosy.posttraining.prompts import Prompt, in_order
from argosy.posttraining.reward import WeightedRewards
from argosy.posttraining.rl_config import RLHFConfig
from argosy.posttraining.source import Source
from argosy.posttraining.state import latest_state, mark_complete
from argosy.step import StepContext
from argosy.tokens.permutation import derive_seed

STATE = "ppo.pt"


@dataclass
class _Run:
    """What changes during training."""

    models: Models
    optimizer: Any
    scheduler: Any
    controller: KLController
    step: int = 0
    tokens: int = 0

    def save(self, directory: Path) -> None:
        import torch

        path = directory / f"checkpoint-{self.step}"
        path.mkdir(parents=True, exist_ok=True)
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        torch.save(
            {**parts, "controller": asdict(self.controller), "step": self.step, "tokens": self.tokens}, path / STATE
        )
        mark_complete(path)

    def load(self, path: Path) -> None:
        import torch

        state = torch.load(path / STATE, map_location=self.models.policy.device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.controller = KLController(**state["controller"])
        self.step, self.tokens = state["step"], state["tokens"]

    def _parts(self) -> dict[str, Any]:
        return {
            "policy": self.models.policy,
            "value": self.models.value,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
        }


def train_ppo(
    config: RLHFConfig,
    context: StepContext,
    source: Source,
    policy: Any,
    reference: Any,
    prompts: Sequence[Prompt],
    rewards: WeightedRewards,
) -> tuple[int, int]:
    """Train `policy` in place. Returns (rollouts, tokens of prompts and answers).

    Raises:
        StepError: a weight or a metric is not a finite number.
    """
    ordered = in_order(prompts, config, config.batch_size)
    total = len(ordered) // config.batch_size
    run = _start(config, source, policy, reference, total)
    resume = latest_state(context.out / "state")
    if resume:
        run.load(resume)
    window: list[dict[str, float]] = []  # empty whenever a state is saved: save_every is a multiple of log_every
    note = ""
    while run.step < total:
        batch = ordered[run.step * config.batch_size : (run.step + 1) * config.batch_size]
        window.append(_one_step(run, batch, config, source, rewards))
        if run.step == 1 or run.step % config.log_every == 0 or run.step == total:
            mean = {name: sum(values[name] for values in window) / len(window) for name in window[0]}
            context.tracker.metrics(mean, step=run.step)
            window, note = [], f"reward {mean['rlhf/reward']:.3f}"
        context.progress.update(run.step, total, "steps", note)
        if run.step % config.save_every == 0 or run.step == total:
            run.save(context.out / "state")
    return run.step, run.tokens


def _start(config: RLHFConfig, source: Source, policy: Any, reference: Any, total: int) -> _Run:
    import torch
    from transformers import get_scheduler

    value = load_value_model(config, source).to(policy.device)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(policy.parameters()), "lr": config.learning_rate},
            {"params": list(value.parameters()), "lr": config.ppo.value_learning_rate},
        ],
        weight_decay=config.weight_decay,
        eps=1e-5,
    )
    updates = total * config.ppo.epochs * config.ppo.minibatches
    scheduler = get_scheduler(config.schedule, optimizer, round(config.warmup_ratio * updates), updates)
    controller = KLController(config.kl_coef, config.ppo.kl_target, config.ppo.kl_horizon)
    return _Run(Models(policy, reference, value), optimizer, scheduler, controller)


def _one_step(
    run: _Run, prompts: Sequence[Prompt], config: RLHFConfig, source: Source, rewards: WeightedRewards
) -> dict[str, float]:
    seed = derive_seed("ppo", config.seed, run.step)
    decoding = source.decoding(config.max_new_tokens, config.temperature, seed)
    rollout = collect(run.models, prompts, rewards, source.tokenizer, decoding)
    values = update(run.models, rollout, run.optimizer, run.scheduler, config, run.controller.coef, seed)
    values |= {"rlhf/kl_coef": run.controller.coef, "train/lr": run.scheduler.get_last_lr()[0]}
    run.controller.update(values["rlhf/kl_k1"], len(prompts))
    run.step += 1
    check_values(values, run.step)
    for model in (run.models.policy, run.models.value):
        check_weights(model, run.step)
    run.tokens += int(rollout.answers.attention.sum())
    return values
