"""Synthesis: training data of a model's own answers, or of a teacher's, which sft and preference read.

    python -m steps.synthesize --config '{"checkpoint": SFT_DIR, "data": DIR, "method": "rejection_sampling"}' --out DIR

Writes instructions.jsonl or preferences.jsonl, the data step's held-out file beside it, `unused.jsonl` (prompts without
a record, and why), `synthesis.json` (counts) and samples.json (a table, also in MLflow). See docs/posttraining.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from argosy.core.config.schema import Externals
from argosy.core.errors import InputError
from argosy.core.step.command import main
from argosy.core.step.contract import Step, StepContext
from argosy.core.store.files import write_json
from argosy.core.store.step_files import given_directory
from argosy.corpus.data.counts import Rejects
from argosy.corpus.data.jsonl import JsonlWriters, read_jsonl
from argosy.corpus.data.split import CONVERSATIONS, PREFERENCES, PROMPTS
from argosy.evidence.results.suite import WithSuites
from argosy.model.post.rl import asks_model
from argosy.model.post.rl.rewards import check_classifiers
from argosy.model.post.synthesis import SynthesisConfig, SynthesisOutputs
from argosy.model.post.synthesis.methods import METHODS

if TYPE_CHECKING:
    from argosy.model.post.rl.rewards import Prompt, WeightedRewards
    from argosy.model.post.synthesis.methods import Answer
    from argosy.model.post.synthesis.records import Parse
    from argosy.model.train.parallelism import Group

UNUSED, COUNTS = "unused", "synthesis.json"


class SynthesizeConfig(SynthesisConfig, WithSuites):
    suites: Externals = ()
    """Suites (YAML) whose benchmarks prompts and records must not hold, beside the data step's own; a pipeline takes
    those that it evaluates with."""
    suite_files: Externals = ()
    """Files whose bytes count; those that `suites` names are added."""


@dataclass(frozen=True)
class Answered:
    """Prompts with their answers, and who answered; the rest is of a teacher behind a URL."""

    prompts: "Sequence[Prompt]"
    answers: "Sequence[Sequence[Answer]]"
    model: str
    missing: Mapping[int, str] = field(default_factory=dict)
    """Why a prompt has no answer, by its number."""


def run(config: SynthesizeConfig, context: StepContext) -> SynthesisOutputs:
    """Answer, choose, clean, write. Raises InputError: a field is missing or wrong, a teacher refuses, no prompt is
    left; StepError: no answer is."""
    data, teacher = _begin(config)
    from argosy.model.post.rl.rewards import Surroundings, WeightedRewards
    from argosy.model.post.synthesis.records import make_records, metrics_of, read_prompts, table_rows, write_records
    from argosy.model.train.parallelism import join_group

    group = join_group(context)
    rejects, benchmark = Rejects(), _benchmark(config, data)
    around = Surroundings(config.reward_model, group.device, config.reward_caution, config.classifier)
    rewards = WeightedRewards(config.rewards, around) if config.rewards else None
    # Every process cleans alike, and rank 0 writes.
    with TemporaryDirectory() as spare, JsonlWriters(context.out if group.rank == 0 else Path(spare)) as writers:
        def read(parse: "Parse") -> "Any":
            return read_prompts(config, data, parse, benchmark, writers, rejects)

        found, unused = _answered(config, context, group, teacher, rewards, read)
        made = make_records(config, found.model, found.prompts, found.answers, benchmark, writers, unused,
                            found.missing)
        own = write_records(config, data, made.records, context.out, writers) if group.rank == 0 else 0
        writers.write_all(UNUSED, unused.rows)
    dropped = {name: reasons.total() for name, reasons in sorted(made.curation.dropped.items())}
    outputs = SynthesisOutputs(
        file=f"{config.kind}.jsonl", records=len(made.records), own=own, prompts=len(found.prompts),
        answers=sum(map(len, found.answers)), left_out=unused.counts(), dropped=dropped, rejected=rejects.counts(),
        metrics=metrics_of(config, found.answers, made))
    if group.rank == 0:
        rejects.write(context.out)
        _report(context, outputs, table_rows(found.prompts, found.answers, made))
    return outputs


def _begin(config: SynthesizeConfig) -> tuple[Path, str]:
    """Check the fields, download a teacher, prepare the process; returns the data's and a local teacher's directory."""
    from argosy.model.post.rl.rewards import check_model
    from argosy.model.weights.elsewhere import download

    data = given_directory("data", config.data, "data")
    if not config.has_teacher and not config.checkpoint:
        raise InputError("checkpoint is empty: give the directory of the training step whose model answers, or a "
                         "teacher with method=distillation")
    if asks_model(config.rewards):
        check_model(config.rewards, config.reward_model)
    if config.teacher_url and "length" in config.rewards and not config.reward_model:
        raise InputError("rewards.length counts tokens, and a teacher with a URL has no tokenizer here: leave it out")
    teacher = str(download(config.teacher_hub, "teacher")) if config.teacher_hub else config.teacher
    from argosy.model.post.stage import prepare_process

    prepare_process(config.seed, config.threads)
    return data, teacher


def _benchmark(config: SynthesizeConfig, data: Path) -> list[Mapping[str, Any]]:
    """List the items that no model may learn: the data step's, and those of the suites."""
    from evals.section import questions

    files = [path for lang in ("en", "zh") if (path := data / "benchmark" / f"{lang}.jsonl").is_file()]
    asked, unchecked = questions(config.suites, ("benchmark/en.jsonl", "benchmark/zh.jsonl"))
    if unchecked:
        print(f"decontamination could not look for {', '.join(unchecked)}: {next(iter(unchecked.values()))}")
    return [*(item for path in files for item in read_jsonl(path)), *asked]


def _answered(config: SynthesizeConfig, context: StepContext, group: "Group", teacher: str,
              rewards: "WeightedRewards | None", read: Any) -> "tuple[Answered, Any]":
    """Read the prompts as who answers them takes them, and get the answers."""
    from argosy.model.post.rl.prompts import prompt_parser, room_of_prompts

    def problem(fields: dict[str, Any]) -> str:
        return rewards.problem(fields) if rewards else ""

    judge = _reward_tokenizer(config) if config.has_teacher else None
    if config.teacher_url:
        from argosy.model.post.synthesis.answers import ask_teacher

        prompts, unused = read(prompt_parser(None, 0, problem))
        taught, missing = ask_teacher(config, context, prompts, rewards, judge)
        return Answered(prompts, taught, f"{config.teacher_model} at {config.teacher_url}", missing), unused
    from argosy.model.post.synthesis.answers import Answering, open_model
    from argosy.model.weights.checkpoint import find_checkpoint

    source = open_model(config, teacher, group.device)
    room = room_of_prompts(config.max_length or source.context, config.max_new_tokens)
    prompts, unused = read(prompt_parser(source.tokenizer, room, problem))
    found = find_checkpoint(source.path)
    model = config.teacher_hub or (f"{found.stage}/{found.name}" if found.ours else found.name)
    answers = Answering(config, context, group, source, rewards, judge).answer(prompts)
    return Answered(prompts, answers, model), unused


def _reward_tokenizer(config: SynthesizeConfig) -> Any:
    """Load the tokenizer of the reward model, which reads no other one's ids; None: no reward model is asked."""
    if not asks_model(config.rewards):
        return None
    from argosy.model.post.stage import open_source

    return open_source("reward_model", config.reward_model, "cpu").tokenizer


def _report(context: StepContext, outputs: SynthesisOutputs, rows: "Sequence[Mapping[str, Any]]") -> None:
    from argosy.model.post.rl.prompts import write_table

    write_json(context.out / COUNTS, outputs.model_dump(mode="json", exclude={"metrics"}))
    context.tracker.metrics(outputs.metrics, step=0)
    write_table(context, rows)
    context.tracker.artifact(context.out / COUNTS)
    said = [f"{outputs.records:,} records of {outputs.prompts:,} prompts"]
    said += [f"{outputs.own:,} of the data step"] if outputs.own else []
    said += [f"{count:,} prompts without one: {reason}" for reason, count in outputs.left_out.items()]
    said += [f"{count:,} dropped by {name}" for name, count in outputs.dropped.items()]
    print("; ".join(said))


STEP = Step("synthesize", SynthesizeConfig, run, version=2, needs="train", methods=tuple(METHODS),
            check=check_classifiers, files={"prompts": (*PROMPTS, CONVERSATIONS[0], PREFERENCES[0])})

if __name__ == "__main__":
    main(STEP)
