"""Pairwise judging: a judge says which of two models answers better, in both orders, length-controlled.

    python -m steps.judge --config '{"first": "DIR", "second": "DIR", "judge": "DIR", "prompts": "FILE"}' --out DIR

Writes `verdicts.jsonl` (a line a prompt: both answers, the judge's word in both orders, faults by rule) and logs to
MLflow. See docs/evaluation.md."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from argosy.core.config.schema import ADDED, RUNTIME, Config, External, Measured, Seed, Upstream
from argosy.core.errors import InputError, StepError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.files import write_atomic
from argosy.core.store.step_files import given_directory
from argosy.corpus.data.jsonl import dump_line

if TYPE_CHECKING:
    from argosy.evidence.judging.judges import Judge, Judgements
    from argosy.evidence.judging.records import Answer, Prompt

VERDICTS, KEPT = "verdicts.jsonl", ".kept"  # replies and answers stay, for those who ask again where one is missing
UNANSWERED = "verdicts"  # the part that a retry repeats: the entry of `again` and `failed`


class JudgeConfig(Config):
    """Two models, or their answers, and the judge."""

    first: Upstream = ""
    """directory of a training step or of a model that transformers loads"""
    second: Upstream = ""
    """the model that the first is compared with"""
    first_export: str = "final"
    """name of the training step's export"""
    second_export: str = "final"
    """name of the training step's export"""
    first_answers: External = ""
    """JSONL of answers (id, answer), instead of `first`"""
    second_answers: External = ""
    """JSONL of answers, instead of `second`"""
    prompts: External = ""
    """JSONL of prompts: id, prompt"""
    labels: External = ""
    """JSONL of people's verdicts: id, winner (first, second or tie)"""
    judge: Upstream = ""
    """directory of the checkpoint that judges"""
    judge_export: str = "final"
    """name of the training step's export"""
    judge_url: str = ""
    """instead of `judge`: a server's OpenAI-compatible API, up to and with /v1"""
    judge_model: str = ""
    """the model's name at judge_url"""
    judge_key_variable: Annotated[str, RUNTIME] = "OPENAI_API_KEY"
    """variable that holds the key"""
    judge_parallel: Annotated[int, RUNTIME] = Field(8, ge=1)
    """requests at a time to judge_url"""
    judge_tokens: int = Field(16, ge=1)
    """tokens of a reply of judge_url; a model that reasons first needs many"""
    max_new_tokens: int = Field(256, ge=1)
    """tokens of an answer"""
    temperature: float = Field(0.0, ge=0)
    """temperature of the answers; 0 is greedy"""
    limit: int | None = Field(None, ge=1)
    """the first so many prompts"""
    seed: Seed = 0
    """seed of sampled answers"""
    threads: int = Field(1, ge=1)
    """threads of torch, whatever cores there are; changes the scores' last digits"""
    dtype: Annotated[Literal["auto", "weights", "float32", "bfloat16"], ADDED] = "weights"
    """precision of the models here; weights: theirs; auto: theirs, or float32 for all where one's is slow on the CPU"""

    def settled(self, *, gpu: bool) -> Self:
        from argosy.model.weights.load import settled_for

        if self.dtype != "auto":
            return self
        models = [(getattr(self, side), getattr(self, f"{side}_export")) for side in ("first", "second", "judge")]
        dtype = settled_for("auto", [each for each in models if each[0]], gpu=gpu)
        return self.model_copy(update={"dtype": dtype})


class JudgeOutputs(Measured):
    """Results of the judging."""

    verdicts: str
    judge: str
    metrics: dict[str, float]
    """argosy.evidence.judging.metrics"""
    stderr: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    faults: dict[str, dict[str, float]]
    """share of answers with each fault, by model"""
    left_out: dict[str, int]
    """prompts without a verdict, by reason"""
    failed: dict[str, str] = Field(default_factory=dict)
    """reasons of the verdicts that the judge did not give"""
    again: tuple[str, ...] = ()
    """entries of `failed` that the next run retries"""


def run(config: JudgeConfig, context: StepContext) -> JudgeOutputs:
    """Answer, judge, log. Raises InputError: a field that is missing, files or checkpoints that are absent, a server
    that refuses; StepError: the judge gave no verdict at all, or only those on equal answers."""
    from argosy.evidence.judging.judges import NO_ANSWER, ask
    from argosy.evidence.judging.metrics import describe, intervals, metrics, numbers, shares, verdict_lines
    from argosy.evidence.judging.records import read_labels, read_prompts

    _check(config)
    if config.dtype != "weights":
        print(f"models compute in {config.dtype}", flush=True)
    make_deterministic(config.seed, config.threads)
    left_out: Counter[str] = Counter()
    prompts = read_prompts(Path(config.prompts), left_out)[: config.limit]
    labels = read_labels(Path(config.labels), left_out) if config.labels else {}
    first, second = (_answers(name, config, context, prompts, left_out) for name in ("first", "second"))
    judge = _judge(config)
    judged = ask(judge, prompts, first, second, context.out / KEPT / "replies",
                 lambda done, total: context.progress.update(done, total, "verdicts"))  # fmt: skip
    left_out += judged.left_out
    _check_judged(judge.name, judged, len(prompts))
    values, errors = numbers(metrics(judged.verdicts, labels))
    faults = {"first": shares(prompts, first), "second": shares(prompts, second)}
    write_atomic(context.out / VERDICTS, "".join(verdict_lines(prompts, first, second, judged.verdicts)))
    context.tracker.metrics({f"judge/{name}": value for name, value in values.items()})
    for side, found in faults.items():
        context.tracker.metrics({f"judge/{side}/{rule}": share for rule, share in found.items()})
    context.tracker.artifact(context.out / VERDICTS)
    missing = _counted({reason: n for reason, n in judged.left_out.items() if reason != NO_ANSWER})
    outputs = JudgeOutputs(verdicts=VERDICTS, judge=judge.name, faults=faults, metrics=values, stderr=errors,
                           intervals=intervals(judged.verdicts), left_out=dict(sorted(left_out.items())),
                           failed={UNANSWERED: f"of {judged.prompts} prompts, {missing}"} if missing else {},
                           again=(UNANSWERED,) if judged.retryable else ())
    print("\n".join(describe(judge.name, values, outputs.intervals, faults, outputs.left_out)))
    return outputs


def _check(config: JudgeConfig) -> None:
    for name in ("first", "second"):
        if bool(getattr(config, name)) == bool(getattr(config, f"{name}_answers")):
            raise InputError(f"judge: give either {name} (a checkpoint) or {name}_answers (a file)")
    if bool(config.judge) == bool(config.judge_url):
        raise InputError("judge: give either judge (a checkpoint) or judge_url (a server)")
    if config.judge_url and not config.judge_model:
        raise InputError("judge: judge_url needs judge_model, the model's name there")
    if not config.prompts:
        raise InputError("judge: give prompts, a JSONL file")


def _check_judged(name: str, judged: "Judgements", prompts: int) -> None:
    """Refuse a judge that gave no verdict; ties of equal answers, which it does not read, are none."""
    reasons = _counted(judged.left_out)
    if judged.prompts and not any(verdict.judged for verdict in judged.verdicts):
        raise StepError(f"the judge {name} judged none of the {judged.prompts} prompts that it was given "
                        f"({reasons}): see that it runs and answers in the form it is told to, and run this again")
    if not judged.verdicts:
        raise StepError(f"none of {prompts} prompts could be judged by {name}: {reasons}")


def _counted(reasons: Mapping[str, int]) -> str:
    return "; ".join(f"{n} x {reason}" for reason, n in sorted(reasons.items()))


def _answers(name: str, config: JudgeConfig, context: StepContext, prompts: "Sequence[Prompt]",
             left_out: Counter[str]) -> "dict[str, Answer]":
    """Get the answers of one side: from its file, from before a kill, or generated now."""
    from argosy.evidence.judging.judges import answers_of
    from argosy.evidence.judging.records import read_answers

    if given := getattr(config, f"{name}_answers"):
        return read_answers(Path(given), left_out)
    kept = context.out / KEPT / f"{name}.jsonl"
    if kept.is_file():
        return read_answers(kept, Counter())
    model, chat, _ = _load(name, config)
    answers = answers_of(model, prompts, chat=chat, max_new_tokens=config.max_new_tokens,
                         temperature=config.temperature, seed=config.seed)  # fmt: skip
    kept.parent.mkdir(exist_ok=True)
    write_atomic(kept, "".join(dump_line({"id": a.id, "answer": a.text, "ended": a.ended}) for a in answers))
    return {answer.id: answer for answer in answers}


def _judge(config: JudgeConfig) -> "Judge":
    if config.judge_url:
        from argosy.evidence.judging.judges import ChatApiJudge
        from argosy.model.infer.chat_api import ChatApi

        key = os.environ.get(config.judge_key_variable, "")
        api = ChatApi(config.judge_url, config.judge_model, key, config.judge_parallel)
        return ChatApiJudge(api, config.judge_tokens)
    from argosy.evidence.judging.judges import CheckpointJudge

    model, chat, name = _load("judge", config)
    return CheckpointJudge(model, chat=chat, name=name)


def _load(field: str, config: JudgeConfig) -> tuple[Any, bool, str]:
    """Load a model; whether its prompts are turns of its chat template; its name."""
    from argosy.model.infer.model import LanguageModel
    from argosy.model.weights.checkpoint import find_checkpoint

    directory = given_directory(field, getattr(config, field), "training")
    checkpoint = find_checkpoint(directory, getattr(config, f"{field}_export"))
    model = LanguageModel.load(checkpoint, dtype=config.dtype)
    chat = checkpoint.chat if checkpoint.ours else bool(model.tokenizer.chat_template)
    return model, chat, f"{checkpoint.stage or 'model'}/{checkpoint.name}"


STEP = Step("judge", JudgeConfig, run, version=3, needs="train")

if __name__ == "__main__":
    main(STEP)
