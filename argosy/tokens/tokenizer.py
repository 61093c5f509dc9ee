"""Train a byte-level BPE tokenizer and save it as a directory that `AutoTokenizer.from_pretrained` loads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from argosy.errors import InputError
from argosy.storage import write_atomic, write_json
from argosy.tokens.chat_template import BOS, CHAT_TEMPLATE, EOS, PAD, SPECIAL_TOKENS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES = 256
SMALLEST_VOCABULARY = BYTES + len(SPECIAL_TOKENS)

# Qwen2's pattern: contractions, words, single digits, symbols, space; but only a space goes with the word after it, so
# that an option's letter is one token whatever punctuation stands before it.
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{han} ?{letter}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Iterable[str], vocab_size: int, split_han: bool) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al. 2016) over bytes: any text round-trips, nothing is unknown.

    Args:
        texts: what merges are counted on.
        vocab_size: with the special tokens; smaller if the texts have no more pairs to merge.
        split_han: each Han character for itself, so that a word is the same tokens wherever it stands.
    """
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, processors
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    han, letter = (r"\p{Han}|", r"[\p{L}&&[^\p{Han}]]") if split_han else ("", r"\p{L}")
    pattern = _PATTERN.replace("{han}", han).replace("{letter}", letter)
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # As Llama's: encoding a text begins a document; the chat template writes its own.
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    """Write tokenizer.json, its config and the chat template."""
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / "tokenizer.json", tokenizer.to_str(pretty=True))
    write_atomic(directory / "chat_template.jinja", CHAT_TEMPLATE)
    write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": BOS,
            "eos_token": EOS,
            "pad_token": PAD,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 1_000_000_000,
        },
    )


def load_tokenizer(directory: Path) -> Tokenizer:
    """The tokenizer for encoding documents: text that spells a special token stays text.

    Raises:
        InputError: there is none, or it lacks a special token.
    """
    from tokenizers import Tokenizer

    path = directory / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path} does not exist: `tokenizer` must be the directory of a train_tokenizer step")
    tokenizer = Tokenizer.from_file(str(path))
    missing = [token for token in SPECIAL_TOKENS if tokenizer.token_to_id(token) is None]
    if missing:
        raise InputError(f"{path} has no token {', '.join(missing)}; it needs {' '.join(SPECIAL_TOKENS)}")
    tokenizer.encode_special_tokens = True
    return tokenizer
