"""Prompts and the beginnings of answers, in a chat template or as plain text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from argosy.evaluation.language_model import LanguageModel

PLAIN = "{prompt}\n"


@dataclass(frozen=True)
class Turn:
    """How a prompt is put: as a user's turn where `chat`, else as `plain` with the prompt in it."""

    model: LanguageModel
    chat: bool
    plain: str = PLAIN

    def prompt(self, text: str) -> str:
        """What an answer follows."""
        return self.model.chat(text) if self.chat else self.plain.replace("{prompt}", text)

    def answer(self, text: str) -> str:
        """How an answer begins with `text`."""
        return self._start + text

    @cached_property
    def _start(self) -> str:
        """What the template puts before an answer's own text."""
        return self.model.answer("") if self.chat else ""

    def answered(self, text: str, answer: str) -> str:
        """The prompt with an answer that may go on."""
        if not self.chat:
            return self.prompt(text) + answer
        return self.model.render([_turn("user", text), _turn("assistant", answer)], add_generation_prompt=False)

    def end(self) -> set[int]:
        """Tokens that end an answer: what the chat template puts behind one, and EOS."""
        tokenizer = self.model.tokenizer
        ends = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
        if self.chat:
            messages = [_turn("user", "a"), _turn("assistant", "b")]
            closed: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
            behind = closed[closed.rindex("b") + 1 :].lstrip()
            ends.update(self.model.encode([behind], special=False)[0][:1] if behind else ())
        return ends


def _turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
