"""The lifecycle's config, composed of a preset, a YAML file and overrides; and the graph of all stages."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from argosy.core.config.explain import nearest
from argosy.core.config.load import Layer, load, merge, read_yaml
from argosy.core.errors import InputError
from steps.export import ExportConfig
from steps.merge import MergeConfig
from steps.quantize import QuantizeConfig
from steps.start import StartConfig
from workflows.graph import Node
from workflows.lifecycle import LifecycleConfig, all_but_start, lifecycle, stage_steps

PRESETS = Path(__file__).resolve().parent / "presets"
DEFAULT_PRESET = "demo"


def compose(preset: str | None = None, file: Path | None = None, overrides: Sequence[str] = ()) -> LifecycleConfig:
    """Compose the preset (else the one that `file` names, else the demo), then `file`, then `overrides`.

    With `data.inputs`, and where `file` and `overrides` say nothing else, every channel counts by its tokens, since
    the preset's mixtures name the channels of the demo's data, and there is no twin, since it shows what leaking the
    demo's benchmark does. Raises InputError: one of them is wrong."""
    for override in overrides:
        if override.startswith("preset=") or override in preset_names():
            raise InputError(f"{override}: a preset is not an override; use --preset {override.rpartition('=')[2]}")
    layers: list[Layer] = [file] if file else []
    base = read_yaml(preset_path(preset) if preset else preset_of(file) if file else preset_path(DEFAULT_PRESET))
    config = load(LifecycleConfig, [base.path, *layers], overrides)
    if config.posttraining:
        _check_one_tree(config, file, overrides)
    elif "posttraining" in config.model_fields_set:
        raise InputError("posttraining is [], allowed: one item or more; leave it out for the stages "
                         f"{', '.join(config.default_tree())}, or name in `stages` those that there shall be")
    _check_read(config, overrides)
    if not config.data.inputs:
        if "inputs" in config.data.model_fields_set:
            raise InputError("data.inputs is [], allowed: files or folders of yours; leave it out to train on the "
                             "built-in demo data")
        return config
    without: dict[str, Any] = {}
    merge(without, {**base.data, "twin": False})
    for stage in without.values():
        if isinstance(stage, dict):
            stage.pop("mixture", None)
    return load(LifecycleConfig, [without, *layers], overrides)


def _check_one_tree(config: LifecycleConfig, file: Path | None, overrides: Sequence[str]) -> None:
    """Refuse stages of the default tree beside `posttraining`: those of a preset give way, a person's would be lost."""
    written = read_yaml(file).data if file else {}
    given = [*(written if isinstance(written, dict) else {}), *(text.partition("=")[0].split(".")[0]
                                                                for text in overrides)]
    if both := [name for name in config.default_tree() if name in given]:
        raise InputError(f"posttraining and {both[0]} are both given: an item of posttraining takes the place of "
                         f"{both[0]}; write its fields there, or leave posttraining out")


def _check_read(config: LifecycleConfig, overrides: Sequence[str]) -> None:
    """Refuse an override of a stage that the graph does not have: nobody would read it. A file may have them, for
    other values of `stages`."""
    for override in overrides:
        field = override.partition("=")[0]
        stage = field.partition(".")[0]
        if "." in field and stage in stage_steps() and stage not in config.chosen():
            there = ", ".join(config.stages or [name for name in stage_steps() if name in config.chosen()])
            add = f"add {stage} to stages, or " if config.stages else ""
            raise InputError(f"{field}: there is no stage {stage} in this pipeline (it has: {there}), and nobody would "
                             f"read it: {add}leave it out")


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def preset_path(name: str, where: str = "") -> Path:
    """Find the file of a preset; `where` says in an error where the name was written. Raises InputError: there is no
    such preset."""
    names = preset_names()
    if name not in names:
        near = nearest(name, names)
        raise InputError(
            f"{where}preset is {name!r}, allowed: {', '.join(names)}" + (f"; nearest: {near[0]}" if near else ""))
    return PRESETS / f"{name}.yaml"


def preset_of(file: Path) -> Path:
    """Find the preset that `file` names, else the default one."""
    found = read_yaml(file)
    name = found.data.get("preset") if isinstance(found.data, dict) else None
    line = found.lines.get(("preset",), 1)
    return preset_path(DEFAULT_PRESET if name in (None, "") else str(name), f"{file}, line {line}: ")


def every_stage() -> list[Node]:
    """Build the graph of all stages, each depending on all that it may depend on."""
    others = tuple(name for name in stage_steps() if name not in ("classifier", "tokenizer"))
    started = LifecycleConfig(start=StartConfig(model="."), stages=others, quantize=QuantizeConfig(of="start"),
                              merge=MergeConfig(of=("start", "anneal")), export=ExportConfig(of="start"))
    sources = [name for name in LifecycleConfig().models() if name != "start"]
    upstream: dict[str, dict[str, None]] = {}
    found: dict[str, Node] = {}
    for node in chain.from_iterable(map(lifecycle, (*map(all_but_start, sources), started))):
        found.setdefault(node.id, node)
        upstream.setdefault(node.id, {}).update((o.id, None) for nodes in node.upstream.values() for o in nodes)
    merged: dict[str, Node] = {}
    order = list(stage_steps())
    for node in sorted(found.values(), key=lambda node: order.index(node.name)):
        merged[node.id] = replace(node, inputs={"upstream": [merged[name] for name in upstream[node.id]]})
    return list(merged.values())
