"""Checks of the answers to prompts, and whether they can be run: patterns, searched for with a time limit, JSON
Schemas, whose references to other addresses are not fetched, and tests."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

_SECONDS = 1.0  # of the search for a pattern: one may backtrack without an end


def pattern_problem(pattern: str) -> str:
    """Say why this is no regular expression of Python's; "" where it is."""
    import regex

    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        return f"no regular expression: {error}"
    return ""


def find(pattern: str, text: str, seconds: float, whole: bool = False) -> str | None:
    """Return what a pattern finds in a text first, or matches as a whole; None where there is nothing. Raises
    TimeoutError: that took longer than `seconds`, as of patterns that backtrack without an end."""
    import regex

    compiled = regex.compile(pattern)
    found = (compiled.fullmatch if whole else compiled.search)(text, timeout=seconds)
    return str(found[0]) if found else None


def tests_problem(tests: Sequence[str]) -> str:
    """Say which test is no Python; "" where all are."""
    for number, test in enumerate(tests, 1):
        try:
            ast.parse(test)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return f"test {number} is no Python: {error}"
    return ""


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Say why this is no JSON Schema; "" where it is."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import Draft202012Validator, validator_for

    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return f"no JSON Schema: {error.json_path} {error.message}"[:200]
    except RecursionError:
        return "nested too deeply"
    return ""


def violation(schema: Mapping[str, Any], value: Any) -> str:
    """Say where a JSON value breaks a schema, and how; "" where it does not. Raises TimeoutError: a pattern was
    searched for longer than a second."""
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        validator = _bounded(validator_for(schema, default=Draft202012Validator))(schema, registry=Registry())
        error = best_match(validator.iter_errors(value))
    except Unresolvable as unknown:
        return f"its schema refers to {unknown.ref}, which is not in it"
    except (RecursionError, OverflowError):
        return "nested too deeply, or its numbers are too large"
    return f"{error.json_path}: {error.message}" if error else ""


@lru_cache(maxsize=8)
def _bounded(validator: Any) -> Any:
    """Return a class of validators whose patterns are searched for with a time limit."""
    from jsonschema.validators import extend

    return extend(validator, {"pattern": _pattern, "patternProperties": _properties,
                              "additionalProperties": _additional})  # fmt: skip


def _has(pattern: str, text: str) -> bool:
    return find(pattern, text, _SECONDS) is not None


def _pattern(validator: Any, pattern: str, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not _has(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _properties(validator: Any, patterns: Mapping[str, Any], value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if validator.is_type(value, "object"):
        for pattern, below in patterns.items():
            for key, item in value.items():
                if _has(pattern, key):
                    yield from validator.descend(item, below, path=key, schema_path=pattern)


def _additional(validator: Any, below: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(value, "object"):
        return
    patterns = schema.get("patternProperties", {})
    more = [key for key in value if key not in schema.get("properties", {})
            and not any(_has(pattern, key) for pattern in patterns)]  # fmt: skip
    if validator.is_type(below, "object"):
        for key in more:
            yield from validator.descend(value[key], below, path=key)
    elif below is False and more:
        yield ValidationError(f"{', '.join(map(repr, more))} may not be there")
