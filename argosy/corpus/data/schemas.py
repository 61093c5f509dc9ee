"""Schemas of the records between the steps: document, conversation, preference, feedback, prompt, benchmark item.

The typed dictionaries are what generators make and, through `parse_record`, what the user's own files are held to:
other keys are kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from argosy.core.config.explain import allowed, shown
from argosy.corpus.data.checks import pattern_problem, schema_problem, tests_problem


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
    offset: int | None = None
    """Place where it begins in its file: the byte (unpacked; of a WARC as stored), or the row of a table from 0."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Document":
        """Make the document of a JSONL record (docs/files.md); other keys are ignored. Raises KeyError: the record has
        no id, text or channel."""
        return cls(id=record["id"], text=record["text"], channel=record["channel"], lang=record.get("lang", ""),
                   source=record.get("source", ""), metadata=record.get("metadata", {}), offset=record.get("offset"))

    def to_record(self) -> dict[str, Any]:
        """Make the JSON object of this document; an offset that is not known is left out."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return record if self.offset is not None else {name: record[name] for name in self.__slots__[:-1]}


def _visible(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty_text", "empty text")
    return text


Text = Annotated[str, AfterValidator(_visible)]
Lang = Literal["en", "zh"]
OptionalText = Annotated[str, Field(default="")]
_RECORD = ConfigDict(extra="allow", strict=True)


@with_config(_RECORD)
class Function(TypedDict):
    """A function that the assistant calls, with its arguments by name."""

    name: Text
    arguments: dict[str, Any]


@with_config(_RECORD)
class ToolCall(TypedDict):
    """A call of a tool, as OpenAI's interface and chat templates have it, with its arguments as an object."""

    type: Annotated[Literal["function"], Field(default="function")]
    function: Function


@with_config(_RECORD)
class Message(TypedDict):
    """A turn of a conversation; `content` may be empty beside `tool_calls`, and in what a tool (`tool`) returns. With
    `train` false SFT does not learn it."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: NotRequired[Annotated[list[ToolCall], Field(min_length=1)]]
    name: NotRequired[str]
    tool_call_id: NotRequired[str]
    train: NotRequired[bool]


def _said(message: Message) -> Message:
    if not (message["content"].strip() or message["role"] == "tool" or message.get("tool_calls")):
        raise PydanticCustomError("no_words", "empty text")
    if message.get("tool_calls") and message["role"] != "assistant":
        raise PydanticCustomError("wrong_role", "tool_calls of a turn that is not the assistant's")
    return message


Messages = Annotated[list[Annotated[Message, AfterValidator(_said)]], Field(min_length=1)]
Tools = Annotated[list[dict[str, Any]], Field(min_length=1)]


@with_config(_RECORD)
class Conversation(TypedDict):
    """A supervised example; `fact` is the id of the demo's fact that it is about."""

    lang: OptionalText
    kind: OptionalText
    messages: Messages
    tools: NotRequired[Tools]
    fact: NotRequired[str]


@with_config(_RECORD)
class Preference(TypedDict):
    """A prompt with a better and a worse reply."""

    lang: OptionalText
    kind: OptionalText
    prompt: Messages
    chosen: Messages
    rejected: Messages
    margin: NotRequired[Annotated[float, Field(strict=False)]]
    tools: NotRequired[Tools]
    fact: NotRequired[str]


@with_config(_RECORD)
class Feedback(TypedDict):
    """A prompt with a reply that people want (`label` true) or do not (Ethayarajh et al. 2024, "KTO")."""

    prompt: Messages
    completion: Messages
    label: bool
    tools: NotRequired[Tools]


def _sound(problem: Callable[[Any], str]) -> AfterValidator:
    """Make a validator of what answers are checked by, of a function that says what is wrong with it."""

    def check(value: Any) -> Any:
        what, _, detail = problem(value).partition(": ")
        if what:
            raise PydanticCustomError("unsound", "{what}", {"what": what, "value": detail})
        return value

    return AfterValidator(check)


@with_config(_RECORD)
class Prompt(TypedDict):
    """A prompt for reinforcement learning, and what rewards check its reply by.

    It is one of `accept`, or JSON whose "answer" is (format json); `answer` is a reference, `tests` are Python sources,
    `schema` is a JSON schema, `pattern` a regular expression."""

    lang: OptionalText
    prompt: Messages
    accept: NotRequired[Annotated[list[Text], Field(min_length=1)]]
    format: Annotated[Literal["text", "letter", "json"], Field(default="text")]
    answer: NotRequired[str]
    tests: NotRequired[Annotated[list[Text], Field(min_length=1), _sound(tests_problem)]]
    schema: NotRequired[Annotated[dict[str, Any], _sound(schema_problem)]]
    pattern: NotRequired[Annotated[Text, _sound(pattern_problem)]]
    language: NotRequired[Lang]
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


# types of errors in words of ours
_OWN = ("empty_text", "no_words", "no_answer", "wrong_role", "equal_sides", "unsound")


def _answered(conversation: Conversation) -> Conversation:
    turns = [message for message in conversation["messages"] if message["role"] == "assistant"]
    if not any(message.get("train", True) for message in turns):
        more = " that is to be learnt" if turns else ""
        raise PydanticCustomError("no_answer", "no message of the assistant{more}", {"more": more})
    return conversation


def _check_replies(**sides: list[Message]) -> None:
    for name, side in sides.items():
        if any(message["role"] != "assistant" for message in side):
            raise PydanticCustomError("wrong_role", f"{name} has a turn that is not the assistant's")
        if not all(message.get("train", True) for message in side):
            raise PydanticCustomError("wrong_role", f"{name} has a turn that is not to be learnt (weight 0)")


def _compared(pair: Preference) -> Preference:
    _check_replies(chosen=pair["chosen"], rejected=pair["rejected"])
    chosen, rejected = ([(message["content"], message.get("tool_calls")) for message in pair[side]]
                        for side in ("chosen", "rejected"))
    if chosen == rejected:
        raise PydanticCustomError("equal_sides", "chosen and rejected are equal")
    return pair


def _judged(feedback: Feedback) -> Feedback:
    _check_replies(completion=feedback["completion"])
    return feedback


SCHEMAS: Mapping[str, Any] = {
    "instructions": Annotated[Conversation, AfterValidator(_answered)],
    "preferences": Annotated[Preference, AfterValidator(_compared)],
    "feedback": Annotated[Feedback, AfterValidator(_judged)], "prompts": Prompt, "benchmark": Item, "messages": Messages
}


def parse_record(schema: str, value: Any, name: str = "") -> Any:
    """Return `value` with the defaults of the schema of this name filled in. Raises ParseError: it does not have the
    schema; the reason names the field, within `name`."""
    try:
        return _adapter(schema).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(filter(None, [name, *(part for part in first["loc"] if isinstance(part, str))]))
        if first["type"] == "missing":
            raise ParseError(f"{place} is missing") from None
        if first["type"] == "no_words":
            place += ".content"
        if first["type"] in _OWN:
            reason = f"{place}: {first['msg']}" if place else first["msg"]
            raise ParseError(reason, first.get("ctx", {}).get("value", "")) from None
        place = place or "the record"
        raise ParseError(f"{place}: allowed: {allowed(BaseModel, (place,), [first])}", shown(first["input"])) from None


def turns_of(schema: str, record: Mapping[str, Any], *fields: str) -> Iterator[list[Message]]:
    """Yield the messages in these fields of a record, with the keys alone that a chat template renders. Raises
    ParseError: the record does not have the schema of this name."""
    valid = parse_record(schema, record)
    for name in fields:
        turns: Any = [{key: message[key] for key in _RENDERED if key in message} for message in valid[name]]
        yield turns


_RENDERED = ("role", "content", "tool_calls", "name", "tool_call_id")


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
    if not text or text.isspace():
        raise ParseError("empty text")
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise ParseError("text has a lone surrogate") from None
    return text


def user(text: str) -> list[Message]:
    """Make a conversation of one user turn."""
    return [{"role": "user", "content": text}]


def assistant(text: str) -> list[Message]:
    """Make one assistant turn."""
    return [{"role": "assistant", "content": text}]
