"""Typed configuration: the base class of configs, the roles of fields, the types at dotted paths.

A field's role says how it enters a node's digest:

    documents: Upstream = ""                     # directory of an upstream node: its digest counts
    inputs: Externals = ()                       # files from outside (~ is the home): their bytes count
    workers: Annotated[int, RUNTIME] = 2         # changes no result, or last digits alone: does not count
    processes: Annotated[int, ADDED] = 1         # newer than results that exist: counts where it is not its default
"""

import enum
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os.path import expanduser
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

KeyPath = tuple[str | int, ...]


class Role(enum.Enum):
    """The meaning of a config field to the graph."""

    UPSTREAM = "upstream"
    EXTERNAL = "external"
    RUNTIME = "runtime"
    ADDED = "added"


RUNTIME = Role.RUNTIME
ADDED = Role.ADDED
Upstream = Annotated[str, Role.UPSTREAM]
Upstreams = Annotated[tuple[str, ...], Role.UPSTREAM]


@dataclass(frozen=True)
class Needs:
    """A mark of an upstream field that a pipeline must fill: what it holds, and what a person does where no stage makes
    it, for an error."""

    what: str


DocumentsDir = Annotated[str, Role.UPSTREAM, Needs("cleaned documents: add clean to stages")]
TokenizerDir = Annotated[
    str, Role.UPSTREAM, Needs("a tokenizer: set start.model, whose own is taken, or add tokenizer to stages")]
TokensDir = Annotated[str, Role.UPSTREAM, Needs("token ids: add tokenize to stages")]
_MODEL = "a model: set start.model, or add a stage that trains one (pretrain, clean, tokenizer, tokenize)"
ModelDir = Annotated[str, Role.UPSTREAM, Needs(_MODEL)]
ModelDirs = Annotated[tuple[str, ...], Role.UPSTREAM, Needs(_MODEL)]


def expand_home(text: str) -> str:
    """Return a path from outside with ~ as the home. Raises ValueError: it is a URL."""
    if "://" in text:
        raise ValueError(f"{text!r} is a URL, allowed: a path; download it first, and give the path of the file")
    return expanduser(text)


External = Annotated[str, Role.EXTERNAL, AfterValidator(expand_home)]
Externals = Annotated[tuple[str, ...], Role.EXTERNAL, AfterValidator(lambda paths: tuple(map(expand_home, paths)))]

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every library's generator takes
Rate = Annotated[float, Field(gt=0)]
Weight = Annotated[float, Field(ge=0)]


class Config(BaseModel):
    """Base of every config: frozen; a misspelt key is an error, and so is a number that is not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    joined_from: "ClassVar[tuple[type[Config], ...]]" = ()
    """Classes of plug-ins whose fields were added (`joined`)."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        """Call `check_fields(self) -> None` of each class that has one, the base's first: it raises ValueError where
        fields do not fit together."""
        for each in reversed(type(self).__mro__):
            if check := vars(each).get("check_fields"):
                check(self)
        return self

    @classmethod
    def fields_with(cls, role: Role) -> list[str]:
        """List the fields of this class (not of nested ones) that have `role`."""
        return [name for name, found in _roles(cls).items() if found is role]

    def paths_with(self, role: Role) -> Iterator[tuple[str, str]]:
        """Yield the field and the path of each path in the fields that have `role`; empty ones are passed over."""
        for field in self.fields_with(role):
            value = getattr(self, field)
            paths = [value] if isinstance(value, str) else value.values() if isinstance(value, dict) else value or ()
            yield from ((field, path) for path in paths if path)

    def settled(self, *, gpu: bool) -> Self:
        """Return this config with explicit values for those that its device decides (`gpu`: it has one).

        Called where the graph is built, so that the digest counts them and a worker decides nothing."""
        return self

    def identity(self) -> dict[str, Any]:
        """Return the part of this config that decides the result: all but runtime, upstream and external fields."""
        return dict(_identity(self))


C = TypeVar("C", bound=Config)


class ParallelConfig(Config):
    """Base of the config of a step that may run as several processes."""

    processes: Annotated[int, ADDED] = Field(1, ge=1)
    """ranks of the step, on all its nodes; sums are taken in another order with more of them, so their number counts as
    `threads` does. With `resources.STAGE.gpus` above 0 there is one for each GPU."""
    nodes: Annotated[int, RUNTIME] = Field(1, ge=1)
    """groups of ranks, one for each machine, that share a file system; `resources.STAGE.nodes` sets it"""
    min_nodes: Annotated[int, RUNTIME] = Field(0, ge=0)
    """number of nodes with which the step goes on where others are lost; 0: all of them"""
    min_processes: Annotated[int, RUNTIME] = Field(0, ge=0)
    """number of processes with which a step on one node goes on where the GPUs of others are lost; 0: all of them"""
    restarts: Annotated[int, RUNTIME] = Field(2, ge=0)
    """times that the ranks start again in place, without progress between, after a failure that may pass: a rank that
    was killed, is frozen or hangs, a lost node, a fault of the network or a device"""
    preflight: Annotated[Literal["auto", "on", "off"], RUNTIME] = "auto"
    """check of the machines before several ranks begin, and after a failure of hardware, as `argosy doctor nodes`
    measures them; auto: where they are several, or have GPUs. A bad one is left out where `min_nodes`, or on one node
    `min_processes`, allows it, else the step fails and names it."""

    def check_fields(self) -> None:
        if self.processes % self.nodes:
            raise ValueError(f"nodes={self.nodes} does not divide processes={self.processes}; choose a divisor")
        if self.min_nodes > self.nodes:
            raise ValueError(f"min_nodes={self.min_nodes} is above nodes={self.nodes}; lower it")
        if self.min_processes and self.nodes > 1:
            raise ValueError(f"min_processes={self.min_processes} is for one node, and nodes={self.nodes}; leave it "
                             "out, and set resources.STAGE.min_nodes")


def joined(base: type[C], parts: Iterable[type[Config]]) -> type[C]:
    """Make a config class with the fields of `base` and of `parts`, which plug-ins have. Raises RuntimeError: two have
    different fields of one name."""
    fields: dict[str, FieldInfo] = {}
    for part in parts:
        for name, field in part.model_fields.items():
            if name in base.model_fields or repr(fields.setdefault(name, field)) != repr(field):
                raise RuntimeError(f"{part.__module__}: the field {name!r} differs from an earlier one; rename it")
    given: dict[str, Any] = {name: (field.annotation, field) for name, field in fields.items()}
    made: type[C] = create_model(base.__name__, __base__=base, **given)
    made.joined_from = tuple(parts)
    return made


class Measured(Config):
    """Base of outputs that hold measurements: one that is not finite is named where they are written."""

    model_config = ConfigDict(allow_inf_nan=True)


def needed_by(cls: type[BaseModel], field: str) -> str:
    """Say what an upstream field needs where no stage fills it; "" where it may stay empty, or is no field."""
    info = cls.model_fields.get(field)
    return next((mark.what for mark in info.metadata if isinstance(mark, Needs)), "") if info else ""


def role_of(field: FieldInfo) -> Role | None:
    """Return the role that `Annotated` gave this field, if any."""
    return next((m for m in field.metadata if isinstance(m, Role)), None)


@cache
def _roles(cls: type[Config]) -> dict[str, Role | None]:
    return {name: role_of(field) for name, field in cls.model_fields.items()}


def _identity(config: Config) -> Iterator[tuple[str, Any]]:
    dumped = config.model_dump(mode="json")
    for name, role in _roles(type(config)).items():
        value = getattr(config, name)
        if role is None or (role is Role.ADDED and value != type(config).model_fields[name].default):
            yield name, value.identity() if isinstance(value, Config) else dumped[name]


def field_type(cls: type[BaseModel], path: Sequence[str | int]) -> Any:
    """Return the annotation at `path`, or None where `path` does not exist. () is `cls` itself."""
    at: Any = cls
    for part in path:
        at = next((found for option in alternatives(at) if (found := _below(option, part)) is not None), None)
        if at is None:
            return None
    return at


def alternatives(annotation: Any) -> Iterator[Any]:
    """Yield the members of `X | Y | None` but None; `annotation` alone where it is no union."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from alternatives(member)
    elif annotation is not type(None):
        yield annotation


def models_at(cls: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    """List the config classes that a value at `path` may be of."""
    return [option for option in alternatives(field_type(cls, path)) if _is_model(option)]


def is_sequence(annotation: Any) -> bool:
    """Tell whether a value of this annotation is a list, and not also a single value."""
    options = list(alternatives(annotation))
    return bool(options) and all(get_origin(option) in (list, tuple) for option in options)


def item_type(annotation: Any) -> Any:
    """Return the annotation of an item of a list."""
    return next((found for option in alternatives(annotation) if (found := _below(option, 0)) is not None), None)


def is_text(annotation: Any) -> bool:
    """Tell whether a value of this annotation is text and nothing else."""
    return list(alternatives(annotation)) == [str]


def is_nullable(cls: type[BaseModel], path: Sequence[str | int]) -> bool:
    """Tell whether null may be at `path`."""
    annotation = field_type(cls, path)
    return get_origin(annotation) in (Union, types.UnionType) and type(None) in get_args(annotation)


def default_at(cls: type[BaseModel], path: Sequence[str | int]) -> Any:
    """Return the default at `path` as plain data, or None where it has none."""
    *parents, name = path
    for model in models_at(cls, parents):
        if name in model.model_fields:
            default = model.model_fields[str(name)].get_default(call_default_factory=True, validated_data={})
            return None if default is PydanticUndefined else _plain(default)
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _below(annotation: Any, part: str | int) -> Any:
    if _is_model(annotation):
        field = annotation.model_fields.get(part)
        return field.annotation if field else None
    if get_origin(annotation) in (list, tuple, dict, Mapping):
        arguments = [argument for argument in get_args(annotation) if argument is not Ellipsis]
        return arguments[-1] if arguments else Any
    return None
