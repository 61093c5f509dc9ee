"""Turns of a conversation, however a file writes them, as `Message`s: roles, parts of contents, calls of tools."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from argosy.config.explain import shown
from argosy.data.schemas import ParseError, assistant

ROLES = {
    "system": "system", "developer": "system", "human": "user", "user": "user", "gpt": "assistant",
    "assistant": "assistant", "chatgpt": "assistant", "model": "assistant", "bing": "assistant", "bard": "assistant",
    "function_call": "assistant", "observation": "tool", "function_response": "tool", "tool": "tool", "function": "tool"
}  # sharegpt's and OpenAI's words for them
_CALL = "function_call"
_KEPT = ("name", "tool_call_id")


def to_turns(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the turns that `value` lists: {"from", "value"} or {"role", "content"}; one turn may stand for itself, and
    text alone is the assistant's.

    Raises ParseError: it is something else; the reason names `field`."""
    if isinstance(value, str):
        return [dict(turn) for turn in assistant(value)]
    turns = [value] if isinstance(value, Mapping) else value
    if not isinstance(turns, Sequence) or not all(isinstance(turn, Mapping) for turn in turns):
        raise ParseError(f"{field}: allowed: text, or a list of turns", shown(value))
    return [_turn(turn, field) for turn in turns]


def _turn(turn: Mapping[str, Any], field: str) -> dict[str, Any]:
    given = turn.get("from") or turn.get("role")
    if given not in ROLES:
        raise ParseError(f"{field}.role: allowed: {', '.join(ROLES)}", shown(given))
    role = ROLES[given]
    _check_weight(turn, role, field)
    content = turn["value"] if "value" in turn else turn.get("content")
    calls = list(turn.get("tool_calls") or ())
    if given == _CALL:
        content, calls = "", _listed(_parsed(content, f"{field}.function_call"))
    elif turn.get(_CALL):  # as OpenAI wrote one before there were several
        calls.append(turn[_CALL])
    text, inner = _parts(content, field)
    if reasoning := turn.get("reasoning_content"):
        text = think(str(reasoning)) + text
    found: dict[str, Any] = {"role": role, "content": text}
    found |= {key: turn[key] for key in _KEPT if isinstance(turn.get(key), str) and turn[key]}
    if calls := [_call(each, field) for each in [*calls, *inner]]:
        found["tool_calls"] = calls
    return found


def think(reasoning: str) -> str:
    """Write an assistant's reasoning before its answer, as Qwen3 and DeepSeek-R1 do."""
    return f"<think>\n{reasoning.strip()}\n</think>\n\n"


def _check_weight(turn: Mapping[str, Any], role: str, field: str) -> None:
    weight = turn.get("loss_weight")
    if weight is not None and weight != (role == "assistant"):
        raise ParseError(f"{field}.loss_weight: allowed: 1 for each turn of the assistant and 0 for the others",
                         shown(weight))


def _parts(content: Any, field: str) -> tuple[str, list[Any]]:
    """Return the text of a content that may be a list of parts, and the calls of tools among them."""
    if content is None:
        return "", []
    if isinstance(content, Mapping | list) and not _is_parts(content):  # what a tool returned, as an object
        return json.dumps(content, ensure_ascii=False), []
    if isinstance(content, str):
        return content, []
    if not _is_parts(content):
        raise ParseError(f"{field}.content: allowed: text", shown(content))
    text, calls = "", []
    for part in content:
        kind, value = part["type"], part.get("text", part.get("value"))
        if kind == "tool_call":
            calls += _listed(_parsed(value, f"{field}.tool_call"))
        elif kind in ("text", "reasoning") and isinstance(value, str):
            text += value if kind == "text" else think(value)
        else:
            raise ParseError(f"{field}.content has a part of another type, allowed: text, reasoning, tool_call",
                             shown(kind))
    return text, calls


def _is_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, Mapping) and isinstance(part.get("type"), str)
                                             for part in content)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _parsed(value: Any, field: str) -> Any:
    """Parse JSON that stands in a text. Raises ParseError: it is none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ParseError(f"{field} is not JSON", shown(value)) from None


def _call(value: Any, field: str) -> dict[str, Any]:
    function = value.get("function", value) if isinstance(value, Mapping) else value
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ParseError(f"{field}: a call of a tool has no name", shown(value))
    arguments = _parsed(function.get("arguments") or {}, f"{field}: the arguments of a call")
    if not isinstance(arguments, Mapping):
        raise ParseError(f"{field}: the arguments of a call are no object", shown(arguments))
    found: dict[str, Any] = {"type": "function"}
    found |= {"id": value["id"]} if isinstance(value.get("id"), str) else {}
    return found | {"function": {"name": function["name"], "arguments": dict(arguments)}}


def to_tools(value: Any) -> list[dict[str, Any]]:
    """Return the tools that a record lists, as objects or as JSON in a text, as {"type": "function", "function"}.

    Raises ParseError: it is something else."""
    tools = _parsed(value, "tools") if value else []
    tools = _listed(tools) if tools else []
    for tool in tools:
        function = tool.get("function", tool) if isinstance(tool, Mapping) else {}
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise ParseError("tools: each needs a name", shown(tool))
    return [dict(tool) if "function" in tool else {"type": "function", "function": dict(tool)} for tool in tools]
