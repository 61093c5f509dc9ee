"""One batch of PPO's experience, and the evaluation of a policy: rewards of held-out prompts, greedy and sampled,
and KL."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

from argosy.errors import InputError
from argosy.models.generate import Decoding, generate
from argosy.models.load import Source, open_source
from argosy.models.logprobs import answer_kl, pad_right, token_logprobs
from argosy.posttraining.rl.config import RLHFConfig
from argosy.posttraining.rl.rewards import Prompt, WeightedRewards, make_samples


@dataclass(frozen=True)
class Answers:
    """Prompts with their answers as rectangular tensors, (answers, T) each.

    Attributes:
        ids, attention: prompt and answer, padded on the right.
        mask: (answers, T - 1), 1 before each token of the answer."""

    ids: Any
    attention: Any
    mask: Any

    def rows(self, index: Any) -> "Answers":
        """Return the answers at `index`."""
        return Answers(self.ids[index], self.attention[index], self.mask[index])


@dataclass(frozen=True)
class Rollout:
    """Experience of PPO.

    Attributes:
        logprobs, reference, values: (answers, T - 1) of the policy, the reference and the value model at sampling.
        scores: (answers,), the weighted rewards.
        parts: the mean of each reward.
        ended: (answers,), 1 where the answer stopped by itself."""

    answers: Answers
    logprobs: Any
    reference: Any
    values: Any
    scores: Any
    parts: dict[str, float]
    ended: Any


@dataclass(frozen=True)
class Models:
    """The three networks of PPO, on one device; the reference is frozen."""

    policy: Any
    reference: Any
    value: Any

    def policy_logprobs(self, answers: Answers, temperature: float) -> Any:
        """Return log-probabilities of the tokens that follow each position, (answers, T - 1); 0 before all answers."""
        return _logprobs(self.policy, answers, temperature)

    def values(self, answers: Answers) -> Any:
        """Return values of the states before each token, (answers, T - 1)."""
        return self.value(input_ids=answers.ids, attention_mask=answers.attention).logits[:, :-1, 0].float()


def collect(
    models: Models, prompts: Sequence[Prompt], rewards: WeightedRewards, tokenizer: Any, decoding: Decoding
) -> Rollout:
    """Sample an answer to each prompt and score it; a pure function of the models and `decoding.seed`."""
    import torch

    sampled = generate(models.policy, [prompt.ids for prompt in prompts], decoding)
    samples = make_samples(tokenizer, prompts, sampled, decoding.stop_ids)
    totals, parts = rewards(samples)
    device = models.policy.device
    answers = _rectangular([prompt.ids for prompt in prompts], sampled, decoding.pad_id, device)
    with torch.no_grad():
        return Rollout(
            answers=answers, logprobs=_logprobs(models.policy, answers, decoding.temperature),
            reference=_logprobs(models.reference, answers, decoding.temperature), values=models.values(answers),
            scores=torch.tensor(totals, device=device),
            parts={name: sum(part) / len(part) for name, part in parts.items()},
            ended=torch.tensor([float(sample.ended) for sample in samples], device=device)
        )


def _rectangular(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], pad_id: int, device: Any
) -> Answers:
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    spans = [[0] * (len(p) - 1) + [1] * len(a) for p, a in zip(prompts, answers, strict=True)]
    return Answers(
        ids=pad_right(rows, pad_id).to(device),
        attention=pad_right([[1] * len(row) for row in rows], 0).to(device),
        mask=pad_right(spans, 0).to(device).float(),
    )


def _logprobs(model: Any, answers: Answers, temperature: float) -> Any:
    from torch.nn.functional import pad

    # Logits over the vocabulary cost as much as the layers of a small model: none for what is prompt in all rows.
    start = int(answers.mask.any(0).nonzero()[0])
    kept = answers.ids.size(1) - start
    logits = model(input_ids=answers.ids, attention_mask=answers.attention, logits_to_keep=kept).logits[:, :-1]
    # The temperature is part of the policy that sampled (Huang et al. 2024, detail 12).
    return pad(token_logprobs(logits / temperature, answers.ids[:, start + 1 :]), (start, 0))


def check_value_model(source: Source) -> None:
    """Check that transformers has a value model for the policy's type, with the reward model's head.

    Raises InputError: it has none."""
    from transformers import AutoConfig

    kind = AutoConfig.from_pretrained(source.path).model_type
    if kind == "gpt_neox":
        raise InputError(f"method=ppo has no value model for the type {kind}, whose token classifier has another head "
                         "than its reward model: choose method=grpo or rloo")


def load_value_model(config: RLHFConfig, source: Source) -> Any:
    """Load a token classifier with one output, float32, without dropout, on the source's device.

    It starts from `config.reward_model` (body and head, of several their mean; Ouyang et al. 2022), else from the
    policy's checkpoint with a head of zeros."""
    from transformers import AutoConfig

    from argosy.posttraining.preferences.rewards import merge_heads

    start = open_source("reward_model", config.reward_model, source.device) if config.reward_model else source
    head = r"score\.bias" if config.reward_model else r"score\.(weight|bias)"
    heads = AutoConfig.from_pretrained(start.path).num_labels if config.reward_model else 1
    model = merge_heads(start.load("AutoModelForTokenClassification", head, num_labels=heads))
    if not config.reward_model:
        model.score.weight.data.zero_()
    model.score.bias.data.zero_()
    return model.eval()  # no dropout; gradients flow all the same


SAMPLES = 4  # sampled answers to a prompt: halves the noise of one


@dataclass(frozen=True)
class PolicyEvaluation:
    """metrics by name; rewards: the mean reward of each prompt's sampled answers, in the prompts' order."""

    metrics: dict[str, float]
    rewards: list[float]

    def gain(self, before: "PolicyEvaluation") -> dict[str, float]:
        """Return the mean change of a prompt's sampled reward since `before`, and its standard error (paired by prompt;
        none for one prompt)."""
        changes = [now - then for now, then in zip(self.rewards, before.rewards, strict=True)]
        gained = {"heldout/reward/sampled/gain": fmean(changes)}
        if len(changes) > 1:
            gained["heldout/reward/sampled/gain_stderr"] = stdev(changes) / math.sqrt(len(changes))
        return gained


def evaluate_policy(
    policy: Any, reference: Any, tokenizer: Any, prompts: Sequence[Prompt], rewards: WeightedRewards, decoding: Decoding
) -> PolicyEvaluation:
    """Return mean rewards of the prompts' answers, and the divergence from the reference.

    Args:
        decoding: its temperature is that of the sampled half; the same seed before and after training.

    Returns:
        The metrics heldout/reward/<greedy|sampled>, the same by component below it, heldout/length/<...> in tokens, and
        heldout/kl, heldout/kl_k1, heldout/kl_k3 in nats an answer sampled at temperature 1."""
    values: dict[str, float] = {}
    many = [prompt for prompt in prompts for _ in range(SAMPLES)]
    halves = (("greedy", prompts, replace(decoding, temperature=0.0)), ("sampled", many, decoding))
    for kind, asked, chosen in halves:
        answers = generate(policy, [prompt.ids for prompt in asked], chosen)
        totals, parts = rewards(make_samples(tokenizer, asked, answers, decoding.stop_ids))
        values[f"heldout/reward/{kind}"] = fmean(totals)
        values |= {f"heldout/reward/{kind}/{name}": fmean(part) for name, part in parts.items()}
        values[f"heldout/length/{kind}"] = fmean([len(answer) for answer in answers])
    ids = [prompt.ids for prompt in many]
    if decoding.temperature != 1.0:
        answers = generate(policy, ids, replace(decoding, temperature=1.0))
    kl = answer_kl(policy, reference, ids, answers, decoding.pad_id)
    values |= {f"heldout/{name}": value for name, value in kl.items()}
    return PolicyEvaluation(values, [fmean(totals[at : at + SAMPLES]) for at in range(0, len(totals), SAMPLES)])
