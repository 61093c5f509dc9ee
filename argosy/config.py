"""Typed configuration: layers of YAML -> one frozen pydantic model, with dotted overrides.

A field's role says how it enters a node's digest:

    documents: Upstream = ""                     # directory of an upstream node: its digest counts
    inputs: Externals = ()                       # files from outside (~ is the home): their bytes count
    workers: Annotated[int, RUNTIME] = 2         # cannot change the result: does not count
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from os.path import expanduser
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo


class Role(enum.Enum):
    """What a config field means to the graph."""

    UPSTREAM = "upstream"
    EXTERNAL = "external"
    RUNTIME = "runtime"


RUNTIME = Role.RUNTIME
Upstream = Annotated[str, Role.UPSTREAM]
Upstreams = Annotated[tuple[str, ...], Role.UPSTREAM]
External = Annotated[str, Role.EXTERNAL, AfterValidator(expanduser)]
Externals = Annotated[tuple[str, ...], Role.EXTERNAL, AfterValidator(lambda paths: tuple(map(expanduser, paths)))]

Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what every library's generator takes
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Config(BaseModel):
    """Base of every config: frozen, and a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def fields_with(cls, role: Role) -> list[str]:
        """Names of the fields of this class (not of nested ones) that have `role`."""
        return [name for name, found in _roles(cls).items() if found is role]

    def identity(self) -> dict[str, Any]:
        """What of this config decides the result: all but runtime, upstream and external fields."""
        return dict(_identity(self))


C = TypeVar("C", bound=Config)


def role_of(field: FieldInfo) -> Role | None:
    """The role that `Annotated` gave this field, if any."""
    return next((m for m in field.metadata if isinstance(m, Role)), None)


@cache
def _roles(cls: type[Config]) -> dict[str, Role | None]:
    return {name: role_of(field) for name, field in cls.model_fields.items()}


def _identity(config: Config) -> Iterator[tuple[str, Any]]:
    dumped = config.model_dump(mode="json")
    for name, role in _roles(type(config)).items():
        if role is None:
            value = getattr(config, name)
            yield name, value.identity() if isinstance(value, Config) else dumped[name]
