"""Conversations and prompts as token ids, by the tokenizer's own chat template."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, pairwise
from typing import Any
from weakref import WeakKeyDictionary

from argosy.core.errors import InputError
from argosy.core.sandbox.templates import TemplateRefusal, render
from argosy.corpus.data.schemas import Message, ParseError

_TAILS = WeakKeyDictionary[Any, dict[tuple[str, str, bool], str]]()  # of tokenizers: a conversation costs its own text
_COMPILE = "_compile_jinja_template"  # of transformers


class _Remote:
    """Stand-in for the template that transformers compiles: rendered in a process of limited time and memory."""

    def __init__(self, template: str) -> None:
        self._template, self._spans, self.environment = template, list[tuple[int, int]](), self

    def render(self, **values: Any) -> str:
        return render(self._template, values).text

    @contextmanager
    def activate_tracker(self, _: list[str], spans: list[tuple[int, int]]) -> Iterator[None]:
        self._spans = spans
        yield

    def generate(self, **values: Any) -> Iterator[str]:
        found = render(self._template, values, marks=True)
        self._spans.extend(found.spans)
        yield found.text


def apply_template(tokenizer: Any, messages: Sequence[Any], **how: Any) -> Any:
    """Apply the tokenizer's chat template as transformers does, args and result as `apply_chat_template`; the template,
    a program of whoever made the checkpoint, runs in a process of limited time and memory.

    Raises TemplateRefusal: it refuses the messages, or fails; InputError: it exceeds a limit."""
    from transformers.utils import chat_template_utils

    if _COMPILE not in vars(chat_template_utils):
        raise RuntimeError(f"this version of transformers compiles chat templates elsewhere than in {_COMPILE}")
    vars(chat_template_utils)[_COMPILE] = _Remote
    try:
        return tokenizer.apply_chat_template(list(messages), **how)
    except (TemplateRefusal, ValueError) as error:  # of transformers, as of words that the template does not render
        why = error.why if isinstance(error, TemplateRefusal) else str(error)
        raise TemplateRefusal(why, str(tokenizer.name_or_path)) from None


def check_ends(tokenizer: Any) -> None:
    """Refuse a chat template that takes more than its time or memory for one short turn. Raises InputError: it does."""
    if tokenizer.chat_template:
        with suppress(TemplateRefusal):  # whoever uses it says what is wrong with it
            apply_template(tokenizer, [{"role": "user", "content": "a"}], tokenize=False)


def check_template(tokenizer: Any) -> None:
    """Refuse a tokenizer without a chat template, or with one that does not end. Raises InputError: it is one."""
    check_ends(tokenizer)
    if not tokenizer.chat_template:
        raise InputError("the checkpoint's tokenizer has no chat template, so that conversations cannot be written in "
                         "it: train the tokenizer with one, or begin with the model by `start`, which adds one")


def encode_prompt(tokenizer: Any, messages: Sequence[Message], tools: Any = None) -> list[int]:
    """Token ids of `messages` up to where the assistant is to answer, who may call `tools` (JSON schemas of functions).
    Raises ParseError: the template refuses them, or leaves tools out."""
    _check_tools(tokenizer, messages, tools)
    return list(_apply(tokenizer, messages, tokenize=True, return_dict=True, add_generation_prompt=True,
                       tools=tools)["input_ids"])


def encode_question(tokenizer: Any, text: str) -> tuple[list[int], list[bool]]:
    """Return the token ids of a user's turn up to its last word, and whether each is of the words; no answer follows.
    Raises InputError: the template refuses the turn, or does not render its words as written."""
    rendered: str = apply_template(tokenizer, [{"role": "user", "content": text}], tokenize=False)
    words = text.strip()
    if not words or (begin := rendered.rfind(words)) < 0:
        raise InputError(f"the chat template does not render the user's words as written: {words[:60]!r}; evaluate "
                         "with chat=off")
    encoded = tokenizer(rendered, add_special_tokens=False, return_offsets_mapping=True)
    marks = [begin < end and start < begin + len(words) for start, end in encoded["offset_mapping"]]
    last = max(at for at, mark in enumerate(marks) if mark) + 1
    return list(encoded["input_ids"][:last]), marks[:last]


def encode_answer(tokenizer: Any, prompt: Sequence[Message], answer: Sequence[Message],
                  tools: Any = None) -> tuple[list[int], list[int]]:
    """Return the token ids of a prompt, and of it with its answer up to the token that ends the turn: what a template
    writes after that, such as a line break, no model samples, and no reward is read there.

    Raises ParseError: the template refuses them, or leaves tools out; the two's ids do not begin with the prompt's."""
    whole = [*prompt, *answer]
    _check_tools(tokenizer, whole, tools)
    before: str = _apply(tokenizer, prompt, tokenize=False, add_generation_prompt=True, tools=tools)
    text: str = _apply(tokenizer, whole, tokenize=False, tools=tools)
    if not text.startswith(before):
        raise ParseError("the chat template renders the prompt alone in another way than with its answer")
    ids, ends = _ids(tokenizer, text), set(end_tokens(tokenizer))
    begin = _begin(tokenizer, ids, before)
    last = next((at for at in range(len(ids) - 1, begin - 1, -1) if ids[at] in ends), len(ids))
    return ids[:begin], ids[: last + 1]


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _begin(tokenizer: Any, ids: Sequence[int], before: str) -> int:
    """Return the place in a conversation's `ids` where the answer to the rendered prompt `before` begins. Raises
    ParseError: a token is of both, so that no answer to the prompt begins as the conversation's does."""
    prompt = _ids(tokenizer, before)
    if list(ids[: len(prompt)]) == prompt:
        return len(prompt)
    joined = next(at for at, token in enumerate(prompt) if list(ids[at : at + 1]) != [token])
    raise ParseError("the tokenizer joins the end of the prompt and the answer's first word to one token, which no "
                     "answer can begin with: have the chat template write the space after the prompt, not in it",
                     repr(tokenizer.decode(list(ids[joined : joined + 1]))))


def _apply(tokenizer: Any, messages: Sequence[Message], **how: Any) -> Any:
    try:
        return apply_template(tokenizer, messages, **how)
    except TemplateRefusal as error:  # some take no system turn, or none twice
        raise ParseError(error.reason) from None


def _check_tools(tokenizer: Any, messages: Sequence[Message], tools: Any) -> None:
    """Check that the template writes the calls of tools, and the tools: many leave them out without a word. Raises
    ParseError: it does not."""
    named = [call for message in messages for call in message.get("tool_calls") or ()]
    if not (named or tools):
        return
    text = _apply(tokenizer, messages, tokenize=False, tools=tools)
    if any(str(each.get("function", each).get("name")) not in text for each in (*named, *(tools or ()))):
        raise ParseError("the chat template does not render calls of tools (tool_calls), or tools; "
                         "template=chatml|qwen|llama3 render both")


_MARK = re.compile(r"\{%-?\s*generation\b")  # {% generation %}, by which a template marks the assistant's words


def encode_answers(tokenizer: Any, messages: Sequence[Message], tools: Any = None) -> tuple[list[int], list[bool]]:
    """Token ids of a conversation, and whether each is of the assistant's words (or calls of `tools`) or ends its turn.

    A template that marks them with {% generation %} says so itself. Of another one the conversation up to each answer
    is rendered too: what follows it, up to the token that ends the turn, is the answer. Raises ParseError: a message of
    the assistant is not where the shorter conversation ends (names its number), its words are not as written, a token
    is of the prompt and of them, or tools or calls of them are left out."""
    _check_tools(tokenizer, messages, tools)
    prompts: list[tuple[int, str]] = [
        (number, _apply(tokenizer, messages[:number], tokenize=False, add_generation_prompt=True, tools=tools))
        for number, message in enumerate(messages) if number and message["role"] == "assistant"]
    text: str = _apply(tokenizer, messages, tokenize=False, tools=tools)
    if _MARK.search(tokenizer.get_chat_template()):
        marked = _apply(tokenizer, messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True,
                        tools=tools)
        ids, marks = list(marked["input_ids"]), [bool(each) for each in marked["assistant_masks"]]
        for _, before in prompts:
            if text.startswith(before):
                _begin(tokenizer, ids, before)
        return ids, marks
    if messages and messages[0]["role"] == "assistant":
        raise ParseError("message 1 is the assistant's: the chat template has no mark of its words, and there is "
                         "nothing before them")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids, marks = list(encoded["input_ids"]), [False] * len(encoded["input_ids"])
    starts = [start for start, _ in encoded["offset_mapping"]]
    for number, before in prompts:
        end = bisect_left(starts, _answer_end(tokenizer, text, before, messages[number], number))
        for at in range(_begin(tokenizer, ids, before), end):
            marks[at] = True
    return ids, marks


def _answer_end(tokenizer: Any, text: str, before: str, message: Message, number: int) -> int:
    """Return where the assistant's turn that follows `before` ends, in characters of the rendered `text`."""
    if not text.startswith(before):
        raise ParseError(f"message {number + 1}: the chat template renders what comes before it in another way "
                         "than within the whole conversation, so that the assistant's words cannot be told")
    words, ending = message["content"].strip(), turn_ending(tokenizer)
    end = text.find(words, len(before))
    if end < 0:
        raise ParseError(f"message {number + 1}: the chat template does not render its words as written")
    end += len(words)
    close = text.find(ending, end) if ending else -1
    return end if close < 0 else close + len(ending)


def learnt_marks(marks: Sequence[bool], learnt: Sequence[bool]) -> list[bool]:
    """Take the turns of the assistant that are not `learnt` out of the marks of `encode_answers`. Raises ParseError:
    the marked stretches are not as many as the turns, so that it cannot be told which is which."""
    if all(learnt):
        return list(marks)
    stretches = list(accumulate(int(mark and not before) for before, mark in pairwise([False, *marks])))
    if stretches[-1] != len(learnt):
        raise ParseError(f"the chat template marks {stretches[-1]} stretches for {len(learnt)} turns of the assistant: "
                         "those with train=false cannot be told from the others")
    return [mark and learnt[stretch - 1] for mark, stretch in zip(marks, stretches, strict=True)]


def check_length(ids: Sequence[int], max_length: int) -> None:
    """Raises ParseError if there are more than `max_length` ids."""
    if len(ids) > max_length:
        raise ParseError(f"longer than {max_length} tokens")


def end_tokens(tokenizer: Any, *, chat: bool = True, configured: Any = None) -> list[int]:
    """Ids that end an answer: end of sequence, those of a generation config, and the end of a turn in a chat.

    `chat`: whether the answer is a turn in the chat template. `configured`: `eos_token_id` of the model's generation
    config: an id, several, or None."""
    ends = {tokenizer.eos_token_id, *(configured if isinstance(configured, list | tuple) else [configured])}
    if chat:
        ends.add(end_of_turn(tokenizer))
    return sorted(int(token) for token in ends if token is not None)


def end_of_turn(tokenizer: Any) -> int | None:
    """The first special token that the template puts after an assistant's words, or, where there is none, that begins
    the next turn; None: there is neither."""
    found = _first_special(tokenizer, _tail(tokenizer))
    return _first_special(tokenizer, _tail(tokenizer, more=True)) if found is None else found


def _first_special(tokenizer: Any, text: str) -> int | None:
    special = {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
    return next((token for token in _ids(tokenizer, text) if token in special), None)


def _tail(tokenizer: Any, *, more: bool = False) -> str:
    """Text that the template puts after an assistant's words; `more`: where a turn of the user follows."""
    known = _TAILS.setdefault(tokenizer, {})
    key = str(tokenizer.chat_template), str(tokenizer.special_tokens_map), more  # all that it is made of
    if key not in known:
        word, user = "xyzzy", {"role": "user", "content": "a"}  # a word that is in no template
        messages = [user, {"role": "assistant", "content": word}, *([user] if more else [])]
        known[key] = apply_template(tokenizer, messages, tokenize=False).rpartition(word)[2]
    return known[key]


def turn_ending(tokenizer: Any) -> str:
    """Text that the template puts between an assistant's words and the special token that ends the turn, or ""."""
    tail = _tail(tokenizer)
    token = _first_special(tokenizer, tail)
    if token is None:
        return ""
    spelled = str(tokenizer.convert_ids_to_tokens(token))
    return tail[: tail.find(spelled) + len(spelled)]


def answer_start(render: Callable[..., str]) -> str:
    """Text that a chat template puts between the generation prompt and the answer's own words.

    `render`: messages -> text, as lm-eval's `LM.apply_chat_template`."""
    user, word = {"role": "user", "content": "a"}, "xyzzy"
    whole = render([user, {"role": "assistant", "content": word}], add_generation_prompt=False)
    prompt = render([user], add_generation_prompt=True)
    return whole[len(prompt) : whole.rfind(word)] if whole.startswith(prompt) and word in whole else ""
