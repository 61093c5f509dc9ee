"""Formats of records for post-training: a `RecordFormat` in a file here is found by its `name`.

A format reads a record as people and tools write it; what comes out has the schema of its kind
(argosy.corpus.data.schemas)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from argosy.core.plugins import Folder
from argosy.corpus.data.schemas import ParseError, assistant, parse_record, user
from argosy.corpus.data.turns import check_record, to_tools, to_turns

Record = dict[str, Any]
WHAT = {"instructions": "a conversation", "preferences": "a preference pair", "feedback": "a reply with a label",
        "prompts": "a prompt without a reply"}  # by field of the data step


class RecordFormat(ABC):
    """The reader of one format."""

    name: ClassVar[str] = ""
    keys: ClassVar[str]
    """The keys that a record of it has, for people."""

    @abstractmethod
    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether the keys of a record are this format's."""

    @abstractmethod
    def read(self, record: Record) -> Record:
        """Take the keys of the format out of `record`, and return what they say as messages, a pair, a reply with its
        label, or a prompt. Raises ParseError: they cannot be used."""


FORMATS: Folder[RecordFormat] = Folder("format", RecordFormat, __name__, instances=True)


def describe() -> str:
    """List the formats with their keys, for a refusal."""
    return "; ".join(f"{name}: {one.keys}" for name, one in FORMATS.items())


def recognise(record: Mapping[str, Any]) -> RecordFormat:
    """Return the format whose keys a record has. Raises ParseError: none fits, or several do."""
    fitting = [one for one in FORMATS.values() if one.fits(record)]
    if len(fitting) == 1:
        return fitting[0]
    found = "fits " + (" and ".join(one.name for one in fitting) or "no format")
    raise ParseError(found, f"an object with the keys {', '.join(map(str, record)) or '(none)'}")


def read_record(kind: str, record: Mapping[str, Any], format: str = "") -> Record:
    """Return a record with the schema of the field `kind`; keys that its format does not know are kept.

    `format`: its name; "" recognises it by its keys. Raises ParseError: the record is of another kind, or of no use."""
    rest = {key: value for key, value in record.items() if value is not None}
    check_record(rest)
    only_last = rest.pop("mask_history", False)
    one = FORMATS[format] if format else recognise(rest)
    try:
        found = one.read(rest)
    except KeyError as missing:  # of a format that was named by hand
        raise ParseError(f"{missing.args[0]} is missing") from None
    if tools := to_tools(rest.pop("tools", None) or rest.pop("functions", None)):
        found["tools"] = tools
    found = _with_context(found, rest)
    if only_last and "messages" in found:
        _leave_out_history(found["messages"], only_last)
    is_kind = kind_of(found)
    if kind == "prompts" and is_kind == "instructions":
        found, is_kind = _asked(found), "prompts"
    if is_kind != kind:
        raise ParseError(f"is {WHAT[is_kind]}: give its file as data.{is_kind}")
    checked: Record = parse_record(kind, found | {key: value for key, value in rest.items() if key not in found})
    return checked


def _with_context(found: Record, rest: Record) -> Record:
    """Put a system's message and earlier turns that stand apart, where the format has not read them, before the others.
    Raises ParseError: they are no text, no pairs of texts, or there is a system's message already."""
    name = "messages" if "messages" in found else "prompt"
    system, turns = take_text(rest, "system", ""), take_history(rest)
    if system.strip():
        if found[name][0]["role"] == "system":
            raise ParseError("system: allowed: one message of the system", system[:60])
        turns = [{"role": "system", "content": system}, *turns]
    return found | {name: turns + found[name]} if turns else found


def _leave_out_history(turns: list[Record], value: Any) -> None:
    if value is not True:
        raise ParseError("mask_history: allowed: true or false", repr(value)[:60])
    for turn in [turn for turn in turns if turn["role"] == "assistant"][:-1]:
        turn["train"] = False


def kind_of(found: Mapping[str, Any]) -> str:
    """Name the field of the data step that takes what a format has read."""
    if "chosen" in found:
        return "preferences"
    return "feedback" if "label" in found else "instructions" if "messages" in found else "prompts"


def _asked(conversation: Record) -> Record:
    """Make a prompt of a conversation; its last answer is the reference."""
    *before, last = conversation.pop("messages")
    if not before or last["role"] != "assistant":
        raise ParseError("messages: the last turn is not the assistant's, so that there is no reference")
    if last.get("train") is False:
        raise ParseError("messages: the last turn is not to be learnt (weight 0, train false), and no reference")
    return conversation | {"prompt": before, "answer": last["content"]}


def with_replies(turns: list[Record], rest: Record) -> Record:
    """Return `turns` as what the other keys of a record make of them, taking those out: the prompt of a pair (`chosen`,
    `rejected`), a prompt and a reply with its label (`label`, `kto_tag`), or a conversation."""
    if "chosen" in rest and "rejected" in rest:
        return {"prompt": turns, **{side: to_turns(rest.pop(side), side) for side in ("chosen", "rejected")}}
    for key in ("label", "kto_tag"):
        if isinstance(rest.get(key), bool):
            return split_reply(turns) | {"label": rest.pop(key)}
    return {"messages": turns}


def split_reply(turns: list[Record]) -> Record:
    """Split a conversation before its last turn. Raises ParseError: that is not the assistant's, or all there is."""
    if len(turns) < 2 or turns[-1]["role"] != "assistant":
        raise ParseError("the last turn is not the assistant's, or there is nothing before it")
    return {"prompt": turns[:-1], "completion": turns[-1:]}


def take_history(rest: Record) -> list[Record]:
    """Take the earlier turns out of a record, [[prompt, reply], ...]. Raises ParseError: they are something else."""
    turns: list[Any] = []
    pairs = rest.pop("history", ())
    for pair in pairs if isinstance(pairs, list | tuple) else [pairs]:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ParseError("history: allowed: a list of [prompt, reply]", repr(pair)[:60])
        turns += user(pair[0]) + assistant(pair[1])
    return turns


def take_text(rest: Record, key: str, default: str | None = None) -> str:
    """Take a text out of a record. Raises ParseError: it is absent, and there is no default, or it is no text."""
    value = rest.pop(key, default)
    if value is None:
        raise ParseError(f"{key} is missing")
    if not isinstance(value, str):
        raise ParseError(f"{key}: allowed: text", repr(value)[:60])
    return value
