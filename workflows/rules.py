"""Rules of a pipeline's config, beyond those of each stage: what its stages ask of each other."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from argosy.core.config.explain import likely
from argosy.core.config.schema import Config, Role
from argosy.model.post.rl import asks_model
from workflows.branches import check_branches, needed_by
from workflows.graph import definition

_PHASES = ("pretrain", "long_context", "anneal")
_SHAPES: ContextVar[Mapping[str, Any] | None] = ContextVar("shapes", default=None)


def check_posttraining(config: Any) -> None:
    """Check the tree of post-training. Raises ValueError: it is none."""
    if config.posttraining:
        check_branches(config.posttraining, config.known()[: -len(config.posttraining)])


def check_resources(config: Any) -> None:
    """Check that `resources` names stages. Raises ValueError: one is none."""
    for name in config.resources:
        if name not in config.known():
            raise ValueError(f"resources.{name}: there is no such stage; {likely(name, config.known())}")


def check_budget(config: Any) -> None:
    """Check that a budget in money has a price. Raises ValueError: it has none."""
    if config.budget.cost is not None and config.gpu_hour_price is None:
        raise ValueError(f"budget.cost is {config.budget.cost:g}, and nothing says what a GPU costs: set "
                         "gpu_hour_price, or budget.gpu_hours instead")


def check_suites(config: Any) -> None:
    """Check that suites name stages that make checkpoints. Raises ValueError: one names another."""
    for suite, which in config.evaluate.suites.items():
        for name in () if isinstance(which, str) else which:
            if name not in (models := config.models()):
                raise ValueError(f"evaluate.suites.{suite} has {name!r}, which is no stage that makes a checkpoint; "
                                 f"{likely(name, models)}")


def check_files(config: Any) -> None:
    """Check that stages name files that the data step makes. Raises ValueError: one names others."""
    readers = [(name, "preference" if name == "dpo" else name, getattr(config, name))
               for name in ("sft", "dpo", "reward_model", "rlhf")]
    readers += [(f"posttraining[{index}]", item.step, item.config()) for index, item in enumerate(config.posttraining)]
    for where, step, given in readers:
        for field, files in definition(step).files.items() if given else ():
            value = getattr(given, field)
            wrong = [name for name in ((value,) if isinstance(value, str) else value) if name and name not in files]
            if wrong:
                raise ValueError(f"{where}.{field} has {wrong[0]!r}, allowed: the files of the data step, "
                                 f"{', '.join(files)}; records of yours: data.instructions=FILE and the like")


def check_wired(config: Any) -> None:
    """Check that nothing is set that the pipeline sets. Raises ValueError: a field is."""
    for stage, given in config:
        for name in given.fields_with(Role.UPSTREAM) if isinstance(given, Config) else ():
            if name in given.model_fields_set:
                raise ValueError(f"{stage}.{name} is set by the pipeline, to the directory of an earlier stage: "
                                 "leave it out, and name a model to begin with as start.model; a step that is run "
                                 "by hand (python -m steps.NAME) takes one")


def check_teachers(config: Any) -> None:
    """Check that fields of a teacher have one, even with their default values. Raises ValueError: there is none."""
    items = [(f"posttraining[{index}]", item.config()) for index, item in enumerate(config.posttraining)]
    for where, given in [*config, *items]:
        found = sorted({"teacher_share", "teacher_temperature"} & getattr(given, "model_fields_set", set()))
        if found and not given.teacher:
            raise ValueError(f"{where}.{found[0]} is {getattr(given, found[0])}, and there is no teacher: name one as "
                             f"{where}.teacher, or leave it out")


def check_start(config: Any) -> None:
    """Check the model to begin with. Raises ValueError: there is none, or two."""
    if config.start and not (config.start.model or config.start.hub):
        raise ValueError("start.model is empty: name the directory of a model, or org/name@commit of the hub; or "
                         "set start=null")
    if config.start and "pretrain" in config.stages and "model" in config.pretrain.model_fields_set:
        raise ValueError("pretrain.model describes a new model, and start.model is there already: leave one out "
                         "(the preset continue has none)")


@contextmanager
def model_of(shapes: Mapping[str, Any] | None) -> Iterator[None]:
    """Check how phases divide a model of these `shapes` (fields of its config.json); None: the config's new model."""
    token = _SHAPES.set(shapes)
    try:
        yield
    finally:
        _SHAPES.reset(token)


def check_parallelism(config: Any) -> None:
    """Check that the model's shapes can be shared out over processes as each phase says. Raises ValueError: no."""
    shapes = _SHAPES.get() or (None if config.start else config.pretrain.model.shapes)
    for stage in _PHASES if shapes else ():
        given = getattr(config, stage)
        if given and (problem := given.shape_problem(shapes)):
            raise ValueError(f"{stage}.{problem}")


def check_stages(config: Any) -> None:
    """Check the names of `stages`, and that none lacks another. Raises ValueError: one does."""
    items = {item.name: item for item in config.posttraining}
    known = [name for name in config.known() if not items or name not in config.default_tree()] if config.stages else []
    for name in config.stages:
        if name not in known:
            raise ValueError(f"stages has {name!r}: there is no such stage; {likely(name, known)}")
        lacks = [other for other in needed_by(items[name]) if other not in config.stages] if name in items else []
        if lacks:
            raise ValueError(f"stages has {name}, which needs {', '.join(lacks)}: add it")
        if name not in items and not getattr(config, name, True):
            off = "false" if name == "twin" else "null"
            raise ValueError(f"stages has {name}, which is left out by {name}={off}: remove one of the two")
    if config.start and "tokenizer" in config.stages:
        raise ValueError("stages has tokenizer, and start.model has one of its own: leave tokenizer out")
    reward = config.rlhf and asks_model(config.rlhf.rewards) and "rlhf" in config.stages
    if reward and "reward_model" not in config.stages:
        raise ValueError("stages has rlhf, whose rewards ask the reward model: add reward_model, or set "
                         "rlhf.rewards.model=0")


def check_carried(config: Any) -> None:
    """Check that an optimizer that is carried on was kept. Raises ValueError: it was not."""
    carry = [name for name in _PHASES if getattr(getattr(config, name), "carry_optimizer", False)]
    phases = [name for name in _PHASES if name in config.chosen()] if carry else []
    for before, name in zip([None, *phases], phases, strict=False):
        if name not in carry:
            continue
        if before is None:
            raise ValueError(f"{name}.carry_optimizer=true goes on with the optimizer of the phase before, and there "
                             "is none: set it to false")
        if not getattr(config, before).keep_optimizer:
            raise ValueError(f"{name}.carry_optimizer=true goes on with the optimizer of {before}, which keeps "
                             f"none: set {before}.keep_optimizer=true too")


RULES: tuple[Callable[[Any], None], ...] = (
    check_posttraining, check_resources, check_suites, check_files, check_wired, check_start, check_parallelism,
    check_stages, check_carried, check_teachers, check_budget)  # fmt: skip
