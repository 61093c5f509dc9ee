"""A model of realistic proportions to measure scoring with: random weights, a vocabulary of 32,000, float32."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

VOCABULARY = 32_000
LAYERS, HIDDEN, INTERMEDIATE, HEADS, POSITIONS = 8, 512, 1376, 8, 2048
SHAPE = f"Llama of {LAYERS} layers, {HIDDEN} hidden units, a vocabulary of {VOCABULARY}, float32"


def make_model(directory: Path, texts: Iterable[str]) -> None:
    """Write a Llama and a byte-level BPE tokenizer, trained on `texts`, as transformers loads them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(texts, trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=INTERMEDIATE,
                         num_hidden_layers=LAYERS, num_attention_heads=HEADS, max_position_embeddings=POSITIONS,
                         bos_token_id=0, eos_token_id=1)  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(directory)
