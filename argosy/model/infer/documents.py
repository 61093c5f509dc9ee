"""Models that filters of cleaning ask about documents: losses of a language model, scores of a classifier."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.core.step.machine import device_kind
from argosy.model.infer.logprobs import by_length
from argosy.model.infer.model import LanguageModel
from argosy.model.weights.checkpoint import find_checkpoint, no_language_model
from argosy.model.weights.elsewhere import download, is_hub_name
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_tokenizer

Floats = NDArray[np.float64]
_KEPT = 2  # models of a kind in memory


class Models:
    """Models by what filters call them, on a GPU where there is one; each is loaded when it is first asked, once for
    all parts that share a process.

    Args:
        places: directories by name; any other name is one of the hub.
        batch_tokens: tokens of one forward pass.
        dtype: precision that language models compute in; `weights`: theirs. Classifiers, which are small and whose
            thresholds were chosen so, compute in float32."""

    def __init__(self, places: Mapping[str, Path], batch_tokens: int = 8192, dtype: str = "weights") -> None:
        self._places, self._batch_tokens, self._dtype = places, batch_tokens, dtype

    def losses(self, model: str, texts: Sequence[str]) -> tuple[Floats, Floats]:
        """Return nats and tokens of each text, (texts,) each: each token once, after the one that begins documents; a
        text that is longer than the model in windows of its length, the last of which begins as early as it can."""
        scores = _language_model(self._directory(model), self._batch_tokens, self._dtype).text_loglikelihood(texts)
        return (np.array([-score.logprob for score in scores], np.float64),
                np.array([score.tokens for score in scores], np.float64))

    def labels(self, model: str, texts: Sequence[str], max_tokens: int) -> Floats:
        """Return the one output of a regression, or the mean number of the label under a classifier, (texts,), from the
        first `max_tokens` tokens, special ones among them."""
        network, tokenizer, longest = _classifier(self._directory(model))
        rows = tokenizer(list(texts), truncation=True, max_length=min(max_tokens, longest))["input_ids"]
        found = np.zeros(len(texts))
        for batch in by_length(rows, max(1, self._batch_tokens // max(map(len, rows), default=1))):
            padded = tokenizer.pad({"input_ids": [rows[at] for at in batch]}, return_tensors="pt").to(network.device)
            with torch.no_grad():
                logits = network(**padded).logits.double()
            numbers = torch.arange(logits.shape[1], dtype=logits.dtype, device=logits.device)
            values = logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1) @ numbers
            found[batch] = values.cpu().numpy()
        return found

    def _directory(self, model: str) -> Path:
        if model not in self._places and is_hub_name(model):
            return download(model, "model of a filter")
        return self._places.get(model, Path(model))


@lru_cache(maxsize=_KEPT)
def _language_model(path: Path, batch_tokens: int, dtype: str) -> LanguageModel:
    return LanguageModel.load(find_checkpoint(path), batch_tokens, dtype=dtype)


@lru_cache(maxsize=_KEPT)
def _classifier(path: Path) -> tuple[Any, Any, int]:
    """Return the network, its tokenizer and the tokens that both take at most."""
    network = load_model(path, "AutoModelForSequenceClassification").eval()
    tokenizer = load_tokenizer(path)
    if tokenizer.pad_token_id is None:
        raise InputError(f"the tokenizer in {path} has no padding token: set one in its tokenizer_config.json")
    return network.to(device_kind()), tokenizer, longest_row(network, tokenizer)


def longest_row(network: Any, tokenizer: Any) -> int:
    """Return the tokens that a classifier and its tokenizer take at most; RoBERTa's first positions are of padding."""
    limit = int(tokenizer.model_max_length)
    positions = int(getattr(network.config, "max_position_embeddings", None) or limit)
    table = getattr(getattr(network.base_model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return min(limit, positions - (0 if padding is None else padding + 1))


def check_model(model: str, classifies: bool, field: str) -> None:
    """Check what is told of a filter's model without loading it: a directory of the kind, or a name of the hub with its
    commit. Raises InputError: it is neither."""
    try:
        if is_hub_name(model, field):
            return
    except ValueError as error:
        raise InputError(str(error)) from None
    if not classifies:
        try:
            find_checkpoint(model)
        except InputError as error:
            raise InputError(f"{field}: {error}") from None
        return
    if not (Path(model) / "config.json").is_file():
        raise InputError(f"{field} is {model!r}: there is no model (no config.json), allowed: a directory that "
                         "transformers loads, or org/name@commit of the Hugging Face hub")
    if not no_language_model(Path(model)):
        raise InputError(f"{field} is {model!r}, a language model, allowed: one for sequence classification, with a "
                         "score as its output")
