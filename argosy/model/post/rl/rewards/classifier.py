"""The score that a classifier from elsewhere gives prompt and answer, in its own tokens: the output of one that has a
single one (Bradley and Terry's reward models), or the probability of a label.

Its chat template writes the conversation; without one it reads a pair, the prompt's text and the answer."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.model.post.config import PositiveInt
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, Surroundings

_FIELD = "rewards.classifier.label"


class ClassifierConfig(RewardConfig):
    label: str = ""
    """Label whose probability is the reward; a classifier of one output has none."""
    batch_size: PositiveInt = 16
    """Answers that are read at a time."""


class Classifier(Reward[ClassifierConfig]):
    def __init__(self, config: ClassifierConfig, surroundings: Surroundings) -> None:
        """Raises InputError: there is no such classifier, or it has no such label."""
        from argosy.model.weights.pretrained import load_config

        super().__init__(config, surroundings)
        self._path = Path(surroundings.classifier)
        if not (self._path / "config.json").is_file():
            raise InputError(f"classifier={surroundings.classifier!r} is no directory with a config.json; name a model "
                             "for sequence classification")
        labels = {str(name): int(place) for place, name in load_config(self._path).id2label.items()}
        if len(labels) == 1 and config.label:
            raise InputError(f"{_FIELD} is {config.label!r}, and {self._path} has one output, which is the reward: "
                             "leave label out")
        if len(labels) > 1 and config.label not in labels:
            raise InputError(f"{_FIELD} is {config.label!r}, allowed: {', '.join(labels)}, the labels of {self._path}")
        self._column = labels[config.label] if len(labels) > 1 else None

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from argosy.model.weights.load import load_model
        from argosy.model.weights.pretrained import load_tokenizer

        model = load_model(self._path, "AutoModelForSequenceClassification").to(self.surroundings.device).eval()
        return load_tokenizer(self._path), model

    def scores(self, samples: Sequence[Sample], references: Sequence[str]) -> list[Score]:
        """Score the answers. Raises StepError: one is too long for the classifier, with its prompt."""
        import torch

        tokenizer, model = self._loaded
        rows, found = [self._tokens(sample) for sample in samples], [Score(0.0)] * len(samples)
        for batch in self._batches(rows):
            inputs = tokenizer.pad([rows[row] for row in batch], padding_side="right", return_tensors="pt")
            with torch.no_grad():
                logits = model(**inputs.to(model.device)).logits.float()
            values = logits[:, 0] if self._column is None else logits.softmax(1)[:, self._column]
            for row, value in zip(batch, values.tolist(), strict=True):
                found[row] = Score(value)
        return found

    def _tokens(self, sample: Sample) -> Mapping[str, Any]:
        tokenizer, model = self._loaded
        if tokenizer.chat_template:
            answer = {"role": "assistant", "content": sample.text}
            made = tokenizer.apply_chat_template([*sample.prompt.messages, answer], return_dict=True)
        else:
            made = tokenizer("\n".join(each["content"] for each in sample.prompt.messages), sample.text)
        most = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None) or 2**31)
        if (length := len(made["input_ids"])) > most:
            raise StepError(f"a prompt and its answer have {length} tokens of the classifier {self._path}, which reads "
                            f"{most} at most: lower max_new_tokens or max_length")
        return dict(made)

    def _batches(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
        """Yield places of rows of about one length. Decoders read the score before the first token of padding, so a row
        that has this token of its own is alone."""
        tokenizer, model = self._loaded
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id == model.config.pad_token_id else None
        alone = [row for row, each in enumerate(rows) if pad is None or pad in each["input_ids"]]
        yield from ([row] for row in alone)
        order = sorted({*range(len(rows))} - {*alone}, key=lambda row: (len(rows[row]["input_ids"]), row))
        size = self.config.batch_size
        yield from (order[start : start + size] for start in range(0, len(order), size))
