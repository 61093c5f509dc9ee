"""Chat templates that are chosen by name, and the check that a template marks what the assistant says and no more."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from argosy.core.errors import InputError
from argosy.core.plugins import pick
from argosy.corpus.data.schemas import ParseError
from argosy.corpus.tokens.markup import without_marks
from argosy.model.weights.chat import answer_start, apply_template, encode_answer, encode_answers, turn_ending
from argosy.model.weights.templates.published import TEMPLATES


def use_template(tokenizer: Any, name: str) -> None:
    """Give the tokenizer the template of this name. Raises InputError: there is none, or the tokenizer has no token for
    one of its marks, so that a model would have to spell it in pieces that a text may hold too."""
    chosen = pick(name, TEMPLATES, "template")
    vocabulary = tokenizer.get_vocab()
    missing = [token for token in chosen.tokens if token not in vocabulary]
    missing += ["eos_token"] if chosen.eos and tokenizer.eos_token is None else []
    if missing:
        fits = ", ".join(each for each, one in TEMPLATES.items() if all(token in vocabulary for token in one.tokens))
        raise InputError(f"template={name}: the tokenizer has no token {', '.join(missing)}; it has those of: {fits}")
    tokenizer.chat_template = chosen.text


def end_at_turn(tokenizer: Any) -> None:
    """Have the tokenizer's template write no space, such as ChatML's line break, after a conversation's last turn."""
    turns: list[Any] = [{"role": "user", "content": _WORDS[0]}, {"role": "assistant", "content": _WORDS[1]}]
    text: str = apply_template(tokenizer, turns, tokenize=False)
    if text != text.rstrip():
        inner = without_marks(tokenizer.get_chat_template())  # which would mark other places within a block
        tokenizer.chat_template = (f"{{% set whole %}}{inner}{{% endset %}}"
                                   "{{ whole if add_generation_prompt else whole.rstrip() }}")


_WORDS = ("Wombats dig.", "Otters swim.", "Herons wait.", "Badgers sleep.")  # apart from each other and all templates
_FIRST = ("The", "the", "I", "a", "1", "Yes")  # words that tokenizers join with a space before them


def check_spans(tokenizer: Any) -> None:
    """Check on conversations of two answers, without and with a system's turn, that what SFT would learn of each are
    the assistant's words and the end of the turn, and nothing else.

    What a template itself puts between the generation prompt and the words (an empty <think>) may go with them. Raises
    InputError: it is otherwise, with the text that is marked; or no special token ends a turn."""
    if not turn_ending(tokenizer):
        raise InputError("the chat template of the tokenizer writes no special token after the assistant's words, so "
                         "that no answer would learn to end, and generation stops at such a token: have it write one, "
                         f"such as {{{{ eos_token }}}}, or choose another: template={'|'.join(TEMPLATES)}")
    roles = ("user", "assistant", "user", "assistant")
    turns: list[Any] = [{"role": role, "content": words} for role, words in zip(roles, _WORDS, strict=True)]
    _check(tokenizer, turns, needed=True)
    _check(tokenizer, [{"role": "system", "content": "Be brief."}, *turns], needed=False)


def _check(tokenizer: Any, turns: Sequence[Any], needed: bool) -> None:
    try:
        found = _marked(tokenizer, turns)
        for word in _FIRST if needed else ():
            encode_answer(tokenizer, turns[:1], [{"role": "assistant", "content": word}])
    except ParseError as error:
        if needed:
            token = f" (the token {error.value})" if error.value else ""
            raise InputError(f"the chat template of the tokenizer cannot be trained with: {error}{token}; or choose "
                             f"one: template={'|'.join(TEMPLATES)}") from None
        return  # it takes no system's turn, and each conversation that has one is set aside
    start, ending = answer_start(partial(apply_template, tokenizer, tokenize=False)), turn_ending(tokenizer)
    answers = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    for index in range(max(len(answers), len(found))):
        words, text = (list_[index] if index < len(list_) else "" for list_ in (answers, found))
        if text not in {(before + words + ending).strip() for before in ("", start)}:
            raise InputError(f"the chat template of the tokenizer marks {text!r} as the assistant's where it says "
                             f"{(words + ending).strip()!r} (its words and the end of its turn): correct its "
                             f"{{% generation %}}, or choose another: template={'|'.join(TEMPLATES)}")


def _marked(tokenizer: Any, turns: Sequence[Any]) -> list[str]:
    """List the stretches of the rendered conversation that SFT learns. Raises ParseError: as encode_answers."""
    ids, marks = encode_answers(tokenizer, turns)
    text: str = apply_template(tokenizer, turns, tokenize=False)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    if encoded["input_ids"] != ids:
        raise ParseError("its text has other tokens than the conversation")
    runs = groupby(zip(encoded["offset_mapping"], marks, strict=True), key=lambda pair: pair[1])
    places = [[place for place, _ in pairs] for marked, pairs in runs if marked]
    return [text[run[0][0] : run[-1][1]].strip() for run in places]
