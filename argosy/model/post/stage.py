"""A post-training step from its beginning to its end: process, the checkpoint that it starts from, records,
evaluations, checks for divergence, export."""

import importlib
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from argosy.core.errors import InputError, StepError
from argosy.core.step.contract import StepContext
from argosy.core.step.process import make_deterministic
from argosy.core.store.files import publish, read_record
from argosy.core.store.step_files import given_directory
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.data.counts import Rejects, read_records
from argosy.model.infer.decode import Decoding
from argosy.model.post.config import PosttrainingConfig, PosttrainingOutputs
from argosy.model.train.precision import quantization, speed_up_bfloat16
from argosy.model.weights.chat import check_template, end_tokens
from argosy.model.weights.checkpoint import ABOUT, EXPORTS, open_final
from argosy.model.weights.export import Export, Exporter
from argosy.model.weights.load import OUTPUT_LAYER, load_model
from argosy.model.weights.pretrained import load_config, load_tokenizer, weights_dtype
from argosy.model.weights.templates import check_spans, use_template

if TYPE_CHECKING:
    from argosy.model.train.config import TrainConfig
    from argosy.model.train.parallelism import Group

R = TypeVar("R")
C = TypeVar("C", bound=PosttrainingConfig, covariant=True)
_C = TypeVar("_C", bound=PosttrainingConfig)
Evaluate = Callable[[Any], Mapping[str, float]]
NAME, BEST, NEXT = "final", "best", "next"  # exports: `final_by` keeps the best so far, and writes one in its place


@dataclass(frozen=True)
class Source:
    """A checkpoint that a post-training step starts from.

    Attributes:
        tokens: tokens of the model's training, over all its stages.
        context: its longest input in tokens.
        stop_ids: ids that end an answer.
        quantization: arguments of from_pretrained that load its weights in less bits."""

    path: Path
    tokenizer: Any
    tokens: int
    context: int
    stop_ids: list[int]
    device: Any
    quantization: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pad_id(self) -> int:
        return int(self.tokenizer.pad_token_id)

    def decoding(self, max_new_tokens: int, temperature: float = 0.0, seed: int = 0) -> Decoding:
        """Return how answers of this checkpoint are generated; greedy at temperature 0."""
        return Decoding(self.stop_ids, self.pad_id, max_new_tokens, temperature, seed)

    def causal_model(self) -> Any:
        """Load the language model, on the device, with generation ending at `stop_ids`."""
        model = self.load("AutoModelForCausalLM")
        model.generation_config.eos_token_id = self.stop_ids
        model.generation_config.pad_token_id = self.pad_id
        return model

    def load(self, kind: str, new: str = "", **fields: Any) -> Any:
        """Load the weights into the class of transformers that is named `kind`, float32 or quantized, on the device.

        `new`: pattern of the tensors that the checkpoint may lack: of a new head."""
        more = {**self.quantization, **fields}
        return load_model(self.path, kind, new=new, unused=OUTPUT_LAYER if new else "", **more).to(self.device)


def open_source(field: str, directory: str, device: Any) -> Source:
    """Open the final export of the training step in `directory`, the value of the config's `field`. Raises InputError:
    no finished training step is there, or its tokenizer has no usable chat template."""
    found = open_final(field, directory)
    tokenizer, context = load_tokenizer(found.path), load_config(found.path).max_position_embeddings
    check_template(tokenizer)
    return Source(found.path, tokenizer, found.tokens, context, end_tokens(tokenizer), device)


class Trained(NamedTuple):
    """The end of training: optimizer steps, tokens of the stage, and the whole model on the device (None: as given)."""

    steps: int
    tokens: int
    model: Any = None


@dataclass(frozen=True)
class Stage(Generic[C]):
    """A post-training step at work: its config, its processes, the checkpoint that it starts from, its rejects."""

    config: C
    context: StepContext
    group: "Group"
    source: Source
    rejects: Rejects = field(default_factory=Rejects)

    def read(self, parse: Callable[[dict[str, Any]], R], *files: str) -> list[R]:
        """Read the data step's files; records that `parse` refuses are set aside. Raises InputError: a file has no
        usable record."""
        data = given_directory("data", self.config.data, "data")
        return [record for name in files for record in read_records(data / name, parse, self.rejects)]

    def keep_rejects(self) -> None:
        """Write the records that were set aside; of several processes, rank 0 does."""
        if self.context.rank == 0:
            self.rejects.write(self.context.out)

    def model(self) -> Any:
        """Load the language model that is trained: with the adapters of `lora`, where that is set. Raises InputError:
        the adapters do not fit the model, or a package is missing."""
        return self.adapt(self.source.causal_model())

    def adapt(self, model: Any, whole: Sequence[str] = ()) -> Any:
        """Give a model of the checkpoint's weights the adapters of `lora`, or freeze what `frozen` names; returns it.

        `whole`: modules that are trained whole beside them, such as a new head; tables with rows of tokens that were
        just added are so too."""
        from argosy.model.weights.adapters.layers import add_adapters, tables_of_new_tokens
        from argosy.model.weights.adapters.places import freeze

        freeze(model, self.config.frozen, some=bool(whole))
        if not self.config.lora:
            return model

        whole = (*whole, *tables_of_new_tokens(model, self.source.tokenizer))
        return add_adapters(model, self.config.lora, self.config.seed, self.source.path, whole)

    @property
    def exporter(self) -> Exporter:
        """Return the writer of its exports."""
        dtype = self.config.exported_dtype(weights_dtype(self.source.path))
        return Exporter(self.context, self.config.stage, self.source.tokenizer, self.source.tokens, chat=True,
                        dtype=dtype, trained=self.config.weights_dtype)

    def measure(self, evaluate: Evaluate, model: Any, step: int, tokens: int) -> dict[str, float]:
        """Evaluate the model after `step` steps of `tokens`; with `final_by`, export it where it is the best so far.
        Every process calls this."""
        values = dict(evaluate(model))
        if self.context.rank == 0 and self._best().get("step", 0) >= step:  # gone back over
            shutil.rmtree(self.context.out / EXPORTS / BEST)
        if self.context.rank == 0 and self._goodness(values) > self._goodness(self._best().get("heldout", {})):
            unregistered = replace(self.context, tracker=Tracker())
            replace(self.exporter, context=unregistered, more={"heldout": values}).write(NEXT, model, step, tokens)
        self.group.barrier()
        return values

    def during(self, evaluate: Evaluate, phase: "TrainConfig", engine: Any, whole: Any, tokens: Sequence[int]
               ) -> Callable[[int], dict[str, float]]:
        """Return what a loop calls after each step: `measure` of the `whole` model where it is due before the end.
        `tokens`: of each step."""
        due = phase.heldout_steps() - {phase.steps}

        def point(step: int) -> dict[str, float]:
            if step not in due:
                return {}
            with self.context.progress.during("held-out"), engine.as_agreed():
                values = self.measure(evaluate, whole.refresh(), step, sum(tokens[:step]))
            engine.module.train()
            return values

        return point

    def _goodness(self, values: Mapping[str, float]) -> float:
        config: Any = self.config
        kind = getattr(config, "final_kind", None)
        return kind.goodness(values[config.final_by]) if kind and values else -math.inf

    def _best(self) -> dict[str, Any]:
        """Return the record of the best export so far; {}: there is none."""
        folder = self.context.out / EXPORTS
        if (folder / NEXT).is_dir():
            publish(folder / NEXT, folder / BEST)
        return read_record(folder / BEST / ABOUT)

    def run(self, model: Any, evaluate: Evaluate, train: Callable[[], Trained]) -> PosttrainingOutputs:
        """Evaluate `model`, train it, evaluate what came of it, and export that, or what `final_by` chooses. Raises
        StepError: a result is not a finite number; InputError: `final_by` is none of them."""
        progress, by, notes = self.context.progress, getattr(self.config, "final_by", ""), list[str]()
        with progress.during("held-out before training"):
            before = dict(evaluate(model))
        if by and by not in before:
            raise InputError(f"final_by is {by!r}, which these held-out data do not give, allowed: "
                             f"{', '.join(name for name in before if 'stderr' not in name)}")
        self.context.tracker.metrics(before, step=0)
        step, tokens, trained = train()
        model = model if trained is None else trained
        with progress.during("held-out after training"):
            after = self.measure(evaluate, model, step, tokens)
        check_heldout(before, after, step)
        self.context.tracker.metrics(after, step=step)
        if by:
            best, last = self.group.agreed(self._best() if self.context.rank == 0 else {}), after
            after, about = best["heldout"], {"step": best["step"], "tokens": best["tokens"]}
            notes.append(f"step {best['step']} of {step} is the final export: its {by} is {after[by]:.4f}, that of the "
                         f"last one {last[by]:.4f}, that before training {before[by]:.4f}")
            if self._goodness(before) >= self._goodness(after):
                notes[0] += ": training has not made it better (warning)"
            print(notes[0], flush=True)
            export = Export(name=NAME, path=Exporter.path(BEST), **about)
            if self.context.rank == 0:
                self.context.tracker.model(NAME, self.context.out / export.path, stage=self.config.stage, **about)
        else:
            self.exporter.write(NAME, model.eval(), step, tokens)
            export = self.exporter.describe(NAME, step, tokens)
        metrics = {f"{name}/before": value for name, value in before.items()}
        metrics |= {f"{name}/after": value for name, value in after.items()}
        return PosttrainingOutputs(exports=[export], final=export.path, metrics=metrics, rejected=self.rejects.counts(),
                                   notes=notes)


def begin(config: _C, context: StepContext) -> Stage[_C]:
    """Prepare this process and open the checkpoint on its device; call it before importing torch.

    Raises InputError: the checkpoint cannot be continued, its context is shorter than `max_length`, or its chat
    template marks other words than the assistant's."""
    prepare_process(config.seed, config.threads)
    from argosy.model.train.parallelism import join_group

    group = join_group(context)
    if group.device.type == "cpu" and (problem := config.cpu_problem()):
        raise InputError(problem)
    source = fitted(open_source("checkpoint", config.checkpoint, group.device), config.template, config.max_length)
    check_spans(source.tokenizer)
    if config.lora and config.lora.kind == "qlora":
        source = replace(source, quantization=quantization(group.device, config.dtype))
    return Stage(config, context, group, source)


def fitted(source: Source, template: str, max_length: int) -> Source:
    """Return a source with another chat template, if named. Raises InputError: its context is below `max_length`."""
    if template:
        use_template(source.tokenizer, template)
        source = replace(source, stop_ids=end_tokens(source.tokenizer))
    if max_length > source.context:
        raise InputError(f"max_length={max_length} is more than the {source.context} tokens of the checkpoint's "
                         "context, which it has not learnt beyond; lower it, or set 0 for the context")
    return source


def prepare_process(seed: int, threads: int) -> None:
    """Set what transformers reads when it is imported. No telemetry, no hub, no progress bars (the log is a file), no
    import of packages that are not used, `make_deterministic(seed, threads)`, and bfloat16 at a usable speed."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
    make_deterministic(seed, threads)
    speed_up_bfloat16()
    # Importing these two costs seconds at each start: scipy serves only detection losses, and accelerate imports
    # DeepSpeed to ask whether a model is one of its engines. A run that a DeepSpeed launcher started keeps it.
    unused = {"transformers.utils": "is_scipy_available"}
    if os.environ.get("ACCELERATE_USE_DEEPSPEED", "false") != "true":
        unused["accelerate.utils.other"] = "is_deepspeed_available"
    for module, question in unused.items():
        setattr(importlib.import_module(module), question, lambda *_: False)
    importlib.import_module("transformers").logging.disable_progress_bar()


def check_heldout(before: Mapping[str, float], after: Mapping[str, float], step: int) -> None:
    """Check that held-out results are finite, before training and after `step` steps."""
    from argosy.model.train.updates import check_finite

    wrong = [f"{name} is {value}" for name, value in before.items() if not math.isfinite(value)]
    if wrong:
        raise StepError(f"before training, {', '.join(wrong)}: the checkpoint that it starts from cannot be scored; "
                        "train the step before again with a lower learning_rate")
    check_finite(after, step)
