"""Fields of phases that learn from a teacher's distributions beside the data."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from argosy.core.config.schema import ADDED, Config, External
from argosy.core.errors import InputError
from argosy.model.weights.checkpoint import Checkpoint, find_checkpoint, model_of_step
from argosy.model.weights.pretrained import load_tokenizer


class DistilConfig(Config):
    """Fields that name the teacher, and what its word weighs."""

    teacher: Annotated[External, AfterValidator(model_of_step)] = ""
    """Directory of a model, or of a finished training step, with the same tokenizer, whose distribution of each next
    token is learnt beside the token itself (Hinton et al. 2015); "" for none."""
    teacher_share: Annotated[float, Field(gt=0, le=1), ADDED] = 0.5
    """Share of the loss that is the divergence from the teacher's distribution; the rest is that of the data."""
    teacher_temperature: Annotated[float, Field(gt=0), ADDED] = 1.0
    """Temperature of both distributions; the divergence is multiplied by its square, so that gradients keep their
    size."""

    def find_teacher(self, vocabulary: Mapping[str, int], most: float) -> Checkpoint:
        """Find the teacher. `vocabulary`: tokens of the model that learns, which has `most` at most.

        Raises InputError: there is no such language model, or its tokenizer has other tokens."""
        source = find_checkpoint(self.teacher)
        theirs = load_tokenizer(source.path).get_vocab()
        if not vocabulary.items() <= theirs.items() or len(theirs) > most:
            raise InputError(f"teacher={self.teacher} has a tokenizer with other tokens than the model that learns: "
                             "name one of the same tokenizer")
        return source

    def teacher_problem(self, divisors: dict[str, int]) -> str:
        """Say why there can be no teacher here; "" where there can be, or is none."""
        divided = next((name for name, size in divisors.items() if size > 1), "")
        if self.teacher and divided:
            return (f"teacher is {self.teacher!r}, and {divided}={divisors[divided]} has each process compute a part "
                    f"of a sample or of the model alone: set {divided}=1 (engine=fsdp shards the student's weights)")
        given = next((name for name in ("teacher_share", "teacher_temperature")
                      if getattr(self, name) != type(self).model_fields[name].default), "")
        if given and not self.teacher:
            return f"{given} is {getattr(self, given)}, and there is no teacher: name one as teacher, or leave it out"
        return ""
