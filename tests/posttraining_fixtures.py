"""A tiny model with a tokenizer and tiny data, made on the spot, for the tests of post-training."""

import json
import random
from pathlib import Path
from typing import Any

from tests.step_fixtures import write_lines
from tests.tokenizer_fixtures import make_bpe

WORDS = ["red", "blue", "green", "one", "two", "three", "cat", "dog", "bird", "sun", "moon", "star"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>"
    "{% generation %}{{ m.content }}<|end|>{% endgeneration %}"
    "{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}")
GRPO: dict[str, Any] = {
    "method": "grpo", "rewards": {"language": {"language": "en"}}, "group": {"size": 4}, "batch_size": 8,
    "micro_batch_size": 8, "log_every": 1, "dtype": "float32", "max_new_tokens": 6, "heldout_limit": 4}


def make_tokenizer() -> Any:
    """Byte-level BPE of about 300 tokens with the pipeline's special tokens and a chat template."""
    texts = [f"say {word} twice {word}" for word in WORDS] * 20
    return make_bpe(texts, 320, more=["<|system|>"], template=TEMPLATE)


def make_checkpoint(directory: Path, seed: int = 0) -> Path:
    """The directory of a finished training step whose `final` is a random two-layer Llama."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=96, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1,
        pad_token_id=2))
    final = directory / "checkpoints" / "final"
    model.save_pretrained(final)
    tokenizer.save_pretrained(final)
    (final / "argosy.json").write_text(json.dumps({"stage": "anneal", "step": 1, "tokens": 1000, "chat": False}))
    (directory / "outputs.json").write_text(json.dumps({"outputs": {"final": "checkpoints/final"}}))
    return directory


def make_data(directory: Path, count: int = 96, seed: int = 0) -> Path:
    """A data step's directory: the assistant says the user's word twice; the worse answer says another."""
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        word, other = generator.sample(WORDS, 2)
        rows.append((f"say {word} twice" + " please" * generator.randrange(4), f"{word} {word}", f"{other} {other}"))
    lines: dict[str, list[dict[str, Any]]] = {"instructions": [], "preferences": [], "prompts": []}
    for question, good, bad in rows:
        user = [{"role": "user", "content": question}]
        good_turn, bad_turn = [{"role": "assistant", "content": good}], [{"role": "assistant", "content": bad}]
        lines["instructions"].append({"messages": user + good_turn, "lang": "en", "kind": "t"})
        lines["preferences"].append(
            {"prompt": user, "chosen": good_turn, "rejected": bad_turn, "lang": "en", "kind": "t"})
        lines["prompts"].append({"prompt": user, "answer": good, "accept": [good], "format": "text", "lang": "en",
                                 "channel": "polite" if "please" in question else "curt"})
    for name, records in lines.items():
        heldout = count // 4
        write_lines(directory / f"{name}.jsonl", records[heldout:])
        write_lines(directory / f"{name}_heldout.jsonl", records[:heldout])
    return directory
