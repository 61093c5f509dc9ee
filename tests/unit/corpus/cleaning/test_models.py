"""Filters that ask models: values as transformers gives them, dirt at both ends, and models that are not there."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from argosy.core.errors import InputError
from argosy.core.store.files import write_json
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.kept import KeptCorpus
from argosy.corpus.cleaning.scored import open_shards
from argosy.corpus.cleaning.scoring import KEPT, decide
from argosy.corpus.data.schemas import Document
from argosy.model.infer.documents import Models
from steps.clean import STEP as CLEAN
from steps.clean import CleanConfig
from steps.measure import STEP as MEASURE
from steps.measure import MeasureConfig
from tests.cleaning_fixtures import CHINESE, PROSE, cleaned, document, make, make_data
from tests.evaluation_fixtures import make_tokenizer, save_checkpoint
from tests.graphs import digests
from tests.step_fixtures import run_step
from workflows.compose import compose
from workflows.graph import Graph
from workflows.lifecycle import lifecycle
from workflows.plan import check_inputs

NEWLINES = "\n" * 300
TEXTS = [PROSE, CHINESE, f"{PROSE} " * 8, "qx"]


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("language")
    save_checkpoint(path, positions=64)
    return path


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, tokenizer = tmp_path_factory.mktemp("classifier"), make_tokenizer()
    torch.manual_seed(0)
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    config = transformers.BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_labels=1, **shape)
    tokenizer.pad_token = tokenizer.eos_token
    tokenizer.save_pretrained(path)
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    return path


def plain_nats(path: Path, text: str, dtype: str = "auto") -> tuple[float, int]:
    """Nats and tokens by one forward pass of transformers for each window."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(path, dtype=dtype), AutoTokenizer.from_pretrained(path)
    ids, nats, size = tokenizer(text, add_special_tokens=False)["input_ids"], 0.0, 64
    for start in range(0, len(ids), size):
        end = min(start + size, len(ids))
        before = [tokenizer.bos_token_id] if start == 0 else ids[end - size - 1 : start]
        inputs = torch.tensor([[*before, *ids[start:end]]])
        with torch.no_grad():
            logprobs = model(inputs[:, :-1]).logits[0].log_softmax(-1)
        nats -= float(logprobs.gather(1, inputs[0, 1:, None])[len(before) - 1 :].sum())
    return nats, len(ids)


def test_losses_are_those_of_transformers_in_windows(language: Path) -> None:
    models = Models({"0": language})
    asked = make("perplexity", Resources(torch=models), model="0", min_bytes=10)
    _, scores = asked(Batch([document(text) for text in TEXTS]))
    for at, text in enumerate(TEXTS[:3]):
        nats, tokens = plain_nats(language, text)
        assert scores["nats_per_token"][at] == pytest.approx(nats / tokens, rel=1e-5)
        assert scores["bits_per_byte"][at] == pytest.approx(nats / math.log(2) / len(text.encode()), rel=1e-5)
    assert np.isnan(scores["bits_per_byte"][3])  # too short


def test_scores_are_those_of_transformers_whatever_stands_beside(classifier: Path) -> None:
    asked = make("edu_quality", Resources(torch=Models({"0": classifier}, batch_tokens=100)), model="0")
    _, scores = asked(Batch([*map(document, TEXTS), document("x", channel="code")]))
    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    for at, text in enumerate(TEXTS):
        with torch.no_grad():
            logits = model(**tokenizer(text, truncation=True, max_length=64, return_tensors="pt")).logits
        assert scores["score"][at] == pytest.approx(float(logits[0, 0]), abs=1e-5)
    assert np.isnan(scores["score"][4])
    given = {"edu_quality.score": np.array([2.49, 2.5, 3.0, np.nan])}  # 3 and more after rounding, as FineWeb-Edu
    assert decide({"edu_quality": asked}, given, np.array(["web"] * 4))[0].tolist() == [0, KEPT, KEPT, KEPT]


def test_a_limit_drops_what_the_measure_step_has_found_beyond_it(language: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    texts = {"prose": PROSE, "signs": "".join(map(chr, rng.integers(33, 127, 300))), "newlines": f"On.{NEWLINES}"}
    data = make_data(tmp_path / "data", [Document(name, text, "web") for name, text in texts.items()])
    cleaned(tmp_path, data, 2, filters=[])
    values = {name: plain_nats(language, text)[0] / math.log(2) / len(text.encode()) for name, text in texts.items()}
    low, middle, high = sorted(values, key=lambda name: values[name])
    filters: Any = [{"name": "perplexity", "model": "0", "least": (values[low] + values[middle]) / 2,
                     "most": (values[middle] + values[high]) / 2}]
    shards = [tmp_path / "score-0", tmp_path / "score-1"]
    measured = [tmp_path / "measure-0", tmp_path / "measure-1"]
    for scored, out in zip(shards, measured, strict=True):
        config = MeasureConfig(scored=str(scored), filters=filters, models=(str(language),))
        write_json(out / "outputs.json", {"outputs": run_step(MEASURE, config, out)})
    config = CleanConfig(data=str(data), scored=tuple(map(str, shards)), measured=tuple(map(str, measured)),
                         filters=filters)
    write_json(tmp_path / "clean-2/outputs.json", {"outputs": run_step(CLEAN, config, tmp_path / "clean-2")})
    corpus = KeptCorpus.of(str(tmp_path / "clean-2"), [str(each) for each in shards])
    assert {found.id: why for found, _, why in corpus.dropped()} == {low: "too predictable", high: "too improbable"}
    with pytest.raises(InputError, match="measured names 1 directories, and scored 2"):
        open_shards(shards, measured[:1])


def test_models_have_a_step_of_their_own_whose_files_count_and_thresholds_do_not(language: Path) -> None:
    def found(**fields: Any) -> dict[str, str]:
        filters = ["unicode", {"name": "perplexity", "model": str(language), **fields}]
        return digests(f"clean.filters={filters}", "clean.shards=2", "stages=[clean]")

    first, other, deeper = found(), found(most=3), found(look_at=100)
    assert list(first) == ["data", "score/00000", "score/00001", "measure/00000", "measure/00001", "clean"]
    assert {name for name in first if first[name] != other[name]} == {"clean"}
    assert {name for name in first if first[name] != deeper[name]} == {"measure/00000", "measure/00001", "clean"}


def test_a_language_model_is_asked_in_a_precision_that_the_cpu_has_which_the_digest_counts(
    language: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    shutil.copytree(language, model)
    AutoModelForCausalLM.from_pretrained(language, dtype="bfloat16").save_pretrained(model)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def planned(flags: str, *given: str) -> tuple[MeasureConfig, str]:
        monkeypatch.setattr("argosy.core.step.machine._cpu_flags", lambda: frozenset(flags.split()))
        filters = [{"name": "perplexity", "model": str(model)}]
        nodes = lifecycle(compose("tiny", overrides=[f"clean.filters={filters}", "stages=[clean]", *given]))
        node = next(node for node in nodes if node.name == "measure")
        assert isinstance(node.config, MeasureConfig)
        return node.config, Graph(nodes).digest(node)

    (fast, one), (slow, two) = planned("amx_bf16"), planned("avx2")
    assert (fast.dtype, slow.dtype) == ("weights", "float32")
    assert one != two == planned("amx_bf16", "clean.model_dtype=float32")[1]
    assert "dtype" not in fast.identity()  # as before there was a choice
    nats = [Models({"0": model}, dtype=config.dtype).losses("0", [PROSE])[0][0] for config in (fast, slow)]
    assert nats[1] == pytest.approx(plain_nats(model, PROSE, "float32")[0], rel=1e-5) != nats[0]


@pytest.mark.parametrize(("filter", "words"), [
    ({"name": "perplexity", "model": "nowhere"}, "no such directory here"),
    ({"name": "perplexity", "model": "CLASSIFIER"}, "it predicts no tokens"),
    ({"name": "edu_quality", "model": "LANGUAGE"}, "a language model, allowed"),
    ({"name": "edu_quality", "model": "nowhere"}, "no such directory here"),
    ({"name": "edu_quality", "model": "org/name@main"}, "needs a commit"),
    ({"name": "quality_classifier", "model": "nowhere"}, "there is no classifier in nowhere")])
def test_a_model_that_is_not_there_is_refused_before_anything_runs(filter: Any, words: str, language: Path,
                                                                   classifier: Path) -> None:
    places = {"LANGUAGE": str(language), "CLASSIFIER": str(classifier)}
    given = {**filter, "model": places.get(filter["model"], filter["model"])}
    config = compose("tiny", overrides=[f"clean.filters={[given]}"])
    with pytest.raises(InputError, match=words):
        check_inputs(lifecycle(config), {"score", "measure"})
