"""The tokenizer: special tokens and chat template, training of a byte-level BPE, its directory and its digest."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import tokenizers
from argosy.core.store.files import write_atomic, write_json

BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"
USER, ASSISTANT, END = "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL_TOKENS = (BOS, EOS, PAD, USER, ASSISTANT, END)

# Role tokens and text alone, as newlines between turns would be a quarter of a short conversation. What lies
# in {% generation %} is what SFT learns. There is no token for the system: its message is a turn of the user. An answer
# begins with a space, so that its first word is the token that pretraining met in the middle of sentences.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    "<|assistant|>{% generation %} {{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}<|user|>{{ message['content'] }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


def chat_pieces(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    """Render as CHAT_TEMPLATE does, in (piece, is a special token).

    Pieces stay apart, so that a text in which somebody has written "<|end|>" stays text."""
    yield BOS, True
    for message in messages:
        answer = message["role"] == "assistant"
        yield (ASSISTANT if answer else USER), True
        yield (" " if answer else "") + str(message["content"]), False
        yield END, True


# Tokenizers differ in these: letter case, contractions, digits, spaces, scripts, a decomposed and a full-width letter.
SAMPLE = (
    "The river's 1,024 tributaries  don't FREEZE;\n\tname_of(x) == 'é'. e\u0301 ① Ａ "
    "长江流经11个省，naïve 東京 Ж 🙂\n\n")


def tokenizer_digest(vocabulary: Mapping[str, int], sample: Sequence[int]) -> str:
    """Return the SHA-256 of every token with its id, and of the pieces of `SAMPLE`.

    It is the same for a tokenizer as the tokenizers library has it and as transformers saves and loads it.
    `vocabulary`: id by token, added tokens among them. `sample`: ids of `SAMPLE`, without BOS and EOS."""
    described = json.dumps([sorted(vocabulary.items()), list(sample)], separators=(",", ":"))
    return hashlib.sha256(described.encode()).hexdigest()


BYTES = 256
SMALLEST_VOCABULARY = BYTES + len(SPECIAL_TOKENS)

# Qwen2's pattern: contractions, words, single digits, symbols, space; but only a space goes with the word after it, so
# that an option's letter is one token whatever punctuation stands before it.
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|{han} ?{letter}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def train_tokenizer(texts: Iterable[str], vocab_size: int, split_han: bool) -> "tokenizers.Tokenizer":
    """Train byte-pair encoding (Sennrich et al. 2016) over bytes: any text round-trips, nothing is unknown.

    Args:
        texts: merges are counted on them.
        vocab_size: with the special tokens; smaller if the texts have no more pairs to merge.
        split_han: each Han character for itself, so that a word is the same tokens wherever it stands."""
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    han, letter = (r"\p{Han}|", r"[\p{L}&&[^\p{Han}]]") if split_han else ("", r"\p{L}")
    pattern = _PATTERN.replace("{han}", han).replace("{letter}", letter)
    tokenizer = tokenizers.Tokenizer(BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    # As Llama's: encoding a text begins a document; the chat template writes its own.
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))])
    return tokenizer


def save_tokenizer(tokenizer: "tokenizers.Tokenizer", directory: Path) -> None:
    """Write tokenizer.json, its config and the chat template."""
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / "tokenizer.json", tokenizer.to_str(pretty=True))
    write_atomic(directory / "chat_template.jinja", CHAT_TEMPLATE)
    write_json(
        directory / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS, "pad_token": PAD,
            "clean_up_tokenization_spaces": False, "model_max_length": 1_000_000_000})


def load_tokenizer(directory: Path) -> "tokenizers.Tokenizer":
    """Load the tokenizer for encoding documents: text that spells a special token stays text. Raises InputError: there
    is none."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise InputError(f"{path} does not exist: `tokenizer` must be the directory of a train_tokenizer or start step")
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.encode_special_tokens = True
    return tokenizer
