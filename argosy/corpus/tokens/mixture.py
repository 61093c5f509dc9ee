"""The mixture: the sample at position k of a run is a pure function of (seed, weights, sequence length, k).

So there is no sampler state: a run resumes at any k in O(1), and its global batches are the same at any world size."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from argosy.core.errors import InputError
from argosy.corpus.data.sources import weights_of
from argosy.corpus.data.split import derive_seed
from argosy.corpus.tokens.reader import TokenizedChannel
from argosy.corpus.tokens.windows import ChannelWindows

_FAR = 1.5  # times its share, from where a channel's samples are worth a warning
PERIOD = 1000  # every aligned run of this many samples holds the exact proportions


@dataclass(frozen=True)
class Batch:
    """Samples stacked; every array is (samples, sequence_length), int64."""

    inputs: npt.NDArray[np.int64]
    targets: npt.NDArray[np.int64]
    channels: npt.NDArray[np.int64]  # index into Mixture.names
    documents: npt.NDArray[np.int64]  # which document of its sample a target belongs to


class Samples(Protocol):
    """Data that a loop trains on: the sample at each position of the run."""

    names: tuple[str, ...]
    """Names of the channels."""

    def batch(self, positions: range) -> Batch:
        """Stack the samples at these positions."""
        ...


class Mixture:
    """Samples of `sequence_length` tokens from weighted channels.

    Args:
        channels: the tokenized channels by name.
        weights: share of the samples by channel, relative, as `weights_of` reads it. A channel gets at least one
            sample of PERIOD, however small its share (`deviations` names those).
        sequence_length: tokens of a sample.
        seed: names the order.

    Raises InputError: a weight names a channel that is absent or empty, or a channel has none."""

    def __init__(self, channels: Mapping[str, TokenizedChannel], weights: Mapping[str, float], sequence_length: int,
                 seed: int) -> None:
        if not channels:
            raise InputError("mixture: the tokenized data holds no document to train on; look at the reports of clean")
        weights = weights_of(weights, {name: len(channel.tokens) for name, channel in channels.items()})
        self.names = tuple(sorted(weights))
        self.weights = {name: float(weights[name]) for name in self.names}
        self._windows = [ChannelWindows(channels[name], sequence_length, seed) for name in self.names]
        self._exact = np.array([weights[name] for name in self.names]) / sum(weights[name] for name in self.names)
        self._quota = quotas(self._exact)
        self._seed = seed
        self._period = lru_cache(maxsize=8)(self._arrange)

    def locate(self, k: int) -> tuple[int, int]:
        """Return (index of the channel, ordinal within that channel) of sample `k`."""
        number, position = divmod(k, PERIOD)
        channels, ranks = self._period(number)
        channel = int(channels[position])
        return channel, number * int(self._quota[channel]) + int(ranks[position])

    def batch(self, positions: range) -> Batch:
        """Stack the samples at these positions of the run."""
        located = [self.locate(k) for k in positions]
        windows = [self._windows[channel].window(ordinal) for channel, ordinal in located]
        inputs = np.stack([window.inputs for window in windows])
        channels = np.repeat(np.array([channel for channel, _ in located], np.int64)[:, None], inputs.shape[1], axis=1)
        targets = np.stack([window.targets for window in windows])
        return Batch(inputs, targets, channels, np.stack([window.documents for window in windows]))

    @property
    def windows(self) -> dict[str, int]:
        """Return the samples of an epoch, by channel."""
        return {name: len(windows) for name, windows in zip(self.names, self._windows, strict=True)}

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of the samples, by channel."""
        return dict(zip(self.names, (self._quota / PERIOD).tolist(), strict=True))

    def epochs(self, samples: int) -> dict[str, float]:
        """Return the epochs of each channel after `samples` samples."""
        return {
            name: samples / PERIOD * int(quota) / len(windows)
            for name, quota, windows in zip(self.names, self._quota, self._windows, strict=True)}

    def deviations(self, samples: int) -> str:
        """Return a line that names the channels whose share is not nearly that of their weight, as a period cannot hold
        it, with their epochs after `samples` samples; "" where there is none."""
        epochs = self.epochs(samples)
        far = [f"{name} gets {given:.3%} of the samples for a share of {exact:.3g} ({epochs[name]:.1f} epochs)"
               for name, given, exact in zip(self.names, self._quota / PERIOD, self._exact, strict=True)
               if max(given / exact, exact / given) > _FAR]
        return f"warning: shares of the mixture are whole samples of {PERIOD}: {', '.join(far)}" if far else ""

    def _arrange(self, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the channel of each of a period's samples, and its rank among that channel's samples in the period.

        Stratified: the j-th of a channel's q samples falls at random within the j-th of q equal stretches, so that
        a global batch holds nearly the proportions too."""
        rng = np.random.default_rng(derive_seed(self._seed, "period", number))
        channels = np.repeat(np.arange(len(self._quota)), self._quota)
        ranks = np.concatenate([np.arange(quota) for quota in self._quota])
        places = (ranks + rng.random(PERIOD)) / self._quota[channels]
        order = np.argsort(places, kind="stable")
        return channels[order], ranks[order]


def quotas(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the samples of each channel in a period: largest remainders, at least one each."""
    exact = shares * PERIOD
    quota = np.maximum(1, np.floor(exact + 1e-9).astype(np.int64))
    while quota.sum() != PERIOD:
        step = 1 if quota.sum() < PERIOD else -1
        eligible = exact - quota if step > 0 else np.where(quota > 1, quota - exact, -np.inf)
        quota[int(np.argmax(eligible))] += step
    return quota
