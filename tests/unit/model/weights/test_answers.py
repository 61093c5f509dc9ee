"""The assistant's tokens of a conversation whose chat template does not mark them."""

from typing import Any

import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.schemas import ParseError
from argosy.model.weights.chat import encode_answers, encode_prompt, encode_question
from tests.started_models import CHATML, make_qwen_tokenizer

MARKED = CHATML.replace("m.content + '<|im_end|>\\n' }}", "'' }}{%- if m.role == 'assistant' %}{% generation %}"
                        "{{- m.content + '<|im_end|>' }}{%- endgeneration %}{{- '\\n' }}{%- else %}"
                        "{{- m.content + '<|im_end|>\\n' }}{%- endif %}")
TURNS = ("system", "user", "assistant", "user", "assistant")


def conversation(*texts: str, roles: tuple[str, ...] = TURNS) -> list[Any]:
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def learnt(tokenizer: Any, messages: list[Any]) -> tuple[list[int], str]:
    ids, mask = encode_answers(tokenizer, messages)
    return ids, tokenizer.decode([token for token, marked in zip(ids, mask, strict=True) if marked])


@pytest.mark.parametrize("texts", [
    ("Be brief.", "法国的首都?", "巴黎。", "And Japan?", "Tokyo."),
    ("a", "a", "a", "a", "a"),  # the answer's words stand before it, too
    ("x", "assistant", "assistant", "", "\n 东京 \n")])
def test_it_equals_the_marks_of_the_same_template_with_generation(texts: tuple[str, ...]) -> None:
    messages = conversation(*texts)
    unmarked, marked = make_qwen_tokenizer(), make_qwen_tokenizer(template=MARKED)
    ids, text = learnt(unmarked, messages)
    same, marks = learnt(marked, messages)
    assert ids == same == unmarked.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
    # What Qwen's template puts before the last answer is learnt with it: it comes behind the generation prompt.
    assert text == f"{texts[2]}<|im_end|><think>\n\n</think>\n\n{texts[4]}<|im_end|>"
    assert marks == f"{texts[2]}<|im_end|>{texts[4]}<|im_end|>"


@pytest.mark.parametrize(("template", "reason"), [
    ("{{ messages | length }}" + CHATML, "message 3: the chat template renders what comes before it in another way"),
    (CHATML.replace("m.content +", "(m.content | upper) +"), "message 3: the chat template does not render its words"),
    ("{{ raise_exception('no system turn') }}", "the chat template refuses it: no system turn")])
def test_words_that_cannot_be_told_are_refused_with_the_messages_number(template: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        encode_answers(make_qwen_tokenizer(template=template), conversation("s", "q", "words", "q", "more"))


CALLING = ("{%- if tools %}{{ '<|im_start|>system\n' + tools[0].name + '<|im_end|>\n' }}{% endif %}" + CHATML.replace(
    "m.content + '<|im_end|>", "m.content + (m.tool_calls | tojson if m.tool_calls else '') + '<|im_end|>"))


def test_calls_of_tools_are_learnt_and_the_tools_are_in_the_prompt() -> None:
    tokenizer = make_qwen_tokenizer(template=CALLING)
    messages: list[Any] = [{"role": "user", "content": "Weather?"},
                           {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look"}}]},
                           {"role": "user", "content": "sun"}, {"role": "assistant", "content": "It is sunny."}]
    tools = [{"name": "look"}]
    ids, mask = encode_answers(tokenizer, messages, tools)
    assert tokenizer.decode(ids).startswith("<|im_start|>system\nlook<|im_end|>\n<|im_start|>user\nWeather?")
    assert encode_prompt(tokenizer, messages[:1], tools) == ids[: mask.index(True)]
    text = tokenizer.decode([token for token, marked in zip(ids, mask, strict=True) if marked])
    assert text.startswith('[{"function": {"name": "look"}}]<|im_end|>')
    assert text.endswith("It is sunny.<|im_end|>")
    with pytest.raises(ParseError, match="the chat template does not render calls of tools"):
        encode_answers(make_qwen_tokenizer(), messages, tools)


def test_an_answer_to_nothing_is_refused() -> None:
    with pytest.raises(ParseError, match="message 1 is the assistant's"):
        encode_answers(make_qwen_tokenizer(), conversation("Hello", roles=("assistant",)))


@pytest.mark.parametrize("text", ["Which is it?\nred\nblue\n", "法国的首都是？\n巴黎\n罗马", "user", "a"])
def test_of_a_question_the_users_words_alone_are_marked(text: str) -> None:
    tokenizer = make_qwen_tokenizer()
    ids, words = encode_question(tokenizer, text)
    prompt = encode_prompt(tokenizer, [{"role": "user", "content": text}])
    assert ids == prompt[: len(ids)]  # as it will be asked, and no answer
    assert tokenizer.decode([token for token, word in zip(ids, words, strict=True) if word]).strip() == text.strip()
    assert words[-1]
    with pytest.raises(InputError, match=r"does not render the user's words as written: 'Which.*chat=off"):
        encode_question(make_qwen_tokenizer(template=CHATML.replace("m.content +", "(m.content | upper) +")), "Which?")
