"""The command line's promises: exit codes, clear errors, nothing done by commands that only look."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import Argosy
from workflows.cli import commands, main
from workflows.cli.command import memory


@pytest.mark.parametrize("name", [command.name for command in commands()])
def test_every_command_has_help(name: str, argosy: Argosy) -> None:
    assert "usage: argosy " + name in argosy(name, "--help").out


@pytest.mark.parametrize(("argv", "words"), [
    ([], "required: COMMAND"),
    (["pln"], "there is no command 'pln'; nearest: plan"),
    (["plan", "--bogus"], "plan does not take --bogus"),
    (["plan", "--preset", "tiy"], "preset is 'tiy', allowed: 7b-8gpu, continue, demo, finetune"),
    (["plan", "clean.filters=[{name: gopher_quality, min_word: 3}]"],
     "clean.filters is wrong: filter gopher_quality: min_word is not a field; nearest: min_words"),
    (["plan", "--config", ""], "argument --config: is '', allowed: a YAML file, such as argosy.yaml"),
    (["evaluate", "."], "holds no model (config.json)"),
    (["plan", "--config", "absent.yaml"], "cannot read absent.yaml: No such file"),
    (["plan", "data.inputs=absent.txt"], "absent.txt does not exist"),
    (["plan", "--from", "sfd"], "there is no stage 'sfd'; nearest: sft"),
    (["plan", "--preset", "tiny", "--from", "sft"], "needs what is not done yet"),
    (["run", "--cores", "0"], "is '0', allowed: a whole number from 1 on"),
    (["run", "--preset", "tiny", "--store", "file/runs"], "file"),
    (["plan", "--store", "caf\udce9"], "caf\\udce9', is not UTF-8: name another --store"),
    (["evaluate", "model", "--suite", "nope"], "argosy evaluate: --suite is 'nope'; did you mean"),
    (["judge", "model", "model", "--judge", "model", "--prompts", "https://x.org/a.jsonl"],
     "argosy judge: --prompts: https:/x.org/a.jsonl does not exist (looked in "),
    (["judge", "model", "model", "--prompts", "file", "--judge", "http://127.0.0.1:9/v1"], "--judge-model"),
    (["judge", "model", "sfft", "--prompts", "file", "--judge", "m"], "'sfft' is neither a directory nor a checkpoint"),
    (["status"], "nothing has run in runs yet"),
    (["init", "file"], "DIR is file, a file; allowed: a directory"),
    (["report"], "there is no report in runs yet")])
def test_what_is_wrong_ends_with_2_and_is_named(argv: list[str], words: str, argosy: Argosy) -> None:
    Path("file").write_text("in the way")
    Path("model").mkdir()
    Path("model/config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    captured = argosy(*argv, code=2)
    assert words in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(("override", "words"), [
    ("data.inputs=folder", "data.inputs folder is a directory without a file to read; allowed: text (.txt"),
    ("data.inputs=https://x.org/a.txt", "data.inputs is wrong: 'https://x.org/a.txt' is a URL, allowed: a path"),
    ("data.inputs=[]", "data.inputs is [], allowed: files or folders of yours; leave it out"),
    ("data.prompts=a.docx", "data.prompts: a.docx is not a file that can be read; allowed: .json"),
    ("pretrain.final_by=heldout/bpb/nope", "pretrain.final_by is 'heldout/bpb/nope', allowed: heldout/bpb, or "
                                           "heldout/bpb/CHANNEL of the channels code, en,"),
    ("pretrain.final_by=bpb", "is 'bpb', allowed: heldout/METRIC[/CHANNEL], such as heldout/bpb or heldout/bpb/wiki"),
    ("pretrain.engine=local", "engine local needs the option groups, such as engine={name: local, groups: 2}"),
    *((f"pretrain.save_every={value}", f"is {shown}, allowed: a whole number above 0, or 'auto'")
      for value, shown in (("0", "0"), ("x", "'x'"))),
    ("pretrain.mixture={nope: 1}", "pretrain.mixture.nope: no such channel with documents; there are: code, en,"),
    ("data.preferences=pairs.jsonl", "dpo.batch_size=8 is more than the 3 examples that there are"),
    ("dpo.micro_batch_size=16", "micro_batch_size=16 is more than batch_size=8, of which it is a part"),
    ("pretrain.sequence_length=512", "pretrain.sequence_length=512 is more than the 128 tokens of the model's"),
    ("sft.lora={kind: qlora}", "sft.lora.kind=qlora computes with weights of 4 bits"),
    ("anneal.lora={rank: 500}", "anneal.lora.rank=500 is more than the smaller side of model.layers.0.self_attn."),
    ("evaluate.suites={core: all}", "suite core: none of its 13 benchmarks is there (no file mmlu/")])
def test_what_a_step_would_refuse_the_plan_refuses(override: str, words: str, argosy: Argosy,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARGOSY_BENCHMARKS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    Path("folder").mkdir()
    Path("a.docx").write_text("x")
    Path("pairs.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n' * 3)
    for command in ("plan", "run"):
        assert words in argosy(command, "--preset", "tiny", override, code=2).err
    assert not Path("runs").exists()


def test_spot_on_this_machine_is_told(argosy: Argosy) -> None:
    said = argosy("plan", "--preset", "tiny", "resources.pretrain.spot=true").err
    assert "note: resources.STAGE.spot of pretrain: here it only saves states more often" in said


HOSTILE = ("", "null", "true", "-1", ".nan", "1e400", "12:30:45", "2024-99-99", "[]", "{}", "{1: 2}", "[[[]]]", "*x",
           "&x [*x]", "'", "a\x07b", '"\\ud800"', "caf\udce9", "!!python/object:os.system x", "1" * 400, "/dev/zero",
           "/dev", "text with spaces")


@pytest.mark.parametrize("field", ["name", "pretrain.exports", "evaluate.suites", "data.inputs", "clean.filters"])
def test_a_hostile_value_is_taken_or_named_and_never_a_traceback(field: str,
                                                                 capsys: pytest.CaptureFixture[str]) -> None:
    for value in HOSTILE:
        code = main(["plan", "--preset", "tiny", f"{field}={value}"])
        err = capsys.readouterr().err
        assert code == 0 or (code == 2 and field.rpartition(".")[2] in err), (value, err)
        assert "ARGOSY_DEBUG" not in err


def test_memory_takes_decimals_and_units_and_nothing_else() -> None:
    for text, gigabytes in (("6", 6), (".5", 0.5), ("6 gb", 6), ("512MB", 0.512), ("2G", 2), ("1GiB", 1.073741824)):
        assert memory(text) == pytest.approx(gigabytes)
    for wrong in ("", "GB", "-1", "6XB", "1.2.3", "nan", "6GB more"):
        with pytest.raises(argparse.ArgumentTypeError, match="allowed: a size above 0"):
            memory(wrong)


def test_a_reader_that_has_left_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    command = "import sys; from workflows.cli import main; sys.exit(main(['--help']))"
    done = subprocess.run([sys.executable, "-c", command], stdout=write, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])})  # fmt: skip
    os.close(write)
    assert (done.stderr, done.returncode in (0, 1)) == ("", True)  # argparse swallows what its own write raises


def test_a_bug_is_one_line_and_1_and_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, argosy: Argosy) -> None:
    def broken(*_: object) -> None:
        raise ValueError("unexpected")

    monkeypatch.setattr("workflows.cli.status.last_config", broken)
    assert argosy("status", code=1).err == "argosy status: ValueError: unexpected (ARGOSY_DEBUG=1 shows where)\n"
    monkeypatch.setenv("ARGOSY_DEBUG", "1")
    with pytest.raises(ValueError, match="unexpected"):
        main(["status"])


def test_plan_and_dry_run_write_nothing(argosy: Argosy) -> None:
    planned = argosy("plan", "--preset", "tiny", "--to", "sft", "seed=3").out
    assert "left out" in planned.splitlines()[-2]
    assert argosy("run", "--preset", "tiny", "--dry-run", "--to", "sft", "seed=3").out == planned
    assert os.listdir() == []


def test_init_writes_a_file_that_plan_uses_and_never_over_one(argosy: Argosy) -> None:
    argosy("init", "project/new")
    assert "is there already" in argosy("init", "project/new", code=2).err
    os.chdir("project/new")
    Path("argosy.yaml").write_text("preset: tiny\ndpo: null\n")
    captured = argosy("plan", "--to", "rlhf", "twin=false")  # overrides may come after options
    assert captured.err == "config: argosy.yaml\n"
    assert "\ndpo" not in captured.out
    assert "\ntwin" not in captured.out
    assert "\ndpo" in argosy("plan", "--preset", "tiny").out
    Path("argosy.yaml").write_text("")
    assert "argosy.yaml is empty: what runs is the preset demo with the built-in demo data" in argosy("plan").err
