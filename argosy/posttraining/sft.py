"""Supervised fine-tuning on conversations (the loss is on the assistant's tokens alone) and its held-out evaluation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from argosy.data.schemas import turns_of
from argosy.models.chat import check_length, encode_answers, encode_prompt
from argosy.models.generate import Decoding, generate
from argosy.models.logprobs import by_length, pad_right
from argosy.posttraining.config import PosttrainingConfig
from argosy.posttraining.stage import Stage, Trained
from argosy.posttraining.trainer import run_trainer, trainer_arguments
from argosy.tokens.windows import IGNORED


@dataclass(frozen=True)
class Conversation:
    """A conversation to learn from.

    Attributes:
        input_ids: the rendered conversation.
        labels: the same ids, IGNORED but for the assistant's words (`encode_answers`). The end-of-turn token counts
            too, so that the model learns to stop.
        prompt_ids: the conversation up to the answer of its last turn.
        answer: that turn's text."""

    input_ids: list[int]
    labels: list[int]
    prompt_ids: list[int]
    answer: str


def conversation_parser(tokenizer: Any, max_length: int) -> Callable[[dict[str, Any]], Conversation]:
    """Return a function that makes a Conversation of a JSON record, or raises ParseError with the reason."""

    def parse(record: dict[str, Any]) -> Conversation:
        (messages,) = turns_of("instructions", record, "messages")
        turns = [index for index, message in enumerate(messages) if message["role"] == "assistant"]
        ids, mask = encode_answers(tokenizer, messages)
        check_length(ids, max_length)
        labels = [token if marked else IGNORED for token, marked in zip(ids, mask, strict=True)]
        prompt = encode_prompt(tokenizer, messages[: turns[-1]])
        return Conversation(ids, labels, prompt, messages[turns[-1]]["content"])

    return parse


def finetune(stage: Stage[PosttrainingConfig], model: Any, conversations: Sequence[Conversation]) -> Trained:
    """Train `model` in place on `conversations`.

    The conversations come tokenised and labelled by the chat template, and in the order of training, so
    TRL prepares nothing: exactly the checked tokens are learnt."""
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    trainer = SFTTrainer(
        model=model,
        args=trainer_arguments(SFTConfig, stage, max_length=None, dataset_kwargs={"skip_prepare_dataset": True}),
        train_dataset=_dataset(conversations, stage.config),
        processing_class=stage.source.tokenizer,
    )
    return run_trainer(trainer, stage, {"mean_token_accuracy": "train/token_accuracy"})


def _dataset(conversations: Sequence[Conversation], config: PosttrainingConfig) -> Any:
    from datasets import Dataset

    lengths = [len(conversation.input_ids) for conversation in conversations]
    order = config.order(lengths)
    columns = {
        "input_ids": [conversation.input_ids for conversation in conversations],
        "labels": [conversation.labels for conversation in conversations],
    }
    return Dataset.from_dict(columns).select(order)


def instruction_loss(model: Any, conversations: Sequence[Conversation], pad_id: int, batch_size: int) -> float:
    """Return the mean cross-entropy, in nats, of the assistant's tokens (each token weighs the same)."""
    import torch

    total, tokens = 0.0, 0
    model.eval()
    with torch.no_grad():
        for batch in by_length([c.input_ids for c in conversations], batch_size):
            rows = [conversations[index].input_ids for index in batch]
            ids = pad_right(rows, pad_id).to(model.device)
            mask = pad_right([[1] * len(row) for row in rows], 0).to(model.device)
            labels = pad_right([conversations[index].labels for index in batch], IGNORED).to(model.device)
            logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float()
            target = labels[:, 1:]
            total += float(
                torch.nn.functional.cross_entropy(logits.transpose(1, 2), target, ignore_index=IGNORED, reduction="sum")
            )
            tokens += int((target != IGNORED).sum())
    return total / max(tokens, 1)


def exact_match(model: Any, tokenizer: Any, conversations: Sequence[Conversation], decoding: Decoding) -> float:
    """Return the part of the conversations whose last turn the model answers with the same text."""
    answers = generate(model, [conversation.prompt_ids for conversation in conversations], decoding)
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    pairs = zip(texts, conversations, strict=True)
    right = [bool(text.strip() == conversation.answer.strip()) for text, conversation in pairs]
    return sum(right) / len(right)
