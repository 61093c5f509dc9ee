"""Small tokenizers of the kinds that checkpoints have: bytes alone, byte-level BPE, SentencePiece's BPE with byte
fallback (Llama 2's layout), and a Unigram one that changes the text and knows few characters."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tests.tokenizer_fixtures import make_bpe

TEXTS = (
    "The capital of France is Paris. The capital of Japan is Tokyo.",
    "A river flows through the old town, past the bridge and the market.",
    "法国的首都是巴黎，日本的首都是东京。以json输出：{\"首都\": \"北京\"}。答案是：长江。",
    "水由氢和氧组成。这条河发源于山区，流经三个国家，最后注入大海。")
UNSEEN = "龘靐 naïve café 𝒳 — 例外：鱻鑫？"  # characters that no tokenizer here has a token of


@lru_cache(maxsize=1)
def tokenizers_by_kind() -> dict[str, Any]:
    """Those in which every text can be written; BOS is added to each text, as Llama's do."""
    return {"bytes": make_bpe(TEXTS, 256 + 6, with_bos=True), "byte_bpe": make_bpe(TEXTS * 3, 420, with_bos=True),
            "sentencepiece": make_sentencepiece(TEXTS * 3, 480)}


def make_sentencepiece(texts: Sequence[str], vocab_size: int) -> Any:
    """BPE over characters, "▁" for a space and one before each text, bytes for what has no token."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces = [f"<0x{byte:02X}>" for byte in range(256)]
    first = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=first + pieces, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    layout = json.loads(tokenizer.to_str())
    layout["added_tokens"] = [token for token in layout["added_tokens"] if token["content"] in first]
    tokenizer = Tokenizer.from_str(json.dumps(layout))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def make_lossy() -> Any:
    """Unigram without byte fallback, behind NFKC: "①" becomes "1", an unseen character <unk>."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator([*TEXTS, "0123456789"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def make_collapsing() -> Any:
    """Whole words between spaces, joined by one: what stands between them is lost, and no normalizer says so."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "one": 3, "two": 4}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
