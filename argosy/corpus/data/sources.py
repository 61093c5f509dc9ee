"""Describes the user's files before they are read: the config of reading, a file with its cuts, channels."""

import codecs
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from argosy.core.config.schema import ADDED, Config, Role
from argosy.core.errors import InputError
from argosy.core.store.remote import expand_input
from argosy.corpus.data.jsonl import MOST_BYTES

UTF8, AUTO = "utf-8", "auto"
RESERVED_CHANNEL = "instructions"  # the tokenized conversations have this name
MAX_CHANNELS = 100
DEFAULT_CHANNEL = "default"  # of a conversation, a preference or a prompt that names none
OTHERS = ("other", "*")  # in a mixture: the channels that it does not name, together

# Paths and URIs of the user's files: their bytes count, or what the store of a URI says of them.
Inputs = Annotated[tuple[str, ...], Role.EXTERNAL, AfterValidator(lambda given: tuple(map(expand_input, given)))]


def channel_of(record: Mapping[str, Any]) -> str:
    """Return the channel of a conversation, a preference or a prompt."""
    return str(record.get("channel") or DEFAULT_CHANNEL)


def _encoding(name: str) -> str:
    """Return the name that Python gives an encoding. Raises ValueError: it has none of this name."""
    if name == AUTO:
        return name
    with suppress(LookupError, ValueError):
        "".encode(name)  # a codec of bytes, such as hex, is no encoding
        return codecs.lookup(name).name.removesuffix("-sig")
    raise ValueError(f"{name!r} is no encoding; allowed: auto, or a name that Python knows, such as gb18030, big5, "
                     "shift_jis, cp1252, utf-16")


class SourceConfig(Config):
    """Reading of the user's files."""

    text_field: str = "text"
    """Field of a record that is the document's text."""
    channel_field: str = "channel"
    """Field that is its channel; else `channel`, else the name of its folder below the input directory, else "text"."""
    lang_field: str = "lang"
    """Field that is its language; else `lang`, else cleaning tells."""
    channel: str = ""
    """Channel of documents whose record names none."""
    lang: str = ""
    """Language of documents whose record names none."""
    text_chars: Annotated[int, Field(gt=0)] = 20_000
    """Characters after which a text, Markdown or reStructuredText is cut at a blank line."""
    record_bytes: Annotated[int, ADDED, Field(ge=1)] = MOST_BYTES
    """Bytes of the longest line, row or page; a longer one is set aside. Cleaning needs some 20 times the memory."""
    skip: Annotated[tuple[str, ...], ADDED] = ()
    """Folders below an input that may lack readable files, as [images]; others are refused: a channel would be lost."""
    splits: Annotated[tuple[str, ...], ADDED] = ()
    """Splits of Hugging Face datasets to read, such as [train]; empty: all."""
    encoding: Annotated[str, ADDED, AfterValidator(_encoding)] = UTF8
    """Encoding of texts, code, CSV and JSON, such as gb18030; auto: each file's own, as it seems."""
    html: Annotated[Literal["resiliparse", "trafilatura"], ADDED] = "resiliparse"
    """Extractor of a page's main text; trafilatura leaves out more of menus and footers, a tenth as fast."""


class Cut(NamedTuple):
    """A span of a file, up to the next one's beginning, that may be read alone: a shard is made of them."""

    start: int
    """Its first byte."""
    line: int
    """Number of its first line or row, from 1; 0: nobody has counted, and the byte is the place in ids."""
    weight: int
    """Bytes to work on, about: unpacked."""
    hash: str
    """xxh3-128 of its bytes, or what the store of a URI says of the whole file."""
    group: int = 0
    """Its first row group, of Parquet."""


@dataclass(frozen=True)
class InputFile:
    """One file to read."""

    path: str
    """A path or a URI: of this machine, and in no record."""
    label: str
    """Its name in ids: no path of this machine."""
    folder: str
    """Its folder below the input, or its split, which may name the channel."""
    format: str
    """Name of its reader."""
    size: int
    input: int = 0
    """Number of the input that it is of; -1: a file of the data step's own."""
    inner: str = ""
    """Its path below the input; "": the input itself."""
    split: str = ""
    """Split of a Hugging Face dataset."""
    hash: str = ""
    """hash of its bytes, or what its store says; "" where it was only listed"""
    cuts: tuple[Cut, ...] = ()


def check_channels(weights: Iterable[str], channels: Collection[str], where: str = "mixture") -> None:
    """Check that a mixture names channels that there are. Raises InputError: it does not."""
    for name in weights:
        if name not in channels:
            names = ", ".join(sorted(channels))
            raise InputError(f"{where}.{name}: no such channel with documents; there are: {names}")


def weights_of(mixture: Mapping[str, float], tokens: Mapping[str, float], where: str = "mixture") -> dict[str, float]:
    """Return the weights of the channels that a mixture draws from: those above 0, and by their tokens of the channels
    that it does not name, which share out what it gives the OTHERS. An empty mixture gives each its tokens.

    Raises InputError: it names a channel that there is not, leaves one out without a word, or draws from none."""
    if not mixture:
        return {name: float(size) for name, size in tokens.items()}
    unnamed = check_mixture(mixture, tokens, where)
    given = {name: float(mixture[name]) for name in tokens if mixture.get(name)}
    if unnamed:
        rest = mixture[rest_of(mixture, tokens, where)]
        whole = sum(tokens[name] for name in unnamed)
        given |= {name: rest * tokens[name] / whole for name in unnamed if rest}
    if not given:
        raise InputError(f"{where}: all weights are 0; give one channel more")
    return given


def rest_of(given: Mapping[str, float], channels: Collection[str], where: str) -> str:
    """Return the name in `given` that stands for the channels that it does not name: one of OTHERS that is no channel
    itself; "" where there is none. Raises InputError: both are there."""
    rest = [name for name in OTHERS if name in given and name not in channels]
    if len(rest) > 1:
        raise InputError(f"{where} has {' and '.join(rest)}, which are the same channels: leave one out")
    return rest[0] if rest else ""


def check_mixture(mixture: Mapping[str, float], channels: Collection[str], where: str = "mixture") -> list[str]:
    """Check that a mixture says something of every channel, and return those that it does not name. Raises InputError:
    it names a channel that there is not, or leaves one out without a word."""
    rest = rest_of(mixture, channels, where)
    check_channels([name for name, weight in mixture.items() if weight and name != rest], channels, where)
    unnamed = [name for name in channels if name not in mixture]
    if unnamed and not rest:
        raise InputError(f"{where} does not name {', '.join(sorted(unnamed))}, whose documents would be left out: give "
                         f"each a weight (0 leaves it out), or all of them one together, such as {where}.other=1")
    return unnamed


def channel_name(given: str) -> str:
    """Make a part of file and metric names of a channel's: letters, digits, `_`, `-`, `.`; at most 64 characters.
    Raises InputError: it is the name of the tokenized conversations."""
    name = re.sub(r"[^\w.-]+", "_", given).strip("._")[:64] or "text"
    if name == RESERVED_CHANNEL:
        raise InputError(f"channel {name!r} is reserved for conversations: give these documents another channel")
    return name
