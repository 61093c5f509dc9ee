"""A target for the tokens of an answer, or DAPO's soft punishment of long ones."""

from typing import Literal

from pydantic import Field

from argosy.model.post.rl.rewards import Reward, RewardConfig, Sample, Score


class LengthConfig(RewardConfig):
    kind: Literal["range", "dapo"] = "range"
    """range: 1 within `least` and `most`, falling to 0 over `soft` tokens outside. dapo: the soft overlong punishment
    (Yu et al. 2025, "DAPO", eq. 13): 0 up to `most` - `soft` tokens, falling to -1 at `most`."""
    least: int = Field(default=0, ge=0)
    """Fewest tokens."""
    most: int = Field(ge=1)
    """Most tokens."""
    soft: int = Field(default=0, ge=0)
    """Tokens over which the reward falls; 0: at once."""

    def check_fields(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least={self.least} is more than most={self.most}; lower it")
        if self.kind == "dapo" and self.soft > self.most:
            raise ValueError(f"soft={self.soft} is more than most={self.most}; lower it")
        if self.kind == "dapo" and self.least:
            raise ValueError(f"least={self.least} is of kind=range; leave it out")


class Length(Reward[LengthConfig]):
    def score(self, sample: Sample, reference: str) -> Score:
        config, tokens = self.config, len(sample.answer_ids)
        low, high = (0, config.most - config.soft) if config.kind == "dapo" else (config.least, config.most)
        beyond = max(low - tokens, tokens - high, 0)
        fall = min(1.0, beyond / config.soft) if config.soft else float(beyond > 0)
        return Score((0.0 if config.kind == "dapo" else 1.0) - fall, f"{tokens} tokens")
