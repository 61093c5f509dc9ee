"""A model from elsewhere, made ready for the pipeline: checked weights, and a tokenizer that has every token needed;
and GGUF files, which llama.cpp and its kin load: what is in one, and its weights dequantized to a directory.

Rows for tokens that are added are the mean of the others (Hewitt 2021, "Initializing New Word Embeddings for
Pretrained Language Models"): the new tokens are then improbable in any context, and the others hardly change."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.lazy import torch
from argosy.core.sandbox.templates import TemplateRefusal, render
from argosy.core.store.files import make_directory, publish, read_object, read_record, temporary_of, write_json
from argosy.core.store.lease import locked
from argosy.corpus.tokens.tokenizer import ASSISTANT, CHAT_TEMPLATE, END, EOS, PAD, USER
from argosy.model.weights import pretrained
from argosy.model.weights.chat import check_ends
from argosy.model.weights.checkpoint import ABOUT_GGUF
from argosy.model.weights.load import load_model


def describe_gguf(path: Path) -> dict[str, Any]:
    """Describe a GGUF file: `quantization` (its tensors' types, those of most numbers first), `bytes`, `sha256`. Raises
    InputError: the package gguf is not installed."""
    pretrained.require_gguf(path)
    from gguf import GGUFReader

    numbers: Counter[str] = Counter()
    for tensor in GGUFReader(path).tensors:
        numbers[tensor.tensor_type.name] += int(tensor.n_elements)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"quantization": " ".join(name for name, _ in numbers.most_common()), "bytes": path.stat().st_size,
            "sha256": digest}


def gguf_in_words(about: dict[str, Any]) -> str:
    """Say what `describe_gguf` found, and what becomes of it."""
    return (f"a GGUF file of {about['bytes'] / 1e6:,.1f} MB, quantized as {about['quantization']}, SHA-256 "
            f"{about['sha256'][:16]}: its weights are dequantized to float32")


def unpack_gguf(path: Path, folder: Path) -> Path:
    """Write the model of a GGUF file below `folder`, as a directory that transformers loads; returns it.

    What is there of a file with the same bytes is not made again. Raises InputError: it cannot be read."""
    from argosy.model.weights.export import save_weights

    pretrained.require_gguf(path)
    readers = "-".join(version(package) for package in ("transformers", "gguf"))  # another one may read other numbers
    with open(path, "rb") as file:
        name = f"{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}-{readers}"
    target = folder / name / path.stem
    with locked(make_directory(target.parent) / ".lock", create=True):  # another command may be at it
        if not read_record(target / ABOUT_GGUF):
            about = describe_gguf(path)
            print(f"{path.name} is {gguf_in_words(about)}, in {target}", flush=True)
            temporary = temporary_of(target)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            pretrained.load_tokenizer(path).save_pretrained(temporary)
            save_weights(load_model(path), temporary)
            write_json(temporary / ABOUT_GGUF, about)
            publish(temporary, target)
    return target


TYPES = ("gpt_neox", "llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
MOST = 128  # the largest multiple that a table is padded to
_NO_CLOCK = "{%- set strftime_now = no_clock %}"  # an undefined name: the template has its own date then, or refuses


@dataclass
class ImportedModel:
    """A model with its tokenizer.

    Attributes:
        added: ids of the tokens that its tokenizer lacked.
        rows: of its embedding, (before, now).
        notes: sentences on what was changed."""

    model: Any
    tokenizer: Any
    added: dict[str, int] = field(default_factory=dict)
    rows: tuple[int, int] = (0, 0)
    notes: list[str] = field(default_factory=list)


def import_model(path: Path) -> ImportedModel:
    """Load the model in `path`, float32, and give it the tokens that it lacks. Raises InputError: it is of a type that
    cannot be trained here, quantized, or broken."""
    check_files(path)
    config = pretrained.load_config(path)
    _check_fields(path, config.model_type, getattr(config, "quantization_config", None))
    model, tokenizer = load_model(path), pretrained.load_tokenizer(path)
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise InputError(f"start.model: {path} {pretrained.NO_TOKENIZER}")
    found = ImportedModel(model, tokenizer)
    known = set(found.tokenizer.get_vocab().values())
    _complete(found)
    _fit_rows(found, known)
    return found


def check_files(path: Path) -> None:
    """Check the files of the model in `path` as far as reading them tells, without transformers.

    Raises InputError: config.json or the tokenizer is absent, broken or of a kind that `import_model` refuses, the chat
    template has an error of syntax, or a GGUF file does not begin as one."""
    if pretrained.is_gguf(path):
        pretrained.require_gguf(path)
        return
    config = read_object(path / "config.json")
    if not config.get("auto_map"):  # else transformers tells whether it needs the code
        _check_fields(path, config.get("model_type"), config.get("quantization_config"))
    if not pretrained.has_tokenizer(path):
        raise InputError(f"start.model: {path} {pretrained.NO_TOKENIZER}")
    _, about = (read_object(path / name) if (path / name).is_file() else {}
                for name in ("tokenizer.json", "tokenizer_config.json"))
    file = path / "chat_template.jinja"
    template = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else about.get("chat_template")
    if isinstance(template, str):
        try:
            render("{% if false %}" + template + "{% endif %}", {})  # which compiles it, and runs nothing
        except TemplateRefusal as error:
            where = file if file.is_file() else path / "tokenizer_config.json (chat_template)"
            raise InputError(f"start.model: {where} is no template that can be compiled ({error.why}): correct it, or "
                             "delete it to get Argosy's") from None


def _check_fields(path: Path, model_type: object, quantization: object) -> None:
    if model_type not in TYPES:
        raise InputError(f"start.model: {path} is of the type {model_type!r}, allowed: {', '.join(TYPES)}; the "
                         "output layers of others have a bias, a scale or a cap that the losses here do not know")
    if quantization:
        raise InputError(f"start.model: the weights in {path} are quantized: take the model's unquantized version")


def _complete(found: ImportedModel) -> None:
    """Add what stages need and the tokenizer lacks: an end of text, padding, a chat template with its turns' tokens."""
    tokenizer, notes = found.tokenizer, found.notes
    missing = {"eos_token": EOS, "pad_token": PAD}
    wanted = {name: token for name, token in missing.items() if getattr(tokenizer, name) is None}
    turns = [] if tokenizer.chat_template else [USER, ASSISTANT, END]
    vocabulary = tokenizer.get_vocab()
    tokens = [token for token in (*wanted.values(), *turns) if token not in vocabulary]
    tokenizer.add_tokens(tokens, special_tokens=True)
    for name, token in wanted.items():
        setattr(tokenizer, name, token)
    if turns:
        tokenizer.chat_template = CHAT_TEMPLATE
        notes.append("its tokenizer has no chat template: it got Argosy's")
    elif not isinstance(tokenizer.chat_template, str):
        tokenizer.chat_template = tokenizer.get_chat_template()
    if "strftime_now" in tokenizer.chat_template:
        tokenizer.chat_template = _NO_CLOCK + tokenizer.chat_template
        notes.append("its chat template writes the day's date: it gets none, so that equal configs have equal results")
    check_ends(tokenizer)
    found.added = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in tokens}


def _fit_rows(found: ImportedModel, known: Collection[int]) -> None:
    """Set the rows of added tokens to the mean of the `known` ones; where there are too few rows, add some."""
    model = found.model
    before = model.get_input_embeddings().num_embeddings
    needed = 1 + max(found.tokenizer.get_vocab().values())
    multiple = min(before & -before, MOST)
    now = before if needed <= before else -(-needed // multiple) * multiple
    found.rows = (before, now)
    old = torch.tensor(sorted(index for index in known if index < before))
    new = torch.tensor(sorted({*found.added.values(), *range(before, now)}), dtype=torch.int64)
    if now > before:
        model.resize_token_embeddings(now, mean_resizing=False)
    tables = {id(table.weight): table.weight for table in (model.get_input_embeddings(), model.get_output_embeddings())}
    for weight in tables.values() if len(new) else ():  # one, where they are tied
        with torch.no_grad():
            weight[new] = weight[old].double().mean(dim=0).to(weight.dtype)
    _describe(found, multiple)


def _describe(found: ImportedModel, multiple: int) -> None:
    before, now = found.rows
    if found.added:
        names = ", ".join(f"{token} ({index})" for token, index in found.added.items())
        where = (f"spare rows of its table of {before}" if now == before else
                 f"a table of {now} rows, before {before}: a multiple of {multiple}, as it was")
        found.notes.append(f"its tokenizer lacked {names}: added, in {where}; their rows are the mean of the others")
    elif now > before:
        found.notes.append(f"its tokenizer has more tokens than its table of {before} rows: {now} now, the new ones "
                           "the mean of the others")
