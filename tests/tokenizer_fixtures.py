"""A small byte-level BPE tokenizer with the pipeline's special tokens, made on the spot."""

from collections.abc import Sequence
from typing import Any

SPECIAL = ("<|bos|>", "<|eos|>", "<|pad|>", "<|user|>", "<|assistant|>", "<|end|>")


def make_bpe(texts: Sequence[str], vocab_size: int, *, more: Sequence[str] = (), template: str = "",
             with_bos: bool = False) -> Any:
    """Learnt from `texts`.

    Args:
        more: special tokens beside the pipeline's.
        template: for chats.
        with_bos: an encoded text begins with `<|bos|>`, as with the pipeline's own tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = [*SPECIAL, *more]
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet,
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    if with_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<|bos|> $A", special_tokens=[("<|bos|>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|bos|>", eos_token="<|eos|>",
                                   pad_token="<|pad|>")
    if template:
        fast.chat_template = template
    return fast
