"""Chat templates run in a process of limited time and memory, as transformers would render them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import chat_template_utils

from argosy.core.errors import InputError
from argosy.core.sandbox import templates
from argosy.core.sandbox.templates import TemplateRefusal, render
from argosy.corpus.tokens.tokenizer import CHAT_TEMPLATE
from argosy.model.weights import chat
from argosy.model.weights.templates.published import TEMPLATES
from tests.tokenizer_fixtures import make_bpe

TALK = [{"role": "user", "content": "How  many? \ud7ff <b>"}, {"role": "assistant", "content": "Two\n 两只 🐈"},
        {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Three"}]
TOOLS = [{"type": "function", "function": {"name": "sum", "parameters": {"b": [1, 2.5, None], "a": True}}}]
MARKS = {"bos_token": "<s>", "eos_token": "</s>"}
STATEMENTS = """{% set seen = namespace(n=0, self=1) %}{%- for m in messages %}
  {% if loop.index > 3 %}{% break %}{% endif %}{% set seen.n = seen.n + 1 %}
{% generation %}{{ m.content | trim }}{% endgeneration %}{{ dict(a=seen.n) | tojson(indent=2) }}{{ strftime_now('%Y') }}
{% endfor %}"""


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pidfd and /proc are of Linux")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of small limits, and none of them for what comes after."""
    templates._WORKER.end()
    monkeypatch.setattr(templates, "MEMORY_MB", 200)
    yield
    templates._WORKER.end()


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, STATEMENTS, *(each.text for each in TEMPLATES.values())])
def test_text_and_marks_are_those_of_transformers(template: str) -> None:
    compiled = chat_template_utils._cached_compile_jinja_template(template)
    for tools in (None, TOOLS):
        values: dict[str, Any] = {"messages": TALK, "tools": tools, "documents": None, "add_generation_prompt": True}
        try:
            expected = chat_template_utils._render_with_assistant_indices(compiled, **values, **MARKS)
        except Exception as error:
            with pytest.raises(TemplateRefusal, match=re.escape(str(error))):
                render(template, values | MARKS)
            continue
        assert render(template, values | MARKS).text == expected[0]
        assert render(template, values | MARKS, marks=True) == expected


@pytest.mark.parametrize(("template", "said"), [
    ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more than 0 s of CPU time"),
    ("{{ 'a' * 10 ** 9 }}", "more than 200 MiB of memory"),
    ("{% set all = namespace(x='a') %}{% for a in range(99) %}{% set all.x = all.x ~ all.x %}{% endfor %}",
     "more than 200 MiB of memory"),
    ("{{ raise_exception('a' * 9 * 10 ** 7) }}", "more than 200 MiB of memory"),
    ("{{ 'a ' * 2 * 10 ** 7 }}", "writes more than 4 MB and 16 times what it is given")])  # fmt: skip
def test_a_template_that_exceeds_a_limit_ends_and_the_next_one_is_rendered(
    strict: None, template: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "SECONDS", 0 if "CPU time" in said else 30)
    tokenizer = make_bpe(["text"], 300, template=template)
    for ask in (chat.check_ends, lambda tokenizer: chat.encode_prompt(tokenizer, TALK)):
        with pytest.raises(InputError, match=said) as caught:
            ask(tokenizer)
        assert not isinstance(caught.value, TemplateRefusal)  # which would count as one record's
        assert templates._WORKER._child is None
    assert render("{{ messages[0] }}", {"messages": ["well"]}).text == "well"


@pytest.mark.parametrize(("template", "said"), [
    ("{{ raise_exception('no system turn') }}", "refuses it: no system turn"),
    ("{{ 'a' + 1 }}", "refuses it: TypeError"),
    ("{{ messages[0].content.missing.more }}", "refuses it: .* has no attribute 'missing'"),
    ("{% if %}", "refuses it: Expected an expression"),
    ("{{ messages.__class__.__mro__ }}{{ ''.__class__.__base__.__subclasses__() }}", "refuses it: .* is unsafe"),
    ("{% set x = namespace(_Namespace__attrs=messages) %}", "refuses it: .*takes no attribute")])  # fmt: skip
def test_what_a_template_raises_is_an_error_of_ours(template: str, said: str) -> None:
    tokenizer = make_bpe(["text"], 300, template=template)
    chat.check_ends(tokenizer)  # which leaves it to whoever uses it
    for ask in (chat.end_of_turn, lambda tokenizer: chat.apply_template(tokenizer, TALK, tokenize=False)):
        with pytest.raises(TemplateRefusal, match=said):
            ask(tokenizer)
    with pytest.raises(chat.ParseError, match=f"^the chat template {said}"):  # a count of records has no path
        chat.encode_prompt(tokenizer, TALK)
    tokenizer.name_or_path = "models/own"
    with pytest.raises(TemplateRefusal, match=f"^the chat template of models/own {said}"):
        chat.end_of_turn(tokenizer)
    with pytest.raises(chat.ParseError, match=f"^the chat template {said}"):
        chat.encode_prompt(tokenizer, TALK)


@linux
def test_the_process_has_little_to_give_away(strict: None) -> None:
    render("a", {})
    folder = Path(f"/proc/{_process().pid}")
    limits = {line[:25].strip(): line[25:].split()[:2] for line in (folder / "limits").read_text().splitlines()}
    assert [limits[f"Max {what}"] for what in ("core file size", "file size", "processes", "open files")] == [
        ["0", "0"], ["0", "0"], ["0", "0"], ["16", "16"]]
    names = {each.partition("=")[0] for each in (folder / "environ").read_text().split("\0") if each}
    assert names <= {"PYTHONPATH", "PYTHONHASHSEED", "TZ", "LC_CTYPE"}


def _process() -> "subprocess.Popen[bytes]":
    assert templates._WORKER._child
    return templates._WORKER._child.process
