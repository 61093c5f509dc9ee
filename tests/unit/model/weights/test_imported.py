"""Models from elsewhere: the tokens that they lack, by numbers, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from argosy.core.errors import InputError
from argosy.model.weights.elsewhere.imported import ImportedModel, check_files, import_model
from argosy.model.weights.load import load_model
from argosy.model.weights.pretrained import load_tokenizer
from tests.started_models import make_model, make_qwen_tokenizer
from tests.tokenizer_kinds import TEXTS, make_sentencepiece
from workflows.compose import compose
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs

TURNS = ("<|user|>", "<|assistant|>", "<|end|>")


def bare() -> Any:
    """SentencePiece's, with neither padding nor a chat template, as Llama's base models have it: 480 tokens."""
    return make_sentencepiece(TEXTS * 3, 480)


def check_rows(found: ImportedModel, before: Any, new: list[int], known: list[int]) -> None:
    """Rows `new` are the mean of the rows `known` as they were; all other weights are as they were."""
    now = found.model.state_dict()
    tables = {name for name in now if name.endswith(("embed_tokens.weight", "embed_in.weight", "lm_head.weight"))}
    for name, old in before.state_dict().items():
        if name not in tables:
            assert torch.equal(now[name], old), name
            continue
        mean = old[known].double().mean(0).float()
        assert torch.equal(now[name][new], mean.expand(len(new), -1)), name
        kept = [row for row in range(len(old)) if row not in new]
        assert torch.equal(now[name][kept], old[kept]), name


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("llama", True), ("gpt_neox", False)])
def test_a_table_that_is_full_grows_by_its_multiple(tmp_path: Path, kind: str, tied: bool) -> None:
    path = make_model(tmp_path, kind, bare(), rows=480, tied=tied)
    found = import_model(path)
    assert found.added == {"<|pad|>": 480, "<|user|>": 481, "<|assistant|>": 482, "<|end|>": 483}
    assert found.rows == (480, 512)  # 480 is a multiple of 32
    assert found.model.config.vocab_size == 512
    assert (found.model.get_input_embeddings().weight is found.model.get_output_embeddings().weight) is tied
    check_rows(found, load_model(path), [*range(480, 512)], [*range(480)])
    assert "a table of 512 rows, before 480: a multiple of 32" in found.notes[-1]
    assert found.tokenizer.pad_token == "<|pad|>"
    assert (found.tokenizer.bos_token, found.tokenizer.eos_token) == ("<s>", "</s>")
    rendered = found.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert rendered == "<s><|user|>a<|end|>"


def test_spare_rows_are_used_first(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen3", make_qwen_tokenizer(template=""), rows=448)
    known = len(make_qwen_tokenizer())
    found = import_model(path)
    assert list(found.added) == list(TURNS)  # padding is there
    assert list(found.added.values()) == [known, known + 1, known + 2]
    assert found.rows == (448, 448)
    check_rows(found, load_model(path), [*found.added.values()], [*range(known)])
    assert "in spare rows of its table of 448" in found.notes[-1]


def test_new_tokens_hardly_change_the_others(tmp_path: Path) -> None:
    """Hewitt's bound: with the mean of n logits, k new tokens take at most log(1 + k / n) from each log-probability."""
    path = make_model(tmp_path, "mistral", bare(), rows=480)
    before, now = load_model(path).eval(), import_model(path).model.eval()
    ids = torch.arange(40).unsqueeze(0)
    with torch.no_grad():
        old, new = (model(ids).logits[0].log_softmax(-1)[:, :480] for model in (before, now))
    lost = old - new
    assert bool((lost > 0).all())
    assert float(lost.max()) <= torch.log1p(torch.tensor(32 / 480)).item() + 1e-6


def test_a_model_with_all_it_needs_is_left_as_it_is(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer(), rows=448, tied=True)
    found = import_model(path)
    assert (found.added, found.rows, found.notes) == ({}, (448, 448), [])
    check_rows(found, load_model(path), [], [0])


def test_more_tokens_than_rows_get_rows(tmp_path: Path) -> None:
    tokenizer = make_qwen_tokenizer()
    path = make_model(tmp_path, "qwen2", tokenizer, rows=len(tokenizer) - 1)
    found = import_model(path)
    assert found.rows[1] >= len(tokenizer)
    assert "more tokens than its table" in found.notes[0]


def test_a_date_in_the_template_is_not_the_days(tmp_path: Path) -> None:
    template = ("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% else %}2024{% endif %}"
                "{{ messages[0].content }}")
    found = import_model(make_model(tmp_path, "qwen2", make_qwen_tokenizer(template=template)))
    rendered = found.tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert rendered == "2024a"
    assert "day's date" in found.notes[0]


def test_other_types_and_quantized_weights_are_refused(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer())
    config = json.loads((path / "config.json").read_text())
    for change, words in (({"model_type": "phi"}, "is of the type 'phi', allowed: gpt_neox, llama, mistral, mixtral"),
                          ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "are quantized")):
        (path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(InputError, match=words):
            import_model(path)


def test_files_that_cannot_be_a_model_are_refused_by_the_plan_as_by_the_step(tmp_path: Path) -> None:
    path = make_model(tmp_path, "qwen2", make_qwen_tokenizer())
    check_files(path)
    (path / "chat_template.jinja").write_text("{{ messages[0].content + 1 }}{{ raise_exception('never') }}")
    check_files(path)  # it compiles, and nothing of it is run
    for name, text, words in (("chat_template.jinja", "{% if %}", "chat_template.jinja is no template that can be"),
                              ("tokenizer_config.json", "{", "tokenizer_config.json is not valid JSON"),
                              ("tokenizer.json", "[]", "tokenizer.json is not a JSON object"),
                              ("config.json", "{", "config.json is not valid JSON")):
        before = (path / name).read_bytes()
        (path / name).write_text(text)
        for check in (import_model, _plan):
            with pytest.raises(InputError, match=words):
                check(path)
        (path / name).write_bytes(before)
    (path / "tokenizer.json").unlink()
    (tmp_path / "model.gguf").write_bytes(b"GGML and more")
    for wrong, words in ((path, r"has no tokenizer\.json: copy it"),
                         (tmp_path / "model.gguf", "is no GGUF file, as it does not begin as one")):
        for check in (import_model, _plan, load_tokenizer):
            with pytest.raises(InputError, match=words):
                check(wrong)


def _plan(path: Path) -> None:
    check_inputs(lifecycle(compose("tiny", None, [f"start.model={path}", "stages=start"])), {"start"})
