"""The mixture: exact proportions, every token once an epoch, and samples that depend on their position alone."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from argosy.core.errors import InputError
from argosy.corpus.data.sources import weights_of
from argosy.corpus.tokens import windows
from argosy.corpus.tokens.mixture import PERIOD, Mixture
from argosy.corpus.tokens.reader import read_channels
from argosy.corpus.tokens.windows import IGNORED, ChannelWindows, cut_documents, pack
from tests.training_fixtures import write_tokenized

BOS, EOS = 0, 1


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three channels whose tokens are all different within a channel, but for bos and eos."""
    directory = tmp_path_factory.mktemp("tokenized")
    rng = np.random.default_rng(0)
    channels = {}
    for name, count in (("en", 300), ("zh", 150), ("code", 40)):
        token = iter(range(2, 65000))
        lengths = rng.integers(1, 60 if name != "code" else 200, count)
        channels[name] = [([BOS, *(next(token) for _ in range(n)), EOS], int(n)) for n in lengths]
    write_tokenized(directory, {"train": channels, "heldout": {}}, 65000)
    return directory


def mixture(data: Path, length: int = 64, seed: int = 0, **weights: float) -> Mixture:
    return Mixture(read_channels(data, "train"), weights, length, seed)


def test_proportions_are_exact_over_a_period_and_near_over_a_batch(data: Path) -> None:
    mix = mixture(data, en=0.5, zh=0.3, code=0.2)
    channels = [mix.names[mix.locate(k)[0]] for k in range(3 * PERIOD)]
    for start in range(0, 3 * PERIOD, PERIOD):
        assert Counter(channels[start : start + PERIOD]) == {"en": 500, "zh": 300, "code": 200}
    for start in range(0, 3 * PERIOD - 40):
        counts = Counter(channels[start : start + 40])
        assert abs(counts["en"] - 20) <= 3
        assert abs(counts["code"] - 8) <= 3


@pytest.mark.parametrize("length", [8, 64, 500])
@pytest.mark.parametrize("block", [16, 4096])
def test_an_epoch_shows_every_token_once(data: Path, length: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "BLOCK_DOCUMENTS", block)
    channel = read_channels(data, "train")["en"]
    windowed = ChannelWindows(channel, length, seed=3)
    for epoch in (0, 4):
        shown: list[int] = []
        for ordinal in range(epoch * len(windowed), (epoch + 1) * len(windowed)):
            targets = windowed.window(ordinal).targets
            shown += targets[targets != IGNORED].tolist()
        assert Counter(shown) == Counter(token for token in channel.tokens.tolist() if token != BOS)


def test_documents_are_whole_and_inputs_precede_targets(data: Path) -> None:
    channel = read_channels(data, "train")["en"]
    windowed = ChannelWindows(channel, 64, seed=0)
    begins = set(channel.tokens[channel.offsets[:-1] + 1].tolist())
    for ordinal in range(len(windowed)):
        window = windowed.window(ordinal)
        scored = int((window.targets != IGNORED).sum())
        assert window.targets[0] in begins
        assert window.targets[scored - 1] == EOS  # every document is shorter than a window, so none is cut
        starts = np.isin(window.targets[:scored], list(begins))
        assert (window.inputs[:scored][starts] == BOS).all()
        assert (window.inputs[:scored][~starts] == np.roll(window.targets[:scored], 1)[~starts]).all()
        closed = np.concatenate(([0], np.cumsum(window.targets[:scored] == EOS)[:-1]))
        assert window.documents[:scored].tolist() == closed.tolist()


def test_a_cut_document_goes_on_from_the_token_before(data: Path) -> None:
    channel = read_channels(data, "train")["code"]
    windowed = ChannelWindows(channel, 32, seed=0)
    position = {int(token): at for at, token in enumerate(channel.tokens) if token > EOS}
    continued = 0
    for ordinal in range(len(windowed)):
        window = windowed.window(ordinal)
        for given, target in zip(window.inputs.tolist(), window.targets.tolist(), strict=True):
            if target > EOS:
                assert given == channel.tokens[position[target] - 1]
                continued += position[target] - 1 not in channel.offsets
    assert continued > 1000


def test_packing_wastes_little(data: Path) -> None:
    channel = read_channels(data, "train")["en"]
    pieces = cut_documents(np.asarray(channel.offsets), 64)
    lower_bound = -(-(len(channel.tokens) - channel.documents) // 64)
    assert pack(pieces.length, 64).bins <= 1.1 * lower_bound


def test_a_sample_depends_on_its_position_alone(data: Path) -> None:
    weights = {"en": 2.0, "zh": 1.0, "code": 1.0}
    whole = mixture(data, **weights).batch(range(100, 116))
    fresh = mixture(data, **weights)
    ranks = [fresh.batch(range(100 + 4 * rank, 104 + 4 * rank)) for rank in (3, 1, 0, 2)]
    for field in ("inputs", "targets", "channels", "documents"):
        parts = np.concatenate([getattr(ranks[at], field) for at in (2, 1, 3, 0)])
        assert np.array_equal(parts, getattr(whole, field))
    assert not np.array_equal(mixture(data, seed=1, **weights).batch(range(100, 116)).inputs, whole.inputs)


def test_a_channel_keeps_its_order_when_another_one_joins(data: Path) -> None:
    alone, joined = mixture(data, en=1.0, other=0), mixture(data, en=1.0, zh=1.0, code=0)
    first = [joined.batch(range(k, k + 1)).inputs for k in range(40) if joined.names[joined.locate(k)[0]] == "en"]
    assert np.array_equal(np.concatenate(first), alone.batch(range(len(first))).inputs)


def test_default_weights_are_the_tokens_and_epochs_are_counted(data: Path) -> None:
    mix = mixture(data)
    channels = read_channels(data, "train")
    epochs = mix.epochs(PERIOD)
    assert max(epochs.values()) / min(epochs.values()) < 1.35
    assert epochs["en"] == pytest.approx(
        sum(mix.names[mix.locate(k)[0]] == "en" for k in range(PERIOD)) / len(ChannelWindows(channels["en"], 64, 0)))


@pytest.mark.parametrize(("weights", "message"), [({"english": 1.0}, r"mixture\.english: .*code, en, zh"),
                                                  ({"en": 0.0, "*": 0.0}, "mixture: all weights are 0"),
                                                  ({"en": 1.0, "code": 0.0}, r"does not name zh, whose")])
def test_wrong_weights_are_named(data: Path, weights: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mixture(data, **weights)


def test_channels_without_a_name_share_the_weight_of_the_others_by_their_tokens(data: Path) -> None:
    tokens = {name: len(channel.tokens) for name, channel in read_channels(data, "train").items()}
    share = tokens["zh"] / (tokens["zh"] + tokens["code"])
    for name in ("other", "*"):
        mix = mixture(data, **{"en": 3.0, name: 1.0})
        assert mix.weights == pytest.approx({"code": 1 - share, "en": 3.0, "zh": share})
    assert mixture(data, en=3.0, zh=0.0, other=1.0).weights == {"code": 1.0, "en": 3.0}
    assert mixture(data, en=1.0, zh=1.0, code=1.0, other=5.0).weights == {"code": 1.0, "en": 1.0, "zh": 1.0}
    assert weights_of({"other": 2.0, "a": 1.0, "b": 0.0}, {"other": 9, "a": 9, "b": 9}) == {"other": 2.0, "a": 1.0}


def test_a_truncated_file_is_named(data: Path, tmp_path: Path) -> None:
    write_tokenized(tmp_path, {"train": {"en": [([BOS, 3, EOS], 2)]}, "heldout": {}}, 10)
    (tmp_path / "train" / "en.bin").write_bytes(b"\x02\x00")
    with pytest.raises(InputError, match=r"'en'.*damaged"):
        read_channels(tmp_path, "train")


def test_a_share_that_a_period_cannot_hold_is_named_with_its_epochs(data: Path) -> None:
    assert mixture(data, en=0.7, zh=0.2, other=0).deviations(PERIOD) == ""
    mix = mixture(data, en=1e5, zh=1e5, code=1.0)
    assert mix.deviations(5 * PERIOD) == (
        "warning: shares of the mixture are whole samples of 1000: code gets 0.100% of the samples for a share of "
        f"5e-06 ({mix.epochs(5 * PERIOD)['code']:.1f} epochs)")
