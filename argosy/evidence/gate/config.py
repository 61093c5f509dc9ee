"""The YAML of a gate: its rules by name, with their parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from argosy.core.config.explain import config_error
from argosy.core.config.load import load, read_yaml
from argosy.core.config.schema import Config
from argosy.core.errors import InputError
from argosy.evidence.gate.rules import RULES, Rule

_HELP = "a list of rules such as '- no_channel_worse: {beyond: noise}', or a mapping of them"


class Gate(Config):
    """Rules that a checkpoint must hold."""

    alpha: float = Field(0.05, gt=0, lt=0.5)
    """share of gates that a checkpoint as good as the reference may fail by chance: tests are corrected (Holm) over all
    rules, and margins are held at this level"""
    rules: tuple[Mapping[str, Any], ...] = Field(min_length=1)
    """each a mapping of one rule's name to its parameters (null: its defaults)"""

    @model_validator(mode="before")
    @classmethod
    def _one_a_rule(cls, value: Any) -> Any:
        """A mapping of rules is a list of them; a name alone is a rule without parameters."""
        if not isinstance(value, Mapping) or "rules" not in value:
            return value
        given = value["rules"]
        if isinstance(given, Mapping):
            given = [{name: parameters} for name, parameters in given.items()]
        if not isinstance(given, list | tuple):
            raise ValueError(f"rules is {given!r}, allowed: {_HELP}")
        return {**value, "rules": tuple({each: None} if isinstance(each, str) else each for each in given)}

    def check_fields(self) -> None:
        for number, each in enumerate(self.rules):
            try:
                _rule(each, number)
            except InputError as error:
                raise ValueError(str(error)) from None

    @property
    def parsed(self) -> list[Rule]:
        return [_rule(each, number) for number, each in enumerate(self.rules)]


def read_gate(path: Path) -> Gate:
    """The gate of a YAML file. Raises InputError: it cannot be read, or a rule or parameter is wrong; names file, line,
    rule and what may be."""
    data = read_yaml(path).data
    if not isinstance(data, dict) or set(data) <= {"alpha"}:
        what = "is empty" if data == {} else "has no rules"
        raise InputError(f"{path} {what}, allowed: 'rules:' and below it {_HELP}")
    return load(Gate, [path])


def _rule(each: Mapping[str, Any], number: int) -> Rule:
    if len(each) != 1:
        raise InputError(f"rules.{number} has the keys {', '.join(map(str, each)) or 'none'}, allowed: one rule's name")
    [(name, parameters)] = each.items()
    if name not in RULES:
        raise InputError(f"rules.{number}: {RULES.unknown(str(name))}")
    try:
        return RULES[name].model_validate({} if parameters is None else parameters)
    except ValidationError as error:
        raise InputError(f"rules.{number}: {name}: {config_error(RULES[name], error)}") from None
