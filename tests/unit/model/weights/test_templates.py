"""Chat templates by name: their published forms, the marks of what is learnt, and what is refused."""

import json
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import PreTrainedTokenizerFast

from argosy.core.errors import InputError
from argosy.corpus.data.formats import read_record
from argosy.corpus.data.records import read_any
from argosy.corpus.data.schemas import ParseError
from argosy.corpus.tokens.tokenizer import train_tokenizer
from argosy.model.weights.chat import encode_answers, encode_prompt, end_tokens
from argosy.model.weights.templates import TEMPLATES, check_spans, use_template
from tests.shared_data import shared
from tests.started_models import CHATML, make_qwen_tokenizer

TOKENS = tuple(dict.fromkeys(token for template in TEMPLATES.values() for token in template.tokens))
TALK = [{"role": "system", "content": "S."}, {"role": "user", "content": "A?"}, {"role": "assistant", "content": "B."},
        {"role": "user", "content": "C?"}, {"role": "assistant", "content": "D."}]  # fmt: skip
FORMS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
FORMS["qwen"] = FORMS["chatml"]


@cache
def make_tokenizer() -> Any:
    """Byte-level BPE without a normaliser, with the marks of all templates."""
    trained = train_tokenizer(["Some words of a language model, and 一些中文的句子。"] * 9, 300, split_han=False)
    trained.add_special_tokens(list(TOKENS))
    return PreTrainedTokenizerFast(tokenizer_object=trained, bos_token="<|bos|>", eos_token="<|eos|>",
                                   pad_token="<|pad|>")


def choose(name: str) -> Any:
    tokenizer = make_tokenizer()
    use_template(tokenizer, name)
    return tokenizer


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_templates_have_their_published_forms_and_mark_the_answers(name: str) -> None:
    tokenizer = choose(name)
    check_spans(tokenizer)
    ids, marks = encode_answers(tokenizer, TALK)
    found, inside = "", False
    for token, marked in zip(ids, marks, strict=True):
        found += ("[" if marked and not inside else "]" if inside and not marked else "") + tokenizer.decode([token])
        inside = marked
    found += "]" if inside else ""
    assert found.replace("[I]", "[I").replace("[[INST", "[INST") == FORMS[name]
    prompt = tokenizer.decode(encode_prompt(tokenizer, TALK[:4]))
    plain = FORMS[name].replace("[B.", "B.").replace("[ B.", " B.").replace(">]", ">")
    assert plain.startswith(prompt)


def test_qwens_default_system_turn() -> None:
    text = choose("qwen").apply_chat_template(TALK[1:3], tokenize=False)
    assert text.startswith("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<")


def test_a_template_needs_its_marks_as_tokens() -> None:
    tokenizer = make_qwen_tokenizer()
    with pytest.raises(InputError, match=r"template=gemma: the tokenizer has no token <start_of_turn>, <end_of_turn>; "
                                         r"it has those of: chatml, qwen, mistral, zephyr"):
        use_template(tokenizer, "gemma")
    with pytest.raises(InputError, match=r"unknown template 'chatlm'; did you mean 'chatml'\?"):
        use_template(tokenizer, "chatlm")
    use_template(tokenizer, "zephyr")
    check_spans(tokenizer)


MARKED = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
          "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}"
          "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


@pytest.mark.parametrize(("template", "marked"), [
    (MARKED.replace("'<|im_end|>' }}{% endgeneration %}", "'' }}{% endgeneration %}{{ '<|im_end|>' }}"),
     "'Otters swim.'"),
    (MARKED.replace("if m.role == 'assistant'", "if m.role == 'user'"), "'Wombats dig.<|im_end|>'"),
    (MARKED.replace("if m.role == 'assistant'", "if true"), "'Wombats dig.<|im_end|>'"),
    (MARKED.replace("if m.role == 'assistant'", "if m.role == 'assistant' and loop.last"),
     "'Badgers sleep.<|im_end|>'"),
    (MARKED.replace("{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{",
                    "{% if m.role == 'assistant' %}{% generation %}{{ '<|im_start|>assistant\\n' +"),
     "'<|im_start|>assistant\\nOtters swim.<|im_end|>'")])  # fmt: skip
def test_marks_of_anything_but_the_answers_are_refused(template: str, marked: str) -> None:
    check_spans(make_qwen_tokenizer(template=MARKED))
    check_spans(make_qwen_tokenizer(template=CHATML))  # without marks, and with an empty thought
    with pytest.raises(InputError) as error:
        check_spans(make_qwen_tokenizer(template=template))
    assert f"marks {marked} as the assistant's where it says 'Otters swim.<|im_end|>'" in str(error.value)


@pytest.mark.parametrize(("template", "reason"), [
    # The tokenizer has a token for a space and a letter: the prompt ends before it, the conversation goes on with it.
    (CHATML.replace("assistant\\n' }}{%- endif", "assistant ' }}{%- endif").replace("m.role + '\\n'", "m.role + ' '"),
     "joins the end of the prompt and the answer's first word to one token, which no answer can begin with: have the "
     "chat template write the space after the prompt, not in it (the token ' The')"),
    (MARKED.replace("assistant\\n' }}{% endif", "assistant ' }}{% endif").replace("m.role + '\\n'", "m.role + ' '"),
     "joins the end of the prompt and the answer's first word to one token"),
    (CHATML.replace("m.content + '<|im_end|>\\n'", "m.content"), "writes no special token after the assistant's words"),
    (MARKED.replace("'<|im_end|>'", "''"), "writes no special token after the assistant's words"),
    (CHATML.replace("<|im_start|>", "### ").replace("<|im_end|>", ""), "writes no special token after the assistant's"),
])  # fmt: skip
def test_a_template_whose_answers_cannot_begin_or_end_as_learnt_is_refused(template: str, reason: str) -> None:
    assert template != CHATML
    tokenizer = make_qwen_tokenizer(template=template.replace("<think>\\n\\n</think>\\n\\n", ""))
    with pytest.raises(InputError) as error:
        check_spans(tokenizer)
    assert reason in str(error.value)
    assert "template=chatml|qwen|llama3|mistral|zephyr|gemma" in str(error.value)


def test_an_answer_stops_where_the_next_role_begins_if_nothing_else_ends_it() -> None:
    tokenizer = make_qwen_tokenizer(template=CHATML.replace("<|im_end|>", ""))
    ids = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    assert end_tokens(tokenizer) == ids
    assert end_tokens(make_qwen_tokenizer()) == ids[1:]


@pytest.mark.parametrize("name", ["mistral", "zephyr", "gemma"])
def test_calls_that_a_template_has_no_form_for_are_refused(name: str) -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    asked: list[Any] = [TALK[1], {"role": "assistant", "content": "", "tool_calls": [call]}]
    with pytest.raises(ParseError, match="it has no form for calls of tools"):
        encode_answers(choose(name), asked)
    with pytest.raises(ParseError, match="it has no form for tools"):
        encode_prompt(choose(name), asked[:1], [call])
    with pytest.raises(ParseError, match="does not render calls of tools"):  # as the pipeline's own template
        encode_answers(make_qwen_tokenizer(template=MARKED), asked)


def chatml(record: dict[str, Any]) -> list[tuple[str, bool]]:
    """Pieces of a conversation and whether they are learnt, written apart from the templates."""
    pieces: list[tuple[str, bool]] = []
    turns, tools = record["messages"], record.get("tools") or []
    if tools:
        listed = "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
        pieces.append(("<|im_start|>system\n# Tools\n\nYou may call one or more functions to assist with the user "
                       "query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>"
                       + listed + "\n</tools>\n\nFor each function call, return a json object with function name and "
                       "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
                       "\"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n", False))
    for number, turn in enumerate(turns):
        if turn["role"] == "assistant":
            calls = [f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
                     for call in turn.get("tool_calls", ())]
            said = "\n".join([turn["content"], *calls] if turn["content"] else calls)
            pieces += [("<|im_start|>assistant\n", False), (said + "<|im_end|>", True), ("\n", False)]
        elif turn["role"] == "tool":
            first = not number or turns[number - 1]["role"] != "tool"
            last = number + 1 == len(turns) or turns[number + 1]["role"] != "tool"
            pieces.append(("<|im_start|>user" * first + f"\n<tool_response>\n{turn['content']}\n</tool_response>"
                           + "<|im_end|>\n" * last, False))
        else:
            pieces.append((f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n", False))
    return pieces


def expected(tokenizer: Any, pieces: list[tuple[str, bool]]) -> tuple[list[int], list[bool]]:
    """Ids and marks by the bytes that tokens stand for: a token is learnt where its first byte is."""
    whole = "".join(text for text, _ in pieces)
    ids: list[int] = tokenizer.backend_tokenizer.encode(whole, add_special_tokens=False).ids
    learnt = [mark for text, mark in pieces for _ in text.encode()]
    added = set(tokenizer.added_tokens_decoder)
    sizes = [len(token.encode()) if id in added else len(token)  # of byte-level BPE a character is a byte
             for id, token in zip(ids, tokenizer.convert_ids_to_tokens(ids), strict=True)]
    assert sum(sizes) == len(learnt)
    return ids, [learnt[place] for place in accumulate(sizes, initial=0) if place < len(learnt)]


@cache
def conversations() -> list[dict[str, Any]]:
    """500 real ones: instructions in English and Chinese, talks of several turns, and with calls of tools."""
    wanted = {"alpaca_en": 100, "alpaca_zh": 100, "glaive_toolcall_en": 150, "glaive_toolcall_zh": 150}
    found: list[Any] = []
    for name, count in wanted.items():
        file = shared(f"llamafactory_demo/data__{name}_demo.json")
        found += list(read_any(file, partial(read_record, "instructions")))[:count]
    return found


def test_masks_of_500_real_conversations() -> None:
    tokenizer = choose("chatml")
    called = 0
    for record in conversations():
        found = encode_answers(tokenizer, record["messages"], record.get("tools"))
        assert found == expected(tokenizer, chatml(record))
        called += any(message.get("tool_calls") for message in record["messages"])
    assert (len(conversations()), called > 150) == (500, True)
