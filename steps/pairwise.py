"""Let a judge say which of two models answers better: both orders, length-controlled, with agreement.

    python -m steps.pairwise --config '{"first": "DIR", "second": "DIR", "judge": "DIR", "prompts": "FILE"}' --out DIR

Writes `verdicts.jsonl` (a line a prompt: both answers, the judge's word in both orders, faults by rule) and logs to
MLflow. See docs/judging.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from argosy.config import RUNTIME, Config, External, Seed, Upstream
from argosy.documents.jsonl import dump_line
from argosy.errors import InputError, StepError
from argosy.step import Step, StepContext
from argosy.step_files import given_directory
from argosy.storage import write_atomic

if TYPE_CHECKING:
    from argosy.judging.ask import Asked
    from argosy.judging.comparison import Judge
    from argosy.judging.records import Answer, Prompt

VERDICTS, KEPT = "verdicts.jsonl", "state/replies.jsonl"
UNANSWERED = "verdicts"  # what is tried again, of `again` and `failed`


class PairwiseConfig(Config):
    """Whose answers are compared, and by whom."""

    first: Upstream = Field("", description="directory of a training step or of a model that transformers loads")
    second: Upstream = Field("", description="the model that the first is compared with")
    first_export: str = Field("final", description="name of the training step's export")
    second_export: str = Field("final", description="name of the training step's export")
    first_answers: External = Field("", description="JSONL of answers (id, answer), instead of `first`")
    second_answers: External = Field("", description="JSONL of answers, instead of `second`")
    prompts: External = Field("", description="JSONL of prompts: id, prompt")
    labels: External = Field("", description="JSONL of people's verdicts: id, winner (first, second or tie)")
    judge: Upstream = Field("", description="directory of the checkpoint that judges")
    judge_export: str = Field("final", description="name of the training step's export")
    judge_url: str = Field("", description="instead of `judge`: a server's OpenAI-compatible API, up to and with /v1")
    judge_model: str = Field("", description="the model's name at judge_url")
    judge_key_variable: Annotated[str, RUNTIME] = Field("OPENAI_API_KEY", description="variable that holds the key")
    judge_parallel: Annotated[int, RUNTIME] = Field(8, ge=1, description="requests at a time to judge_url")
    judge_tokens: int = Field(16, ge=1, description="of a reply of judge_url; a model that reasons first needs many")
    max_new_tokens: int = Field(256, ge=1, description="of an answer")
    temperature: float = Field(0.0, ge=0, description="of the answers; 0 is greedy")
    limit: int | None = Field(None, ge=1, description="the first so many prompts")
    seed: Seed = 0
    threads: int = Field(1, ge=1, description="of torch, whatever cores there are; changes the scores' last digits")


class PairwiseOutputs(Config):
    """metrics: see argosy.judging.verdicts; faults: share of answers with each fault, by model; left_out: prompts
    without a verdict, by reason; failed: those that may have one another time, and why; again: that the next run asks
    for them."""

    verdicts: str
    judge: str
    metrics: dict[str, float]
    stderr: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    faults: dict[str, dict[str, float]]
    left_out: dict[str, int]
    failed: dict[str, str] = Field(default_factory=dict)
    again: tuple[str, ...] = ()


def run(config: PairwiseConfig, context: StepContext) -> PairwiseOutputs:
    """Answer, judge, log.

    Raises:
        InputError: a field that is missing, files or checkpoints that are absent, a server that refuses.
        StepError: the judge judged nothing, or nothing of what it was asked.
    """
    from argosy.determinism import make_deterministic
    from argosy.judging.ask import ask
    from argosy.judging.records import read_labels, read_prompts
    from argosy.judging.summary import describe, numbers, shares, verdict_lines
    from argosy.judging.verdicts import intervals, metrics

    _check(config)
    make_deterministic(config.seed, config.threads)
    left_out: Counter[str] = Counter()
    prompts = read_prompts(Path(config.prompts), left_out)[: config.limit]
    labels = read_labels(Path(config.labels), left_out) if config.labels else {}
    (context.out / KEPT).parent.mkdir(parents=True, exist_ok=True)
    first, second = (_answers(name, config, context, prompts, left_out) for name in ("first", "second"))
    judge = _judge(config)
    asked = ask(judge, prompts, first, second, context.out / KEPT,
                lambda done, total: context.progress.update(done, total, "verdicts"))  # fmt: skip
    verdicts = asked.verdicts
    left_out += asked.left_out
    _check_judged(judge.name, asked, len(prompts))
    found = metrics(verdicts, labels)
    faults = {"first": shares(prompts, first), "second": shares(prompts, second)}
    write_atomic(context.out / VERDICTS, "".join(verdict_lines(prompts, first, second, verdicts)))
    values, errors = numbers(found)
    _log(context, values, faults)
    outputs = PairwiseOutputs(verdicts=VERDICTS, judge=judge.name, faults=faults, metrics=values, stderr=errors,
                              intervals=intervals(verdicts),
                              left_out=dict(sorted(left_out.items())), failed=_failed(asked),
                              again=(UNANSWERED,) if asked.may_pass else ())  # fmt: skip
    print("\n".join(describe(judge.name, values, outputs.intervals, faults, outputs.left_out)))
    return outputs


def _check(config: PairwiseConfig) -> None:
    for name in ("first", "second"):
        if bool(getattr(config, name)) == bool(getattr(config, f"{name}_answers")):
            raise InputError(f"pairwise: give either {name} (a checkpoint) or {name}_answers (a file)")
    if bool(config.judge) == bool(config.judge_url):
        raise InputError("pairwise: give either judge (a checkpoint) or judge_url (a server)")
    if config.judge_url and not config.judge_model:
        raise InputError("pairwise: judge_url needs judge_model, the model's name there")
    if not config.prompts:
        raise InputError("pairwise: give prompts, a JSONL file")


def _check_judged(name: str, asked: Asked, prompts: int) -> None:
    """Equal answers are ties without a judge: they do not stand for one that said nothing."""
    reasons = _counted(asked.left_out)
    if asked.prompts and not any(verdict.asked for verdict in asked.verdicts):
        raise StepError(f"the judge {name} judged none of the {asked.prompts} prompts that it was asked about "
                        f"({reasons}): see that it runs and answers as it is asked to, and run this again")
    if not asked.verdicts:
        raise StepError(f"none of {prompts} prompts could be judged by {name}: {reasons}")


def _failed(asked: Asked) -> dict[str, str]:
    return {UNANSWERED: f"of {asked.prompts} prompts, {_counted(asked.may_pass)}"} if asked.may_pass else {}


def _counted(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{n} x {reason}" for reason, n in sorted(reasons.items()))


def _log(context: StepContext, values: Mapping[str, float], faults: Mapping[str, Mapping[str, float]]) -> None:
    context.tracker.metrics({f"judge/{name}": value for name, value in values.items()})
    for side, found in faults.items():
        context.tracker.metrics({f"judge/{side}/{rule}": share for rule, share in found.items()})
    context.tracker.artifact(context.out / VERDICTS)


def _answers(
    name: str, config: PairwiseConfig, context: StepContext, prompts: Sequence[Prompt], left_out: Counter[str]
) -> dict[str, Answer]:
    """Answers of one side: from its file, from before a kill, or generated now."""
    from argosy.judging.answers import answers_of
    from argosy.judging.records import read_answers

    if given := getattr(config, f"{name}_answers"):
        return read_answers(Path(given), left_out)
    kept = context.out / f"state/{name}.jsonl"
    if kept.is_file():
        return read_answers(kept, Counter())
    model, chat, _ = _load(name, getattr(config, name), getattr(config, f"{name}_export"))
    found = answers_of(model, prompts, chat=chat, max_new_tokens=config.max_new_tokens,
                       temperature=config.temperature, seed=config.seed)  # fmt: skip
    write_atomic(kept, "".join(dump_line({"id": a.id, "answer": a.text, "ended": a.ended}) for a in found))
    return {answer.id: answer for answer in found}


def _judge(config: PairwiseConfig) -> Judge:
    if config.judge_url:
        from argosy.judging.judges.chat_api import ChatApiJudge

        key = os.environ.get(config.judge_key_variable, "")
        return ChatApiJudge(config.judge_url, config.judge_model, key, config.judge_parallel,
                            max_tokens=config.judge_tokens)  # fmt: skip
    from argosy.judging.judges.checkpoint import CheckpointJudge

    model, chat, name = _load("judge", config.judge, config.judge_export)
    return CheckpointJudge(model, chat=chat, name=name)


def _load(field: str, directory: str, export: str) -> tuple[Any, bool, str]:
    """The model, whether it is asked in its chat template, and its name."""
    from argosy.evaluation.checkpoint import find_checkpoint
    from argosy.evaluation.language_model import LanguageModel

    checkpoint = find_checkpoint(given_directory(field, directory, "training"), export)
    model = LanguageModel.load(checkpoint)
    chat = checkpoint.chat if checkpoint.ours else bool(model.tokenizer.chat_template)
    return model, chat, f"{checkpoint.stage or 'model'}/{checkpoint.name}"


STEP = Step("pairwise", PairwiseConfig, run, version=2, needs="train")

if __name__ == "__main__":
    STEP.main()
