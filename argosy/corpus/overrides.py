"""The user's own conversations, preferences, prompts and benchmark: each line checked, bad ones set aside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from argosy.documents import JsonlWriters
from argosy.documents.files import JSONL, format_of, open_binary
from argosy.documents.parse import ParseError, parse_object, read_lines
from argosy.documents.rejects import Reject, Tally
from argosy.errors import InputError

Text = Annotated[str, Field(min_length=1)]


class _Record(BaseModel):
    """Other keys are kept."""

    model_config = ConfigDict(extra="allow", strict=True)
    lang: str = ""


class Message(_Record):
    """A turn of a conversation."""

    lang: Annotated[str, Field(exclude=True)] = ""
    role: Literal["system", "user", "assistant"]
    content: Text


Messages = Annotated[list[Message], Field(min_length=1)]


class Conversation(_Record):
    """A conversation with something to learn: at least one turn of the assistant."""

    kind: str = ""
    messages: Messages

    @model_validator(mode="after")
    def _has_answer(self) -> Conversation:
        if all(message.role != "assistant" for message in self.messages):
            raise ValueError("no message of the assistant")
        return self


class Preference(_Record):
    """A prompt with a better and a worse answer."""

    kind: str = ""
    prompt: Messages
    chosen: Messages
    rejected: Messages


class Prompt(_Record):
    """A prompt whose answer can be checked."""

    prompt: Messages
    answer: str
    accept: list[str]
    format: Literal["text", "letter", "json"]


class Item(_Record):
    """A multiple-choice item."""

    id: Text
    lang: Literal["en", "zh"]
    relation: str = ""
    question: Text
    choices: Annotated[list[Text], Field(min_length=4, max_length=4)]
    answer: Annotated[int, Field(ge=0, le=3)]


KINDS: dict[str, type[_Record]] = {
    "instructions": Conversation,
    "preferences": Preference,
    "prompts": Prompt,
    "benchmark": Item,
}


def read_override(
    kind: str, given: str, writers: JsonlWriters, rejects_at: str, otherwise: Callable[[], list[Any]]
) -> tuple[list[dict[str, Any]], Tally]:
    """Records of the user's file `given`, or `otherwise()` where none is given. Bad lines go to `rejects/<kind>`.

    Raises:
        InputError: the file is absent, not JSONL, or mostly unusable.
    """
    if not given:
        return otherwise(), Tally()
    path, tally = Path(given), Tally()
    if not path.is_file() or format_of(path) not in JSONL:
        raise InputError(f"data.{kind}: {path} is not a file that can be read; allowed: {', '.join(JSONL)}")
    records = []
    with open_binary(path) as stream:
        for number, raw, problem in read_lines(stream):
            try:
                records.append(_parse(kind, raw, problem))
                tally.read += 1
            except ParseError as error:
                reject = Reject(path.name, number, str(error), raw)
                tally.rejected[reject.reason] += 1
                writers.write(f"rejects/{kind}", reject.to_record())
    writers.finish(f"rejects/{kind}")  # a refusal points to them
    tally.check(f"data.{kind} {path}", rejects_at)
    return records, tally


def _parse(kind: str, raw: bytes, problem: str) -> dict[str, Any]:
    if problem:
        raise ParseError(problem)
    try:
        return KINDS[kind].model_validate(parse_object(raw)).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
        raise ParseError(f"{place}: {first['msg']}" if place else first["msg"]) from None
