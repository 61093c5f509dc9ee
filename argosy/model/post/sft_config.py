"""Config of supervised fine-tuning."""

import math
from typing import Annotated, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from argosy.core.config.schema import ADDED, Rate, Upstream
from argosy.model.post.config import PositiveInt, PosttrainingConfig


class SFTConfig(PosttrainingConfig):
    """Config of the step; `batch_size` and `micro_batch_size` count rows, which hold several conversations each."""

    rows_of_one_length: ClassVar[bool] = True

    stage: str = "sft"
    """Name of the checkpoint in results; a second model beside the first has its own."""
    conversations: Annotated[tuple[str, ...], Field(min_length=1)] = ("instructions.jsonl",)
    """Files of the data step to learn from; a record with `text` in place of `messages` is text of pretraining, all of
    whose tokens are learnt."""
    tokenized: Upstream = ""
    """Directory of a tokenize step, where texts of pretraining are learnt too."""
    pretraining_share: Annotated[float, Field(ge=0, lt=1), ADDED] = 0.0
    """Share of the tokens that are texts of pretraining: training documents of `tokenized`, in an order by `seed`, as
    channels pretraining/NAME, all of whose tokens are learnt; 0 is none."""
    heldout: str = "instructions_heldout.jsonl"
    """File of the data step that is evaluated before and after."""
    max_new_tokens: PositiveInt = 48
    """Tokens of the longest answer in that evaluation."""
    batch_size: PositiveInt = 8
    """Rows of an optimizer step, over all processes; a row has `max_length` tokens of several conversations."""
    micro_batch_size: PositiveInt = 8
    """Rows of one forward and backward of a process, at most; `batch_size` is a multiple."""
    max_length: int = Field(default=0, ge=0)
    """Tokens of a row and of the longest conversation (longer ones are set aside); 0 means the checkpoint's context."""
    packing: bool = True
    """Conversations share rows, without attention from one to another; else each has a row, padded to the longest."""
    prompt_weight: Annotated[float, Field(ge=0)] = 0.0
    """Weight of a prompt's token in the loss, where one of an answer has 1: 0 learns the answers alone, 1 all alike."""
    loss_weights: dict[str, Rate] = Field({})
    """Weight of a channel's tokens in the loss, such as {code: 0.5}; 1 where none is given."""
    neftune_noise: Annotated[float, Field(ge=0)] = 0.0
    """Strength (alpha) of the noise on the embeddings while training (Jain et al. 2023, "NEFTune"), such as 5; 0 is
    none."""
    z_loss: Annotated[float, Field(ge=0)] = 0.0
    """Weight of log(Z)^2 (Chowdhery et al. 2022), which keeps logits from drifting."""

    def whole_steps(self, rows: int) -> int:
        """Return the steps of `epochs` passes; the last one need not be full."""
        return math.ceil(self.epochs * rows / self.batch_size)

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        try:
            self.phase(1, self.batch_size, 2 * self.sequence_parallel)
        except ValidationError as error:
            problem = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ValueError(problem.replace("global_batch_size", "batch_size")) from None
        if not self.packing and self.sequence_parallel * self.pipeline_parallel > 1:
            raise ValueError("packing=false makes batches of several lengths, and sequence_parallel and "
                             "pipeline_parallel need one: set packing=true, or both to 1")
        return self
