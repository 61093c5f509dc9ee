"""Config of reinforcement learning: the method, what it samples, and what may stop it."""

import math
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from argosy.core.config.schema import ADDED, RUNTIME, Config, External, Rate, Upstream, joined
from argosy.core.errors import InputError
from argosy.corpus.tokens.amounts import Amount
from argosy.model.post.config import PositiveInt, PosttrainingConfig, check_method, make_method
from argosy.model.post.rl.methods import METHODS, Method
from argosy.model.post.rl.methods.ppo import PPOConfig
from argosy.model.post.rl.rewards import configs

if TYPE_CHECKING:
    _WithMethods = PosttrainingConfig
else:
    _WithMethods = joined(PosttrainingConfig, METHODS.values())


Rewards = Annotated[dict[str, Any], AfterValidator(  # rewards.configs says what is wrong with them
    lambda rewards: {name: float(given) if type(given) is int else given for name, given in rewards.items()})]


ClassifierDir = Annotated[External, ADDED]


def asks_model(rewards: dict[str, Any]) -> bool:
    """Tell whether the reward model has a weight."""
    given = rewards.get("model", 0.0)
    return bool(given.get("weight", 1.0) if isinstance(given, dict) else given)


def classifier_problem(rewards: dict[str, Any], classifier: str) -> str:
    """Say that a reward lacks its classifier, or a classifier its reward; "" where neither does."""
    if ("classifier" in rewards) == bool(classifier):
        return ""
    return ("rewards has 'classifier', and classifier is empty: give the directory of a model for sequence "
            "classification" if not classifier else f"classifier={classifier!r} is for the reward of this name, which "
            "rewards has not: add it, such as rewards.classifier=1, or leave classifier out")


class GroupConfig(Config):
    """Config of the methods whose baseline is a group of answers to one prompt."""

    size: int = Field(default=8, ge=2)
    """Answers to each prompt."""


class LossConfig(Config):
    """Choices of the loss; `auto` is what the method's paper does."""

    ratio: Literal["auto", "token", "sequence_mean", "sequence"] = "auto"
    """Probability ratio that is clipped: a token's, an answer's per token (GSPO, Zheng et al. 2025) or an answer's."""
    normalizer: Literal["auto", "answer", "token", "constant"] = "auto"
    """Each answer weighs the same, each token does (DAPO, Yu et al. 2025), or the sum is divided by a constant,
    max_new_tokens (Dr. GRPO, Liu et al. 2025, with scale=none)."""
    scale: Literal["auto", "group", "batch", "none"] = "auto"
    """Advantages are divided by their group's standard deviation, normalised over the rollout, or left (Dr. GRPO)."""
    kl: Literal["auto", "reward", "loss"] = "auto"
    """The divergence is deducted from the reward (k1), or added to the loss (k3; Schulman 2020)."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """Largest fall of a probability ratio below 1."""
    clip_high: float = Field(default=0.0, ge=0)
    """Largest rise above 1; 0 is `clip` (0.28 in DAPO)."""
    importance_cap: float = Field(default=2.0, ge=1)
    """Largest weight of a token that the sampler gave another probability than the policy that learns (truncated
    importance sampling, Yao et al. 2025)."""


class LengthConfig(Config):
    """Treatment of answers that are cut at `max_new_tokens`."""

    penalty: float = Field(default=0.0, ge=0)
    """Deduction from the reward of an answer that was cut."""
    soft_tokens: int = Field(default=0, ge=0)
    """Last tokens of the limit over which a deduction rises from 0 to 1 (soft overlong punishment, DAPO)."""
    masked: bool = False
    """Answers that were cut are left out of the loss (overlong filtering, DAPO)."""


class GuardsConfig(Config):
    """Limits of a run; 0 is no limit."""

    action: Literal["stop", "lower"] = "stop"
    """Action of a guard: end the run with an error, or halve the learning rate from there on."""
    kl_token: float = Field(default=0.0, ge=0)
    """Largest divergence from the reference (k1), in nats a token."""
    kl_answer: float = Field(default=0.0, ge=0)
    """Largest divergence from the reference (k1), in nats an answer."""
    length_factor: float = Field(default=0.0, ge=0)
    """Largest factor by which answers may become longer, or shorter, than they were at first; more than 1."""
    repetition: float = Field(default=0.0, ge=0, lt=1)
    """Largest share of an answer's runs of four tokens that it has had before."""
    true_reward: Rewards = Field(default={})
    """Weights of rewards that are held out from training, such as {accept: 1}, or their settings: measured on held-out
    prompts beside the trained reward, which may not rise while these fall."""
    true_every: PositiveInt = 10
    """Rollouts between two measurements of the true reward."""
    true_noise: float = Field(default=2.0, ge=0)
    """Standard errors that a change must have to count."""


class ServerConfig(Config):
    """Config of vLLM as a server; read where `generation` is vllm."""

    url: Annotated[str, RUNTIME] = ""
    """URL of a running server, such as http://node:8000, which docs/generation.md says how to start; "": the step
    starts one, which ends with it."""
    command: Annotated[str, RUNTIME] = "vllm"
    """Program that is started; a path such as /opt/vllm/bin/vllm, where vLLM has an environment of its own."""
    arguments: tuple[str, ...] = ()
    """More arguments of `vllm serve`, such as --enforce-eager."""
    gpus: Annotated[int, RUNTIME] = Field(default=0, ge=0)
    """GPUs that are the server's alone, the last ones of the step's, over which it divides the model; 0: it shares the
    GPU of the first process."""
    memory: Annotated[float, RUNTIME] = Field(default=0.0, ge=0, lt=1)
    """Share of a GPU's memory that the server takes; 0 is 0.9 of its own GPUs, and 0.4 of one that it shares."""
    folder: Annotated[str, RUNTIME] = ""
    """Directory for weights on their way to the server, which both see, such as /dev/shm; "": the step's own."""
    start_seconds: Annotated[float, RUNTIME] = Field(default=900.0, gt=0)
    """Longest wait until it answers for the first time."""
    seconds: Annotated[float, RUNTIME] = Field(default=600.0, gt=0)
    """Longest wait for an answer, or for the loading of weights."""
    tolerance: float = Field(default=0.5, gt=0)
    """Largest mean difference between the server's log-probabilities and the policy's own, in nats a token: above it
    the server has other weights, or computes something else."""

    def check_fields(self) -> None:
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url={self.url!r} is not allowed: it begins with http:// or https://, such as "
                             "http://node:8000")
        for name in ("gpus", "memory", "arguments"):
            if self.url and getattr(self, name):
                raise ValueError(f"{name} is for a server that the step starts, and url={self.url!r} names one that "
                                 f"runs: leave {name} or url out")


class RLHFConfig(_WithMethods):
    """Config of reinforcement learning from rewards of sampled answers."""

    stage: str = "rlhf"
    """Name of the checkpoint in results."""
    reward_model: Upstream = ""
    """Directory of the reward_model step; needed if `rewards` has "model"."""
    prompts: str = "prompts.jsonl"
    """File of the data step; `heldout_limit` of its prompts, at most a quarter, are held out."""
    method: str = "ppo"
    """ppo (Schulman et al. 2017), grpo (Shao et al. 2024), rloo (Ahmadian et al. 2024), reinforce++ (Hu 2025), or the
    name of another file of argosy.model.post.rl.methods."""
    rewards: Rewards = Field(default={"accept": 1.0, "format": 0.2, "model": 0.1}, min_length=1)
    """Weight of each reward, or its settings, such as {maths: {weight: 1, tolerance: 1e-3}}; the names are the modules
    of argosy.model.post.rl.rewards (docs/posttraining.md)."""
    reward_caution: Annotated[float, Field(ge=0), ADDED] = 0.0
    """Standard deviations over a reward model's heads that are taken off their mean (Coste et al. 2024)."""
    classifier: ClassifierDir = ""
    """Directory of a model for sequence classification, with its tokenizer; needed if `rewards` has "classifier"."""
    batch_size: PositiveInt = 64
    """Answers of a rollout, over all processes."""
    micro_batch_size: PositiveInt = 64
    passes: PositiveInt = 1
    """Passes over each rollout."""
    minibatches: PositiveInt = 1
    """Parts of a pass, with an optimizer step each."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "float32"
    """Precision of matrix products, in sampling and in training: in fewer bits the two differ more. auto: as in SFT. A
    reward model reads in float32 always, as its held-out accuracy was measured."""
    learning_rate: Rate = 3e-4
    max_new_tokens: PositiveInt = 32
    """Tokens of the longest answer."""
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of the sampling, in training and in the sampled evaluation."""
    generation_batch_size: PositiveInt = 256
    """Answers that a process samples at a time."""
    kl_coef: float = Field(default=0.05, ge=0)
    """Strength that holds the policy to the reference (the checkpoint that it starts from); 0 needs no reference."""
    staleness: int = Field(default=0, ge=0)
    """Updates by which the weights that answer are older than those that learn; above 0 the next rollout is generated
    while the update runs."""
    generation: Annotated[Literal["transformers", "vllm"], ADDED] = "transformers"
    """Engine that samples in training: transformers in this process, or vLLM as a server of its own process."""
    server: Annotated[ServerConfig, ADDED] = ServerConfig()
    overlap: Annotated[bool, RUNTIME] = True
    """Whether `staleness` saves time: false generates between updates, without a copy of the weights; same results."""
    dynamic_sampling: int = Field(default=0, ge=0)
    """Times that prompts whose answers are all rewarded alike are replaced by others (DAPO); 0 keeps them."""
    group: GroupConfig = GroupConfig()
    ppo: PPOConfig = PPOConfig()
    loss: LossConfig = LossConfig()
    length: LengthConfig = LengthConfig()
    guards: GuardsConfig = GuardsConfig()

    def check_fields(self) -> None:
        for field, rewards in (("rewards", self.rewards), ("guards.true_reward", self.guards.true_reward)):
            try:
                configs(rewards, field)
            except InputError as error:
                raise ValueError(str(error)) from None
        check_method(self, METHODS)
        rewards = self.rewards | self.guards.true_reward
        if problem := classifier_problem(rewards, self.classifier) or self._batch_problem() or self._choice_problem():
            raise ValueError(problem)
        if self.server != ServerConfig() and self.generation != "vllm":
            raise ValueError(f"server is for generation=vllm, and generation={self.generation} samples in this "
                             "process: set generation=vllm, or leave server out")

    def whole_steps(self, rows: int) -> int:
        """Return the whole rollouts in `epochs` passes over prompts that have `rows` answers together."""
        return math.floor(self.epochs * rows / self.batch_size)

    def amount_of_prompts(self, prompts: int) -> Amount:
        """Return what training over so many prompts comes to; a row is an answer. Raises InputError: a rollout has more
        answers than the prompts."""
        return self.amount(prompts * self.copies, f"answers of a rollout over all {prompts:,} prompts for training "
                                                  f"({self.copies} for each)")

    @property
    def chosen(self) -> Method:
        return make_method(self, METHODS)

    @property
    def copies(self) -> int:
        return self.group.size if METHODS[self.method].grouped else 1

    def choice(self, name: str) -> str:
        """Return a choice of the loss: the field's, or the method's where that is auto."""
        chosen: str = getattr(self.loss, name)
        own: str = getattr(METHODS[self.method], name)
        return own if chosen == "auto" else chosen

    @property
    def updates(self) -> int:
        """Return the optimizer steps that a rollout serves."""
        return self.passes * self.minibatches

    @property
    def server_gpus(self) -> int:
        """Return the GPUs of the step that are no process's."""
        return self.server.gpus if self.generation == "vllm" else 0

    def _batch_problem(self) -> str:
        share = self.batch_size // self.processes
        batch = f"batch_size={self.batch_size}" + (f" / processes={self.processes}" if self.processes > 1 else "")
        if share % self.copies:
            return f"{batch} is not a multiple of group.size={self.group.size}; a group must not be cut"
        if share % self.minibatches:
            return f"minibatches={self.minibatches} does not divide {batch}"
        size = share // self.minibatches
        if size % min(size, self.micro_batch_size):
            return (f"micro_batch_size={self.micro_batch_size} does not divide the {size} answers that a process has "
                    "of a minibatch; choose a divisor")
        return ""

    def _choice_problem(self) -> str:
        if self.dynamic_sampling and self.copies == 1:
            return (f"dynamic_sampling={self.dynamic_sampling} compares the answers to one prompt, and "
                    f"method={self.method} has one answer to each: choose method=grpo or rloo, or 0")
        if self.loss.scale == "group" and self.copies == 1:
            return f"loss.scale=group needs groups, and method={self.method} has none: choose batch or none"
        if 0 < self.loss.clip_high < self.loss.clip:
            return (f"loss.clip_high={self.loss.clip_high} is below loss.clip={self.loss.clip}: raise it (DAPO has "
                    "0.28), or 0 for the same")
        if self.length.soft_tokens > self.max_new_tokens:
            return (f"length.soft_tokens={self.length.soft_tokens} is more than max_new_tokens={self.max_new_tokens}; "
                    "lower it")
        for name in ("kl_token", "kl_answer"):
            if getattr(self.guards, name) and not self.kl_coef:
                return (f"guards.{name}={getattr(self.guards, name)} needs a reference, which kl_coef=0 has none of: "
                        "raise kl_coef, or leave the guard out")
        if 0 < self.guards.length_factor <= 1:
            return f"guards.length_factor={self.guards.length_factor} is no factor above 1; raise it, or 0 for no limit"
        return ""
