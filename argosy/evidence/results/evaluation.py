"""Config and outputs that all evaluations of a checkpoint by a suite have, and the files and logs that they leave."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from argosy.core.config.schema import ADDED, Config, External, Externals, Measured, ModelDir, Seed, Upstream
from argosy.core.errors import StepError
from argosy.core.statistics.metric import as_records
from argosy.core.step.contract import StepContext
from argosy.core.store.files import json_text, make_directory, read_record, write_atomic, write_json
from argosy.core.store.step_files import AGAIN, NODE, read_done
from argosy.evidence.results.items import write_items
from argosy.model.weights.checkpoint import base_of

if TYPE_CHECKING:
    from argosy.evidence.results.findings import Findings
    from argosy.model.weights.checkpoint import Checkpoint


class SuiteConfig(Config):
    """A checkpoint, and the suite that it is evaluated with."""

    checkpoint: ModelDir = ""
    """directory of a training step, or of a model that transformers loads"""
    export: str = "final"
    """name of the training step's export, or `final`"""
    suite: str = "benchmark"
    """name of a YAML in evals/suites or probes/suites"""
    suite_file: External = ""
    """a suite of one's own (YAML), instead of `suite`"""
    suite_files: Externals = ()
    """files whose bytes count; those that suite_file names are added"""
    data: Upstream = ""
    """directory of the data step: benchmark items and facts"""
    seed: Seed = 0
    """seed of the draws of variants and probes"""
    limit: int | None = Field(None, ge=1)
    """items of each benchmark file and lm_eval task, facts a probe"""
    chat: Literal["auto", "on", "off"] = "auto"
    """prompts in the chat template; auto: argosy.json's"""
    threads: int = Field(1, ge=1)
    """threads of torch, whatever cores there are; changes the scores' last digits"""
    # Part of the digest: the shape of a batch decides how its sums are split, and with it the scores' last digits
    # (at 100 tokens, 25 of 1200 rows differ in the fifth one). Rounding would make that rarer, not impossible.
    batch_tokens: int = Field(8192, ge=1)
    """tokens of one forward pass; changes the scores' last digits"""
    dtype: Annotated[Literal["weights", "float32", "bfloat16"], ADDED] = "weights"
    """precision that the model computes in; weights: theirs"""

    @model_validator(mode="before")
    @classmethod
    def _name_files(cls, values: Any) -> Any:
        """Add what the suite names, so that changed items are evaluated again, by hand too. Its own path is absolute,
        so that who reads the record from elsewhere finds it."""
        from argosy.evidence.results.suite import named_files

        file = values.get("suite_file") if isinstance(values, dict) else None
        if not isinstance(file, str) or not file:
            return values
        file = os.path.abspath(os.path.expanduser(file))
        files = dict.fromkeys([*values.get("suite_files", ()), *named_files(file)])
        return {**values, "suite_file": file, "suite_files": tuple(files)}


class EvaluateOutputs(Measured):
    """The maps of results.json."""

    checkpoint: dict[str, Any]
    suite: str
    metrics: dict[str, float]
    stderr: dict[str, float]
    counts: dict[str, int]
    left_out: dict[str, dict[str, int]]
    """number of items without a result, by task and reason"""
    headline: dict[str, list[str]]
    """Variants among which a task's one number in comparisons is chosen, by task."""
    failed: dict[str, str] = Field(default_factory=dict)
    """tasks and variants without any result, and why"""
    again: tuple[str, ...] = ()
    """Entries of `failed` that the next run retries; in outputs.json alone."""
    cut: dict[str, int] = Field(default_factory=dict)
    """number of prompts that exceeded the context and lost their beginning"""
    warnings: dict[str, str] = Field(default_factory=dict)
    """Anomalies of a task's items as a whole."""
    kinds: tuple[dict[str, Any], ...] = ()
    """declarations of the metrics (argosy.core.statistics.metric)"""


def keep(config: SuiteConfig, context: StepContext, findings: "Findings", checkpoint: "Checkpoint", suite: str,
         version: int) -> EvaluateOutputs:
    """Write the files of an evaluation, log it against the checkpoint's model and say what has no result; returns its
    outputs. `version`: of the step. Raises StepError: it is a retry, and lacks metrics of the run before."""
    _check_kept(findings, context.out)
    outputs = _outputs(findings, checkpoint, suite)
    write_items(context.out, findings.rows)
    if findings.rejects:
        lines = "".join(json_text(each) + "\n" for each in findings.rejects)
        write_atomic(make_directory(context.out / "rejects") / "items.jsonl", lines)
    write_json(context.out / "results.json", outputs.model_dump(mode="json", exclude={AGAIN}))
    _log(context, suite, _digest(config, context.out, version), findings, checkpoint)
    print(*describe_gaps(outputs.model_dump()), sep="\n")
    return outputs


def _check_kept(findings: "Findings", out: Path) -> None:
    """Refuse the results of a retry that lack metrics of the run before: a network that was up for one task and then
    for another loses neither."""
    before = (read_done(out) or {"outputs": {}})["outputs"].get("metrics", {})
    if findings.failed and (lost := sorted(before.keys() - findings.metrics.keys())):
        reasons = "; ".join(f"{where}: {why}" for where, why in sorted(findings.failed.items()))
        raise StepError(f"{lost[0]} was measured before and is not this time ({reasons}): the results of before stay")


def _outputs(findings: "Findings", checkpoint: "Checkpoint", suite: str) -> EvaluateOutputs:
    maps = {name: dict(sorted(getattr(findings, name).items()))
            for name in ("metrics", "stderr", "counts", "failed", "cut", "warnings")}
    return EvaluateOutputs(
        checkpoint=checkpoint.label(),
        suite=suite,
        left_out={where: dict(sorted(reasons.items())) for where, reasons in sorted(findings.left_out.items())},
        headline={task: sorted(variants) for task, variants in sorted(findings.headline.items())},
        again=tuple(sorted(findings.retryable)), kinds=tuple(as_records(findings.kinds)), **maps)


def _log(context: StepContext, suite: str, dataset: str, findings: "Findings", checkpoint: "Checkpoint") -> None:
    from argosy.evidence.results.contamination import contamination_metrics

    context.tracker.artifact(context.out / "results.json")  # all standard errors and counts, beside the metrics
    # The checkpoints after SFT, and those that no training made (quantized, merged), are alternatives at the same point
    # of the line: each has a curve of its own, which begins where it leaves the line.
    base = base_of(checkpoint)
    apart = checkpoint.chat or (base is not None and not checkpoint.step)
    base = base if apart else None
    context.tracker.model_metrics(
        checkpoint.path, {**findings.charted(), **contamination_metrics(findings.rows)},  # others score the rows
        tokens=checkpoint.tokens, dataset=suite, dataset_digest=dataset,
        branch=checkpoint.stage if apart else "", base=(base.path, base.tokens) if base else None)


def describe_gaps(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about parts without a result, strange ones, cut prompts and items that were left out."""
    yield from (f"failed: {where}: {why}" for where, why in outputs.get("failed", {}).items())
    yield from (f"{where}: {why}" for where, why in outputs.get("warnings", {}).items())
    yield from (f"{where}: {n} prompts exceeded the context and lost their beginning"
                for where, n in outputs.get("cut", {}).items())
    for where, reasons in outputs["left_out"].items():
        yield f"left out of {where}: {', '.join(f'{n} x {reason}' for reason, n in reasons.items())}"


def _digest(config: SuiteConfig, out: Path, version: int) -> str:
    """Hash the suite, its files, its data and the draws from them (not the parts that failed this time):
    equal for checkpoints that are comparable item by item."""
    suite = read_record(out / NODE).get("external") or {"suite": config.suite, "version": version}
    made = [Path(each).name for each in (config.data, getattr(config, "tokens", ""))]  # they end in their digests
    asked = json.dumps([suite, made, config.seed, config.limit], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:12]
