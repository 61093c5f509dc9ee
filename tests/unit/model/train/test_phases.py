"""The three phases in one process: exports that load, cumulative tokens, resumption, errors that say what to do."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.epochs import read_table
from argosy.corpus.tokens.reader import read_channels
from argosy.model.train.phase import open_tokenizer
from argosy.model.weights.load import load_model
from steps import anneal, long_context, pretrain
from tests.training_fixtures import Recorder, digests, run_here

MODEL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 64}
BASE: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 8, "tokens": 12 * 256, "log_every": 5,
                        "save_every": 4, "exports": (0.5, 1.0), "learning_rate": 1e-2, "dtype": "float32"}


def train(data: Path, out: Path, tracker: Tracker | None = None, **fields: Any) -> Any:
    return run_here(pretrain, out, tracker, **{"tokenized": data, "tokenizer": data, "model": MODEL, **BASE, **fields})


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Recorder]:
    out, tracker = tmp_path_factory.mktemp("pretrain"), Recorder()
    return out, train(data, out, tracker), tracker


def test_exports_load_and_equal_save_pretrained(pretrained: tuple[Path, Any, Recorder], tmp_path: Path) -> None:
    out, outputs, tracker = pretrained
    assert [(e.name, e.step, e.tokens) for e in outputs.exports] == [("p050", 6, 6 * 256), ("p100", 12, 12 * 256)]
    assert outputs.final == "checkpoints/p100"
    assert tracker.models == {"p050": (6, 6 * 256), "p100": (12, 12 * 256)}
    path = out / outputs.final
    assert json.loads((path / "argosy.json").read_text()) == {"stage": "pretrain", "step": 12, "tokens": 3072,
                                                              "chat": False}
    model = load_model(path)
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    model.save_pretrained(tmp_path)
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / name).read_bytes() == (path / name).read_bytes()
    ids = open_tokenizer(path)("ela", return_tensors="pt").input_ids
    assert model.generate(ids, max_new_tokens=4, do_sample=False).shape[1] > ids.shape[1]


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
def test_a_phase_that_died_ends_in_the_same_bytes_and_metrics(data: Path, pretrained: tuple[Path, Any, Recorder],
                                                              tmp_path: Path, crash_at: int) -> None:
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


def test_a_damaged_or_half_written_state_gives_way_to_the_one_before(
    data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path, Recorder(crash_at=10))
    assert sorted(path.name for path in (tmp_path / "state").glob("step-*")) == ["step-00000004", "step-00000008"]
    newest = tmp_path / "state/step-00000008/tensors-00000-00000.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    (tmp_path / "state/.step-00000099.tmp").mkdir()
    (tmp_path / "state/step-00000010").mkdir()
    train(data, tmp_path)
    said = capsys.readouterr().out
    assert "step-00000010 was not written to its end" in said
    assert f"{newest} is damaged" in said
    assert "continuing after step 4" in said
    assert digests(tmp_path) == digests(pretrained[0])


OVERFITTED: dict[str, Any] = {"tokens": 60 * 256, "learning_rate": 3e-2, "schedule": "constant",
                              "mixture": {"zh": 1, "en": 0}, "exports": (0.1, 0.2, 0.5, 1.0),
                              "final_by": "heldout/nats/en", "heldout_points": 1}


@pytest.mark.parametrize("crash_at", [20, 35, 60])
def test_a_phase_whose_loss_rises_exports_the_best_and_a_crash_loses_no_loss(data: Path, tmp_path: Path,
                                                                            crash_at: int) -> None:
    tracker = Recorder()
    outputs = train(data, tmp_path / "whole", tracker, **OVERFITTED)
    losses = {step: value for (name, step), value in tracker.logged.items() if name == OVERFITTED["final_by"] and step}
    assert list(losses) == [6, 12, 30, 60]  # evaluated at each export
    best = min(losses, key=lambda step: losses[step])
    assert 0 < best < 60
    final = next(each for each in outputs.exports if each.step == best)
    assert (outputs.final, outputs.heldout["en"].nats) == (final.path, losses[best])
    assert len(outputs.exports) == 4
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "died", Recorder(crash_at), **OVERFITTED)
    assert train(data, tmp_path / "died", **OVERFITTED) == outputs
    assert digests(tmp_path / "died") == digests(tmp_path / "whole")


def test_long_context_then_anneal(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    fields = {**BASE, "tokenized": data, "checkpoint": pretrained[0], "exports": (1.0,)}
    longer_fields = {**fields, "sequence_length": 96, "rope_theta": 5e4, "tokens": 4000, "keep_optimizer": True,
                     "loss_weights": {"en": 0.5}, "micro_batch_size": "auto"}
    tracker = Recorder()
    longer = run_here(long_context, tmp_path / "long", tracker, **longer_fields)
    architecture = AutoConfig.from_pretrained(tmp_path / "long" / longer.final)
    assert (architecture.max_position_embeddings, architecture.rope_parameters["rope_theta"]) == (96, 5e4)
    assert list(longer.position_nats["before"]) == ["0_12", "12_24", "24_48", "48_96"]
    assert longer.position_nats["after"]["48_96"] < longer.position_nats["before"]["48_96"]
    assert tracker.logged["heldout/nats_at/48_96", 6] == longer.position_nats["after"]["48_96"]
    assert longer.exports[-1].tokens == 12 * 256 + 6 * 8 * 96
    annealed = run_here(anneal, tmp_path / "anneal",
                        **{**fields, "checkpoint": tmp_path / "long", "mixture": {"zh": 1.0, "en": 0.0},
                           "carry_optimizer": True})
    assert "the optimizer goes on from step 6" in capsys.readouterr().out
    assert annealed.exports[-1].tokens == longer.exports[-1].tokens + 12 * 256
    assert annealed.heldout_before["zh"].bpb == pytest.approx(longer.heldout["zh"].bpb, rel=0.01)
    assert annealed.heldout["zh"].bpb < annealed.heldout_before["zh"].bpb
    assert list(annealed.epochs) == ["zh"]
    phases = (pretrained[1], longer, annealed)
    [row] = read_table(tmp_path / "anneal")
    assert row["epochs_in_all"] == pytest.approx(sum(outputs.epochs["zh"] for outputs in phases))


@pytest.mark.parametrize("scaling", ["linear", "yarn"])
def test_scaled_rotations_are_transformers_own(data: Path, pretrained: tuple[Path, Any, Recorder], tmp_path: Path,
                                               scaling: str) -> None:
    fields = {**BASE, "tokenized": data, "checkpoint": pretrained[0], "exports": (1.0,), "sequence_length": 96}
    plain, scaled = (run_here(long_context, tmp_path / name, **fields, rope_scaling=name) for name in ("none", scaling))
    assert scaled.position_nats["before"] == plain.position_nats["before"]
    assert scaled.heldout_before != plain.heldout_before
    model = AutoModelForCausalLM.from_pretrained(tmp_path / scaling / scaled.final)
    more = {"original_max_position_embeddings": 64} if scaling == "yarn" else {}
    assert model.config.rope_parameters == {"rope_type": scaling, "rope_theta": 1e4, "factor": 1.5, **more}
    assert model.config.max_position_embeddings == 96
    nats, channel = [], read_channels(data, "heldout")["en"]
    for start, end in pairwise(channel.offsets.tolist()):
        for at in range(start, end - 2, 96):  # the token before is the first input; the document's end does not count
            ids = torch.tensor(np.array(channel.tokens[at : min(at + 97, end - 1)], np.int64))[None]
            nats.append(cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none").detach())
    assert float(torch.cat(nats).mean()) == pytest.approx(scaled.heldout["en"].nats, rel=1e-5)
    with pytest.raises(InputError, match=rf"rope_scaling=linear: .* scaled already \(rope_type={scaling}\)"):
        run_here(long_context, tmp_path / "twice", **{**fields, "checkpoint": tmp_path / scaling,
                                                      "sequence_length": 128, "rope_scaling": "linear"})
    with pytest.raises(ValidationError, match="keeps the checkpoint's base, and rope_theta=50000 is another"):
        long_context.LongContextConfig(rope_scaling="yarn", rope_theta=5e4)


@pytest.mark.parametrize(("fields", "message"), [
    ({"sequence_length": 65}, r"sequence_length=65 .*max_position_embeddings=64"),
    ({"model": {**MODEL, "model_type": "lama"}}, r"model_type='lama'.*llama"),
    ({"model": {**MODEL, "model_type": "olmoe"}}, r"olmoe.* 64 experts.*mixtral or qwen3_moe, or a dense"),
    ({"resume": "pretrain-ab/state/step-00000004"}, r"resume=.*was not written"),
    ({"mixture": {"fr": 1.0}}, r"mixture\.fr.*en, zh"),
    ({"final_by": "heldout/bpb/fr"}, r"final_by is 'heldout/bpb/fr', allowed: .* of the channels en, zh"),
    ({"tokenizer": "/nowhere"}, r"tokenizer\.json.*train_tokenizer"),
    ({"tokenized": ""}, r"tokenized is empty")])
def test_wrong_input_is_named(data: Path, tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(data, tmp_path, **fields)


@pytest.mark.parametrize(("exports", "message"), [
    ((0.25001, 0.250014, 1.0), r"0\.25001 and 0\.250014 have the same name, p025_001: leave one out"),
    ((0.5, 0.51, 1.0), r"0\.5 and 0\.51 have the same step, 6: leave one out.* tokens=3072 \(12 steps\)")])
def test_exports_that_would_be_one_are_refused(exports: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        anneal.AnnealConfig(sequence_length=32, global_batch_size=8, tokens=12 * 256, exports=exports)
