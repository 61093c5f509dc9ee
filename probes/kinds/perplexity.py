"""PPL(text): how surprising whole texts are."""

from __future__ import annotations

import math
from typing import ClassVar

from pydantic import Field

from argosy.evaluation.language_model import LanguageModel
from argosy.statistics.intervals import Estimate, mean
from probes.probe import Measured, Probe, Scope


class Perplexity(Probe):
    """Measures, over all texts: ppl (a token; comparable for one tokenizer only) and bpb (bits a UTF-8 byte)."""

    kind: ClassVar[str] = "perplexity"
    texts: tuple[str, ...] = Field(min_length=1)

    def measure(self, model: LanguageModel, scope: Scope) -> Measured:
        """Score every text from the start of a document."""
        found = Measured()
        for number, (text, score) in enumerate(zip(self.texts, model.text_loglikelihood(self.texts), strict=True)):
            if not math.isfinite(score.logprob) or not score.tokens:
                found.left_out["not a number"] += 1
                continue
            row = {"id": str(number), "nats": -score.logprob, "tokens": score.tokens, "bytes": len(text.encode())}
            found.rows.append({**row, "scores": [round(score.logprob, 5)]})
        if found.rows:
            nats, tokens, size = (math.fsum(row[key] for row in found.rows) for key in ("nats", "tokens", "bytes"))
            each = mean([row["nats"] / row["bytes"] / math.log(2) for row in found.rows])
            found.measures["ppl"] = Estimate(math.exp(min(nats / tokens, 700.0)), math.nan, len(found.rows))
            found.measures["bpb"] = Estimate(nats / size / math.log(2), each.stderr, len(found.rows))
        return found
