"""An adapter alone, in PEFT's files, with a model card: PEFT, vLLM and SGLang load it beside its base."""

import shutil
from pathlib import Path
from typing import ClassVar

from argosy.core.errors import InputError
from argosy.core.store.files import read_record, write_json
from argosy.model.weights.exports import Format, Source


class Adapter(Format):
    name: ClassVar[str] = "adapter"
    card: ClassVar[bool] = True
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)

    def write(self, source: Source, out: Path) -> dict[str, float]:
        """Copy the adapter, of a checkpoint that is one or has one beside merged weights, and name its base."""
        from argosy.model.weights.adapters.files import CONFIG, WEIGHTS, find_base, is_adapter
        from argosy.model.weights.export import ADAPTER
        from argosy.model.weights.exports.hub import CARD
        from argosy.model.weights.pretrained import load_tokenizer

        held = next((path for path in (source.path, source.path / ADAPTER) if is_adapter(path)), None)
        if held is None or is_adapter(base := find_base(held)):
            what = "has no adapter" if held is None else f"is an adapter of {base}, which is one too"
            raise InputError(f"checkpoint {source.path} {what}: set lora in its stage, or export it as hub, whole")
        name = source.base or str(base)
        write_json(out / CONFIG, read_record(held / CONFIG) | {"base_model_name_or_path": name})
        shutil.copyfile(held / WEIGHTS, out / WEIGHTS)
        load_tokenizer(source.path).save_pretrained(out)
        head = "library_name: peft" + (f"\nbase_model: {name}" if source.base else "")
        (out / CARD).write_text(source.card.replace("library_name: transformers", head, 1), encoding="utf-8")
        return {}
