"""The score that a classifier from elsewhere gives prompt and answer, in its own tokens: the output of one that has a
single one (Bradley and Terry's reward models), or the probability of a label.

Its chat template writes the conversation; without one it reads a pair, the prompt's text and the answer."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.lazy import torch
from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score, Surroundings


class ClassifierConfig(RewardConfig):
    label: str = ""
    """Label whose probability is the reward; a classifier of one output has none."""


class Classifier(Reward[ClassifierConfig]):
    def __init__(self, config: ClassifierConfig, surroundings: Surroundings) -> None:
        """Raises InputError: there is no such classifier, or it has no such label."""
        from argosy.model.infer.documents import check_model
        from argosy.model.weights.elsewhere import download
        from argosy.model.weights.pretrained import load_config

        super().__init__(config, surroundings)
        check_model(name := surroundings.classifier, classifies=True, field="classifier")
        self._path = Path(name) if Path(name).exists() else download(name, "classifier")
        check_model(str(self._path), classifies=True, field="classifier")
        own = load_config(self._path)
        labels = {str(name): int(place) for place, name in own.id2label.items()}
        if config.label not in (allowed := labels if len(labels) > 1 else [""]):
            some = ", ".join(allowed) or "none"
            raise InputError(f"rewards.classifier.label is {config.label!r}, allowed: {some} (labels of {self._path})")
        self._column = labels.get(config.label, 0)
        self._kind = own.problem_type if len(labels) > 1 else "regression"

    @cached_property
    def _loaded(self) -> tuple[Any, Any, int]:
        from argosy.model.infer.documents import longest_row
        from argosy.model.weights.load import load_model
        from argosy.model.weights.pretrained import load_tokenizer

        model = load_model(self._path, "AutoModelForSequenceClassification").to(self.surroundings.device).eval()
        tokenizer = load_tokenizer(self._path)
        return tokenizer, model, longest_row(model, tokenizer)

    def scores(self, samples: Sequence[Sample], references: Sequence[str]) -> list[Score]:
        """Score the answers. Raises StepError: one is too long for the classifier, with its prompt."""
        tokenizer, model, _ = self._loaded
        rows, found = [self._tokens(sample) for sample in samples], [Score(0.0)] * len(samples)
        for batch in self._batches(rows):
            some = [rows[row] for row in batch]
            alone = {name: [value] for name, value in some[0].items()}
            inputs = tokenizer.pad(some, padding_side="right") if len(some) > 1 else alone
            given = {name: torch.tensor(each, device=model.device) for name, each in inputs.items()}
            with torch.no_grad():
                logits = model(**given).logits.float()
            if self._kind != "regression":
                logits = logits.sigmoid() if self._kind == "multi_label_classification" else logits.softmax(1)
            for row, value in zip(batch, logits[:, self._column].tolist(), strict=True):
                found[row] = Score(value)
        return found

    def _tokens(self, sample: Sample) -> Mapping[str, Any]:
        tokenizer, _, most = self._loaded
        if tokenizer.chat_template:
            answer = {"role": "assistant", "content": sample.text}
            made = tokenizer.apply_chat_template([*sample.prompt.messages, answer], return_dict=True)
        else:
            made = tokenizer("\n".join(each["content"] for each in sample.prompt.messages), sample.text)
        if (length := len(made["input_ids"])) > most:
            raise StepError(f"a prompt and its answer have {length} tokens of the classifier {self._path}, which reads "
                            f"{most} at most: lower max_new_tokens or max_length")
        return dict(made)

    def _batches(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[list[int]]:
        """Yield places of rows of about one length. Decoders read the score at the last token that is no padding, so a
        row that has this token of its own is alone."""
        from argosy.model.infer.logprobs import by_length

        tokenizer, model, _ = self._loaded
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id == model.config.pad_token_id else None
        alone = [row for row, each in enumerate(rows) if pad is None or pad in each["input_ids"]]
        others = [row for row in range(len(rows)) if row not in alone]
        padded = by_length([rows[row]["input_ids"] for row in others], 16)
        yield from [*([row] for row in alone), *([others[at] for at in batch] for batch in padded)]
