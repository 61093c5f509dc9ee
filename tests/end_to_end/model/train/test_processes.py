"""Training steps as processes: killed and started again, two in place of one, on DeepSpeed without a compiler."""

import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file

from argosy.core.store.files import read_record
from argosy.core.store.goodput import attempts_of, goodput
from argosy.core.tracking.spool import OF_THE_RUN, read
from argosy.model.weights.load import load_model
from tests import posttraining_fixtures
from tests.processes import until
from tests.training_fixtures import digests, make_data
from tests.warm import ROOT, Popen

PRETRAIN: dict[str, Any] = {
    "sequence_length": 32, "global_batch_size": 8, "micro_batch_size": 2, "tokens": 24 * 256, "log_every": 4,
    "save_every": 3, "exports": [0.5, 1.0], "dtype": "float32", "weight_decay": 0.1, "max_grad_norm": 0.5,
    "mixture": {"en": 2, "zh": 1}, "heldout_points": 2, "learning_rate": 1e-2,
    "model": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
              "num_key_value_heads": 2},
}
CONTINUED = {name: value for name, value in PRETRAIN.items() if name != "model"}
LEARN: dict[str, Any] = {"heldout_limit": 8, "batch_size": 32, "micro_batch_size": 32, "log_every": 2, "save_every": 4,
                         "max_steps": 12, "dtype": "float32"}
RLHF = {**LEARN, "max_steps": 4, "save_every": 2, "rewards": {"ended": 1}, "max_new_tokens": 8, "minibatches": 2}
STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "pretrain": ("pretrain", PRETRAIN),
    "experts": ("pretrain", {**PRETRAIN, "model": {**PRETRAIN["model"], "model_type": "qwen3_moe",
                                                   "experts": {"count": 4, "per_token": 2, "balance_loss": 0.1}}}),
    "whole_attention": ("pretrain", {**PRETRAIN, "model": {**PRETRAIN["model"], "model_type": "olmo2"}}),
    "long_context": ("long_context", {**CONTINUED, "tokens": 8 * 160, "sequence_length": 20, "save_every": 100,
                                      "exports": [1.0]}),
    "adapted": ("anneal", {**CONTINUED, "sequence_length": 16, "lora": {"rank": 4, "kind": "dora"}}),
    "longer": ("long_context", {**CONTINUED, "tokens": 8 * 160, "sequence_length": 20,
                                "lora": {"rank": 4, "rate_ratio": 2}}),
    "frozen": ("anneal", {**CONTINUED, "sequence_length": 16,
                          "frozen": ["embed_tokens", "layers.0", "*.1.mlp.*_proj"]}),
    "short": ("pretrain", {**PRETRAIN, "tokens": 256, "sequence_length": 16, "exports": [1.0],
                           "model": {**PRETRAIN["model"], "max_position_embeddings": 16}}),
    "sft": ("sft", {**LEARN, "batch_size": 6, "micro_batch_size": 1, "neftune_noise": 5}),
    "taught": ("sft", {**LEARN, "batch_size": 6, "micro_batch_size": 1, "teacher_share": 0.7, "heldout_points": 3,
                       "final_by": "heldout/instruction_loss"}),
    "dpo": ("preference", {**LEARN, "heldout_points": 4, "final_by": "heldout/preference_loss"}),
    "kto": ("preference", {**LEARN, "max_steps": 4, "method": "kto"}),
    "reward_model": ("reward_model", {**LEARN, "max_steps": 4, "lora": {"rank": 4, "kind": "dora", "merge": False}}),
    "ppo": ("rlhf", {**RLHF, "method": "ppo"}),
    "grpo": ("rlhf", {**RLHF, "method": "grpo", "max_steps": 8, "staleness": 1}),
}
FSDP: dict[str, Any] = {"engine": "fsdp"}
BF16 = {"optimizer": "adamw_bf16", "dtype": "bfloat16"}
ZERO_3: dict[str, Any] = {"engine": {"name": "zero", "stage": 3}}
LONG = {"processes": 3, "max_steps": 60}  # of three, the order of a sum counts; and there is time to stop them


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokens, a checkpoint and data for all, and a folder for the runs."""
    root = tmp_path_factory.mktemp("given")
    make_data(root, {"en": 80, "zh": 40}, words=24)
    posttraining_fixtures.make_checkpoint(root / "base")
    posttraining_fixtures.make_data(root / "data", 256)
    return root


class Started(Popen):
    """A step's process, with what it printed."""

    def __init__(self, step: str, config: Any, out: Path, environment: dict[str, str], warm: bool,
                 fault: tuple[Any, ...] = ()) -> None:
        self._log = out.with_name(f"{out.name}.log")
        what, given = f"steps.{step}", (*fault, str(out.with_name(f"{out.name}.fault")))
        begun = ["-c", f"import tests.faults; tests.faults.run{(what, *given)}"] if fault else ["-m", what]
        with self._log.open("ab") as log:
            super().__init__([sys.executable, *begun, "--config", json.dumps(config), "--out", out],
                             cwd=ROOT, env=environment, stdout=log, warm=warm)

    def end(self, code: int = 0) -> str:
        """Wait for the end; returns all that was printed, by earlier attempts too."""
        assert self.wait(300) == code, self._log.read_text()
        return self._log.read_text()


def start(given: Path, name: str, out: Path, warm: bool = True, fault: tuple[Any, ...] = (), **fields: Any) -> Started:
    """Start a step; `fault`: what tests/faults.py plants, up to `once`."""
    step, config = STEPS[name]
    wired = {"checkpoint": given / "base", "data": given / "data"}
    if step == "pretrain":
        wired = {"tokenized": given, "tokenizer": given}
    if "teacher_share" in config:
        wired["teacher"] = given / "base"
    if step in ("long_context", "anneal"):
        wired = {"tokenized": given, "checkpoint": whole(given, "short")}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ARGOSY_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    given_paths = {field: str(path) for field, path in wired.items()}
    return Started(step, {**config, **given_paths, **fields}, out, environment, warm, fault)


def whole(given: Path, name: str, **fields: Any) -> Path:
    """The directory of an undisturbed run; several tests share it."""
    out = given / "_".join([name, *(f"{key}_{value}" for key, value in fields.items())])
    if not (out / "outputs.json").exists():
        start(given, name, out, **fields).end()
    return out


def like_whole(out: Path, given: Path, name: str, **fields: Any) -> Path:
    """Make sure that `out` has the bytes and metrics of an undisturbed run, which is returned."""
    expected = whole(given, name, **fields)
    assert digests(out) == digests(expected)
    assert metrics(out) == metrics(expected)
    return expected


def metrics(out: Path) -> dict[tuple[str, int], float]:
    """The spool's metrics by name and step, each of which is there once; without those that tell how a run went."""
    records = [json.loads(line) for line in (out / "tracking/spool.jsonl").read_text().splitlines()]
    points = [(name, record["step"], value) for record in records if record["kind"] == "metrics"
              for name, value in record["values"].items()]
    assert max(Counter(point[:2] for point in points).values()) == 1
    return {(name, step): value for name, step, value in points if not name.startswith(OF_THE_RUN)}


def outputs(out: Path) -> Any:
    return json.loads((out / "outputs.json").read_text())["outputs"]


def equal(found: dict[tuple[str, int], float], expected: dict[tuple[str, int], float]) -> None:
    for (metric, step), value in found.items():
        wide = metric.endswith(("grad_norm", "update_size", "margin", "margin/before", "margin/after"))
        assert value == pytest.approx(expected[metric, step], rel=1e-3 if wide else 1e-5, abs=1e-5), (metric, step)


def test_killed_and_started_again_is_the_same(given: Path, tmp_path: Path) -> None:
    name, fields = "sft", LONG
    saves = {"save_every": 10**6, "memory_every": 4}
    process = start(given, name, tmp_path, **fields | saves)
    token = tmp_path / "state/memory"
    until(lambda: token.is_file() and any(
        Path("/dev/shm", f"argosy-{token.read_text()}").glob("step-*/complete")), 60)
    process.kill()
    process.end(-signal.SIGKILL)
    assert not (tmp_path / "outputs.json").exists()
    assert not any((tmp_path / "state").glob("step-*"))
    start(given, name, tmp_path, **fields | saves).end()
    assert "continuing after step " in (tmp_path / "log-rank0.txt").read_text()
    assert outputs(tmp_path) == outputs(like_whole(tmp_path, given, name, **fields))


def test_what_a_kill_cost_is_told(given: Path, tmp_path: Path) -> None:
    fields = {"max_steps": 100, "save_every": 15}
    process = start(given, "sft", tmp_path, **fields)
    until(lambda: (far := read_record(tmp_path / "progress.json")).get("done", 0) > far.get("total", 1) / 5, 240)
    process.kill()
    process.end(-signal.SIGKILL)
    [killed] = attempts_of(tmp_path)
    start(given, "sft", tmp_path, **fields).end()
    first, second = attempts_of(tmp_path)
    found, resumed = goodput([first, second]), second["runs"][0]["from"]
    assert first["runs"] == killed["runs"]
    assert (first["cause"], second["exit"]) == ("node", 0)
    assert 0 < resumed < second["runs"][0]["done"]
    run = first["runs"][0]
    again = (run["at"] - run["began"] - run["stalled"]) * max(0, run["done"] - resumed) / run["done"]
    assert found.lost.get("repeated", 0.0) == pytest.approx(again)
    assert found.lost["startup"] == pytest.approx(sum(each["runs"][0]["began"] - each["started"]
                                                      for each in (first, second)))
    assert found.productive + sum(found.lost.values()) == pytest.approx(second["ended"] - first["started"])
    assert 0 < found.share < 1
    logged = {name: points[-1] for name, points in read(tmp_path).items()}
    assert logged["perf/goodput"] == (2, pytest.approx(found.share))
    assert logged["time/lost_waiting_s"][1] == pytest.approx(second["started"] - first["ended"])


@pytest.mark.parametrize(("name", "fields"), [
    ("pretrain", {"tokens": 100 * 256}), ("sft", LONG),
    ("adapted", {"tokens": 100 * 128, "processes": 2, "engine": "fsdp"}), ("grpo", {"max_steps": 24}),
    ("pretrain", {"tokens": 100 * 256, "processes": 2, "engine": "fsdp", **BF16, "rounding": "stochastic"})])
def test_a_step_that_is_to_stop_saves_and_no_step_is_done_twice(given: Path, tmp_path: Path, name: str,
                                                                fields: dict[str, Any]) -> None:
    often = {**fields, "log_every": 1, "save_every": 10**6}
    process = start(given, name, tmp_path, **often)
    until(lambda: read_record(tmp_path / "progress.json").get("done", 0) > 0, 240)
    process.send_signal(signal.SIGTERM)
    process.end(143)
    [state] = (tmp_path / "state").glob("step-*")
    printed = start(given, name, tmp_path, **often).end()
    log = (tmp_path / "log-rank0.txt").read_text() if "processes" in fields else printed  # of both attempts
    steps = [int(step) for step in re.findall(r"^step (\d+)/\d+  (?!held-out)", log, re.MULTILINE)]
    assert steps == [*range(1, len(steps) + 1)]
    assert f"continuing after step {int(state.name.removeprefix('step-'))}\n" in log
    assert digests(tmp_path) == digests(whole(given, name, **fields))


@pytest.mark.parametrize(("name", "fields"), [
    ("pretrain", {"tensor_parallel": 2, "engine": "fsdp", "processes": 4}), ("whole_attention", {"tensor_parallel": 2}),
    ("experts", {"engine": {"name": "fsdp", "reshard": False}, "sequence_parallel": 2}),
    ("pretrain", {"tensor_parallel": 2, "sequence_parallel": 2, "sequence_attention": "gather", "processes": 4}),
    ("pretrain", {"engine": "fsdp", "pipeline_parallel": 2, "processes": 4, "pipeline_schedule": "zero_bubble"}),
    ("experts", {"expert_parallel": 2, "engine": "fsdp", "processes": 4}),
    ("experts", {"expert_parallel": 2, "pipeline_parallel": 2, "pipeline_schedule": "zero_bubble", "processes": 4}),
    ("long_context", ZERO_3), ("adapted", FSDP), ("longer", FSDP), ("frozen", FSDP), ("frozen", ZERO_3),
    ("sft", {"processes": 3}), ("taught", FSDP), ("taught", ZERO_3), ("dpo", ZERO_3), ("kto", {}),
    ("reward_model", FSDP), ("ppo", FSDP), ("grpo", ZERO_3)])
def test_several_processes_equal_one(given: Path, name: str, fields: dict[str, Any]) -> None:
    """All sum the same gradients in another order: a relative 1e-5 in losses, 1e-3 in the norm of gradients."""
    runs = whole(given, name), whole(given, name, **{"processes": 2, **fields})
    one, two = map(metrics, runs)
    assert one.keys() == two.keys()
    equal(two, one)
    first, second = ([each["step"] for each in outputs(run)["exports"]] for run in runs)
    assert first == second


@pytest.mark.parametrize(("stage", "processes"), [(1, 2), (2, 2), (3, 2), (3, 1)])
def test_deepspeeds_bfloat16_keeps_float32_weights(given: Path, stage: int, processes: int) -> None:
    engine = {"name": "zero", "stage": stage, "param_dtype": "bfloat16"}
    run = whole(given, "pretrain", processes=processes, dtype="bfloat16", engine=engine)
    found, plain = metrics(run), metrics(whole(given, "pretrain"))
    losses = [key for key in plain if key[0].startswith("heldout/nats")]
    assert [found[key] for key in losses] == pytest.approx([plain[key] for key in losses], rel=0.005)
    norms = [key for key in plain if "grad_norm" in key[0]]
    assert [found[key] for key in norms] == pytest.approx([plain[key] for key in norms], rel=0.02)
    weights = load_model(run / "checkpoints/p100").parameters()
    assert all((each != each.bfloat16().float()).any() for each in weights)


@pytest.mark.parametrize(("name", "fields"), [
    ("pretrain", {"engine": "ddp"}), ("pretrain", {**FSDP, "rounding": "stochastic"}),
    ("pretrain", {"tensor_parallel": 2}), ("pretrain", {**FSDP, "pipeline_parallel": 2, "processes": 4}),
    ("experts", {"expert_parallel": 2, **FSDP}), ("sft", {"processes": 1}), ("taught", FSDP)])
def test_bfloat16_weights_learn_what_float32_does_over_processes_too(given: Path, name: str, fields: dict[str, Any]
                                                                     ) -> None:
    """Within what the rounding of gradients and of products does; what is exported has been trained."""
    run = whole(given, name, **{"processes": 2, **BF16, **fields})
    found, plain = metrics(run), metrics(whole(given, name))
    losses = [key for key in plain if re.match("train/loss|heldout/(nats|.*_loss$)", key[0])]
    assert [found[key] for key in losses] == pytest.approx([plain[key] for key in losses], rel=0.005)
    weights = load_file(next(run.glob("checkpoints/*/model.safetensors")))
    assert {each.dtype for each in weights.values()} == {torch.bfloat16}


@pytest.mark.parametrize("fields", [{}, {"processes": 2, **FSDP}, {"processes": 2, **ZERO_3}])
def test_a_phase_trains_and_exports_what_is_not_frozen(given: Path, fields: dict[str, Any]) -> None:
    """Its exports are the base and the adapter by PEFT, merged; frozen weights are those of the base to the byte. Of
    another context than the base's the adapter alone is not exported."""
    base, ids = load_model(whole(given, "short") / "checkpoints/p100"), torch.arange(32).view(2, 16) + 5
    for each in (whole(given, "adapted", **fields) / "checkpoints").iterdir():
        merged = load_model(each)
        plain = type(merged)(merged.config)
        plain.load_state_dict(base.state_dict())
        with torch.no_grad():
            before, after = plain(ids).logits, merged(ids).logits
            theirs = PeftModel.from_pretrained(plain, str(each / "adapter"))(ids).logits
        assert (after - before).abs().max() > 1e-3
        assert (after - theirs).abs().max() < 1e-5
    assert not (whole(given, "longer", **fields) / "checkpoints/p100/adapter").exists()
    own = load_model(whole(given, "frozen", **fields) / "checkpoints/p100").state_dict()
    changed = {name for name, tensor in base.state_dict().items() if not torch.equal(tensor, own[name])}
    stay = ("embed_tokens", "lm_head", "layers.0.", "layers.1.mlp.")  # the head is tied
    assert changed == {name for name in own if not any(part in name for part in stay)}


def test_a_phase_goes_on_with_other_processes_and_engines(given: Path, tmp_path: Path) -> None:
    """Each state has whole tensors by name: who goes on has the losses of the run that was never stopped."""
    chain: list[tuple[int, dict[str, Any]]] = [
        (13, {"processes": 1}), (15, {"processes": 4, "engine": "fsdp", "pipeline_parallel": 2}),
        (17, {"processes": 4, "tensor_parallel": 2, "pipeline_parallel": 2}),
        (19, {"processes": 2, "engine": "zero"}),
        (21, {"processes": 2, "engine": {"name": "zero", "stage": 3, "offload": "all"}})]
    resume = ""
    for stop, fields in chain:
        out = tmp_path / f"pretrain-{stop:012x}"
        process = start(given, "pretrain", out, **fields, resume=resume, save_every=stop)
        state = out / f"state/step-{stop:08d}"
        until(lambda state=state, process=process: (state / "complete").exists() or process.poll() is not None, 240)
        process.kill()
        resume = str(state.relative_to(tmp_path))
        process.end(-signal.SIGKILL)
    last = tmp_path / "pretrain-ffffffffffff"
    output = start(given, "pretrain", last, resume=resume).end()
    assert f"continuing after step {int(resume[-8:])}" in output
    plain = metrics(whole(given, "pretrain"))
    for key, value in metrics(last).items():
        assert value == pytest.approx(plain[key], rel=1e-3 if "grad_norm" in key[0] else 1e-5), key
    process = start(given, "pretrain", tmp_path / "other", seed=1, resume=resume)
    assert f"pretrain-{chain[-1][0]:012x}" in process.end(2)


@pytest.mark.parametrize(("name", "first", "then"), [
    ("sft", {"processes": 2, "engine": "fsdp"}, {}),
    ("grpo", {"processes": 2, "engine": {"name": "zero", "stage": 3}}, {}),  # with a rollout that waits for its update
])
def test_posttraining_goes_on_with_other_processes_and_engines(given: Path, tmp_path: Path, name: str,
                                                               first: dict[str, Any], then: dict[str, Any]) -> None:
    killed, last = (tmp_path / f"{name}-{digit * 12}" for digit in "ab")
    process = start(given, name, killed, **first)
    until(lambda: any(killed.glob("state/step-*/complete")) or process.poll() is not None, 240)
    process.kill()
    process.end(-signal.SIGKILL)
    state = max(killed.glob("state/step-*/complete"))
    start(given, name, last, **then, resume=str(state.parent.relative_to(tmp_path))).end()
    found, plain = metrics(last), metrics(whole(given, name))
    begun = int(state.parent.name.removeprefix("step-"))
    assert begun < STEPS[name][1]["max_steps"]
    assert found.keys() == {key for key in plain if key[1] > begun or key[0].startswith("heldout/")}
    equal(found, plain)


def test_deepspeed_needs_no_compiler(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    start(given, "pretrain", tmp_path, warm=False, engine="zero").end()
    plain = metrics(whole(given, "pretrain"))
    ours = metrics(tmp_path)
    assert ours.keys() == plain.keys()
    assert list(ours.values()) == pytest.approx([plain[key] for key in ours], rel=2e-3, abs=1e-3)
