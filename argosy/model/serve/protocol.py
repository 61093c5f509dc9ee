"""Requests in OpenAI's protocol (chat completions and completions, as of its API reference of 2026), and its errors.

A field that would change the answer and is not known here is refused, not passed over."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MOST_STOPS, _MOST_CHOICES, _MOST_LIKELIEST = 16, 16, 20
_NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}, "best_of": 1, "suffix": "", "echo": False,
            "response_format": {"type": "text"}, "tool_choice": "auto", "parallel_tool_calls": True,
            "modalities": ["text"], "service_tier": "auto", "functions": [], "function_call": "auto"}  # fmt: skip
_SAID_ONLY = ("user", "metadata", "store", "safety_identifier", "prompt_cache_key")  # change nothing in an answer


class Refusal(Exception):
    """An answer that is refused, as OpenAI's clients expect to hear of it."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", field: str | None = None,
                 code: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})
        self.body = {"error": {"message": message, "type": kind, "param": field, "code": code}}


class _StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class Completion(BaseModel):
    """Fields of both kinds of requests."""

    model_config = ConfigDict(extra="forbid", strict=False)
    model: str
    max_tokens: Annotated[int | None, Field(ge=1)] = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    n: Annotated[int, Field(ge=1, le=_MOST_CHOICES)] = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    stream_options: _StreamOptions = Field(default_factory=_StreamOptions)

    @field_validator("stop", mode="before")
    @classmethod
    def _stops(cls, given: Any) -> Any:
        stops = [given] if isinstance(given, str) else given or []
        if isinstance(stops, list) and len(stops) > _MOST_STOPS:
            raise ValueError(f"at most {_MOST_STOPS} stop texts are allowed")
        return tuple(each for each in stops if each != "")

    @model_validator(mode="before")
    @classmethod
    def _without_neutral(cls, given: Any) -> Any:
        """Drop what says no more than the default, and null."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items()
                if value is not None and name not in _SAID_ONLY and not (name in _NEUTRAL and value == _NEUTRAL[name])}

    @property
    def top(self) -> int | None:
        """Number of likeliest tokens whose log-probabilities are wanted; None: no log-probabilities."""
        raise NotImplementedError


class ChatRequest(Completion):
    """A request to `/v1/chat/completions`."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    tools: list[dict[str, Any]] = Field(default_factory=list)
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=_MOST_LIKELIEST)] = 0
    chat_template_kwargs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _one_limit(cls, given: Any) -> Any:
        """Take `max_completion_tokens`, which OpenAI's newer clients send, as `max_tokens`."""
        if isinstance(given, dict) and (most := given.get("max_completion_tokens")) is not None:
            if given.get("max_tokens") not in (None, most):
                raise ValueError("max_tokens and max_completion_tokens differ: give one of them")
            given = {name: value for name, value in given.items() if name != "max_completion_tokens"}
            given["max_tokens"] = most
        return given

    @field_validator("chat_template_kwargs")
    @classmethod
    def _no_template(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Refuse a template of the client's: it is a program, and all requests would wait while it runs."""
        if "chat_template" in given:
            raise ValueError("chat_template is not allowed, as the checkpoint's own is used: leave it out")
        return given

    @model_validator(mode="after")
    def _likeliest_of_logprobs(self) -> "ChatRequest":
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs: true")
        return self

    @field_validator("messages")
    @classmethod
    def _roles(cls, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [_message(number, each) for number, each in enumerate(messages)]

    @property
    def top(self) -> int | None:
        return self.top_logprobs if self.logprobs else None


class TextRequest(Completion):
    """A request to `/v1/completions`; `prompt`: one text, several, or token ids."""

    prompt: str | list[str] | list[int] | list[list[int]]
    max_tokens: Annotated[int | None, Field(ge=1)] = 16  # OpenAI's default
    logprobs: Annotated[int | None, Field(ge=0, le=_MOST_LIKELIEST)] = None

    @field_validator("prompt")
    @classmethod
    def _some(cls, prompt: Any) -> Any:
        if prompt == []:
            raise ValueError("the list is empty: give a text, or token ids")
        return prompt

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, each a text or token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and isinstance(self.prompt[0], int):
            return [[token for token in self.prompt if isinstance(token, int)]]
        return [each for each in self.prompt if not isinstance(each, int)]

    @property
    def top(self) -> int | None:
        return self.logprobs


def parse(kind: type[ChatRequest] | type[TextRequest], body: Any) -> Any:
    """Parse a request's body. Raises Refusal: a field is wrong, unknown, or not offered here."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][:2]) or None
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            known = field in _NEUTRAL
            message = (f"only {_NEUTRAL[str(field)]!r} is offered here" if known else "is not known here; allowed: "
                       + ", ".join(kind.model_fields))  # fmt: skip
        raise Refusal(400, f"{field or 'the request'}: {message}", field=field) from None


def _message(number: int, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose content is one text, as chat templates take it."""
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise ValueError(f"messages[{number}].role is {role!r}; allowed: {', '.join(_ROLES)}")
    if content is None and role != "assistant":  # which may have tool calls alone
        raise ValueError(f"messages[{number}] has no content")
    if isinstance(content, list):
        if other := next((part for part in content if not isinstance(part, dict) or part.get("type") != "text"), None):
            kind = other.get("type") if isinstance(other, dict) else other
            raise ValueError(f"messages[{number}].content has a part of type {kind!r}; allowed: text")
        content = "".join(str(part.get("text", "")) for part in content)
    return {**message, "role": "system" if role == "developer" else role, "content": content or ""}
