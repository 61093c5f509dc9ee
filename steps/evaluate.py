"""Evaluate one checkpoint with one suite: benchmarks and their variants, probes, held-out loss by channel.

    python -m steps.evaluate --config '{"checkpoint": "...", "suite": "benchmark", "data": "..."}' --out DIR

Writes `results.json` (metrics, standard errors, counts, what was left out) and `items.parquet` (a row an item x
variant, a probe's case, or a held-out document). Formats: docs/files.md; how it works: docs/evaluation.md.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from argosy.core.config.schema import ADDED, RUNTIME, Config, External, Externals, Measured, ModelDir, Seed, Upstream
from argosy.core.errors import StepError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import json_text, make_directory, read_record, write_atomic, write_json
from argosy.core.store.step_files import AGAIN, NODE, STATE, given_directory, read_done
from evals.task import check_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.evidence.results.findings import Findings
    from argosy.evidence.results.heldout.losses import Heldout
    from argosy.evidence.results.suite import Suite
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import Checkpoint
    from evals.section import Benchmarks

    Sections = dict[str, Callable[[LanguageModel, bool], Findings]]  # model, whether prompts are turns of a chat


COMPUTING = ("seed", "threads", "batch_tokens", "backend", "processes", "cache", "dtype")  # of scores


class EvaluateConfig(Config):
    """A checkpoint and the suite that it is evaluated with."""

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
    tokens: Upstream = ""
    """directory of the tokenize step: held-out text"""
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
    backend: Literal["transformers", "vllm"] = "transformers"
    """vllm: where it is installed"""
    dtype: Annotated[Literal["weights", "float32", "bfloat16"], ADDED] = "weights"
    """precision that the model computes in; weights: theirs"""
    processes: Annotated[int, RUNTIME] = Field(1, ge=1)
    """processes that score, a GPU (or `threads`) each; with vllm, GPUs of one model, whose number counts"""
    cache: Annotated[str, RUNTIME] = ""
    """directory of scores kept for later evaluations, which may differ in the last digits; none: all is computed"""

    @model_validator(mode="before")
    @classmethod
    def _name_files(cls, values: Any) -> Any:
        """Add what the suite names, so that changed items are evaluated again, by hand too."""
        from argosy.evidence.results.suite import named_files

        file = values.get("suite_file") if isinstance(values, dict) else None
        if not isinstance(file, str) or not file:
            return values
        files = dict.fromkeys([*values.get("suite_files", ()), *named_files(os.path.expanduser(file))])
        return {**values, "suite_files": tuple(files)}

    def identity(self) -> dict[str, Any]:
        """Count the GPUs that vLLM spreads a model over, which add up its sums in parts."""
        gpus = self.processes if self.backend == "vllm" else 1
        return super().identity() | ({"processes": gpus} if gpus > 1 else {})


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


def run(config: EvaluateConfig, context: StepContext) -> EvaluateOutputs:
    """Evaluate and log against the checkpoint's model.

    Raises:
        InputError: the checkpoint is absent or cannot be loaded, an unknown suite, files that are absent.
        StepError: the checkpoint has disappeared meanwhile, or nothing could be scored.
    """
    from argosy.core.step.process import make_deterministic
    from argosy.evidence.results.findings import Findings
    from argosy.evidence.results.items import write_items
    from argosy.evidence.results.suite import load_suite
    from argosy.model.infer.backends import KNOWN, open_model
    from argosy.model.infer.work import reporter
    from argosy.model.weights.checkpoint import find_checkpoint

    suite = load_suite(os.path.abspath(config.suite_file) if config.suite_file else config.suite)
    sections = _sections(config, suite)
    checkpoint = find_checkpoint(given_directory("checkpoint", config.checkpoint, "training"), config.export)
    make_deterministic(config.seed, config.threads)
    how = {name: getattr(config, name) for name in COMPUTING}
    findings = Findings()
    with open_model(checkpoint, context.out / STATE, **how) as model:
        chat = config.chat == "on" or (config.chat == "auto" and checkpoint.chat)
        for name, ask in sections.items():
            context.progress.update(0, 0, "requests", name, force=True)
            model.scorer.work.progress = reporter(context.progress, name)
            findings.merge(ask(model, chat))
        if findings.retryable and not config.cache:
            model.scorer.cache.save(context.out / STATE / KNOWN)
    _check_scored(findings, suite.name, checkpoint.path)
    _check_kept(findings, context.out)
    outputs = _outputs(findings, checkpoint, suite.name)
    write_items(context.out, findings.rows)
    if findings.rejects:
        lines = "".join(json_text(each) + "\n" for each in findings.rejects)
        write_atomic(make_directory(context.out / "rejects") / "items.jsonl", lines)
    write_json(context.out / "results.json", outputs.model_dump(mode="json", exclude={AGAIN}))
    _log(config, context, outputs, findings, checkpoint)
    print(*describe_gaps(outputs.model_dump()), sep="\n")
    return outputs


def check_suite(suite: "Suite", tokens: str) -> "tuple[Benchmarks | None, Heldout | None]":
    """Parse and validate all sections of a suite but the files that it names, before a model is loaded.

    Args:
        tokens: directory of the tokenize step, as far as there is one.

    Raises:
        InputError: a section is wrong; names the field.
    """
    from argosy.evidence.results.heldout.losses import Heldout, check_heldout
    from evals.section import Benchmarks, check_benchmarks
    from probes.kinds import parse_probes

    section = suite.section("benchmarks", Benchmarks) if suite.benchmarks is not None else None
    if section is not None:
        check_benchmarks(section, suite.name)
    if suite.probes is not None:
        parse_probes(suite)
    texts = suite.section("heldout", Heldout) if suite.heldout is not None else None
    if texts is not None:
        check_heldout(texts, tokens, suite.name)
    return section, texts


def _sections(config: EvaluateConfig, suite: "Suite") -> "Sections":
    from argosy.evidence.results.heldout.losses import run_heldout
    from evals.runner import run_benchmarks
    from probes.kinds import run_probes

    data, seed, limit = config.data, config.seed, config.limit
    section, texts = check_suite(suite, config.tokens)
    sections: Sections = {}
    if section is not None:
        sections["benchmarks"] = lambda model, chat: run_benchmarks(
            section, model, Path(data or "."), chat=chat, seed=seed, limit=limit)  # fmt: skip
    if suite.probes is not None:
        sections["probes"] = lambda model, chat: run_probes(suite, model, data, chat=chat, seed=seed, limit=limit)
    if texts is not None:
        sections["heldout"] = lambda model, chat: run_heldout(
            texts, model, config.tokens, suite=suite.name, data=data, seed=seed)  # fmt: skip
    return sections


def _check_scored(findings: "Findings", suite: str, checkpoint: Path) -> None:
    from evals.task import none_there

    if findings.metrics:
        return
    absent = [why for found in findings.left_out.values() for why in found if why.startswith("no file ")]
    if absent and not findings.failed and len(absent) == sum(map(len, findings.left_out.values())):
        raise none_there(suite, len(absent), absent[0])
    reasons = [f"{where}: {n} x {reason}" for where, found in sorted(findings.left_out.items())
               for reason, n in sorted(found.items())]
    reasons += [f"{where}: {why}" for where, why in sorted(findings.failed.items())]
    raise StepError(f"nothing of suite {suite} could be scored for {checkpoint.parent.parent.name}/{checkpoint.name} "
                    f"({'; '.join(reasons) or 'it has no question'}): if the model's outputs are not numbers, train it "
                    "again with a lower learning_rate; else correct the suite's data")


def _check_kept(findings: "Findings", out: Path) -> None:
    """Refuse the results of a retry that lack metrics of the run before: a network that was up for one task and then
    for another loses neither."""
    before = (read_done(out) or {"outputs": {}})["outputs"].get("metrics", {})
    if findings.failed and (lost := sorted(before.keys() - findings.metrics.keys())):
        reasons = "; ".join(f"{where}: {why}" for where, why in sorted(findings.failed.items()))
        raise StepError(f"{lost[0]} was measured before and is not this time ({reasons}): the results of before stay")


def _outputs(findings: "Findings", checkpoint: "Checkpoint", suite: str) -> EvaluateOutputs:
    from argosy.core.statistics.metric import as_records

    maps = {name: dict(sorted(getattr(findings, name).items()))
            for name in ("metrics", "stderr", "counts", "failed", "cut", "warnings")}
    return EvaluateOutputs(
        checkpoint=checkpoint.label(),
        suite=suite,
        left_out={where: dict(sorted(reasons.items())) for where, reasons in sorted(findings.left_out.items())},
        headline={task: sorted(variants) for task, variants in sorted(findings.headline.items())},
        again=tuple(sorted(findings.retryable)), kinds=tuple(as_records(findings.kinds)), **maps,
    )


def _log(
    config: EvaluateConfig, context: StepContext, outputs: EvaluateOutputs, findings: "Findings",
    checkpoint: "Checkpoint",
) -> None:
    from argosy.evidence.results.contamination import contamination_metrics
    from argosy.model.weights.checkpoint import base_of

    context.tracker.artifact(context.out / "results.json")  # all standard errors and counts, beside the metrics
    # The checkpoints after SFT are alternatives at the same point of the line: each has a curve of its own, which
    # begins where it leaves the line.
    base = base_of(checkpoint) if checkpoint.chat else None
    context.tracker.model_metrics(
        checkpoint.path, {**findings.charted(), **contamination_metrics(findings.rows)},  # others score the rows
        tokens=checkpoint.tokens, dataset=outputs.suite, dataset_digest=_digest(config, context.out),
        branch=checkpoint.stage if checkpoint.chat else "", base=(base.path, base.tokens) if base else None)


def describe_gaps(outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines about parts without a result, strange ones, cut prompts and items that were left out."""
    yield from (f"failed: {where}: {why}" for where, why in outputs.get("failed", {}).items())
    yield from (f"{where}: {why}" for where, why in outputs.get("warnings", {}).items())
    yield from (f"{where}: {n} prompts exceeded the context and lost their beginning"
                for where, n in outputs.get("cut", {}).items())
    for where, reasons in outputs["left_out"].items():
        yield f"left out of {where}: {', '.join(f'{n} x {reason}' for reason, n in reasons.items())}"


def _digest(config: EvaluateConfig, out: Path) -> str:
    """Hash the suite, its files, its data and the draws from them (not the parts that failed this time):
    equal for checkpoints that are comparable item by item."""
    suite = read_record(out / NODE).get("external") or {"suite": config.suite, "version": STEP.version}
    made = [Path(directory).name for directory in (config.data, config.tokens)]  # their names end in their digests
    asked = json.dumps([suite, made, config.seed, config.limit], sort_keys=True)
    return hashlib.sha256(asked.encode()).hexdigest()[:12]


STEP = Step("evaluate", EvaluateConfig, run, version=12, needs="train", check=check_nodes)

if __name__ == "__main__":
    main(STEP)
