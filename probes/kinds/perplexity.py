"""PPL(text): the perplexity of whole texts."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from argosy.core.statistics.intervals import Estimate, exponential, ratio
from argosy.core.statistics.metric import BITS, Metric
from argosy.evidence.results.items import digest
from argosy.evidence.results.suite import locate
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import Score, problem
from probes.kinds import Measurement, Probe, Scope
from probes.measures import count_words
from probes.sources import read_texts

PARTS = ("tokens", "bytes", "characters", "words")


class Perplexity(Probe):
    """Perplexity of texts.

    Measures, over all texts together (sums of nats over sums of units): ppl (a token; comparable for one tokenizer
    only), bpb, bpc and bpw (bits a UTF-8 byte, a character, a word; in Chinese and Japanese a character is a word, and
    2^bpw is the perplexity of a word). No bpc where a character is a byte. Standard errors by the delta method."""

    kind: ClassVar[str] = "perplexity"
    declared: ClassVar[Mapping[str, Metric]] = {
        "ppl": Metric("lower", "perplexity", minor=True), "bpb": Metric("lower", "bits a byte", BITS),
        "bpc": Metric("lower", "bits a character", BITS), "bpw": Metric("lower", "bits a word", BITS)}  # fmt: skip
    texts: tuple[str | tuple[str, ...], ...] = ()
    """each a document, or a list of texts that are one document"""
    file: str = ""
    """JSONL with `text` (or `texts`), .txt, or a folder of them"""
    given: Literal["nothing", "previous"] = "nothing"
    """previous: each text of a document is scored given those before it, without a separator; nothing: each from the
    start of a document"""

    def check_fields(self) -> None:
        if bool(self.texts) == bool(self.file):
            raise ValueError("give one of texts, file")
        if not all(text and (isinstance(text, str) or all(text)) for text in self.texts):
            raise ValueError("texts has an empty one; allowed: texts, or lists of texts, none of them empty")

    def measure(self, model: LanguageModel, scope: Scope) -> Measurement:
        """Score every text; a document with a text that has no number is left out whole."""
        result = Measurement()
        documents = self._documents(scope, result)
        scores = iter(self._score(model, documents))
        for name, texts in documents:
            own = [next(scores) for _ in texts]
            if why := problem(own):
                result.left_out[why] += 1
            else:
                result.rows.append({**_row(name, texts, own), "asked": digest(texts, self.given)})
        if result.rows:
            result.measures.update(_measures(result))
        return result

    def _documents(self, scope: Scope, result: Measurement) -> list[tuple[str, list[str]]]:
        if self.file:
            return read_texts(locate(self.file, scope.data, "texts"), result.left_out)[: scope.limit]
        return [(str(n), [each] if isinstance(each, str) else list(each)) for n, each in enumerate(self.texts)]

    def _score(self, model: LanguageModel, documents: Sequence[tuple[str, list[str]]]) -> list[Score]:
        if self.given == "nothing":
            return model.text_loglikelihood([text for _, texts in documents for text in texts])
        pairs = [("".join(texts[:n]), text) for _, texts in documents for n, text in enumerate(texts)]
        return model.loglikelihood(pairs)


def _row(name: str, texts: list[str], scores: list[Score]) -> dict[str, object]:
    whole = "".join(texts)
    nats = -math.fsum(score.logprob for score in scores)
    return {
        "id": name, "loss": nats, "tokens": sum(score.tokens for score in scores), "bytes": len(whole.encode()),
        "characters": len(whole), "words": sum(count_words(text) for text in texts),
        "scores": [round(score.logprob, 5) for score in scores]}


def _measures(result: Measurement) -> dict[str, Estimate]:
    nats = [float(row["loss"]) for row in result.rows]
    per = {part: [float(row[part]) for row in result.rows] for part in PARTS}
    bit = 1 / math.log(2)
    measures = {"ppl": exponential(ratio(nats, per["tokens"])), "bpb": ratio(nats, per["bytes"], bit)}
    if per["characters"] != per["bytes"]:
        measures["bpc"] = ratio(nats, per["characters"], bit)
    if any(per["words"]):
        measures["bpw"] = ratio(nats, per["words"], bit)
    return measures
