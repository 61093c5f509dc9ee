"""Models of each type that are gone on with: their losses are transformers' own, they train, and their runs resume."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from argosy.core.errors import InputError
from argosy.core.store.files import read_json
from argosy.core.store.step_files import read_outputs
from argosy.corpus.data.jsonl import read_jsonl
from argosy.corpus.data.schemas import Document
from argosy.corpus.tokens.mixture import Mixture
from argosy.corpus.tokens.reader import read_channels
from argosy.corpus.tokens.windows import IGNORED
from argosy.model.train.phase import open_tokenizer
from argosy.model.weights.load import load_model
from steps import long_context, pretrain, sft, start, tokenize
from tests.cleaning_fixtures import cleaned
from tests.cleaning_fixtures import make_data as make_corpus
from tests.end_to_end.crash import run as argosy_run
from tests.plain_forward import nats
from tests.posttraining_fixtures import make_data
from tests.started_models import make_model, make_qwen_tokenizer
from tests.tokenizer_kinds import TEXTS, make_sentencepiece
from tests.training_fixtures import Recorder, run_here

DOCUMENTS = {"web": [f"{text} {n}" for n in range(8) for text in TEXTS],
             "odd": [f"Cafe\u0301 {n} ﷽" for n in range(30)]}
TRAIN: dict[str, Any] = {"sequence_length": 32, "global_batch_size": 4, "micro_batch_size": 2, "tokens": 128 * 4,
                         "heldout_points": 1, "log_every": 1, "save_every": 1, "dtype": "float32",
                         "learning_rate": 1e-3}


def prepare(root: Path, kind: str) -> Path:
    """Make a model, start from it, and tokenize documents and conversations with its tokenizer."""
    sentencepiece = kind in ("llama", "mistral", "mixtral")
    tokenizer = make_sentencepiece(TEXTS * 3, 480) if sentencepiece else make_qwen_tokenizer()
    make_model(root / "model", kind, tokenizer, rows=512, tied=kind in ("qwen3", "mixtral"))
    run_here(start, root / "start", model=root / "model")
    documents = [Document(f"{channel}-{number}", text, channel) for channel, texts in DOCUMENTS.items()
                 for number, text in enumerate(texts)]
    cleaned(root, make_corpus(root, documents), filters=[])
    make_data(root / "data", 32)
    run_here(tokenize, root / "tokens", documents=root / "clean", scored=[str(root / "score-0")],
             tokenizer=root / "start", data=root / "data")
    return root


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a kind of model, which is prepared once."""
    return cache(lambda kind: prepare(tmp_path_factory.mktemp(kind), kind))


@pytest.fixture(scope="module")
def qwen(prepared: Callable[[str], Path]) -> Path:
    return prepared("qwen3")


@pytest.mark.parametrize("kind", ["qwen3", "qwen2", "llama", "mistral", "gpt_neox", "mixtral", "qwen3_moe"])
def test_losses_before_the_first_step_are_transformers_own(tmp_path: Path, prepared: Callable[[str], Path],
                                                           kind: str) -> None:
    root, log = prepared(kind), Recorder()
    outputs = run_here(pretrain, tmp_path / "out", log, tokenized=root / "tokens", checkpoint=root / "start", **TRAIN)
    model = load_model(root / "start/checkpoints/final").eval()
    texts = {r["id"]: r["text"] for channel in DOCUMENTS for r in read_jsonl(root / f"documents/{channel}.jsonl")}
    for name, channel in read_channels(root / "tokens", "heldout").items():
        total, count = 0.0, 0
        for begin, end in zip(channel.offsets[:-1], channel.offsets[1:], strict=True):
            for at in range(begin, end - 2, TRAIN["sequence_length"]):  # pieces, each from the token before it
                ids = channel.tokens[at : min(at + TRAIN["sequence_length"] + 1, end - 1)].tolist()
                kept = [token not in channel.special for token in ids[1:]]
                total += float(nats(model, ids)[kept].sum())
                count += sum(kept)
        assert outputs.heldout_before[name].nats == pytest.approx(total / count, abs=1e-5)
        if name in DOCUMENTS:
            sizes = [len(text.encode()) for text in texts.values()]
            assert set(channel.document_bytes.tolist()) <= set(sizes)
            bits = total / math.log(2) / int(channel.document_bytes.sum())
            assert outputs.heldout_before[name].bpb == pytest.approx(bits, abs=1e-5)
    assert log.logged["train/loss", 1] == pytest.approx(first_loss(root / "tokens", model), abs=1e-5)
    assert outputs.heldout["web"].nats != outputs.heldout_before["web"].nats
    assert outputs.exports[0].tokens == TRAIN["tokens"]


def first_loss(tokens: Path, model: Any) -> float:
    """Mean loss of the first batch: each document of a sample by itself."""
    from argosy.corpus.data.split import derive_seed

    mixture = Mixture(read_channels(tokens, "train"), {}, 32, derive_seed("sampling", 0, "pretrain"))
    batch = mixture.batch(range(TRAIN["global_batch_size"]))
    losses = []
    for inputs, targets, documents in zip(batch.inputs, batch.targets, batch.documents, strict=True):
        for document in np.unique(documents[targets != IGNORED]):
            place = np.flatnonzero(documents == document)
            losses.append(nats(model, [*inputs[place].tolist(), int(targets[place[-1]])]))
            assert inputs[place[1:]].tolist() == targets[place[:-1]].tolist()
    return float(torch.cat(losses).mean())


def test_a_longer_context_is_never_a_shorter_one(qwen: Path, tmp_path: Path) -> None:
    given = {"tokenized": qwen / "tokens", "checkpoint": qwen / "start", **TRAIN}
    for fields, words in (({}, "sequence_length=32 is less than the model's own 4096"),
                          ({"sequence_length": 8192, "rope_theta": 100.0}, "rope_theta=100 is less than the model's")):
        with pytest.raises(InputError, match=words):
            run_here(long_context, tmp_path, Recorder(), **given | fields)


def test_sft_learns_the_answers_in_the_models_own_template(qwen: Path, tmp_path: Path) -> None:
    outputs = run_here(sft, tmp_path, Recorder(), checkpoint=qwen / "start", data=qwen / "data", max_steps=12,
                       batch_size=1, micro_batch_size=1, learning_rate=3e-3, dtype="float32", heldout_limit=8,
                       max_new_tokens=4)
    metrics = outputs.metrics
    assert metrics["heldout/instruction_loss/after"] < 0.7 * metrics["heldout/instruction_loss/before"]
    final = tmp_path / outputs.final
    assert read_json(final / "generation_config.json")["eos_token_id"]
    assert (final / "chat_template.jinja").read_bytes() == (qwen / "model/chat_template.jinja").read_bytes()


def test_a_mixture_of_experts_answers_after_its_fine_tuning(tmp_path: Path, prepared: Callable[[str], Path]) -> None:
    root = prepared("qwen3_moe")
    outputs = run_here(sft, tmp_path / "out", Recorder(), checkpoint=root / "start", data=root / "data", max_steps=1,
                       batch_size=1, micro_batch_size=1, dtype="float32", heldout_limit=2, max_new_tokens=2)
    config = read_json(tmp_path / "out" / outputs.final / "config.json")
    assert (config["output_router_logits"], config["router_aux_loss_coef"]) == (False, 0.001)


SMALL = ("data.demo.english_bytes=30000", "data.demo.code_bytes=20000", "data.demo.knowledge_repeats=1",
         "data.demo.quiz_repeats=1", "data.demo.answer_repeats=1", "data.demo.instructions=60",
         "data.demo.preferences=8", "data.demo.prompts=8")  # fmt: skip


def test_the_presets_run_by_one_command(qwen: Path, tmp_path: Path) -> None:
    given = (f"start.model={qwen / 'model'}", *SMALL)
    short = {"sequence_length": 64, "global_batch_size": 4, "tokens": 512, "warmup_tokens": 0, "heldout_points": 1,
             "heldout_tokens": 500, "dtype": "float32"}
    argosy_run(tmp_path, "--preset", "continue", *given, *(f"pretrain.{name}={value}" for name, value in short.items()),
               "stages=clean,tokenize,pretrain,evaluate", "evaluate.suites={heldout: final}", "evaluate.limit=2")
    argosy_run(tmp_path, "--preset", "finetune", *given, "sft.max_steps=2", "sft.batch_size=2", "sft.heldout_limit=4",
               "sft.max_new_tokens=4", "stages=sft,compare")
    names = sorted(path.name.rpartition("-")[0] for path in tmp_path.iterdir() if (path / "outputs.json").is_file())
    assert names == ["clean", "compare", "data", "evaluate-pretrain-final-heldout", "evaluate-start-final-heldout",
                     "pretrain", "score-00000", "sft", "start", "tokenize"]
    [scored] = tmp_path.glob("evaluate-start-final-heldout-*")
    [tokens] = tmp_path.glob("tokenize-*")
    metrics = read_outputs(scored)["metrics"]
    model = load_model(next(tmp_path.glob("start-*")) / "checkpoints/final").eval()
    channel = read_channels(tokens, "heldout")["knowledge_en"]
    ids = [channel.tokens[a : b - 1].tolist() for a, b in zip(channel.offsets[:-1], channel.offsets[1:], strict=True)]
    bits = sum(float(nats(model, each).sum()) for each in ids) / math.log(2) / int(channel.document_bytes.sum())
    assert metrics["heldout/bpb/knowledge_en"] == pytest.approx(bits, rel=1e-4)


def test_exports_have_the_precision_of_the_model_that_they_begin_with(qwen: Path, tmp_path: Path,
                                                                      capsys: pytest.CaptureFixture[str]) -> None:
    """Rounded from float32 once: what is trained, measured (as the log says) and resumed from is float32."""
    from safetensors.torch import load_file

    made = load_model(qwen / "start/checkpoints/final", dtype="bfloat16")
    made.save_pretrained(tmp_path / "model")
    open_tokenizer(qwen / "start/checkpoints/final").save_pretrained(tmp_path / "model")
    run_here(start, tmp_path / "start", model=tmp_path / "model")
    given = {"tokenized": qwen / "tokens", "checkpoint": tmp_path / "start", **TRAIN}
    own = run_here(pretrain, tmp_path / "own", Recorder(), **given).final
    says = f"{own}: weights rounded to bfloat16 (export_dtype); the step's held-out results are those of its float32"
    assert says in capsys.readouterr().out
    run_here(pretrain, tmp_path / "whole", Recorder(), **given, export_dtype="float32")
    assert "rounded" not in capsys.readouterr().out
    run_here(sft, tmp_path / "sft", Recorder(), checkpoint=tmp_path / "start", data=qwen / "data", max_steps=1,
             batch_size=1, micro_batch_size=1, dtype="float32", heldout_limit=2, max_new_tokens=2)
    began, tuned = (load_file(tmp_path / name / "checkpoints/final/model.safetensors") for name in ("start", "sft"))
    rounded, whole = (load_file(tmp_path / name / own / "model.safetensors") for name in ("own", "whole"))
    state = made.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in began.items())
    assert {tensor.dtype for tensor in [*rounded.values(), *tuned.values()]} == {torch.bfloat16}
    assert all(torch.equal(rounded[name], tensor.bfloat16()) and tensor.dtype == torch.float32
               for name, tensor in whole.items())
    assert any(not torch.equal(rounded[name].float(), tensor) for name, tensor in whole.items())
    assert load_model(tmp_path / "own" / own, dtype="auto").dtype == torch.bfloat16
