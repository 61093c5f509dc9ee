"""`argosy size`: tables, JSON and refusals; and the section of `argosy plan`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from argosy.model.train.sizing.gpus import GPUS
from argosy.model.train.sizing.job import read_job, read_layout
from argosy.model.train.sizing.layouts import propose
from argosy.model.train.sizing.memory import memory
from tests.command_line import Argosy
from workflows.cli.options import trained_model
from workflows.compose import compose

LLAMA = {"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}  # fmt: skip
H100 = GPUS["h100"]
RUN = ("pretrain.sequence_length=4096", "pretrain.global_batch_size=512", "pretrain.tokens=1000000000000",
       "pretrain.optimizer=adamw")


def model_at(path: Path) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(LLAMA))
    (path / "tokenizer.json").write_text("{}")
    return str(path)


def test_size_tells_why_layouts_fit_or_do_not(tmp_path: Path, argosy: Argosy) -> None:
    said = argosy("size", "--model-dir", model_at(tmp_path / "8b"), *RUN).out
    lines = {line.split("  ")[0]: line for line in said.splitlines()}
    assert "too much" in lines["ZeRO-2"]
    assert "optimizer" in lines["ZeRO-2"]
    assert "too much" in lines["ZeRO-3"]  # by its buffers
    assert "fits" in lines["FSDP2"]
    for words in ("pretrain: llama of 8.03 B parameters", "at MFU 0.4 of the bfloat16 peak", "bound by arithmetic",
                  "all-gather: weights", "tokens a day"):
        assert words in said
    assert "pretrain.micro_batch_size=8" in argosy("size", "--gpus", "1").out  # of the demo
    adapted = argosy("size", "anneal.lora.rank=32")
    assert adapted.out.startswith("anneal: llama of")
    assert "as trained, and no adapters" in adapted.err


@pytest.mark.parametrize(("preset", "stages"), [
    ("7b-8gpu", ("pretrain", "anneal")), ("continue", ("pretrain", "anneal")), ("finetune", ("sft",)),
    ("moe", ("pretrain", "sft"))])  # fmt: skip
def test_a_preset_for_models_of_use_is_planned_and_sized(preset: str, stages: tuple[str, ...], tmp_path: Path,
                                                        argosy: Argosy) -> None:
    (tmp_path / "texts.txt").write_text("A text.")
    given = ["--preset", preset, f"data.inputs={tmp_path / 'texts.txt'}"]
    given += [] if preset in ("7b-8gpu", "moe") else [f"start.model={model_at(tmp_path / 'there')}"]
    planned = argosy("plan", *given).out
    assert [name for name in stages if f"\n{name} " not in planned] == []
    if preset == "finetune":
        assert "sft.frozen names 'layer', which" in argosy("plan", *given, "sft.frozen=[layer]", code=2).err
    sized = argosy("size", *given, "--json")
    found = json.loads(sized.out)
    assert found["fitting"]
    assert found["stage"] == "pretrain"
    assert ("the config trains sft, and no pretrain" in sized.err) == (preset == "finetune")
    assert (found["parameters"]["active"] < found["parameters"]["total"]) == (preset == "moe")


def test_the_layout_of_the_preset_for_eight_gpus_is_a_proposal_and_fits() -> None:
    config = compose("7b-8gpu", None, ["data.inputs=x.txt"])
    model = trained_model(config)
    for phase in (config.pretrain, config.anneal):
        assert phase is not None
        job, layout = read_job(phase.model_dump(), model), read_layout(phase.model_dump(), 8)
        assert memory(job, layout).total <= H100.usable
        proposed = propose(replace(job, micro_batch_size=0), H100.usable, 8, 8).fitting
        assert (layout, job.micro_batch_size) in [(each.layout, each.job.micro_batch_size) for each in proposed]


def test_the_layout_that_a_config_sets_is_the_one_that_is_sized(tmp_path: Path, argosy: Argosy) -> None:
    given = ("--model-dir", model_at(tmp_path / "8b"), *RUN, "pretrain.processes=8", "pretrain.engine=fsdp",
             "--gpus", "4")
    found = json.loads(argosy("size", "--json", *given, "--mfu", "0.5", "--price", "3").out)
    assert found["parameters"]["total"] == 8_030_261_248
    [one] = found["fitting"]
    assert (one["name"], found["gpus"]) == ("FSDP2", 8)
    assert sum(one["parts"].values()) == one["bytes"]
    assert (found["mfu"], found["gpu"]["price"]) == (0.5, 3.0)
    assert "FSDP2" in argosy("size", *given).out
    nvme = "pretrain.engine={name: zero, stage: 3, offload: all, nvme_path: /nvme}"
    said = argosy("size", *given[:6], nvme).out  # one process: over the GPUs of --gpus
    assert "8 GPUs" in said
    assert "ZeRO-3, all states on NVMe" in said
    # in memory 4 bytes of sums of 1.004 * 10^9 gradients, of 10^9 weights, of five embeddings' parts and five groups
    assert "and the machine's memory, for each GPU  29.4\nand on NVMe, for each GPU               20.1\n" in said


def test_the_layout_of_a_directory_is_checked_against_its_own_heads(tmp_path: Path, argosy: Argosy) -> None:
    given = ("--model-dir", model_at(tmp_path / "8b"), *RUN)
    eight = "pretrain.processes=8", "pretrain.tensor_parallel=8"  # which the demo's four heads would refuse
    assert "tensors over 8" in argosy("size", *given, *eight).out
    long = argosy("size", *given, "pretrain.sequence_length=131072").out
    assert "fits      pretrain.processes=8 pretrain.tensor_parallel=4" in long
    assert ", but: " not in long
    refused = argosy("size", *given, "pretrain.processes=16", "pretrain.tensor_parallel=16", code=2).err
    assert "tensor_parallel=16 does not divide the model's num_key_value_heads=8" in refused


def test_size_refuses_what_cannot_be(tmp_path: Path, argosy: Argosy) -> None:
    hub = f"start.model=org/name@{'0' * 40}"
    for given, message in {
        ("--gpu", "h1000"): "nearest: h100",
        ("--stage", "preetrain"): "nearest: pretrain",
        ("--gpu", "a100", "pretrain.fp8=true", "pretrain.dtype=bfloat16"): "needs a GPU of compute capability 8.9",
        ("--gpus", "6", "pretrain.engine=fsdp"): "processes=6 does not divide global_batch_size=8",
        ("--mfu", "40"): "is '40', allowed: a number above 0, up to 1",
        ("--serve", "8192", "--mfu", "0.5"): "--mfu: of training, and --serve is of answering",
        ("--model-dir", str(tmp_path)): "config.json cannot be read",
        ("pretrain.frozen=[norm]",): "pretrain.frozen keeps weights as they are, and those of a new model",
        ("--stage", "anneal", "anneal=null"): "which the config leaves out",
        ("--preset", "continue", hub): "is of the hub, and not here",
    }.items():
        assert message in argosy("size", *given, code=2).err


def test_plan_tells_what_each_phase_takes(argosy: Argosy) -> None:
    said = argosy("plan", "--preset", "tiny").out
    phases = said[: said.index("\n\n")].splitlines()
    assert [line.split()[0] for line in phases] == ["TRAINING", "pretrain", "long_context", "anneal"]
    assert "TRAINING" not in argosy("plan", "--preset", "tiny", "pretrain.model.model_type=gemma").out
