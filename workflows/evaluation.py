"""Evaluations of the lifecycle: one node for each checkpoint and suite."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from argosy.core.config.explain import validated
from argosy.core.config.schema import needed_by
from argosy.core.errors import InputError
from argosy.core.step.machine import has_gpu
from argosy.corpus.data.records import KINDS
from argosy.evidence.results.suite import FOLDERS, check_apart, find_suite, load_suite, named_files
from argosy.model.weights.checkpoint import find_checkpoint
from argosy.model.weights.load import own_dtype
from argosy.model.weights.pretrained import settled_dtype
from steps.data import DataConfig
from steps.evaluate import EvaluateConfig, check_suite
from steps.leaks import LeaksConfig
from steps.learn import LearnConfig
from steps.start import StartConfig
from workflows.graph import FINAL, Finished, Node
from workflows.stages import StageResources, Stages

if TYPE_CHECKING:
    from evals.variants.learn_then_ask import LearnThenAsk


class Evaluation(EvaluateConfig):
    """The evaluate step's config for all checkpoints."""

    suites: Mapping[str, Literal["all", "final", "none"] | Annotated[tuple[str, ...], Field(min_length=1)]] = Field(
        {"benchmark": "all", "probes": "all", "heldout": "final"})
    """Exports of each training stage to evaluate, by name of a suite, or path of a YAML of your own: `all`, the
    `final` one, the final one of some stages ([anneal, sft]), or `none`, where the preset has the suite."""
    together: int = Field(8, ge=1)
    """Checkpoints that one process evaluates one after the other, to start up once."""

    follow: bool = False
    """Evaluate the exports that a stage leaves on the way while it trains: `argosy run` where cores or GPUs are left, a
    workflow on a cluster in pods of their own."""
    dtype: Literal["auto", "weights", "float32", "bfloat16"] = "auto"  # type: ignore[assignment]
    """Precision that models compute in; weights: theirs; auto: theirs, or float32 where the stage has no GPU and the
    CPU that plans has no instructions for theirs."""

    @property
    def files(self) -> dict[str, str]:
        """Files of the suites that are asked, by name. Raises InputError: there is no such suite."""
        return {name: str(find_suite(name, "evaluate.suites")) for name, which in sorted(self.suites.items())
                if which != "none"}

    def check_fields(self) -> None:
        for name in ("suite", "suite_file", "export"):
            if getattr(self, name) != EvaluateConfig.model_fields[name].get_default():
                raise ValueError(f"{name} is set for each checkpoint by the pipeline; use suites: {{NAME: all}}")


def evaluations(stages: Stages, config: Evaluation, trained: Sequence[Node], **inputs: Node | None) -> list[Node]:
    """Add a node for each export of `trained` and each suite; returns them. Raises InputError: a suite is wrong."""
    if stages.has("evaluate") and not trained:
        raise InputError(f"stage evaluate needs {needed_by(EvaluateConfig, 'checkpoint')}")
    if stages.has("evaluate") and inputs.get("tokens", ...) is None:  # a night gives those that there are
        _check_without_tokens(config)
    common = {name: getattr(config, name) for name in EvaluateConfig.model_fields if name in config.model_fields_set}
    gpu = config.backend == "vllm" or has_gpu(stages.resources.get("evaluate", StageResources()).gpus)
    nodes: list[Node | None] = []
    check_apart([*config.files.values()])
    for name in config.files:
        suite, which = suite_fields(name), config.suites[name]
        way, alone = learning(name, config.backend)
        for node in trained if isinstance(which, str) else [each for each in trained if each.name in which]:
            for export in node.exports if which == "all" else [FINAL]:
                part = f"{node.name}-{export}-{suite['suite']}"
                dtype = settled_dtype(config.dtype, _dtype_of(node, export), gpu=gpu)
                each = EvaluateConfig.model_validate({**common, **suite, "export": export, "dtype": dtype})
                early = config.follow and export != FINAL
                if not (way and alone):
                    nodes.append(stages("evaluate", "evaluate", each, part=part, batch=config.together, of="evaluate",
                                        early=early, checkpoint=node, **inputs))
                if way:
                    same = {field: value for field, value in each if field in
                            each.model_fields_set & LearnConfig.model_fields.keys()}
                    learn = LearnConfig.model_validate({**same, "most_minutes": way.minutes})
                    nodes.append(stages("evaluate", "learn", learn, part=f"{part}-learn", of="evaluate",
                                        early=early, checkpoint=node, data=inputs.get("data")))
    return [node for node in nodes if node is not None]


def learning(suite: str, backend: str) -> "tuple[LearnThenAsk | None, bool]":
    """Return how copies learn a suite's items, where a variant asks such copies, which a node of its own makes; and
    whether the suite asks nothing else.

    Raises InputError: its variants learn in different ways, or the backend trains no copies."""
    loaded = load_suite(str(find_suite(suite, "evaluate.suites")))
    if "learn_then_ask" not in str(loaded.benchmarks):
        return None, False
    from evals.learning import learning_of, only_learns
    from evals.section import Benchmarks

    way = learning_of(loaded.section("benchmarks", Benchmarks), loaded.name)
    if way and backend != "transformers":
        raise InputError(f"backend={backend} trains no copies, which learn_then_ask of suite {loaded.name} asks: "
                         "set backend=transformers, or leave the variant out")
    return way, only_learns(loaded)


def _dtype_of(node: Node, export: str) -> str:
    """Name the precision of the weights that a node exports, before it has run; "" where nobody knows it yet."""
    if node.finished:
        return _dtype_of_finished(node.finished, export)
    named = getattr(node.config, "export_dtype", "auto")
    base = node.upstream.get("checkpoint")
    if named != "auto" or base:
        return str(named) if named != "auto" or not base else _dtype_of(base[0], FINAL)
    model = node.config.model if isinstance(node.config, StartConfig) else None
    if model is None:
        return "float32"  # a new model
    return own_dtype(Path(model)) if model and Path(model).exists() else ""


def _dtype_of_finished(node: Finished, export: str) -> str:
    with suppress(InputError):  # its files may be elsewhere
        return own_dtype(find_checkpoint(node.directory, export).path)
    begun = node.record["step"] == "start" or "checkpoint" in node.record["upstream"]
    return str(node.record["config"].get("export_dtype", "" if begun else "float32"))


def decontaminated(data: DataConfig, config: Evaluation) -> DataConfig:
    """Return the data step's config with the suites that there are, where the user's own records are to hold none of
    their items, and no suites are named for that."""
    if data.suites or not any(getattr(data, kind) for kind in ("inputs", *KINDS)):
        return data
    return data.model_copy(update=benchmark_suites(config))


def benchmark_suites(config: Evaluation) -> dict[str, tuple[str, ...]]:
    """Return the suites whose items nothing may learn, and the files that they name, as fields of a step's config."""
    suites = tuple(file for file in config.files.values() if load_suite(file).benchmarks)
    named = dict.fromkeys(name for file in suites for name in named_files(file))
    return {"suites": suites, "suite_files": tuple(named)}


def with_heldout_texts(leaks: LeaksConfig | None, config: Evaluation) -> LeaksConfig | None:
    """Return the config of the step that looks for held-out text, with the suites that name some where it has none."""
    if leaks is None or leaks.suites:
        return leaks
    suites = [file for file in config.files.values() if (load_suite(file).heldout or {}).get("texts")]
    return validated(LeaksConfig, {**leaks.model_dump(exclude_unset=True), "suites": suites}) if suites else leaks


def _check_without_tokens(config: Evaluation) -> None:
    """Check that no suite measures held-out loss on a tokenize step's files, where there is no such step. Raises
    InputError: one does."""
    for name, file in config.files.items():
        heldout = load_suite(file).heldout
        if heldout is not None and not heldout.get("texts"):
            raise InputError(f"evaluate.suites has {name}, whose held-out loss needs the stage tokenize: add tokenize "
                             f"to stages, or set evaluate.suites.{name}=none")


def suite_fields(name: str) -> dict[str, str]:
    """Give a suite as fields of EvaluateConfig: its file, so that its bytes count. Raises InputError: there is no such
    suite, or one of one's own is wrong."""
    file = find_suite(name, "evaluate.suites")
    if file.parent not in FOLDERS and file.is_file():
        check_suite(load_suite(str(file)), tokens="of the pipeline")
    return {"suite": file.stem, "suite_file": str(file)}
