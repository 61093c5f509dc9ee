"""Turns of a conversation, however a file writes them, as `Message`s: roles, parts of contents, calls of tools, and
which turns are learnt."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from argosy.core.config.explain import shown
from argosy.corpus.data.schemas import ParseError, assistant

ROLES = {
    "system": "system", "developer": "system", "human": "user", "user": "user", "gpt": "assistant",
    "assistant": "assistant", "chatgpt": "assistant", "model": "assistant", "bing": "assistant", "bard": "assistant",
    "function_call": "assistant", "observation": "tool", "function_response": "tool", "tool": "tool", "function": "tool"
}  # sharegpt's and OpenAI's words for them
_CALL = "function_call"
_KEPT = ("name", "tool_call_id")
_REASONING = ("reasoning_content", "reasoning", "thinking")  # DeepSeek's and vLLM's, OpenRouter's, gpt-oss' word
# 1 or 0 for a turn, in the words of OpenAI and Mistral, axolotl, ms-swift, Megatron, others
_TURN = ("weight", "train", "training", "trainable", "learn", "loss", "loss_weight", "loss_mask", "loss_scale")
_MASKED = "masked"  # torchtune's: true for a turn that is not learnt
_UNREAD = ("train_detail", "training_detail", "mask")  # parts of a turn; a mask of 1 differs from tool to tool
# fields that say the same for a whole record, and what each says where nothing is to be done
_RECORD = {"weight": 1, "sample_weight": 1, "loss_weight": 1, "train": True, "training": True, "loss_mask": 1,
           "mask": "User", "train_on_prompt": False, "train_on_inputs": False}
_MASKS = ("completion_mask", "assistant_masks", "segments")  # of tokens or of pieces of text: TRL's, axolotl's
_MEDIA = ("images", "image", "videos", "video", "audios", "audio")
_TURNS = ("messages", "conversations", "prompt", "completion", "response", "chosen", "rejected", "chosen_messages",
          "rejected_messages")
_READ = {"role", "from", "content", "value", "tool_calls", _CALL, *_KEPT, *_REASONING, *_TURN, _MASKED, *_UNREAD}
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_READ_OF_CALLS = {"id", "type", "function", "name", "arguments"}


def to_turns(value: Any, field: str) -> list[dict[str, Any]]:
    """Return the turns that `value` lists: {"from", "value"} or {"role", "content"}; one turn may stand for itself, and
    text alone is the assistant's. Raises ParseError: it is something else; the reason names `field`."""
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
    learnt = is_learnt(turn, role, field)
    content = turn["value"] if "value" in turn else turn.get("content")
    calls = list(turn.get("tool_calls") or ())
    if given == _CALL:
        content, calls = "", _listed(_parsed(content, f"{field}.function_call"))
    elif turn.get(_CALL):  # as OpenAI wrote one before there were several
        calls.append(turn[_CALL])
    text, inner = _parts(content, field)
    if reasoning := next((turn[key] for key in _REASONING if turn.get(key)), None):
        if not isinstance(reasoning, str):
            raise ParseError(f"{field}: reasoning is no text", shown(reasoning))
        text = think(reasoning) + text
    found: dict[str, Any] = {"role": role, "content": text}
    found |= {key: turn[key] for key in _KEPT if isinstance(turn.get(key), str) and turn[key]}
    if calls := [_call(each, field) for each in [*calls, *inner]]:
        found["tool_calls"] = calls
    return found if learnt or role != "assistant" else found | {"train": False}


def think(reasoning: str) -> str:
    """Write an assistant's reasoning before its answer, as Qwen3 and DeepSeek-R1 do."""
    return f"<think>\n{reasoning.strip()}\n</think>\n\n"


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


def is_learnt(turn: Mapping[str, Any], role: str, field: str) -> bool:
    """Tell whether to learn a turn of the assistant: its `weight`, `train`, ... is not 0 or false, nor `masked` true.
    Raises ParseError: a weight between, one of a turn that is not the assistant's, two that differ, or a mask."""
    for key in _UNREAD:
        if turn.get(key) not in _NOTHING:
            raise ParseError(f"{field}.{key}: a part of a turn cannot be left out, allowed: weight (1 or 0) or train "
                             "(true or false) of a whole turn", shown(turn[key]))
    given = {key: turn[key] for key in (*_TURN, _MASKED) if turn.get(key) not in _NOTHING}
    for key, value in given.items():
        if not isinstance(value, bool | int | float) or value not in (0, 1):
            raise ParseError(f"{field}.{key}: allowed: 1 (or true), 0 (or false)", shown(value))
        if role != "assistant" and value != (key == _MASKED):
            raise ParseError(f"{field}.{key}: allowed: {int(key == _MASKED)} for a turn that is not the assistant's",
                             shown(value))
    learnt = {bool(value) != (key == _MASKED) for key, value in given.items()}
    if len(learnt) > 1:
        raise ParseError(f"{field}: {' and '.join(given)} say different things of a turn", shown(given))
    return learnt != {False}


def check_record(record: Mapping[str, Any]) -> None:
    """Check that a record has no field that says what of it is learnt, or has pictures, films or sound. Raises
    ParseError: it has, and the field is not what it is where nothing is to be done."""
    for key, neutral in _RECORD.items():
        value = record.get(key)
        if value not in _NOTHING and value != neutral:
            raise ParseError(f"{key}: allowed: {neutral!r}; leave records out, or say how often a channel is drawn in "
                             "data.mixture", shown(value))
    for key in _MASKS:
        if record.get(key) not in _NOTHING:
            raise ParseError(f"{key}: parts of a turn cannot be left out, allowed: messages, each with weight (1 or 0)",
                             shown(record[key]))
    for key in _MEDIA:
        if record.get(key):
            raise ParseError(f"{key}: a record has text alone; take the field out, or the record", shown(record[key]))


def unread_keys(record: Mapping[str, Any]) -> Counter[str]:
    """Count the keys of a record's messages, of their parts and calls that nothing reads, as `<field>.<key>`."""
    return Counter(name for field in _TURNS for name in _unread(record.get(field), field))


def _unread(value: Any, field: str) -> Iterator[str]:
    for turn in value if isinstance(value, list) else [value]:
        if not isinstance(turn, Mapping):
            continue
        yield from _others(turn, _READ, field)
        calls = turn.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            yield from _others(call, _READ_OF_CALLS, f"{field}.tool_calls")
            yield from _others(call.get("function") if isinstance(call, Mapping) else None, _READ_OF_CALLS,
                               f"{field}.tool_calls.function")
        content = turn.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, Mapping) and "type" in part:
                yield from _others(part, {"type", "text", "value"}, f"{field}.content")


def _others(value: Any, read: set[str], field: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (f"{field}.{key}" for key, each in value.items() if key not in read and each not in _NOTHING)


def learnt_turns(record: Mapping[str, Any]) -> list[bool]:
    """Tell of each message of a conversation whether it is the assistant's and to be learnt."""
    return [turn["role"] == "assistant" and turn.get("train", True) is not False for turn in record["messages"]]
