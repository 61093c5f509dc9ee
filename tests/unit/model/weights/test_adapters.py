"""Adapters: merged they compute the same, PEFT loads them and trains them alike, one base serves several."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from argosy.core.errors import InputError
from argosy.core.step.contract import Progress, StepContext
from argosy.core.tracking.tracker import Tracker
from argosy.corpus.tokens.mixture import Batch
from argosy.model.post.config import PosttrainingConfig
from argosy.model.post.stage import Source, Stage
from argosy.model.train.config import TrainConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.engines.parts import Parts
from argosy.model.train.parallelism import Group
from argosy.model.weights.adapters import LoRAConfig
from argosy.model.weights.adapters.files import served_adapter
from argosy.model.weights.adapters.layers import add_adapters, without_adapters
from argosy.model.weights.adapters.places import freeze
from argosy.model.weights.export import Exporter
from argosy.model.weights.formats.files import convert
from argosy.model.weights.load import load_model, load_shared
from steps import export
from tests.posttraining_fixtures import make_tokenizer
from tests.training_fixtures import run_here

IDS = torch.tensor([[1, 5, 9, 2, 7, 30, 11, 4]])
SIZES = {"vocab_size": 320, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64}
TYPES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2, "tie_word_embeddings": True}, "qwen2": {"num_key_value_heads": 2},
    "gpt_neox": {}}


def _model(kind: str = "llama") -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **TYPES[kind]), dtype="float32")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model.eval()


def _base(store: Path, kind: str = "llama") -> Path:
    path = store / "start-1" / "checkpoints" / "final"
    _model(kind).save_pretrained(path)
    return path


def _trained(base: Path, seed: int = 0, **fields: Any) -> Any:
    """A model whose adapters are as training might leave them: no zeros."""
    model = add_adapters(load_model(base), LoRAConfig(**fields), seed, base).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


def _export(model: Any, store: Path, name: str = "sft-1") -> Path:
    exporter = Exporter(StepContext(store / name, Tracker(None), Progress(None)), "sft", make_tokenizer(), 0, chat=True)
    exporter.write("final", model, 1, 1)
    return store / name / "checkpoints" / "final"


@torch.no_grad()
def _logits(model: Any) -> Tensor:
    found: Tensor = model(input_ids=IDS).logits
    return found


@pytest.mark.parametrize("kind", ["lora", "dora", "rslora"])
@pytest.mark.parametrize("architecture", TYPES)
def test_exports_compute_what_the_trained_model_computes(tmp_path: Path, architecture: str, kind: str) -> None:
    base = _base(tmp_path, architecture)
    model = _trained(base, kind=kind, rank=4, merge=False)
    wanted = _logits(model)
    assert (wanted - _logits(load_model(base))).abs().max() > 1e-2
    alone = _export(model, tmp_path)
    if architecture != "gpt_neox":
        convert(alone, "hf", tmp_path / "converted")
        assert (_logits(AutoModelForCausalLM.from_pretrained(tmp_path / "converted")) - wanted).abs().max() < 1e-5
    model.argosy_adapters = dataclasses.replace(model.argosy_adapters, merge=True)
    merged = _export(model, tmp_path, "sft-2")
    found = {
        "merged": AutoModelForCausalLM.from_pretrained(merged), "ours": load_model(alone), "shared": load_shared(alone),
        "PEFT": PeftModel.from_pretrained(load_model(base), str(alone)),
        "PEFT beside the merged": PeftModel.from_pretrained(load_model(base), str(merged / "adapter"))}  # fmt: skip
    for name, each in found.items():
        assert (_logits(each) - wanted).abs().max() < 1e-5, name
    names = {path.name for path in alone.iterdir()}
    assert {"config.json", "tokenizer.json", "chat_template.jinja", "argosy.json"} <= names
    assert "model.safetensors" not in names


@pytest.mark.parametrize("merge", [True, False])
def test_an_adapter_is_exported_for_the_base_that_it_names(tmp_path: Path, merge: bool) -> None:
    base = _base(tmp_path)
    model = _trained(base, rank=2, merge=merge)
    path = _export(model, tmp_path)
    for name in ("", "org/base"):
        run_here(export, tmp_path / "out", checkpoint=path, formats=["adapter"], base=name)
        out = tmp_path / "out/adapter"
        card = (out / "README.md").read_text()
        assert card.startswith(f"---\nlibrary_name: peft\n{'base_model: org/base' if name else 'pipeline_tag'}")
        assert "sft" in card
        theirs = PeftModel.from_pretrained(load_model(base), str(out)) if name else (
            AutoPeftModelForCausalLM.from_pretrained(str(out)))
        assert theirs.peft_config["default"].base_model_name_or_path == (name or str(base.resolve()))
        assert (_logits(theirs) - _logits(model)).abs().max() < 1e-5
    with pytest.raises(InputError, match="has no adapter: set lora in its stage, or export it as hub"):
        run_here(export, tmp_path / "none", checkpoint=base, formats=["adapter"])


def test_modules_that_are_trained_whole_are_in_the_export(tmp_path: Path) -> None:
    base = _base(tmp_path)
    model = _trained(base, rank=2, modules_to_save=("embed_tokens", "norm"), merge=False)
    head = model.get_output_embeddings().weight
    assert head is model.get_input_embeddings().weight  # tied before, and now
    assert head.requires_grad
    path = _export(model, tmp_path)
    assert (_logits(load_model(path)) - _logits(model)).abs().max() < 1e-5
    assert (_logits(PeftModel.from_pretrained(load_model(base), str(path))) - _logits(model)).abs().max() < 1e-5
    with without_adapters(model):
        assert torch.equal(_logits(model), _logits(load_model(base)))


@pytest.mark.parametrize(("kind", "tables"), [
    ("llama", {"model.embed_tokens", "lm_head"}), ("gpt_neox", {"gpt_neox.embed_in", "lm_head"})])
def test_tables_with_rows_of_tokens_just_added_are_trained_beside_adapters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, tables: set[str]) -> None:
    """As `start` adds them: their rows are the mean of the others, and no adapter of a block could part them."""
    tokenizer, model = make_tokenizer(), _model(kind)
    stage = Stage(PosttrainingConfig(lora=LoRAConfig(rank=2)), StepContext(tmp_path, Tracker(None), Progress(None)),
                  Group(), Source(tmp_path, tokenizer, 0, 64, [], "cpu"))

    def whole(model: Any) -> set[str]:
        return {name.partition(".modules_to_save")[0] for name, each in stage.adapt(model).named_parameters()
                if each.requires_grad and ".lora_" not in name}

    assert whole(_model(kind)) == set()
    with torch.no_grad():
        for table in (model.get_input_embeddings(), model.get_output_embeddings()):
            table.weight[tokenizer.convert_tokens_to_ids(["<|user|>", "<|end|>"])] = table.weight.mean(dim=0)
    assert whole(model) | ({"lm_head"} & tables) == tables  # tied parameters are named once
    assert "the rows of <|user|>, <|end|> in" in capsys.readouterr().out


def test_a_reward_model_has_its_head_in_the_adapter(tmp_path: Path) -> None:
    base = _base(tmp_path)
    kind: dict[str, Any] = {"kind": "AutoModelForSequenceClassification", "num_labels": 1}
    torch.manual_seed(1)
    drawn = load_model(base, new=r"score\.weight", unused=r"lm_head\..*", **kind)
    model = add_adapters(drawn, LoRAConfig(rank=2, merge=False), 0, base, whole=("score",)).eval()
    model.config.pad_token_id = 2
    path = _export(model, tmp_path)
    peft = PeftModel.from_pretrained(load_model(base, new=r"score\.weight", unused=r"lm_head\..*", **kind), str(path))
    peft.config.pad_token_id = 2
    for each in (load_model(path, **kind), peft):
        assert (_logits(each) - _logits(model)).abs().max() < 1e-5


def test_several_adapters_are_over_the_same_tensors_of_one_base(tmp_path: Path) -> None:
    base = _base(tmp_path)
    trained = [_trained(base, seed, rank=2, merge=False) for seed in (1, 2)]
    paths = [_export(model, tmp_path, f"sft-{number}") for number, model in enumerate(trained)]
    first, second = (load_shared(path) for path in paths)
    own = {name: each.data_ptr() for name, each in first.named_parameters()}
    for name, parameter in second.named_parameters():
        assert (own[name] == parameter.data_ptr()) is (".lora_" not in name), name
    for model, each in zip(trained, (first, second), strict=True):
        assert (_logits(each) - _logits(model)).abs().max() < 1e-5


def test_an_adapter_finds_its_base_where_the_store_has_moved_and_no_other(tmp_path: Path) -> None:
    store = tmp_path / "store"
    path = _export(_trained(_base(store), rank=2, merge=False), store)
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    store.rename(moved)
    path = moved / path.relative_to(store)
    assert load_model(path) is not None
    config = moved / "start-1" / "checkpoints" / "final" / "config.json"
    config.write_text(config.read_text() + "\n")
    with pytest.raises(InputError, match="is an adapter of other weights than those now in"):
        load_model(path)
    shutil.rmtree(moved / "start-1")
    with pytest.raises(InputError, match=r"which are not there: .* or export the merged model with lora\.merge=true"):
        load_model(path)


def test_an_adapter_over_an_adapter_goes_on_from_it(tmp_path: Path) -> None:
    first = _export(_trained(_base(tmp_path), 1, rank=2, merge=False), tmp_path)
    model = _trained(first, 2, rank=2, merge=False)
    second = _export(model, tmp_path, "dpo-1")
    assert (_logits(load_model(second)) - _logits(model)).abs().max() < 1e-5
    assert served_adapter(first, "vllm") == (tmp_path / "start-1/checkpoints/final", 8)
    dora = _export(_trained(tmp_path / "start-1/checkpoints/final", kind="dora", merge=False), tmp_path, "sft-2")
    for path, engine in ((second, "vllm"), (first, "sglang"), (dora, "vllm")):
        with pytest.raises(InputError, match="of the engines vLLM adds one itself, of rank 512 at most, no DoRA"):
            served_adapter(path, engine)


def test_targets_are_names_or_patterns_that_exist(tmp_path: Path) -> None:
    def adapted(*targets: str, rank: int = 2) -> list[str]:
        model = add_adapters(_model(), LoRAConfig(rank=rank, targets=targets), 0, tmp_path)
        return [name.partition(".lora_A")[0] for name, _ in model.named_parameters() if ".lora_A" in name]

    assert adapted("q_proj", "layers.1.mlp.*_proj") == [
        "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj",
        *(f"model.layers.1.mlp.{name}_proj" for name in ("gate", "up", "down"))]
    with pytest.raises(InputError, match=r"names 'query', which is no linear layer .* allowed: all, q_proj, k_proj, "):
        adapted("q_proj", "query")
    with pytest.raises(InputError, match=r"names 'lm_head', which is no linear layer"):
        adapted("lm_head")
    assert adapted("q_proj", rank=32)
    with pytest.raises(InputError, match=r"rank=17 .* side of model\.layers\.0\.self_attn\.k_proj, allowed: 1 to 16,"):
        adapted("all", rank=17)
    with pytest.raises(InputError, match=r"names 'head', .* allowed: model.embed_tokens, model.norm"):
        add_adapters(_model(), LoRAConfig(modules_to_save=("head",)), 0, tmp_path)


def test_qlora_is_refused_on_a_cpu() -> None:
    problem = PosttrainingConfig(lora=LoRAConfig(kind="qlora")).cpu_problem()
    assert problem.startswith("lora.kind=qlora computes with weights of 4 bits")
    with pytest.raises(ValueError, match=r"lora\.kind=qlora has weights of 4 bits, which engine=fsdp"):
        PosttrainingConfig(lora=LoRAConfig(kind="qlora"), engine="fsdp")


@pytest.mark.parametrize(("modules", "wrong"), [
    (["rotary_emb"], "frozen names 'rotary_emb', which is no module with weights"),
    (["*"], r"frozen=\['\*'\] leaves nothing to train")])
def test_frozen_names_that_freeze_nothing_or_all_are_refused(modules: list[str], wrong: str) -> None:
    with pytest.raises(InputError, match=wrong):
        freeze(_model(), modules)


@pytest.mark.parametrize(("fields", "wrong"), [
    ({"lora": {}, "frozen": ["norm"]}, "exclude each other, as lora freezes"),
    ({"lora": {}, "processes": 2, "engine": {"name": "local", "groups": 2}}, "the mean of groups' thin matrices"),
    ({"frozen": ["norm"], "keep_optimizer": True}, "for phases that train all weights"),
    ({"frozen": ["norm"], "processes": 2, "tensor_parallel": 2}, r"frozen is for whole layers, .* or frozen=\[\]"),
])
def test_phases_refuse_what_adapters_cannot(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        TrainConfig.model_validate(fields)


CONFIG: dict[str, Any] = {"batch_size": 4, "micro_batch_size": 2, "dtype": "float32", "weight_decay": 0.0,
                          "schedule": "constant", "warmup_ratio": 0.0, "max_grad_norm": 1e9}


def _batch(step: int) -> Batch:
    ids = np.random.default_rng(step).integers(3, 320, (4, 17))
    zeros = np.zeros((4, 16), np.int32)
    return Batch(ids[:, :-1], ids[:, 1:], zeros, zeros)


def _engine(base: Path, kind: str, **fields: Any) -> Any:
    config = LoRAConfig.model_validate({"kind": kind, "rank": 4, "merge": False})
    model = add_adapters(load_model(base), config, 0, base)
    return make_engine(model, 1, PosttrainingConfig(**{**CONFIG, **fields}).phase(3, 4, 16), Group())


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_an_engine_trains_what_peft_trains(tmp_path: Path, kind: str) -> None:
    base = _base(tmp_path)
    engine = _engine(base, kind)
    start = _export(engine.module.model, tmp_path)
    peft = PeftModel.from_pretrained(load_model(base), str(start), is_trainable=True).train()
    trained = [each for each in peft.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, betas=(0.9, 0.999), weight_decay=0.0)
    frozen = {name: each.clone() for name, each in load_model(base).state_dict().items()}
    for step in range(3):
        engine.train_step(_batch(step), 1e-2)
        ids = torch.from_numpy(_batch(step).inputs)
        targets = torch.from_numpy(_batch(step).targets)
        logits = peft(input_ids=ids).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    ours = {name: each for name, each in engine.module.model.named_parameters() if each.requires_grad}
    theirs = {name.removeprefix("base_model.model."): each for name, each in peft.named_parameters()
              if each.requires_grad}
    assert ours.keys() == theirs.keys()
    for name, parameter in ours.items():
        torch.testing.assert_close(parameter, theirs[name], atol=2e-5, rtol=1e-4, msg=name)
    for name, each in engine.weights():
        if ".lora_" not in name:
            assert torch.equal(each, frozen[name.replace(".base_layer.", ".")]), name


def test_a_state_holds_the_adapters_alone_and_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    base = _base(tmp_path)
    whole, resumed = (_engine(base, "lora") for _ in range(2))
    for step in range(3):
        if step == 2:
            whole.save(tmp_path)
        whole.train_step(_batch(step), 1e-2)
    assert all(".lora_" in name for name in Parts(tmp_path))
    resumed.load(tmp_path)
    resumed.train_step(_batch(2), 1e-2)
    found = dict(resumed.weights())
    for name, tensor in whole.weights():
        assert torch.equal(found[name], tensor), name
