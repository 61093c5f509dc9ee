"""Evaluate one checkpoint with one suite: benchmarks and their variants, probes, held-out loss by channel.

    python -m steps.evaluate --config '{"checkpoint": "...", "suite": "benchmark", "data": "..."}' --out DIR

Writes `results.json` (metrics, standard errors, counts, what was left out) and `items.parquet` (a row an item x
variant, a probe's case, or a held-out document). Formats: docs/architecture.md; how it works: docs/evaluation.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from argosy.config import RUNTIME, Config, External, Externals, Seed, Upstream
from argosy.errors import InputError, StepError
from argosy.step import Step, StepContext
from argosy.step_files import AGAIN, NODE, STATE, given_directory, read_done
from argosy.storage import make_directory, read_record, write_atomic, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.evaluation.checkpoint import Checkpoint
    from argosy.evaluation.findings import Findings
    from argosy.evaluation.language_model import LanguageModel
    from argosy.evaluation.suite import Suite

    Sections = dict[str, Callable[[LanguageModel, bool], Findings]]  # model, whether it is asked as in a chat


class EvaluateConfig(Config):
    """What is evaluated, with what."""

    checkpoint: Upstream = Field("", description="directory of a training step, or of a model that transformers loads")
    export: str = Field("final", description="name of the training step's export, or `final`")
    suite: str = Field("benchmark", description="name of a YAML in evals/suites or probes/suites")
    suite_file: External = Field("", description="a suite of one's own (YAML), instead of `suite`")
    suite_files: Externals = Field((), description="files whose bytes count; those that suite_file names are added")
    data: Upstream = Field("", description="directory of the data step: benchmark items and facts")
    tokens: Upstream = Field("", description="directory of the tokenize step: held-out text")
    seed: Seed = Field(0, description="of what variants and probes draw")
    limit: int | None = Field(None, ge=1, description="items of each benchmark file and lm_eval task, facts a probe")
    chat: Literal["auto", "on", "off"] = Field("auto", description="prompts in the chat template; auto: argosy.json's")
    threads: int = Field(1, ge=1, description="of torch, whatever cores there are; changes the scores' last digits")
    # Part of the digest: the shape of a batch decides how its sums are split, and with it the scores' last digits
    # (at 100 tokens, 25 of 1200 rows differ in the fifth one). Rounding would make that rarer, not impossible.
    batch_tokens: int = Field(8192, ge=1, description="tokens of one forward pass; changes the scores' last digits")
    backend: Literal["transformers", "vllm"] = Field("transformers", description="vllm: where it is installed")
    processes: Annotated[int, RUNTIME] = Field(1, ge=1, description="that score at a time, a GPU (or `threads`) each")
    cache: Annotated[str, RUNTIME] = Field("", description="directory of scores known from one evaluation to the next, "
                                           "which may differ in the last digits; none: everything is computed")

    @model_validator(mode="before")
    @classmethod
    def _name_files(cls, values: Any) -> Any:
        """Add what the suite names, so that changed items are evaluated again, by hand too."""
        from argosy.evaluation.suite import named_files

        file = values.get("suite_file") if isinstance(values, dict) else None
        if not isinstance(file, str) or not file:
            return values
        files = dict.fromkeys([*values.get("suite_files", ()), *named_files(os.path.expanduser(file))])
        return {**values, "suite_files": tuple(files)}


class EvaluateOutputs(Config):
    """The maps of results.json; headline: by task, the variants whose mean is its one number in comparisons; failed:
    tasks and variants that could not be asked, and why; again: those of them that the next run tries again, in
    outputs.json alone; cut: questions that are longer than the model, of which it saw the end."""

    checkpoint: dict[str, Any]
    suite: str
    metrics: dict[str, float]
    stderr: dict[str, float]
    counts: dict[str, int]
    left_out: dict[str, dict[str, int]]
    headline: dict[str, list[str]]
    failed: dict[str, str] = Field(default_factory=dict)
    again: tuple[str, ...] = ()
    cut: dict[str, int] = Field(default_factory=dict)


def run(config: EvaluateConfig, context: StepContext) -> EvaluateOutputs:
    """Evaluate and log against the checkpoint's model.

    Raises:
        InputError: the checkpoint is not there or cannot be loaded, an unknown suite, files that are absent.
        StepError: the checkpoint has disappeared meanwhile, or nothing could be scored.
    """
    from argosy.contamination.logged import contamination_metrics
    from argosy.determinism import make_deterministic
    from argosy.evaluation.checkpoint import find_checkpoint
    from argosy.evaluation.opening import KNOWN, Computing, open_model
    from argosy.evaluation.suite import load_suite

    suite = load_suite(config.suite, config.suite_file, [_here("evals/suites"), _here("probes/suites")])
    sections = _sections(config, suite)
    checkpoint = find_checkpoint(given_directory("checkpoint", config.checkpoint, "training"), config.export)
    make_deterministic(config.seed, config.threads)
    how = Computing(**{name: getattr(config, name) for name in Computing.model_fields})
    with open_model(checkpoint, how, context.out / STATE, config.seed) as model:
        findings = _evaluate(config, context, sections, checkpoint, model)
        if findings.again and not config.cache:
            model.scorer.known.keep(context.out / STATE / KNOWN)
    _check_scored(findings, suite.name, checkpoint.path)
    _check_kept(findings, context.out)
    outputs = EvaluateOutputs(
        checkpoint=checkpoint.label(),
        suite=suite.name,
        metrics=dict(sorted(findings.metrics.items())),
        stderr=dict(sorted(findings.stderr.items())),
        counts=dict(sorted(findings.counts.items())),
        left_out={where: dict(sorted(reasons.items())) for where, reasons in sorted(findings.left_out.items())},
        headline={task: sorted(variants) for task, variants in sorted(findings.headline.items())},
        failed=dict(sorted(findings.failed.items())),
        again=tuple(sorted(findings.again)),
        cut=dict(sorted(findings.cut.items())),
    )
    _write(outputs, findings, context.out)
    context.tracker.artifact(context.out / "results.json")  # its standard errors and counts, beside the metrics
    context.tracker.model_metrics(
        checkpoint.path,
        {**outputs.metrics, **contamination_metrics(findings.rows)},  # of MLflow: others make the score of the rows
        tokens=checkpoint.tokens,
        dataset=suite.name,
        dataset_digest=_digest(config, context.out),
        # What follows SFT are alternatives at the same point of the line: each has a curve of its own.
        branch=str(checkpoint.label()["stage"]) if checkpoint.chat else "",
    )
    for where, why in outputs.failed.items():
        print(f"failed: {where}: {why}")
    for where, n in outputs.cut.items():
        print(f"cut at the beginning, being longer than the model: {where}: {n}")
    for where, reasons in outputs.left_out.items():
        print(f"left out of {where}: {', '.join(f'{n} x {reason}' for reason, n in reasons.items())}")
    return outputs


def _evaluate(
    config: EvaluateConfig, context: StepContext, sections: Sections, checkpoint: Checkpoint, model: LanguageModel
) -> Findings:
    from argosy.evaluation.findings import Findings

    chat = config.chat == "on" or (config.chat == "auto" and checkpoint.chat)
    findings = Findings()
    for done, (name, ask) in enumerate(sections.items()):
        context.progress.update(done, len(sections), "sections", name, force=True)
        findings.merge(ask(model, chat))
    context.progress.update(len(sections), len(sections), "sections", force=True)
    return findings


def _sections(config: EvaluateConfig, suite: Suite) -> Sections:
    """What asks each section that the suite has. All are read here, so that what is wrong of the suite itself shows
    before a model is loaded."""
    from argosy.evaluation.heldout import Heldout, check_heldout, run_heldout
    from evals.check import check_benchmarks
    from evals.runner import Benchmarks, run_benchmarks
    from probes.runner import parse_probes, run_probes

    data, seed, limit = config.data, config.seed, config.limit
    found: Sections = {}
    if suite.benchmarks is not None:
        section = suite.section("benchmarks", Benchmarks)
        check_benchmarks(section, suite.name)
        found["benchmarks"] = lambda model, chat: run_benchmarks(
            section, model, Path(data or "."), chat=chat, seed=seed, limit=limit)  # fmt: skip
    if suite.probes is not None:
        parse_probes(suite)
        found["probes"] = lambda model, chat: run_probes(suite, model, data, chat=chat, seed=seed, limit=limit)
    if suite.heldout is not None:
        texts = suite.section("heldout", Heldout)
        check_heldout(texts, config.tokens, suite.name)
        found["heldout"] = lambda model, chat: run_heldout(
            texts, model, config.tokens, suite=suite.name, data=data, seed=seed)  # fmt: skip
    return found


def _check_scored(findings: Findings, suite: str, checkpoint: Path) -> None:
    from argosy.evaluation.suite_paths import ROOT

    if findings.metrics:
        return
    absent = [why for found in findings.left_out.values() for why in found if why.startswith("no file ")]
    if absent and not findings.failed and len(absent) == sum(map(len, findings.left_out.values())):
        raise InputError(f"suite {suite}: none of its {len(absent)} benchmarks is there ({absent[0]}); give the folder "
                         f"that has them as `data` (argosy evaluate --data DIR) or in {ROOT}; docs/tasks.md says what "
                         "lies in it")
    reasons = [f"{where}: {n} x {reason}" for where, found in sorted(findings.left_out.items())
               for reason, n in sorted(found.items())]
    reasons += [f"{where}: {why}" for where, why in sorted(findings.failed.items())]
    raise StepError(f"nothing of suite {suite} could be scored for {checkpoint.parent.parent.name}/{checkpoint.name} "
                    f"({'; '.join(reasons) or 'it asks nothing'}): if the model's outputs are not numbers, train it "
                    "again with a lower learning_rate; else mend the suite's data")


def _check_kept(findings: Findings, out: Path) -> None:
    """What is tried again replaces what was found before by as much or more, so that a network that was there for one
    task and then for another loses neither."""
    before = (read_done(out) or {"outputs": {}})["outputs"].get("metrics", {})
    if findings.failed and (lost := sorted(before.keys() - findings.metrics.keys())):
        reasons = "; ".join(f"{where}: {why}" for where, why in sorted(findings.failed.items()))
        raise StepError(f"{lost[0]} was measured before and is not this time ({reasons}): what was found stays")


def _write(outputs: EvaluateOutputs, findings: Findings, out: Path) -> None:
    from argosy.evaluation.results import write_items

    write_items(out, findings.rows)
    if findings.rejects:
        lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in findings.rejects)
        write_atomic(make_directory(out / "rejects") / "items.jsonl", lines)
    write_json(out / "results.json", outputs.model_dump(mode="json", exclude={AGAIN}))


def _digest(config: EvaluateConfig, out: Path) -> str:
    """Of the suite, its files and its data, and of how they are drawn from (not of what of them could be asked this
    time): equal for checkpoints that are comparable item by item."""
    files = read_record(out / NODE).get("external", {})
    suite = files or {"suite": config.suite, "version": STEP.version}
    made = [Path(directory).name for directory in (config.data, config.tokens)]  # their names end in their digests
    asked = [suite, made, config.seed, config.limit]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]


def _here(folder: str) -> Path:
    return Path(__file__).parent.parent / folder


STEP = Step("evaluate", EvaluateConfig, run, version=9, needs="train")

if __name__ == "__main__":
    STEP.main()
