"""Evaluate one checkpoint with one suite: benchmarks and their variants, probes, held-out loss by channel.

    python -m steps.evaluate --config '{"checkpoint": "...", "suite": "benchmark", "data": "..."}' --out DIR

Writes `results.json` (metrics, standard errors, counts, what was left out) and `items.parquet` (a row an item x
variant, a probe's case, or a held-out document). Formats: docs/files.md; how it works: docs/evaluation.md."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from argosy.core.config.schema import RUNTIME, Upstream
from argosy.core.errors import InputError, StepError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.step_files import STATE, given_directory
from argosy.evidence.results.evaluation import EvaluateOutputs, SuiteConfig, keep
from evals.task import check_nodes, check_one_there

if TYPE_CHECKING:
    from collections.abc import Callable

    from argosy.evidence.results.findings import Findings
    from argosy.evidence.results.heldout.losses import Heldout
    from argosy.evidence.results.suite import Suite
    from argosy.model.infer.model import LanguageModel
    from evals.section import Benchmarks

    Sections = dict[str, Callable[[LanguageModel, bool], Findings]]  # model, whether prompts are turns of a chat


COMPUTING = ("seed", "threads", "batch_tokens", "backend", "processes", "cache", "dtype")  # of scores


class EvaluateConfig(SuiteConfig):
    """A checkpoint and the suite that it is evaluated with."""

    tokens: Upstream = ""
    """directory of the tokenize step: held-out text"""
    backend: Literal["transformers", "vllm"] = "transformers"
    """vllm: where it is installed"""
    processes: Annotated[int, RUNTIME] = Field(1, ge=1)
    """processes that score, a GPU (or `threads`) each; with vllm, GPUs of one model, whose number counts"""
    cache: Annotated[str, RUNTIME] = ""
    """directory of scores kept for later evaluations, which may differ in the last digits; none: all is computed"""

    def identity(self) -> dict[str, Any]:
        """Count the GPUs that vLLM spreads a model over, which add up its sums in parts."""
        gpus = self.processes if self.backend == "vllm" else 1
        return super().identity() | ({"processes": gpus} if gpus > 1 else {})


def run(config: EvaluateConfig, context: StepContext) -> EvaluateOutputs:
    """Evaluate and log against the checkpoint's model.

    Raises InputError: the checkpoint is absent or cannot be loaded, an unknown suite, files that are absent; StepError:
    the checkpoint has disappeared meanwhile, or nothing could be scored."""
    from argosy.evidence.results.findings import Findings
    from argosy.evidence.results.suite import load_suite
    from argosy.model.infer.backends import KNOWN, open_model
    from argosy.model.infer.work import reporter
    from argosy.model.weights.checkpoint import find_checkpoint

    suite = load_suite(config.suite_file or config.suite)
    sections = _sections(config, suite)
    check_one_there(suite, Path(config.data or "."))
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
    return keep(config, context, findings, checkpoint, suite.name, STEP.version)


def check_suite(suite: "Suite", tokens: str) -> "tuple[Benchmarks | None, Heldout | None]":
    """Parse and validate all sections of a suite but the files that it names, before a model is loaded.

    Args:
        tokens: directory of the tokenize step, as far as there is one.

    Raises InputError: a section is wrong; names the field."""
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
    from evals.learning import only_learns
    from evals.runner import prepare
    from probes.kinds import run_probes

    data, seed, limit = config.data, config.seed, config.limit
    section, texts = check_suite(suite, config.tokens)
    if only_learns(suite):
        raise InputError(f"suite {suite.name} asks nothing of the checkpoint itself: all its variants learn before "
                         "they ask, which the step learn does; add plain, or cloze, or run that")
    sections: Sections = {}
    if section is not None:
        sections["benchmarks"] = prepare(section, Path(data or "."), seed=seed, limit=limit)
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


STEP = Step("evaluate", EvaluateConfig, run, version=14, needs="train", check=check_nodes)

if __name__ == "__main__":
    main(STEP)
