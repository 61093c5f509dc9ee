"""Findings of an evaluation: metrics with standard errors and counts, a row an item, and the parts without a result."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from argosy.core.errors import InputError, StepError
from argosy.core.statistics.intervals import Estimate
from argosy.core.statistics.metric import BITS, Metric, find, probability, share
from argosy.core.tracking.spool import HEADLINE
from argosy.evidence.results.headline import best_forms, headline
from argosy.evidence.results.rows import Rows
from argosy.evidence.results.values import estimate

_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/:;,'\"()]+/)+")


@dataclass
class Findings:
    """Results that every kind of evaluation collects and the step merges."""

    metrics: dict[str, float] = field(default_factory=dict)
    stderr: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, Metric] = field(default_factory=dict)
    """declarations of the metrics"""
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    """number of items without a result, by task and reason: broken lines, variants not applicable, scores not finite"""
    headline: dict[str, list[str]] = field(default_factory=dict)
    """variants among which a task's one number in comparisons is chosen, by task"""
    failed: dict[str, str] = field(default_factory=dict)
    """tasks and variants without any result, and why"""
    retryable: set[str] = field(default_factory=set)
    """entries of `failed` that a retry may mend (a network that was down, a package that was not there)"""
    cut: dict[str, int] = field(default_factory=dict)
    """number of prompts that exceeded the context and lost their beginning, by task and variant"""
    warnings: dict[str, str] = field(default_factory=dict)
    """anomalies of a task's items as a whole"""
    rejects: list[dict[str, Any]] = field(default_factory=list)
    """records of files that are no items: task, file, place among its records (from 1), reason"""

    def add(self, name: str, estimate: Estimate, kind: Metric | None = None) -> None:
        """Add a metric with its declaration (default: that of held-out text); a value that is not a number is left out
        by name. Raises RuntimeError: nothing declares it."""
        kind = kind or find(name, METRICS)
        if kind is None:
            raise RuntimeError(f"argosy/evidence/results does not declare its metric {name!r}")
        if not math.isfinite(estimate.value):
            self.leave_out(name, "not a number", estimate.n)
            return
        self.metrics[name] = estimate.value
        self.counts[name] = estimate.n
        self.kinds[name] = kind
        if math.isfinite(estimate.stderr):
            self.stderr[name] = estimate.stderr

    def leave_out(self, where: str, reason: str, n: int = 1) -> None:
        """Count `n` items without a result."""
        reasons = self.left_out.setdefault(where, {})
        reasons[reason] = reasons.get(reason, 0) + n

    def fail(self, where: str, reason: str, error: Exception | None = None) -> None:
        """Name a part without any result. `error`: its cause, which tells whether a retry may mend it."""
        self.failed[where] = reason
        if is_retryable(error):
            self.retryable.add(where)

    def charted(self) -> dict[str, float]:
        """Return the metrics that MLflow draws: not what is the same for every model, such as the score of guessing.

        With them the headline of each benchmark with its standard error, and the share of its items in each form."""
        fixed = {f"{name.rpartition('/')[0]}/{kind.chance}" for name, kind in self.kinds.items() if kind.chance}
        values = {name: value for name, value in sorted(self.metrics.items()) if name not in fixed}
        rows = Rows(self.rows)
        for task, forms in sorted(self.headline.items()):
            if best := best_forms([rows], task, rows.forms(task, forms)):
                found = estimate(headline(rows, task, best))
                values |= {f"{HEADLINE}{task}/form/{form}": 1 / len(best) for form in best}
                values |= {f"{HEADLINE}{task}/acc": found.value}
                values |= {f"{HEADLINE}{task}/stderr": found.stderr} if math.isfinite(found.stderr) else {}
        return values

    def merge(self, other: "Findings") -> None:
        """Add the findings of another part. Raises InputError: a metric of the same name is there already."""
        if both := sorted(self.metrics.keys() & other.metrics.keys()):
            raise InputError(f"suite: two of its parts measure {both[0]}: give one of them another name")
        for name in ("metrics", "stderr", "counts", "kinds", "failed", "retryable", "cut", "warnings"):
            getattr(self, name).update(getattr(other, name))
        self.rows.extend(other.rows)
        self.rejects.extend(other.rejects)
        for task, variants in other.headline.items():
            self.headline[task] = sorted({*self.headline.get(task, ()), *variants})
        for where, reasons in other.left_out.items():
            for reason, n in reasons.items():
                self.leave_out(where, reason, n)


def is_retryable(error: BaseException | None) -> bool:
    """Whether a retry may succeed without a change of suite or files: the network, the disk, a package that was not
    there; not wrong input. The cause of an error of ours decides; an absent file is wrong input, but for one of the
    Hugging Face Hub while that cannot be reached."""
    causes = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return any(_is_transient(each, is_cause=each is causes[-1]) for each in causes)


def _is_transient(error: BaseException, *, is_cause: bool) -> bool:
    if isinstance(error, FileNotFoundError):
        return type(error).__module__.startswith("huggingface_hub.")
    return isinstance(error, OSError | ImportError) or (is_cause and isinstance(error, StepError))


def reason(error: Exception | str) -> str:
    """Give the text of an error, files without their folders: results of two machines are equal."""
    return _FOLDERS.sub("", str(error))


_MINOR_LOSS = Metric("lower", "nats a token", BITS, minor=True)

METRICS: dict[str, Metric] = {  # of held-out text, and the headline
    "bench/*/headline/acc": share(chance="chance"),
    "heldout/bpb/*": Metric("lower", "bits a byte", BITS),
    "heldout/nats/*": _MINOR_LOSS,
    "heldout/ppl/*": Metric("lower", "perplexity", minor=True),
    "heldout/nats_at/*": _MINOR_LOSS,
    "heldout/context_gain/*": Metric("neither", "nats a token", minor=True),  # a worse model may gain more
    "heldout/changed/*": share("neither", minor=True),  # of the tokenizer, not of the model
    # Training text that a model says, or gives away, is to be little; of held-out text it is the baseline.
    "memorisation/exact/*": share("lower"),
    "memorisation/exact_heldout/*": share("neither"),
    "memorisation/matched_heldout/*": probability("neither"),
    "memorisation/*": probability("lower")}
