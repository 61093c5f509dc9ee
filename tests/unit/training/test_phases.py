"""The three phases in one process: exports that load, cumulative tokens, resumption, errors that say what to do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from argosy.errors import InputError, StepError
from argosy.step.contract import Progress, StepContext
from argosy.tracking.tracker import Tracker
from steps import anneal, long_context, pretrain
from tests.training_fixtures import Devices, make_data

MODEL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 64}
BASE: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 8, "tokens": 12 * 256, "log_every": 5,
                        "save_every": 4, "exports": (0.5, 1.0), "learning_rate": 1e-2, "dtype": "float32"}


class Recorder(Tracker):
    """Keeps what is logged; a crash at a chosen optimizer step stands for a killed process."""

    def __init__(self, crash_at: int | None = None) -> None:
        super().__init__(None)
        self.crash_at = crash_at
        self.logged: dict[tuple[str, int], float] = {}
        self.models: dict[str, tuple[int, int]] = {}

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        if step == self.crash_at:
            raise KeyboardInterrupt
        self.logged.update({(name, step): value for name, value in values.items()})

    def model(self, name: str, path: Path, *, stage: str, step: int, tokens: int,
              tags: Mapping[str, str] | None = None) -> None:
        self.models[name] = (step, tokens)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    make_data(directory, {"en": 80, "zh": 40}, words=150)
    return directory


def context(out: Path, tracker: Tracker | None = None) -> StepContext:
    out.mkdir(exist_ok=True)
    return StepContext(out, tracker or Tracker(None), Progress(None))


def train(data: Path, out: Path, tracker: Tracker | None = None, **fields: Any) -> Any:
    config = pretrain.PretrainConfig.model_validate(
        {"tokenized": str(data), "tokenizer": str(data), "model": MODEL, **BASE, **fields})
    outputs = pretrain.run(config, context(out, tracker))
    (out / "outputs.json").write_text(json.dumps({"outputs": outputs.model_dump()}))
    return outputs


def digests(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((out / "checkpoints").rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Recorder]:
    out, tracker = tmp_path_factory.mktemp("pretrain"), Recorder()
    return out, train(data, out, tracker), tracker


def test_exports_load_and_say_what_they_are(pretrained: tuple[Path, Any, Recorder]) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out, outputs, tracker = pretrained
    assert [(e.name, e.step, e.tokens) for e in outputs.exports] == [("p050", 6, 6 * 256), ("p100", 12, 12 * 256)]
    assert outputs.final == "checkpoints/p100"
    assert tracker.models == {"p050": (6, 6 * 256), "p100": (12, 12 * 256)}
    path = out / outputs.final
    assert json.loads((path / "argosy.json").read_text()) == {"stage": "pretrain", "step": 12, "tokens": 3072,
                                                              "chat": False}
    model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    ids = AutoTokenizer.from_pretrained(path)("ela", return_tensors="pt").input_ids
    assert model.generate(ids, max_new_tokens=4, do_sample=False).shape[1] > ids.shape[1]


def test_export_equals_save_pretrained(pretrained: tuple[Path, Any, Recorder], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    path = pretrained[0] / "checkpoints" / "p100"
    AutoModelForCausalLM.from_pretrained(path).save_pretrained(tmp_path)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / name).read_bytes() == (path / name).read_bytes()


def test_losses_fall_and_are_logged_by_channel(pretrained: tuple[Path, Any, Recorder]) -> None:
    _, outputs, tracker = pretrained
    for name in ("en", "zh"):
        assert outputs.heldout[name].bpb < outputs.heldout_before[name].bpb
        assert tracker.logged["heldout/bpb/" + name, 12] == outputs.heldout[name].bpb
        assert tracker.logged["heldout/bpb/" + name, 0] == outputs.heldout_before[name].bpb
        assert tracker.logged["train/loss/" + name, 12] < tracker.logged["train/loss/" + name, 5]
    assert {step for name, step in tracker.logged if name == "train/loss"} == {5, 10, 12}
    assert tracker.logged["train/tokens", 10] == 2560


@pytest.mark.parametrize("crash_at", [3, 5, 10, 12])
def test_a_phase_that_died_ends_in_the_same_bytes_and_metrics(
    data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path, crash_at: int
) -> None:
    died = Recorder(crash_at)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, died)
    again = Recorder()
    outputs = train(data, tmp_path, again)
    whole, expected, tracker = pretrained
    assert outputs == expected
    assert digests(tmp_path) == digests(whole)
    assert {**died.logged, **again.logged} == tracker.logged
    if crash_at > 5:
        assert ("heldout/bpb/en", 0) not in again.logged  # it went on and did not start anew


def test_a_state_half_written_is_ignored(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, Recorder(crash_at=10))
    (state,) = (tmp_path / "state").iterdir()
    half = tmp_path / "state" / ".step-00000099.tmp"
    half.mkdir()
    (half / "engine.pt").write_bytes((state / "engine.pt").read_bytes()[:100])
    train(data, tmp_path)
    assert digests(tmp_path) == digests(pretrained[0])


def test_another_seed_gives_another_model(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path) -> None:
    train(data, tmp_path, seed=1)
    name = "checkpoints/p100/model.safetensors"
    assert digests(tmp_path)[name] != digests(pretrained[0])[name]


def test_long_context_then_anneal(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path) -> None:
    from transformers import AutoConfig

    fields = {"tokenized": str(data), "checkpoint": str(pretrained[0]), **BASE, "exports": (1.0,)}
    config = long_context.LongContextConfig.model_validate(
        {**fields, "sequence_length": 96, "rope_theta": 5e4, "tokens": 4000})
    tracker = Recorder()
    longer = long_context.run(config, context(tmp_path / "long", tracker))
    architecture = AutoConfig.from_pretrained(tmp_path / "long" / longer.final)
    assert architecture.max_position_embeddings == 96
    assert architecture.rope_parameters["rope_theta"] == 5e4
    assert list(longer.position_nats["before"]) == ["0_12", "12_24", "24_48", "48_96"]
    assert longer.position_nats["after"]["48_96"] < longer.position_nats["before"]["48_96"]
    assert tracker.logged["heldout/nats_at/48_96", config.steps] == longer.position_nats["after"]["48_96"]
    assert longer.exports[-1].tokens == 12 * 256 + config.steps * config.tokens_per_step

    (tmp_path / "long" / "outputs.json").write_text(json.dumps({"outputs": longer.model_dump()}))
    annealed = anneal.run(
        anneal.AnnealConfig.model_validate({**fields, "checkpoint": str(tmp_path / "long"), "mixture": {"zh": 1.0}}),
        context(tmp_path / "anneal"))
    assert annealed.exports[-1].tokens == longer.exports[-1].tokens + 12 * 256
    assert annealed.heldout_before["zh"].bpb == pytest.approx(longer.heldout["zh"].bpb, rel=0.01)
    assert annealed.heldout["zh"].bpb < annealed.heldout_before["zh"].bpb
    assert list(annealed.epochs) == ["zh"]


def test_every_model_is_on_the_steps_device(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    devices = Devices(monkeypatch)
    train(data, tmp_path / "pretrain", tokens=256, exports=(1.0,))
    fields = {"tokenized": str(data), "checkpoint": str(pretrained[0]), **BASE, "tokens": 256, "exports": (1.0,)}
    long_context.run(long_context.LongContextConfig.model_validate(fields), context(tmp_path / "long"))
    anneal.run(anneal.AnnealConfig.model_validate(fields), context(tmp_path / "anneal"))
    assert devices.elsewhere() == []
    assert sum(type(model).__name__ == "LlamaForCausalLM" for model in devices.made) == 4


def test_a_loss_that_is_not_a_number_names_step_and_channel(data: Path, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    from argosy.training.engine import TorchEngine

    update = TorchEngine._update
    steps = []

    def poisoned(self: TorchEngine, rate: float) -> torch.Tensor:
        norm = update(self, rate)
        steps.append(rate)
        if len(steps) == 6:
            self.module.model.get_input_embeddings().weight.data.fill_(float("nan"))
        return norm

    monkeypatch.setattr(TorchEngine, "_update", poisoned)
    with pytest.raises(StepError, match=r"loss at step 7 is not a finite number, in channel en, zh.*learning_rate"):
        train(data, tmp_path)
    assert not (tmp_path / "checkpoints" / "p100").exists()


@pytest.mark.parametrize(("fields", "message"), [
    ({"sequence_length": 65}, r"sequence_length=65 .*max_position_embeddings=64"),
    ({"model": {**MODEL, "model_type": "lama"}}, r"model_type='lama'.*llama"),
    ({"mixture": {"fr": 1.0}}, r"mixture\.fr.*en, zh"),
    ({"tokenizer": "/nowhere"}, r"tokenizer\.json.*train_tokenizer"),
    ({"tokenized": ""}, r"tokenized is empty"),
])
def test_wrong_input_is_named(data: Path, tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(data, tmp_path, **fields)


def test_a_checkpoint_that_is_none_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs.json").write_text('{"outputs": {"vocab_size": 1}}')
    for checkpoint, message in (("", "checkpoint is empty"), (str(tmp_path), "not a training step")):
        with pytest.raises(InputError, match=message):
            anneal.run(anneal.AnnealConfig(tokenized=str(data), checkpoint=checkpoint), context(tmp_path))


@pytest.mark.parametrize(("exports", "message"), [
    ((0.25001, 0.250014, 1.0), r"0\.25001 and 0\.250014 have the same name, p025_001: leave one out"),
    ((0.5, 0.51, 1.0), r"0\.5 and 0\.51 have the same step, 6: leave one out.* tokens=3072 \(12 steps\)"),
])
def test_exports_that_would_be_one_are_refused(exports: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        anneal.AnnealConfig(sequence_length=32, global_batch_size=8, tokens=12 * 256, exports=exports)


def test_phases_with_one_seed_do_not_begin_with_the_same_windows(data: Path, tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from argosy.tokens.mixture import Mixture
    from argosy.training import phase

    class Seen(Exception):
        """What the phase reads first."""

    def first_windows(*args: Any) -> None:
        raise Seen(Mixture(*args).batch(range(8)).inputs.tolist())

    def begin(stage: str) -> Any:
        with pytest.raises(Seen) as seen:
            phase.train_phase(config, context(tmp_path), stage, model, None)
        return seen.value.args[0]

    monkeypatch.setattr(phase, "Mixture", first_windows)
    config = anneal.AnnealConfig.model_validate({**BASE, "tokenized": str(data), "seed": 7})
    model = SimpleNamespace(config=SimpleNamespace(vocab_size=10**6, max_position_embeddings=64))
    assert begin("anneal") == begin("anneal")
    assert begin("anneal") != begin("pretrain")
