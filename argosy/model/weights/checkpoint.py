"""Checkpoints by their directory: an export of a training step, or any directory that transformers loads."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from argosy.core.errors import InputError
from argosy.core.store.files import read_record
from argosy.core.store.step_files import NODE, OUTPUTS, RUN, given_directory, read_outputs
from argosy.model.weights.pretrained import is_gguf

EXPORTS = "checkpoints"  # below a training step's directory
ABOUT = "argosy.json"  # of an export of ours
ABOUT_GGUF = "gguf.json"  # of weights that were dequantized: the file that they are from


@dataclass(frozen=True)
class Checkpoint:
    """An export on disk, with the fields of its `argosy.json`."""

    path: Path
    name: str
    stage: str = ""
    step: int = 0
    tokens: int = 0
    """trained on since pretraining began"""
    chat: bool = False
    """trained on the chat template"""
    ours: bool = False
    """has an argosy.json"""
    gguf: Mapping[str, Any] | None = None
    """the GGUF file that the weights are from: quantization, bytes, sha256"""

    def label(self) -> dict[str, Any]:
        """Give the fields for results; no path, so that results of two machines are equal."""
        fields = asdict(self)
        names = ("stage", "name", "step", "tokens", "chat", *(["gguf"] if self.gguf else []))
        return {key: fields[key] for key in names}


def find_checkpoint(directory: str | Path, export: str = "final") -> Checkpoint:
    """Find the export `export` of a training step's directory; a directory with a config.json is one itself, and so is
    a GGUF file. Raises InputError: it has disappeared, was not finished, there is no such export (names those there
    are), or it is no language model."""
    root = Path(directory)
    if is_gguf(root):
        return Checkpoint(root, root.stem)
    if not root.is_dir():
        raise InputError(f"checkpoint {root} does not exist; run the training step again, or correct the path")
    if (root / OUTPUTS).is_file():
        path, name = _export_of(root, export)
    elif adapter := adapter_alone(root):
        raise InputError(f"checkpoint {root} is {adapter}")
    elif export != "final" and (root / EXPORTS / export / "config.json").is_file():
        path, name = root / EXPORTS / export, export  # of a step that still trains: each appears whole
    elif (root / "config.json").is_file():
        path, name = root, root.name
    else:
        raise InputError(f"checkpoint {root} has neither outputs.json (a finished training step) nor config.json "
                         "(a model)")
    if kind := no_language_model(path):  # transformers would load it with a random output layer
        raise InputError(f"checkpoint {path} is {kind}: it predicts no tokens; name a language model")
    return _read(path, name)


def model_of_step(directory: str) -> str:
    """Return the final checkpoint of the finished training step in `directory`; any other path as it is."""
    outputs = read_record(Path(directory) / OUTPUTS).get("outputs", {}) if directory else {}
    return str(Path(directory) / outputs["final"]) if isinstance(outputs.get("final"), str) else directory


def stage_of(path: Path) -> str:
    """Name the stage that exported the model in `path`; "" where no step of ours did."""
    return str(read_record(path / ABOUT).get("stage", ""))


def no_model_because(directory: Path) -> str:
    """Say why `directory` holds no model to begin with, and what to name; "" where it does."""
    if adapter := adapter_alone(directory):
        return f"it is {adapter}"
    if is_gguf(directory) or (directory / "config.json").is_file():
        return ""
    if not directory.is_dir():
        return "there is no such directory"
    about = read_record(directory / OUTPUTS).get("made_from") or read_record(directory / NODE)
    if about and (directory / OUTPUTS).is_file():
        return f"it is the directory of the step {about.get('node')}, which trains no model: name one that does"
    if about:
        there = sorted(path.parent for path in directory.glob("checkpoints/*/config.json"))
        return (f"the step {about.get('node')} has not finished there: run it to its end, or name a checkpoint of it "
                f"({', '.join(map(str, there)) or 'there is none yet'})")
    return ("it has no config.json: give the directory of a model as transformers saves it, or of a finished training "
            "step, or org/name@commit of the hub")


def base_of(checkpoint: Checkpoint) -> Checkpoint | None:
    """Return the checkpoint that a step of ours trained this one from; None for one from elsewhere."""
    base = read_record(checkpoint.path.parent.parent / RUN).get("config", {}).get("checkpoint")
    with suppress(InputError):  # it was removed
        return find_checkpoint(base) if base else None
    return None


def open_final(field: str, directory: str) -> Checkpoint:
    """Find the `final` export of a training step, a reward model's too, in `directory`, the value of config's `field`.
    Raises InputError: there is no finished training step."""
    root = given_directory(field, directory, "training")
    if "final" not in read_outputs(root, field):
        raise InputError(f"{field}={directory} is not a training step: its outputs name no `final` checkpoint")
    found = _read(*_export_of(root, "final"))
    if not found.ours:
        raise InputError(f"{field}={directory}: {found.path} has lost its argosy.json; run its step again")
    return found


def _export_of(root: Path, export: str) -> tuple[Path, str]:
    outputs = read_outputs(root)
    exports = {entry["name"]: entry["path"] for entry in outputs.get("exports", [])}
    path = outputs.get("final") if export == "final" else exports.get(export)
    if path is None:
        names = [*(["final"] if "final" in outputs else []), *sorted(exports.keys() - {"final"})]
        known = ", ".join(names) or "none: it trains no model"
        raise InputError(f"export {export!r} is not in {root}; there are: {known}")
    name = export if export in exports else next((n for n, p in exports.items() if p == path), Path(path).name)
    if not (root / path / "config.json").is_file():
        raise InputError(f"export {export!r}: {root / path} has disappeared or is incomplete; run its step again")
    return root / path, name


def adapter_alone(path: Path) -> str:
    """Say what PEFT's adapter in `path` is of, and what to do with it; "" where there is none, or one of ours, which
    knows where its base is."""
    if not (path / "adapter_config.json").is_file() or (path / "base.json").is_file():
        return ""
    base = read_record(path / "adapter_config.json").get("base_model_name_or_path") or "a model that it does not name"
    return (f"an adapter (adapter_config.json) of {base}, not a whole model: add it to that with PEFT, "
            "AutoPeftModelForCausalLM.from_pretrained(ADAPTER).merge_and_unload().save_pretrained(DIR), copy its "
            "tokenizer's files beside, and name DIR")


def no_language_model(path: Path) -> str:
    """Name the kind of a checkpoint that predicts no tokens; "" for a language model, and where it is unknown."""
    try:
        made = json.loads((path / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    except (OSError, ValueError, AttributeError):
        return ""  # loading it says what is wrong
    classifies = made and all(str(each).endswith(("SequenceClassification", "TokenClassification")) for each in made)
    return f"a {made[0]} (a reward model, a classifier)" if classifies else ""


def _read(path: Path, name: str) -> Checkpoint:
    about = path / ABOUT
    if not about.is_file():
        return Checkpoint(path, name, gguf=read_record(path / ABOUT_GGUF) or None)
    try:
        fields = json.loads(about.read_text(encoding="utf-8"))
        return Checkpoint(path, name, str(fields["stage"]), int(fields["step"]), int(fields["tokens"]),
                          bool(fields["chat"]), ours=True)  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{about} is broken ({error}); it needs stage, step, tokens and chat") from None
