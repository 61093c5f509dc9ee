"""Small models from elsewhere, with random weights, as their makers save them: of each type that `start` takes."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from tests.tokenizer_kinds import TEXTS

# Qwen's: turns between marks, no BOS, no {% generation %}; the last answer alone begins with an empty thought.
CHATML = (
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- if m.role == 'assistant' and loop.last %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{{- m.content + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")
SIZES: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
                         "max_position_embeddings": 4096}


def make_qwen_tokenizer(*, template: str = CHATML, more: tuple[str, ...] = ()) -> Any:
    """Byte-level BPE behind NFC, with Qwen's special tokens; `<think>` is a token of text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=380, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *more])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = template
    return fast


def make_model(directory: Path, kind: str, tokenizer: Any, *, rows: int = 448, tied: bool = False, seed: int = 0,
               **fields: Any) -> Path:
    """Save a random model of the type `kind`, with an embedding of `rows`, and its tokenizer; returns the directory."""
    if kind != "gpt_neox":
        fields = {"num_key_value_heads": 2, **fields}
    if kind in ("qwen3", "qwen3_moe"):
        fields = {"head_dim": 16, **fields}
    if kind in ("mixtral", "qwen3_moe"):
        fields = {"num_local_experts": 4, "num_experts_per_tok": 2, **fields}
    if kind == "qwen3_moe":
        fields = {"moe_intermediate_size": 48, "norm_topk_prob": True, **fields}
    torch.manual_seed(seed)
    config = AutoConfig.for_model(kind, vocab_size=rows, tie_word_embeddings=tied, bos_token_id=None,
                                  eos_token_id=tokenizer.eos_token_id, pad_token_id=None, initializer_range=0.1,
                                  **SIZES, **fields)
    AutoModelForCausalLM.from_config(config, dtype="float32").save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
