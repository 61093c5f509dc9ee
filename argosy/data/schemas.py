"""Schemas of the records between the steps: document, conversation, preference, prompt, benchmark item.

The typed dictionaries are what generators make and, through `parse_record`, what the user's own files are held to:
other keys are kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from argosy.config.explain import allowed, shown


class ParseError(Exception):
    """A line or row is not usable; the message is the reason that is counted, without its data, which is `value`."""

    def __init__(self, reason: str, value: str = "") -> None:
        super().__init__(reason)
        self.value = value


@dataclass(frozen=True, slots=True)
class Document:
    """One text with its origin: the record of every step before the tokenizer."""

    id: str
    """Unique in a corpus; the held-out split is a hash of it."""
    text: str
    """Never empty."""
    channel: str
    """The group for mixing and for losses ("en", "code", "knowledge_zh"); a file name's part."""
    lang: str = ""
    """"zh", "en" or another ISO 639-1 code; "" when nobody has said."""
    source: str = ""
    """A file name and line, or a URL."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Anything else; cleaning does not look at it."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Document":
        """Make the document of a JSONL record (docs/architecture.md); other keys are ignored.

        Raises KeyError: the record has no id, text or channel."""
        return cls(
            id=record["id"], text=record["text"], channel=record["channel"], lang=record.get("lang", ""),
            source=record.get("source", ""), metadata=record.get("metadata", {})
        )

    def to_record(self) -> dict[str, Any]:
        """Make the JSON object of this document."""
        return {name: getattr(self, name) for name in self.__slots__}


def _visible(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty_text", "empty text")
    return text


Text = Annotated[str, AfterValidator(_visible)]
Lang = Literal["en", "zh"]
OptionalText = Annotated[str, Field(default="")]
_RECORD = ConfigDict(extra="allow", strict=True)


@with_config(_RECORD)
class Message(TypedDict):
    """A turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


Messages = Annotated[list[Message], Field(min_length=1)]


@with_config(_RECORD)
class Conversation(TypedDict):
    """A supervised example; `fact` is the id of the demo's fact that it is about."""

    lang: OptionalText
    kind: OptionalText
    messages: Messages
    fact: NotRequired[str]


@with_config(_RECORD)
class Preference(TypedDict):
    """A prompt with a better and a worse reply."""

    lang: OptionalText
    kind: OptionalText
    prompt: Messages
    chosen: Messages
    rejected: Messages
    fact: NotRequired[str]


@with_config(_RECORD)
class Feedback(TypedDict):
    """A prompt with a reply that is good (`label` true) or bad."""

    prompt: Messages
    completion: Messages
    label: bool


@with_config(_RECORD)
class Prompt(TypedDict):
    """A prompt whose reply a program can check: it is one of `accept`, or JSON whose "answer" is (format json)."""

    lang: OptionalText
    prompt: Messages
    accept: Annotated[list[Text], Field(min_length=1)]
    format: Annotated[Literal["text", "letter", "json"], Field(default="text")]
    answer: NotRequired[str]
    fact: NotRequired[str]


@with_config(_RECORD)
class Item(TypedDict):
    """A four-option benchmark item; `answer` is the index of the right choice.

    Related items share a `cluster`: the fact that is asked about in both languages."""

    lang: Lang
    id: Text
    relation: OptionalText
    question: Text
    choices: Annotated[list[Text], Field(min_length=4, max_length=4)]
    answer: Annotated[int, Field(ge=0, le=3)]
    cluster: NotRequired[str]


_OWN = ("empty_text", "no_answer", "wrong_role", "equal_sides")  # types of errors in words of ours


def _answered(conversation: Conversation) -> Conversation:
    if all(message["role"] != "assistant" for message in conversation["messages"]):
        raise PydanticCustomError("no_answer", "no message of the assistant")
    return conversation


def _replied(feedback: Feedback) -> Feedback:
    if any(message["role"] != "assistant" for message in feedback["completion"]):
        raise PydanticCustomError("wrong_role", "completion has a turn that is not the assistant's")
    return feedback


def _compared(pair: Preference) -> Preference:
    for name, side in (("chosen", pair["chosen"]), ("rejected", pair["rejected"])):
        if any(message["role"] != "assistant" for message in side):
            raise PydanticCustomError("wrong_role", f"{name} has a turn that is not the assistant's")
    if [message["content"] for message in pair["chosen"]] == [message["content"] for message in pair["rejected"]]:
        raise PydanticCustomError("equal_sides", "chosen and rejected are equal")
    return pair


SCHEMAS: Mapping[str, Any] = {
    "instructions": Annotated[Conversation, AfterValidator(_answered)],
    "preferences": Annotated[Preference, AfterValidator(_compared)],
    "feedback": Annotated[Feedback, AfterValidator(_replied)], "prompts": Prompt, "benchmark": Item,
    "messages": Messages
}


def parse_record(schema: str, value: Any, name: str = "") -> Any:
    """Return `value` with the defaults of the schema of this name filled in.

    Raises ParseError: it does not have the schema; the reason names the field, within `name`."""
    try:
        return _adapter(schema).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(filter(None, [name, *(part for part in first["loc"] if isinstance(part, str))]))
        if first["type"] == "missing":
            raise ParseError(f"{place} is missing") from None
        if first["type"] in _OWN:
            raise ParseError(f"{place}: {first['msg']}" if place else first["msg"]) from None
        place = place or "the record"
        raise ParseError(f"{place}: allowed: {allowed(BaseModel, (place,), [first])}", shown(first["input"])) from None


def turns_of(schema: str, record: Mapping[str, Any], *fields: str) -> Iterator[list[Message]]:
    """Yield the messages in these fields of a record, without keys beside role and content.

    Raises ParseError: the record does not have the schema of this name."""
    valid = parse_record(schema, record)
    for name in fields:
        yield [{"role": message["role"], "content": message["content"]} for message in valid[name]]


@cache
def _adapter(schema: str) -> TypeAdapter[Any]:
    return TypeAdapter(SCHEMAS[schema])


def check_text(record: Mapping[str, Any], field: str) -> str:
    """Return the text in a field of a record. Raises ParseError: there is none, or it cannot be written as UTF-8."""
    if field not in record:
        raise ParseError(f"no field {field!r}")
    text = record[field]
    if not isinstance(text, str):
        raise ParseError(f"field {field!r} is not a string")
    if not text.strip():
        raise ParseError("empty text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParseError("text has a lone surrogate") from None
    return text


def user(text: str) -> list[Message]:
    """Make a conversation of one user turn."""
    return [{"role": "user", "content": text}]


def assistant(text: str) -> list[Message]:
    """Make one assistant turn."""
    return [{"role": "assistant", "content": text}]
