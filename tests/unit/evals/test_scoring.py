"""Our scorer against lm-eval's own HFLM on the same model."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, processors
from transformers import PreTrainedTokenizerFast

from argosy.corpus.tokens.reader import read_channels
from argosy.evidence.results.heldout.losses import Heldout, run_heldout
from argosy.evidence.results.suite import Suite
from argosy.model.infer.encoder import Encoder
from argosy.model.infer.model import LanguageModel
from argosy.model.infer.rows import JOINED, NOT_SCORED, TOO_LONG
from argosy.model.infer.scorer import Scorer
from argosy.model.train.heldout import HeldoutLoss
from argosy.model.train.layers.loss import LossModule
from evals.chain import parse_chain
from evals.lm_eval.run import ArgosyLM
from evals.tasks.variant_task import VariantTask
from probes.kinds import run_probes
from tests.evaluation_fixtures import make_items, make_model, save_checkpoint, sharpened
from tests.lm_eval_fixtures import hflm
from tests.training_fixtures import write_tokenized

VARIANTS = ("plain", "cloze", "reading")


def tasks(count: int) -> dict[str, VariantTask]:
    chains = [parse_chain(name) for name in VARIANTS]
    return {chain.name: VariantTask.of(chain.name, chain.all_questions(make_items(count), 0)[0]) for chain in chains}


def test_scores_and_accuracies_in_a_chat_template_equal_hflm(model: LanguageModel) -> None:
    from lm_eval.evaluator import evaluate

    made = [tasks(30), tasks(30)]
    results = [
        evaluate(lm, {"tasks": dict(mine)}, bootstrap_iters=0, apply_chat_template=True, log_samples=False)
        for lm, mine in zip((ArgosyLM(model), hflm(model)), made, strict=True)]
    for name in VARIANTS:
        ours, theirs = (mine[name].answers for mine in made)
        assert list(ours) == list(theirs)
        for question, found in ours.items():
            assert found.question == theirs[question].question
            assert found.scores == pytest.approx(theirs[question].scores, abs=1e-4)
        first, second = (result["results"][name] for result in results)
        assert first["acc,none"] == second["acc,none"]


PAIRS = [("The capital of", " France"), ("The capital of ", "France"), ("", "from the start of a document"),
         ("问题：水是什么？\n答案：", "氢和氧"), ("river", "stone"), ("river", "s"), ("<|bos|>river", " stone"),
         ("x " * 300, "too long a context is cut at its left")]  # fmt: skip


def test_spaces_merges_and_long_contexts_are_lm_evals(model: LanguageModel) -> None:
    from lm_eval.api.instance import Instance

    requests = [Instance("loglikelihood", {}, pair, n) for n, pair in enumerate(PAIRS)]
    expected = hflm(model).loglikelihood(requests, disable_tqdm=True)
    found = ArgosyLM(model).loglikelihood(requests)
    assert [score for score, _ in found] == pytest.approx([score for score, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]


def joining(closes: bool = False) -> LanguageModel:
    """A model whose tokenizer cuts a text into characters, but for "=x", "1x" and "?y"; `closes`: an EOS ends each."""
    tokens = ["<s>", "</s>", *"kab12=?xy!", "=x", "1x", "?y"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, [("=", "x"), ("1", "x"), ("?", "y")]))
    made.decoder = decoders.Fuse()
    if closes:
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    return LanguageModel(make_model(len(tokens)), Encoder(fast), 1024)


def test_a_token_that_joins_prompt_and_answer_takes_nothing_from_either() -> None:
    """What options differ by is what the whole texts, as the model reads them, differ by."""
    for model in (joining(), joining(closes=True)):
        for context, options in (("k1=", ("x!", "y", "x")), ("ka", ("x", "y!")), ("1", ("x!", "y"))):
            scores = model.loglikelihood([(context, option) for option in options], [0] * len(options))
            begin = ((), (model.prefix_token,))[context == "1"]  # of which no token stands before all options
            whole = [begin + tokens for tokens in model.encode([context + option for option in options])]
            wholes = model.scorer.score([(tokens[:1], tokens[1:]) for tokens in whole])
            expected = [whole.logprob - wholes[0].logprob for whole in wholes]
            assert [score.logprob - scores[0].logprob for score in scores] == pytest.approx(expected, abs=1e-4)
    joined, apart = model.encode_pairs([("k1=", "x!"), ("k1=", "y")], ["a", "b"])  # what else is asked does not matter
    assert (len(joined[0]), len(apart[0])) == (2, 3)


def test_options_with_prompts_of_their_own_are_left_out_where_a_token_joins_what_they_differ_by() -> None:
    model = joining()
    pairs = [{"good": "k1", "bad": "k2", "after": "x"}, {"good": "ka", "bad": "kb", "after": "x"}]
    suite = Suite.model_validate({"name": "s", "probes": [{"name": "p", "kind": "contrastive", "pairs": pairs}]})
    found = run_probes(suite, model, "", chat=False, seed=0, limit=None)
    assert found.left_out == {"probe/s/p": {JOINED: 1}}
    assert [row["texts"] for row in found.rows] == [["ka", "kb"]]


def test_rolling_loglikelihood_of_long_texts_is_lm_evals(model: LanguageModel) -> None:
    """Of the text alone: left to itself, HFLM scores a tokenizer's BOS too, as the token after its BOS prefix."""
    from lm_eval.api.instance import Instance

    texts = ["short", "river stone " * 400, "长江 二十四 定理。" * 90]
    assert len(model.encode([texts[1]])[0]) > 2 * model.max_length
    requests = [Instance("loglikelihood_rolling", {}, (text,), n) for n, text in enumerate(texts)]
    expected = hflm(model, add_bos_token=False).loglikelihood_rolling(requests, disable_tqdm=True)
    assert ArgosyLM(model).loglikelihood_rolling(requests) == pytest.approx(expected, rel=1e-5)


SHAPE = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "head_dim": 16,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256}  # fmt: skip
WINDOWS = [
    ("MistralConfig", {"sliding_window": 3}), ("MistralConfig", {"sliding_window": 128}),
    ("Qwen2Config", {"sliding_window": 16, "use_sliding_window": True, "max_window_layers": 1}),
    ("Gemma3TextConfig", {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}),
    ("GPTNeoConfig", {"window_size": 16, "attention_types": [[["global", "local"], 1]], "num_layers": 2})]


def windowed(kind: str, fields: dict[str, Any]) -> Any:
    """A small random model whose attention is not flat."""
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**{**SHAPE, **fields})
    return sharpened(transformers.AutoModelForCausalLM.from_config(config))


@pytest.mark.parametrize(("kind", "fields"), WINDOWS)
def test_layers_that_attend_to_a_window_score_as_the_model_does_alone(kind: str, fields: dict[str, Any]) -> None:
    """A window is not in the masks of rows, so sequences are not joined where one is shorter than the model."""
    model = windowed(kind, fields)
    scorer = Scorer(model, 256)
    assert not scorer.branching
    start = tuple(5 * i % 61 + 1 for i in range(200))
    requests = [(start[:n], (40 + k, *range(k, k + 6))) for n in (9, 40, 200) for k in range(4)]
    for (context, continuation), score in zip(requests, scorer.score(requests), strict=True):
        with torch.inference_mode():
            logprobs = model(torch.tensor([[*context, *continuation]])).logits[0].double().log_softmax(-1)
        places = range(len(context) - 1, len(context) + len(continuation) - 1)
        alone = math.fsum(float(logprobs[at, token]) for at, token in zip(places, continuation, strict=True))
        assert score.logprob == pytest.approx(alone, abs=1e-3)


def test_a_window_as_long_as_the_model_or_of_no_layer_does_not_hinder_sharing() -> None:
    assert Scorer(windowed("MistralConfig", {"sliding_window": 256}), 256).branching
    off = {"sliding_window": 16, "layer_types": ["full_attention"] * 2}
    assert Scorer(windowed("Qwen3Config", off), 256).branching


def test_what_cannot_be_scored_does_not_stop_the_others(model: LanguageModel) -> None:
    long = tuple([5] * (model.max_length + 1))
    scores = model.scorer.score([((1,), ()), ((), (1,)), ((1, 2), long), ((1, 2), (3,))])
    assert scores[:3] == [NOT_SCORED, replace(NOT_SCORED, why=JOINED), replace(NOT_SCORED, why=TOO_LONG)]
    assert math.isfinite(scores[3].logprob)


def test_every_text_begins_as_a_document_of_training_does(tmp_path: Path) -> None:
    """With one BOS: alone, as a context, as a chat, and where there is no context at all."""
    model = LanguageModel.load(save_checkpoint(tmp_path / "model"))
    bos = model.tokenizer.bos_token_id
    pairs = [("river", " stone"), (model.chat("river"), "stone"), ("", "stone"), ("<|bos|>river", " stone")]
    for context, continuation in model.encode_pairs(pairs):
        assert (context[0], [*context, *continuation].count(bos)) == (bos, 1)
    for context, _ in model.windows(model.encode(["river stone"], special=False)[0]):
        assert context == (bos,)


def test_heldout_loss_of_conversations_leaves_their_marks_out_as_training_does(model: LanguageModel,
                                                                               tmp_path: Path) -> None:

    mark = len(model.tokenizer) - 1
    texts = [model.encode([text], special=False)[0] for text in ("river stone", "长江 定理。")]
    ids = [model.prefix_token, mark, *texts[0], mark, mark, *texts[1], mark, 2]
    write_tokenized(tmp_path, {"heldout": {"chat": [(ids, 30)]}}, len(model.tokenizer))
    section = Heldout(tokens_per_channel=100)
    every = run_heldout(section, model, str(tmp_path), suite="s").rows
    (tmp_path / "special.json").write_text(json.dumps({"special": [mark]}))
    found = run_heldout(section, model, str(tmp_path), suite="s")
    assert [row["tokens"] for row in every + found.rows] == [len(ids) - 2, len(texts[0]) + len(texts[1])]
    logprobs = model.model(torch.tensor([[model.prefix_token, *ids[1:]]])).logits[0].detach().log_softmax(-1)
    nats = sum(-float(logprobs[at - 1, token]) for at, token in enumerate(ids[1:-1], 1) if token != mark)
    assert found.metrics["heldout/bpb/chat"] == pytest.approx(nats / math.log(2) / 30, rel=1e-4)
    loss = HeldoutLoss(read_channels(tmp_path, "heldout"), 256, 100)
    training = loss.by_channel(LossModule(model.model, 2, torch.float32, 0.0, 256))["chat"]
    assert training.bpb == pytest.approx(found.metrics["heldout/bpb/chat"], rel=1e-4)
