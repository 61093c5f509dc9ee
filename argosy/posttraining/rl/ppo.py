"""The PPO loop: sample, score, update; resumable to the same bytes.

A step draws its randomness from (seed, step, rank) alone, so a state holds weights, optimizer and KL coefficient, and
no generator. Each process answers its share of a step's prompts; gradients and statistics are of all."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from argosy.data.split import derive_seed
from argosy.models.load import Source
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.objective import ALONE, KLController, update
from argosy.posttraining.rl.rewards import Prompt, WeightedRewards, in_order
from argosy.posttraining.rl.rollout import Models, collect, load_value_model
from argosy.posttraining.stage import Stage, Trained, check_values, check_weights
from argosy.posttraining.trainer import PREFIX
from argosy.training.parallel import Group
from argosy.training.state import delete_old, latest_state, mark_complete

STATE = "ppo.pt"


@dataclass
class _Run:
    """A run of PPO: its networks, and all that changes during training."""

    models: Models
    optimizer: Any
    scheduler: Any
    controller: KLController
    group: Group = ALONE
    step: int = 0
    tokens: int = 0

    def save(self, directory: Path) -> None:
        """Write a resumable state; all processes hold the same, rank 0 writes it."""
        if self.group.rank:
            return
        path = directory / f"{PREFIX}{self.step}"
        path.mkdir(parents=True, exist_ok=True)
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        torch.save(
            {**parts, "controller": asdict(self.controller), "step": self.step, "tokens": self.tokens}, path / STATE
        )
        mark_complete(path)
        delete_old(directory, PREFIX)

    def load(self, path: Path) -> None:
        """Continue from the state in `path`."""
        state = torch.load(path / STATE, map_location=self.models.policy.device)
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.controller = KLController(**state["controller"])
        self.step, self.tokens = state["step"], state["tokens"]

    def _parts(self) -> dict[str, Any]:
        return {
            "policy": self.models.policy, "value": self.models.value, "optimizer": self.optimizer,
            "scheduler": self.scheduler
        }


def train_ppo(
    stage: Stage[RLHFConfig], policy: Any, reference: Any, prompts: Sequence[Prompt], rewards: WeightedRewards
) -> Trained:
    """Train `policy` in place; its steps are rollouts, its tokens those of prompts and answers.

    Raises StepError: a weight or a metric is not a finite number."""
    config, context = stage.config, stage.context
    ordered = in_order(prompts, config, config.batch_size)
    total = len(ordered) // config.batch_size
    run = _start(stage, policy, reference, total)
    resume = latest_state(context.out / "state", PREFIX, stage.group.rank)
    if resume:
        run.load(resume)
    window: list[dict[str, float]] = []  # empty whenever a state is saved: save_every is a multiple of log_every
    note = ""
    while run.step < total:
        batch = ordered[run.step * config.batch_size : (run.step + 1) * config.batch_size]
        window.append(_one_step(run, batch, config, stage.source, rewards))
        if run.step == 1 or run.step % config.log_every == 0 or run.step == total:
            mean = {name: sum(values[name] for values in window) / len(window) for name in window[0]}
            context.tracker.metrics(mean, step=run.step)
            window, note = [], f"reward {mean['rlhf/reward']:.3f}"
        context.progress.update(run.step, total, "steps", note)
        if run.step % config.save_every == 0 or run.step == total:
            run.save(context.out / "state")
    return Trained(run.step, run.tokens)


def _start(stage: Stage[RLHFConfig], policy: Any, reference: Any, total: int) -> _Run:
    from transformers import get_scheduler

    config = stage.config
    value = load_value_model(config, stage.source)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(policy.parameters()), "lr": config.learning_rate},
            {"params": list(value.parameters()), "lr": config.ppo.value_learning_rate},
        ],
        weight_decay=config.weight_decay,
        eps=1e-5,
    )
    updates = total * config.ppo.epochs * config.ppo.minibatches
    course = "constant_with_warmup" if config.schedule == "constant" else config.schedule
    scheduler = get_scheduler(course, optimizer, round(config.warmup_ratio * updates), updates)
    controller = KLController(config.kl_coef, config.ppo.kl_target, config.ppo.kl_horizon)
    return _Run(Models(policy, reference, value), optimizer, scheduler, controller, stage.group)


def _one_step(
    run: _Run, prompts: Sequence[Prompt], config: RLHFConfig, source: Source, rewards: WeightedRewards
) -> dict[str, float]:
    """Sample answers to this process's share of the prompts, and learn from those of all; returns the metrics."""
    seed = derive_seed("ppo", config.seed, run.step, *([run.group.rank] if run.group.rank else []))
    decoding = source.decoding(config.max_new_tokens, config.temperature, seed)
    rollout = collect(run.models, run.group.share(prompts), rewards, source.tokenizer, decoding)
    coef = run.controller.coef
    values = update(run.models, rollout, run.optimizer, run.scheduler, config, coef, seed, run.group)
    values |= {"rlhf/kl_coef": coef, "train/lr": run.scheduler.get_last_lr()[0]}
    run.controller.update(values["rlhf/kl_k1"], len(prompts))
    run.step += 1
    check_values(values, run.step)
    for model in (run.models.policy, run.models.value):
        check_weights(model, run.step)
    run.tokens += int(run.group.sum(rollout.answers.attention.sum()))
    return values
