"""Reader of a tokenize step's directory: token ids, document offsets and sizes of each channel, memory-mapped."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.corpus.data.split import choose_documents
from argosy.corpus.tokens.shards import SPECIAL_FILE
from argosy.corpus.tokens.tokenizer import SAMPLE, tokenizer_digest

Split = Literal["train", "heldout"]


@dataclass(frozen=True)
class TokenizedChannel:
    """One channel of one split. Document i is `tokens[offsets[i]:offsets[i + 1]]`: `<|bos|>` text `<|eos|>`."""

    name: str
    tokens: npt.NDArray[Any]  # (tokens,), memory-mapped, unsigned
    offsets: npt.NDArray[np.int64]  # (documents + 1,)
    document_bytes: npt.NDArray[np.int64]  # (documents,), UTF-8 bytes of the text
    special: frozenset[int] = frozenset()  # ids that stand for no text: the turns' marks of a conversation

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1

    def choose(self, budget: int) -> list[int]:
        """Documents to score, as many as fit a budget of tokens: the same for every phase and every evaluation."""
        lengths = np.where(self.document_bytes > 0, np.diff(self.offsets), 0)  # 0: there is nothing to score
        return choose_documents(self.name, lengths.tolist(), budget, least=3)


def read_index(directory: str | Path) -> dict[str, Any]:
    """Parse the `index.json` of a tokenize step's directory. Raises InputError: it is absent or unreadable."""
    index: dict[str, Any] = read_json(Path(directory) / "index.json")
    return index


def read_special(directory: str | Path) -> frozenset[int]:
    """Read the ids of the special tokens, of `special.json`; none where a directory made otherwise lacks the file."""
    path = Path(directory) / SPECIAL_FILE
    return frozenset(read_json(path)["special"]) if path.exists() else frozenset()


def read_channels(directory: str | Path, split: Split) -> dict[str, TokenizedChannel]:
    """Open all channels of `split` that hold a document, in the order of their names. Raises InputError: a file is
    absent, or its size is not what its offsets say."""
    index = read_index(directory)
    names = sorted(name for name, splits in index["channels"].items() if splits.get(split, {}).get("documents", 0) > 0)
    special = read_special(directory)
    return {name: _open(Path(directory) / split, name, np.dtype(index["dtype"]), special) for name in names}


def check_tokenizer(directory: str | Path, tokenizer: Any, advice: str) -> None:
    """Check that tokenized files are of a tokenizer of transformers: by its digest, by its size alone in a directory
    made before there was one. `advice`: what to do else. Raises InputError: they are of another one."""
    index = read_index(directory)
    size, made_with = len(tokenizer), index["vocab_size"]
    if made_with != size:
        raise InputError(f"{directory} was tokenized with a vocabulary of {made_with}, the checkpoint's tokenizer has "
                         f"{size} tokens; {advice}")
    if "tokenizer" not in index:
        return
    sample = tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]
    if index["tokenizer"] != tokenizer_digest(tokenizer.get_vocab(), sample):
        raise InputError(f"{directory} was tokenized with another tokenizer than the checkpoint's, also of {size} "
                         f"tokens; {advice}")


def _open(folder: Path, name: str, dtype: np.dtype[Any], special: frozenset[int]) -> TokenizedChannel:
    try:
        tokens = np.memmap(folder / f"{name}.bin", dtype=dtype, mode="r")
        offsets = np.load(folder / f"{name}.offsets.npy", mmap_mode="r")
        document_bytes = np.load(folder / f"{name}.bytes.npy", mmap_mode="r")
    except (OSError, ValueError) as error:
        raise InputError(f"tokenized channel '{name}' in {folder} cannot be read: {error}; tokenize again") from None
    if offsets[-1] != len(tokens) or len(document_bytes) != len(offsets) - 1:
        raise InputError(
            f"tokenized channel '{name}' in {folder} is damaged: {len(tokens)} tokens where its offsets say "
            f"{offsets[-1]}, sizes of {len(document_bytes)} documents out of {len(offsets) - 1}; run tokenize again")
    return TokenizedChannel(name, tokens, offsets, document_bytes, special)
