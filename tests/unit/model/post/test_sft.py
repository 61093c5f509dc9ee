"""Losses of SFT: packed against alone, against the trainer of TRL, with noise and with weights."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import Tensor

from argosy.core.errors import InputError
from argosy.corpus.tokens.shards import TokensWriter
from argosy.corpus.tokens.tokenizer import SAMPLE, tokenizer_digest
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.infer.decode import Decoding, TransformersDecoder
from argosy.model.post import sft
from argosy.model.post.config import SFTConfig
from argosy.model.post.stage import Stage
from argosy.model.train.config import TrainConfig
from argosy.model.train.config.model import ModelConfig
from argosy.model.train.engines import make_engine
from argosy.model.train.layers.attention import PACKED, Choice, choose
from argosy.model.train.parallelism import Group
from argosy.model.train.phase import build_model
from argosy.model.weights.checkpoint import ABOUT
from tests.posttraining_fixtures import make_data, make_tokenizer
from tests.training_fixtures import TINY_MODEL

ATTENTIONS: list[Choice] = ["eager", "sdpa", "varlen"]
SHAPE = TINY_MODEL | {"num_hidden_layers": 2, "max_position_embeddings": 96}


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    torch.manual_seed(1)
    return build_model(ModelConfig.model_validate(SHAPE | {"initializer_range": 0.3}), len(tokenizer), {})


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    data = make_data(tmp_path_factory.mktemp("data"), 32)
    return [json.loads(line) for line in (data / "instructions.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def samples(tokenizer: Any, records: list[dict[str, Any]]) -> list[sft.Sample]:
    parse = sft.sample_parser(tokenizer, 96)
    return [parse(record | {"channel": "ab"[number % 2]}) for number, record in enumerate(records)]


def engine_of(model: Any, rows: sft.Rows, batch: int, noise: float = 0.0, **fields: Any) -> Any:
    """An engine around a copy of the model, for steps of `batch` rows."""
    phase = TrainConfig(**{"sequence_length": rows.length, "global_batch_size": batch, "dtype": "float32",
                           "max_grad_norm": 1e9, "tokens": 10**6, **fields})
    return make_engine(copy.deepcopy(model), len(rows.names), phase, Group(),
                       lambda model: sft.InstructionLoss(model, len(rows.names), phase, noise))


def gradients(engine: Any, rows: sft.Rows, positions: range) -> tuple[Tensor, list[Tensor]]:
    """The mean loss by channel of rows, and the gradients that the optimizer gets."""
    seen: list[Tensor] = []
    engine._update = lambda _: seen.extend(each.grad.clone() for each in engine.module.parameters()) or torch.zeros(())
    sums, counts, _ = engine.train_step(rows.batch(positions), 0.0)
    return sums / counts, seen


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_packed_conversations_have_the_losses_and_gradients_of_each_alone(model: Any, samples: list[sft.Sample],
                                                                          attention: Choice) -> None:
    packed, alone = sft.Rows(samples, 80, 0), sft.Rows(samples, 80, 0, packing=False)
    assert 2 * len(packed) < len(alone)
    found = [gradients(engine_of(model, rows, len(rows), attention=attention), rows, range(len(rows)))
             for rows in (packed, alone)]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_the_loss_is_that_of_trls_trainer(model: Any, tokenizer: Any, samples: list[sft.Sample],
                                          records: list[dict[str, Any]], tmp_path: Path) -> None:
    """TRL renders, masks and pads by itself."""
    import trl

    arguments = trl.SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", max_length=96,
                              per_device_train_batch_size=len(records), assistant_only_loss=True, disable_tqdm=True)
    data = Dataset.from_list([{"messages": record["messages"]} for record in records])
    trainer = trl.SFTTrainer(copy.deepcopy(model), arguments, train_dataset=data, processing_class=tokenizer)
    batch = next(iter(trainer.get_train_dataloader()))
    count = (batch["labels"][:, 1:] != IGNORED).sum()
    theirs = trainer.compute_loss(trainer.model, batch, num_items_in_batch=count)
    theirs.backward()

    rows = sft.Rows(samples, 96, 0)
    engine = engine_of(model, rows, len(rows))
    rows_batch = rows.batch(range(len(rows)))
    sums, counts, norm = engine.train_step(rows_batch, 0.0)
    assert int(counts.sum()) == int(count)
    assert float(sums.sum() / counts.sum()) == pytest.approx(float(theirs.detach()), abs=1e-5)
    expected = torch.nn.utils.get_total_norm([each.grad for each in trainer.model.parameters()])
    assert float(norm) == pytest.approx(float(expected), rel=1e-4)


def test_prompts_have_their_weight_in_the_loss(model: Any, samples: list[sft.Sample]) -> None:
    rows = sft.Rows(samples, 80, 0, prompts=True)
    engine = engine_of(model, rows, len(rows))
    engine.weigh(rows.weights([1.0, 3.0], 0.25))
    _, seen = gradients(engine, rows, range(len(rows)))
    plain = copy.deepcopy(model)
    total, weights = torch.zeros(()), 0.0
    for sample in samples:
        ids = torch.from_numpy(sample.ids).long()
        nats = torch.nn.functional.cross_entropy(plain(ids[None]).logits[0, :-1], ids[1:], reduction="none")
        shares = torch.from_numpy(np.where(sample.answers, 1.0, 0.25))[1:] * (3.0 if sample.channel == "b" else 1.0)
        total, weights = total + (nats * shares).sum(), weights + float(shares.sum())
    (total / weights).backward()
    torch.testing.assert_close(seen, [each.grad for each in plain.parameters()], rtol=1e-4, atol=1e-5)


def test_noise_on_the_embeddings_is_that_of_neftune_and_of_its_row_alone(model: Any, samples: list[sft.Sample]) -> None:
    rows = sft.Rows(samples, 80, 0)
    module = engine_of(model, rows, 2, noise=5.0).module
    given: list[Tensor] = []
    module.model.get_decoder().register_forward_pre_hook(lambda _, __, named: given.append(named["inputs_embeds"]),
                                                         with_kwargs=True)

    def noise(positions: range) -> Tensor:
        batch = rows.batch(positions)
        inputs, targets, documents = (torch.from_numpy(each) for each in (batch.inputs, batch.targets, batch.documents))
        module(inputs, targets, None, documents)
        return (given[-1] - module.model.get_input_embeddings()(inputs)).detach()

    both = noise(range(4, 6))
    torch.testing.assert_close(both, torch.cat([noise(range(4, 5)), noise(range(5, 6))]))
    assert (noise(range(6, 8)) != both).any()
    documents = torch.from_numpy(rows.batch(range(4, 5)).documents)[0]
    for number in documents.unique():
        of_one = both[0][documents == number]
        bound = 5.0 / (len(of_one) * of_one.shape[1]) ** 0.5
        assert 0.9 * bound < float(of_one.abs().max()) <= bound + 1e-6
    module.eval()
    with pytest.raises(KeyError):  # the decoder gets tokens
        noise(range(4, 5))


def test_a_model_trained_with_packed_attention_answers_as_before(model: Any, samples: list[sft.Sample]) -> None:
    prompts = [sample.ids[: 4 + number].tolist() for number, sample in enumerate(samples[:6])]
    decoding = Decoding([1], 2, 12)
    trained = copy.deepcopy(model).eval()
    expected = TransformersDecoder(trained)(prompts, [[0]] * 6, decoding).tokens
    trained.set_attn_implementation(choose("varlen", torch.device("cpu"), 80))
    assert TransformersDecoder(trained)(prompts, [[0]] * 6, decoding).tokens == expected
    assert trained.config._attn_implementation == PACKED


def test_an_answer_that_is_not_to_be_learnt_is_not(tokenizer: Any) -> None:
    first, last = ({"role": "assistant", "content": text} for text in ("red", "blue"))
    asked = {"role": "user", "content": "say"}
    sample = sft.sample_parser(tokenizer, 96)({"messages": [asked, first | {"train": False}, asked, last]})
    assert tokenizer.decode(sample.ids[sample.answers]) == "blue<|end|>"


def test_held_out_losses_are_of_the_answers_alone_and_by_channel(model: Any, samples: list[sft.Sample]) -> None:
    own, drawn = model.config._attn_implementation, torch.get_rng_state()
    found = sft.instruction_loss(model.train(), samples[:7])
    assert (model.training, model.config._attn_implementation) == (False, own)
    assert torch.equal(torch.get_rng_state(), drawn)  # training after it has the same bytes
    sums: dict[str, list[float]] = {}
    for sample in samples[:7]:
        ids = torch.from_numpy(sample.ids).long()
        nats = torch.nn.functional.cross_entropy(model(ids[None]).logits[0, :-1], ids[1:], reduction="none")
        for name in ("", f"/{sample.channel}"):
            sums.setdefault(name, []).extend(nats[torch.from_numpy(sample.answers)[1:]].tolist())
    assert found == {f"heldout/instruction_loss{name}": pytest.approx(sum(each) / len(each), rel=1e-5)
                     for name, each in sums.items()}


def test_a_record_with_text_is_learnt_whole(tokenizer: Any) -> None:
    sample = sft.sample_parser(tokenizer, 8)({"text": "say red twice " * 9, "channel": "books"})
    assert sample.channel == "books"
    assert tokenizer.decode(sample.ids) == f"{tokenizer.bos_token}{'say red twice ' * 9}{tokenizer.eos_token}"
    assert sample.answers.all()


@pytest.mark.parametrize(("fields", "reason"), [
    ({"packing": False, "sequence_parallel": 2, "processes": 2}, "packing=false makes batches of several lengths"),
    ({"processes": 2, "pipeline_parallel": 2}, "pipeline_parallel=2 needs a multiple of 2 micro-batches a step"),
    ({"processes": 3}, "processes=3 does not divide batch_size=8"),
])
def test_what_cannot_be_shared_out_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SFTConfig(**fields)


def test_texts_of_pretraining_are_their_share_of_the_tokens(tokenizer: Any, tmp_path: Path) -> None:
    ids = tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]
    with TokensWriter(tmp_path, len(tokenizer), tokenizer_digest(tokenizer.get_vocab(), ids)) as writer:
        for channel, first in (("en", 0), ("code", 20), ("instructions", 40)):
            writer.open(channel)
            for number in range(20):
                for split in ("train", "heldout"):
                    writer.add(channel, split, [1, *[2 + (first + number) % 9] * 30, 1], 30)
    config = SFTConfig(tokenized=str(tmp_path), pretraining_share=0.2, seed=3)
    found = sft.pretraining_samples(config, tokenizer, 2000)
    assert sum(len(sample.ids) for sample in found) == 500
    assert {sample.channel for sample in found} == {"pretraining/en", "pretraining/code"}
    assert all(sample.answers.all() for sample in found)
    again = sft.pretraining_samples(config, tokenizer, 1000)
    assert [a.ids.tolist() for a in again[:-1]] == [a.ids.tolist() for a in found[: len(again) - 1]]
    assert sum(len(each.ids) for each in sft.pretraining_samples(config, tokenizer, 10**6)) == 40 * 32  # all there is
    other = make_tokenizer()
    other.add_tokens(["<|more|>"])
    with pytest.raises(InputError, match="was tokenized with a vocabulary of"):
        sft.pretraining_samples(config, other, 10)


def test_a_best_point_that_training_goes_back_over_is_none_any_more(tmp_path: Path) -> None:
    def write(name: str, model: Any, step: int, tokens: int) -> None:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
        about = {"step": step, "heldout": {"heldout/instruction_loss": model}}
        (tmp_path / "checkpoints" / name / ABOUT).write_text(json.dumps(about))

    stage: Any = Stage.__new__(Stage)
    config = SFTConfig(final_by="heldout/instruction_loss", heldout_points=4)
    vars(stage).update(config=config, context=SimpleNamespace(rank=0, out=tmp_path),
                       group=SimpleNamespace(barrier=lambda: None))
    with mock.patch.object(Stage, "exporter"), mock.patch(f"{Stage.__module__}.replace", return_value=SimpleNamespace(
            write=write)):
        for step, loss in ((100, 2.0), (300, 1.0), (300, 1.5), (400, 1.6)):  # after 300 it went back to 200
            stage.measure(lambda model: {"heldout/instruction_loss": model}, loss, step, 1)
    assert stage._best()["heldout"] == {"heldout/instruction_loss": 1.5}
