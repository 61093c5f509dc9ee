"""Preference pairs, and two ways to learn from them: Direct Preference Optimization (Rafailov et al. 2023), a reward
model.

The reward model is the language model with a head of one number. Its loss is that of Bradley and Terry:
-log sigmoid(r(chosen) - r(rejected)) (Ouyang et al. 2022, eq. 1)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.data.schemas import Message, ParseError, turns_of
from argosy.models.chat import check_length, encode, encode_prompt
from argosy.models.load import Source
from argosy.models.logprobs import answer_logprobs, by_length, pad_right
from argosy.posttraining.config import PosttrainingConfig, PreferenceConfig
from argosy.posttraining.stage import Stage, Trained
from argosy.posttraining.trainer import run_trainer, trainer_arguments


@dataclass(frozen=True)
class Preference:
    """A usable pair; both sides fit the context.

    Attributes:
        prompt, chosen, rejected: messages, as in the file.
        prompt_ids: the prompt up to where the assistant is to answer.
        chosen_ids, rejected_ids: prompt and answer; they begin with `prompt_ids`."""

    prompt: Sequence[Message]
    chosen: Sequence[Message]
    rejected: Sequence[Message]
    prompt_ids: list[int]
    chosen_ids: list[int]
    rejected_ids: list[int]


def preference_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Preference]:
    """Return a function that makes a Preference of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Preference:
        prompt, chosen, rejected = turns_of("preferences", record, "prompt", "chosen", "rejected")
        prompt_ids = encode_prompt(tokenizer, prompt)
        chosen_ids, rejected_ids = (encode(tokenizer, [*prompt, *side]) for side in (chosen, rejected))
        for ids in (chosen_ids, rejected_ids):
            check_length(ids, max_length)
            if ids[: len(prompt_ids)] != prompt_ids:
                raise ParseError("the chat template renders the prompt alone in another way than with its answer")
        return Preference(prompt, chosen, rejected, prompt_ids, chosen_ids, rejected_ids)

    return parse


def read_pairs(stage: Stage[PreferenceConfig]) -> tuple[list[Preference], list[Preference]]:
    """Return (training pairs, held-out pairs); unusable records go to `rejects/`.

    Raises InputError: one of the files has no usable pair."""
    config = stage.config
    parse = preference_parser(stage.source.tokenizer, config.max_length or stage.source.context)
    train, heldout = stage.read(parse, config.preferences), stage.read(parse, config.heldout)[: config.heldout_limit]
    stage.keep_rejects()
    return train, heldout


def in_order(pairs: Sequence[Preference], config: PosttrainingConfig) -> list[Preference]:
    """Return the pairs in the order of training, over all epochs, or for `max_steps` steps."""
    lengths = [max(len(pair.chosen_ids), len(pair.rejected_ids)) for pair in pairs]
    order = config.order(lengths)
    return [pairs[at] for at in order]


def pair_accuracy(margins: Sequence[float]) -> float:
    """Return the part of the pairs whose margin (better less worse) is positive; one of exactly 0 counts half."""
    return sum(1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins) / len(margins)


NAMES = {
    "rewards/accuracies": "train/accuracy", "rewards/margins": "train/margin", "rewards/chosen": "train/reward_chosen",
    "rewards/rejected": "train/reward_rejected"
}


def train_dpo(
    stage: Stage[PreferenceConfig], model: Any, reference: Any, pairs: Sequence[Preference], beta: float,
    label_smoothing: float,
) -> Trained:
    """Train `model` in place; `reference` is TRL's from then on, in the precision of training."""
    from datasets import Dataset
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    ordered = in_order(pairs, stage.config)
    trainer = DPOTrainer(
        model=model,
        ref_model=reference,
        args=trainer_arguments(DPOConfig, stage, beta=beta, label_smoothing=label_smoothing, max_length=None),
        train_dataset=Dataset.from_dict(
            {name: [list(getattr(pair, name)) for pair in ordered] for name in ("prompt", "chosen", "rejected")}
        ),
        processing_class=stage.source.tokenizer,
    )
    return run_trainer(trainer, stage, NAMES)


def pair_logprobs(model: Any, pairs: Sequence[Preference], pad_id: int, batch_size: int) -> list[tuple[Any, Any]]:
    """Return log p(answer | prompt) of the chosen and of the rejected answer of each pair: float tensors, nats."""
    prompts = [pair.prompt_ids for pair in pairs]
    sides = []
    for side in ("chosen_ids", "rejected_ids"):
        answers = [getattr(pair, side)[len(pair.prompt_ids) :] for pair in pairs]
        sides.append([each.sum() for each in answer_logprobs(model, prompts, answers, pad_id, batch_size)])
    return list(zip(*sides, strict=True))


def implicit_margins(
    policy: Sequence[tuple[Any, Any]], reference: Sequence[tuple[Any, Any]], beta: float
) -> list[float]:
    """Return beta * (log-ratio of the chosen answer - log-ratio of the rejected one) of each pair, in nats (eq. 7).

    Args: `pair_logprobs` of the two models."""
    return [beta * (float(chosen - chosen_before) - float(rejected - rejected_before))
            for (chosen, rejected), (chosen_before, rejected_before) in zip(policy, reference, strict=True)]


def dpo_metrics(margins: Sequence[float]) -> dict[str, float]:
    """Return accuracy, mean margin and loss -log sigmoid(margin) of held-out pairs."""
    import torch

    values = torch.tensor(margins)
    return {
        "heldout/preference_accuracy": pair_accuracy(margins),
        "heldout/preference_margin": float(values.mean()),
        "heldout/dpo_loss": float(-torch.nn.functional.logsigmoid(values).mean()),
    }


def load_reward_model(source: Source, seed: int | None = None) -> Any:
    """Load the checkpoint as a sequence classifier with one output, on its device; a new head is drawn from `seed`."""
    import torch

    if seed is not None:
        torch.manual_seed(seed)
    head = "" if seed is None else r"score\.weight"
    model = source.load("AutoModelForSequenceClassification", head, num_labels=1)
    model.config.pad_token_id = source.tokenizer.pad_token_id
    return model


def train_reward_model(stage: Stage[PreferenceConfig], model: Any, pairs: Sequence[Preference]) -> Trained:
    """Train `model` in place on `pairs`."""
    from datasets import Dataset
    from trl.trainer.reward_config import RewardConfig
    from trl.trainer.reward_trainer import RewardTrainer

    ordered = in_order(pairs, stage.config)
    trainer = RewardTrainer(
        model=model,
        args=trainer_arguments(RewardConfig, stage, max_length=None),
        train_dataset=Dataset.from_dict(
            {"chosen_ids": [p.chosen_ids for p in ordered], "rejected_ids": [p.rejected_ids for p in ordered]}
        ),
        processing_class=stage.source.tokenizer,
    )
    return run_trainer(trainer, stage, {"accuracy": "train/accuracy", "margin": "train/margin"})


def rewards_of(model: Any, conversations: Sequence[Sequence[int]], pad_id: int, batch_size: int) -> list[float]:
    """Return the reward of each conversation, given as token ids up to its end-of-turn token."""
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
    """Return the part of the pairs whose better answer gets the higher reward, and the mean difference of the two."""
    chosen = rewards_of(model, [pair.chosen_ids for pair in pairs], pad_id, batch_size)
    rejected = rewards_of(model, [pair.rejected_ids for pair in pairs], pad_id, batch_size)
    margins = [better - worse for better, worse in zip(chosen, rejected, strict=True)]
    return {
        "heldout/preference_accuracy": pair_accuracy(margins),
        "heldout/preference_margin": sum(margins) / len(margins),
    }
