"""A small random model with a byte-level BPE tokenizer, and items to ask it."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from argosy.evidence.results.findings import Findings
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from argosy.model.weights.checkpoint import Checkpoint
from evals.formats import At, find_format
from evals.items import Item
from tests.step_fixtures import run_step, write_lines
from tests.tokenizer_fixtures import make_bpe

WORDS = {
    "en": ["river stone, Paris; Little Rock", "oxide 42 Leonardo da Vinci", "whale", "the Nile", "a theorem", "salt"],
    "zh": ["北京", "石家庄", "氧化铁", "列夫·托尔斯泰", "长江", "二十四", "定理", "蓝鲸", "上海", "茶"]}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def parse_item(record: Mapping[str, Any]) -> Item:
    """The item of a record of argosy's own format."""
    (item,) = find_format("argosy").parse(record, At("record"))
    assert isinstance(item, Item)
    return item


def make_items(count: int, seed: int = 0, options: int = 4) -> list[Item]:
    """Items of random texts in both languages, right places balanced."""
    items = []
    for number in range(count):
        rng = Random(f"{seed}/{number}")
        lang = ("en", "zh")[number % 2]
        choices = [f"{word} {tag}" for tag, word in enumerate(rng.choices(WORDS[lang], k=options))]
        rng.shuffle(choices)
        question = {"en": f"What is number {number}?", "zh": f"第{number}号是什么？"}[lang]
        items.append(Item(f"item/{number}", lang, question, tuple(choices), (number // 2) % options))
    return items


def write_items(path: Path, items: list[Item]) -> None:
    """As the data step writes them."""
    write_lines(path, (
        {"id": i.id, "lang": i.lang, "relation": "r", "question": i.question, "choices": i.choices, "answer": i.answer}
        for i in items))


def make_tokenizer() -> Any:
    """Byte-level BPE of about 400 tokens. As the pipeline's, it begins a text, and its template a chat, with BOS."""
    texts = [f"{item.question}\n{' '.join(item.choices)}\nAnswer: A 答案：B" for item in make_items(60)]
    return make_bpe(texts, 420, template=TEMPLATE, with_bos=True)


def make_model(vocabulary: int, positions: int = 256, **fields: Any) -> Any:
    """A random Llama whose outputs are far from uniform."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=vocabulary, max_position_embeddings=positions, **{**shape, **fields})
    return sharpened(LlamaForCausalLM(config))


def make_long_rope_model(vocabulary: int) -> Any:
    """A random Phi-3 of 128 positions, with other rotary frequencies for texts of more than 32 tokens (LongRoPE)."""
    import torch
    from transformers import Phi3Config, Phi3ForCausalLM

    torch.manual_seed(0)
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0, 2.0, 4.0, 8.0],
            "rope_theta": 10_000.0}  # fmt: skip
    config = Phi3Config(vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                        num_attention_heads=4, max_position_embeddings=128, original_max_position_embeddings=32,
                        pad_token_id=0, bos_token_id=1, eos_token_id=2, sliding_window=None, rope_parameters=rope)
    return sharpened(Phi3ForCausalLM(config))


def sharpened(model: Any) -> Any:
    """The model with outputs that are far from uniform, and attention that is not flat."""
    for weights in model.parameters():
        if weights.ndim > 1:
            weights.data.mul_(8)
    return model.eval()


def make_language_model(positions: int = 256, batch_tokens: int = 1024) -> LanguageModel:
    """Both together."""
    tokenizer = make_tokenizer()
    return LanguageModel(make_model(len(tokenizer), positions), Encoder(tokenizer), batch_tokens)


def save_checkpoint(path: Path, *, chat: bool = False, positions: int = 256) -> Checkpoint:
    """An export on disk, as a training step leaves it."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(path)
    make_model(len(tokenizer), positions).save_pretrained(path)
    about = {"stage": "sft", "step": 10, "tokens": 1000, "chat": chat}
    (path / "argosy.json").write_text(json.dumps(about))
    return Checkpoint(path, path.name, stage="sft", step=10, tokens=1000, chat=chat, ours=True)


def ask_benchmarks(model: LanguageModel, data: Path, section: Mapping[str, Any], *, seed: int = 0,
                   limit: int | None = None) -> Findings:
    """Ask a model, without its chat template, what a suite's section `benchmarks` asks of files below `data`."""
    from evals.runner import prepare
    from evals.section import Benchmarks

    return prepare(Benchmarks.model_validate(section), data, seed=seed, limit=limit)(model, False)


def run_evaluate(out: Path, **fields: Any) -> dict[str, Any]:
    """Run the evaluate step in this process; its results.json."""
    from steps.evaluate import STEP, EvaluateConfig

    run_step(STEP, EvaluateConfig(**fields), out)
    return dict(json.loads((out / "results.json").read_text()))
