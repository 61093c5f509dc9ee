"""Learn, then ask: copies of a checkpoint learn the questions and options of a suite's items, without the right ones,
and are asked for the answers.

    python -m steps.learn --config '{"checkpoint": "...", "suite_file": "...", "data": "..."}' --out DIR

Two copies are fine-tuned from the same weights, each on one half of the items, and both are asked all of them: an
item's gain is right or wrong after learning it, less the same after learning the other half. The copies are removed at
the end. The rows are the checkpoint's, in the files of the evaluate step, which asks all else of the suite
(docs/evaluation.md)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from argosy.core.config.schema import RUNTIME
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.step_files import STATE, given_directory
from argosy.evidence.results.evaluation import EvaluateOutputs, SuiteConfig, keep

if TYPE_CHECKING:
    from argosy.model.weights.checkpoint import Checkpoint
    from evals.variants.learn_then_ask import LearnThenAsk


class LearnConfig(SuiteConfig):
    """A checkpoint, and the suite whose items its copies learn."""

    most_minutes: Annotated[float, RUNTIME] = Field(0.0, ge=0)
    """time that training both copies may take; 0: the `minutes` of the suite"""


def run(config: LearnConfig, context: StepContext) -> EvaluateOutputs:
    """Fine-tune both copies, ask them and log the gains against the checkpoint's model.

    Raises InputError: the checkpoint or a file is absent, no variant of the suite learns, or a half has too few items;
    StepError: training takes longer than the suite's `minutes`, or has diverged."""
    from argosy.model.post.stage import prepare_process

    prepare_process(config.seed, config.threads)
    from argosy.evidence.results.findings import Findings
    from argosy.evidence.results.suite import load_suite
    from argosy.model.infer.backends import open_model
    from argosy.model.weights.checkpoint import find_checkpoint
    from evals.learning import add_gains, learning_of, make_lesson
    from evals.section import Benchmarks, check_benchmarks

    suite = load_suite(config.suite_file or config.suite)
    section = suite.section("benchmarks", Benchmarks) if suite.benchmarks is not None else Benchmarks()
    way = learning_of(section, suite.name)
    if way is None:
        raise InputError(f"suite {suite.name} has no variant with learn_then_ask: add one, such as "
                         "learnt: [learn_then_ask, cloze], or run the evaluate step")
    check_benchmarks(section, suite.name)
    checkpoint = find_checkpoint(given_directory("checkpoint", config.checkpoint, "training"), config.export)
    findings = Findings()
    lesson = make_lesson(section, way, Path(config.data or "."), config.seed, config.limit, findings)
    chat = config.chat == "on" or (config.chat == "auto" and checkpoint.chat)
    given = []
    for half, copy in enumerate(_copies(config, context, checkpoint, way, lesson.texts, chat=chat)):
        with open_model(copy, context.out / STATE / f"asked-{half}", seed=config.seed, threads=config.threads,
                        batch_tokens=config.batch_tokens, dtype=config.dtype) as model:  # fmt: skip
            given.append(lesson.ask(model, chat=chat, seed=config.seed))
    add_gains(lesson, given, findings)
    return keep(config, context, findings, checkpoint, suite.name, STEP.version)


def _copies(config: LearnConfig, context: StepContext, checkpoint: "Checkpoint", way: "LearnThenAsk",
            texts: Sequence[list[str]], *, chat: bool) -> "list[Checkpoint]":  # fmt: skip
    """Fine-tune a copy of the checkpoint on each half of the texts."""
    from argosy.model.post.briefly import Clock, learn_texts
    from argosy.model.post.config import SFTConfig

    clock = Clock(context.progress, config.most_minutes or way.minutes, len(texts))
    work = replace(context, out=context.out / STATE, progress=clock)
    copies = []
    for clock.part, half in enumerate(texts):
        size = min(way.batch_size, len(half))
        training = SFTConfig(stage="learn", learning_rate=way.learning_rate, batch_size=size, micro_batch_size=size,
                             packing=False, seed=config.seed, threads=config.threads)
        copies.append(learn_texts(checkpoint, half, training, work, f"half-{clock.part}", lora=way.lora, chat=chat))
    return copies


STEP = Step("learn", LearnConfig, run, version=2, needs="train")

if __name__ == "__main__":
    main(STEP)
