"""How well a model follows held-out instructions: loss of the answers, and answers that are exactly right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from argosy.posttraining.batches import by_length, pad_right
from argosy.posttraining.chat import IGNORED, Conversation
from argosy.posttraining.generation import Decoding, generate


def instruction_loss(model: Any, conversations: Sequence[Conversation], pad_id: int, batch_size: int) -> float:
    """Mean cross-entropy, in nats, of the assistant's tokens (each token weighs the same)."""
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
    """Part of the conversations whose last turn the model answers with the same text."""
    answers = generate(model, [conversation.prompt_ids for conversation in conversations], decoding)
    texts = tokenizer.batch_decode(answers, skip_special_tokens=True)
    pairs = zip(texts, conversations, strict=True)
    right = [bool(text.strip() == conversation.answer.strip()) for text, conversation in pairs]
    return sum(right) / len(right)
