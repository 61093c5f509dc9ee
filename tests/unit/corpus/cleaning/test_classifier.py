"""The classifier of quality against scikit-learn, from features to calibrated figures; its step and its filter."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, f1_score, precision_score, recall_score, roc_auc_score

from argosy.core.errors import InputError
from argosy.core.statistics.intervals import platt
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.classifier.model import Classifier, Features
from argosy.corpus.cleaning.classifier.model_paths import find_models, number_models
from argosy.corpus.cleaning.classifier.training import classification
from argosy.corpus.cleaning.filter import Resources
from argosy.corpus.cleaning.kernels.filters.classifier import fit
from argosy.corpus.data.schemas import Document
from steps.clean import CleanConfig
from steps.train_classifier import STEP, TrainClassifierConfig
from tests.cleaning_fixtures import document, make, make_data
from tests.step_fixtures import run_step, write_lines

FEATURES = Features(word_grams=2, character_grams=3, bits=12, look_at=200)
GOOD = ("the theorem", "a proof", "this lemma", "its proof", "我们证明", "定理说明")
BAD = ("click here", "buy now", "cheap price", "free offer", "点击购买", "优惠价格")
NAMES = ("harbour", "river", "mountain", "garden", "market", "library", "village", "window")


def texts(words: tuple[str, ...], count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(f"{rng.choice(words)} {rng.choice(NAMES)} {rng.integers(100)}" for _ in range(6))
            for _ in range(count)]


def dense(rows: Any) -> Any:
    return csr_matrix((rows.values, rows.columns, rows.begins), shape=(len(rows.begins) - 1, 2**FEATURES.bits))


def test_features_are_logarithms_of_counts_of_grams_of_words_and_characters() -> None:
    [row] = dense(FEATURES.rows([document("Ab ab 7\n 8")])).toarray()
    grams = Counter(["ab", "ab", "7", "8", "ab ab", "ab 7", "7 8", *("ab ab 0\n0"[at : at + 3] for at in range(7))])
    values = sorted(1 + math.log(count) for count in grams.values())
    assert np.allclose(sorted(row[row > 0]), np.array(values) / np.linalg.norm(values))
    long = "word " * 100
    assert (dense(FEATURES.rows([document(long)])) != dense(FEATURES.rows([document(long[:200])]))).nnz == 0


def test_weights_are_those_of_scikit_learn() -> None:
    documents = [document(text) for text in (*texts(GOOD, 60, 1), *texts(BAD, 40, 2))]
    rows = FEATURES.rows(documents)
    matrix = np.hstack([dense(rows).toarray(), np.ones((100, 1))])
    labels = np.repeat([1.0, -1.0], [60, 40])
    ours = fit(*rows, labels, 2**FEATURES.bits, 3.0, 1e-10)
    theirs = LogisticRegression(C=3.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(matrix, labels).coef_[0]
    assert np.allclose(ours, theirs, atol=1e-5)
    made = Classifier(FEATURES, ours[:-1].astype(np.float32), float(ours[-1]))
    assert np.allclose(made.values(Batch(documents)), matrix @ ours, atol=1e-5)


def test_calibration_and_measures_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    values, labels = rng.normal(size=200), (rng.random(200) < 0.3).astype(float)
    ahead, behind = labels.sum(), (1 - labels).sum()
    share = np.where(labels > 0, (ahead + 1) / (ahead + 2), 1 / (behind + 2))
    both = LogisticRegression(C=1e12, tol=1e-12).fit(
        np.tile(values, 2)[:, None], np.repeat([1, 0], 200), sample_weight=np.concatenate([share, 1 - share]))
    assert np.allclose(platt(values, labels), (both.coef_[0, 0], both.intercept_[0]), atol=1e-4)
    found = rng.random(200)
    measured = classification(found, labels, 0.5)
    for name, of in {"precision": precision_score, "recall": recall_score, "f1": f1_score}.items():
        assert measured[name] == pytest.approx(of(labels, found >= 0.5))
    assert measured["auc"] == pytest.approx(roc_auc_score(labels, found))
    assert measured["brier"] == pytest.approx(brier_score_loss(labels, found))
    bins = measured["reliability"]
    assert sum(each["documents"] for each in bins) == 200
    assert sum(each["documents"] * each["positives"] for each in bins) == pytest.approx(labels.sum())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("classifier")
    good = [{"text": text} for text in texts(GOOD, 120, 4)]
    write_lines(root / "good.jsonl", good)
    corpus = [Document(f"d{at}", text, "web") for at, text in enumerate([*texts(BAD, 110, 5), good[0]["text"]])]
    data = make_data(root / "data", corpus)
    config = TrainClassifierConfig(data=str(data), positives=(str(root / "good.jsonl"),), bits=12)
    return root, [run_step(STEP, config, root / name) for name in ("one", "two")]


def test_sets_are_told_apart_on_documents_that_were_not_seen_and_bytes_are_the_same(trained: Any) -> None:
    root, outputs = trained
    assert outputs[0] == outputs[1]
    assert sum(outputs[0]["documents"].values()) == 230  # a copy of a positive is no negative
    assert outputs[0]["measures"]["auc"] > 0.99
    one = write_lines(root / "one.jsonl", [{"text": "a proof"}])
    few = TrainClassifierConfig(data=str(root / "data"), positives=(str(one),))
    with pytest.raises(InputError, match="allowed: at least 10 of each side"):
        run_step(STEP, few, root / "few")
    for path in (root / "one").rglob("*"):
        if path.is_file() and "tracking" not in path.parts:
            assert path.read_bytes() == (root / "two" / path.relative_to(root / "one")).read_bytes(), path


def test_the_filter_asks_it_and_drops_below_the_threshold(trained: Any) -> None:
    root, _ = trained
    numbered, paths = number_models(CleanConfig.model_validate(
        {"filters": [{"name": "quality_classifier", "model": str(root / "one")}]}).filters)
    assert paths == (str(root / "one"),)
    asked = make("quality_classifier", Resources(models=find_models(numbered, paths)), model="0", least_probability=0.5)
    _, scores = asked(Batch([document(text) for text in (texts(GOOD, 1, 6) + texts(BAD, 1, 7))]))
    assert scores["probability"][0] > 0.9
    assert scores["probability"][1] < 0.2
    with pytest.raises(InputError, match=r"set classifier\.positives"):
        make("quality_classifier")(Batch([document("a")]))
    with pytest.raises(InputError, match="there is no classifier in"):
        Classifier.load(root)
