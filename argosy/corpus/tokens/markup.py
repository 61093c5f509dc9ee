"""Markup of documents and conversations by a tokenizer's own special tokens and chat template.

The pipeline's own tokenizer is rendered by `chat_pieces`; one that a model brought along by its Jinja template, in a
process of its own and without transformers, which the image of the data steps lacks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import tokenizers
from argosy.core.sandbox.templates import TemplateRefusal, render
from argosy.core.store.files import read_json
from argosy.corpus.data.schemas import ParseError
from argosy.corpus.tokens.tokenizer import BOS, CHAT_TEMPLATE, EOS, SPECIAL_TOKENS, chat_pieces

# A text is what a document is made of: its id, and pieces of which each is text or a special token.
Pieces = Sequence[tuple[str, bool]]
_ESCAPED = re.compile("\ue0f0(\\d{1,6})\ue0f1")  # private use: stands for a special token that a text spells


@dataclass(frozen=True)
class Markup:
    """Special tokens of a tokenizer, and what it writes around texts.

    Attributes:
        begin: token before a text: BOS, or EOS where the tokenizer has no BOS, which is lm-eval's rule too.
        end: token behind a text.
        special: all tokens that stand for no bytes of a text.
        template: chat template (Jinja); "" is the pipeline's own, whose tokenizer any text round-trips.
        variables: special tokens by the names that the template has for them, such as `bos_token`."""

    begin: str
    end: str
    special: tuple[str, ...]
    template: str = ""
    variables: Mapping[str, str] | None = None

    @property
    def own(self) -> bool:
        """Tell whether it is the pipeline's own tokenizer."""
        return self is OWN

    def document(self, text: str) -> Pieces:
        """Make a document's pieces."""
        return (self.begin, True), (text, False), (self.end, True)

    def conversation(self, messages: Sequence[Mapping[str, Any]]) -> Pieces:
        """Make a conversation's pieces: as the chat template renders it, between `begin` and one `end`.

        A text in which somebody has written a special token stays text. Raises InputError: there is no template;
        ParseError: it refuses the conversation, or does not render its calls of tools."""
        if any(message.get("tool_calls") for message in messages) and "tool_calls" not in self.template:
            raise ParseError("the chat template does not render calls of tools (tool_calls)")
        pieces = list(chat_pieces(messages) if self.own else self._rendered(messages))
        if pieces[:1] != [(self.begin, True)]:
            pieces.insert(0, (self.begin, True))
        if len(pieces) > 2 and pieces[-2] == (self.end, True) and not pieces[-1][0].strip():
            pieces.pop()  # the newline of some templates behind the last turn
        if pieces[-1] != (self.end, True):
            pieces.append((self.end, True))
        return pieces

    def spells(self, text: str) -> bool:
        """Tell whether a text has a special token's characters in it."""
        return self._pattern.search(text) is not None

    def _rendered(self, messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
        if not self.template:
            raise InputError("the tokenizer has no chat template, so that conversations cannot be tokenized: leave out "
                             "the instructions (data), or give the tokenizer a chat_template")
        escaped = [{**message, "content": self._escape(str(message["content"]))} for message in messages]
        try:
            text = render(self.template, {"messages": escaped, "tools": None, "documents": None,
                                          "add_generation_prompt": False, **(self.variables or {})}).text
        except TemplateRefusal as error:
            raise ParseError(str(error)) from None
        for number, part in enumerate(self._pattern.split(text)):
            if part:
                yield (part, True) if number % 2 else (_ESCAPED.sub(self._unescape, part), False)

    def _escape(self, text: str) -> str:
        return self._pattern.sub(lambda found: f"\ue0f0{self.special.index(found[1])}\ue0f1", text)

    def _unescape(self, found: "re.Match[str]") -> str:
        number = int(found[1])
        return self.special[number] if number < len(self.special) else found[0]

    @cached_property
    def _pattern(self) -> "re.Pattern[str]":
        longest = sorted(self.special, key=lambda token: (-len(token), token))
        return re.compile(f"({'|'.join(map(re.escape, longest))})")


OWN = Markup(BOS, EOS, SPECIAL_TOKENS)


def read_markup(directory: Path, tokenizer: "tokenizers.Tokenizer") -> Markup:
    """Read the markup of the tokenizer in `directory`, which `tokenizer` is. Raises InputError: it has no token for the
    end of a text."""
    config: dict[str, Any] = read_json(directory / "tokenizer_config.json")
    named = {name: _content(value) for name, value in config.items() if name.endswith("_token") and _content(value)}
    file = directory / "chat_template.jinja"
    template = file.read_text(encoding="utf-8") if file.is_file() else config.get("chat_template") or ""
    vocabulary = tokenizer.get_vocab()
    ours = template == CHAT_TEMPLATE and named.get("bos_token") == BOS and named.get("eos_token") == EOS
    if ours and all(token in vocabulary for token in SPECIAL_TOKENS):
        return OWN
    end = named.get("eos_token", "")
    if end not in vocabulary:
        raise InputError(f"{directory} has no token for the end of a text: set eos_token in its tokenizer_config.json")
    begin = named.get("bos_token", end)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    return Markup(begin if begin in vocabulary else end, end, tuple(sorted({*special, begin, end} & vocabulary.keys())),
                  template, named)


def _content(value: Any) -> str:
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def without_marks(template: str) -> str:
    """Return a template that renders the same and marks nothing with {% generation %}."""
    for mark, same in (("generation", "if true"), ("endgeneration", "endif")):
        template = re.sub(rf"\{{%(-?)\s*{mark}\s*(-?)%\}}", rf"{{%\1 {same} \2%}}", template)
    return template
