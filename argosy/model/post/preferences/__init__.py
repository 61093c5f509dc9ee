"""Config of learning from preferences: the method, and the fields of all methods."""

from typing import TYPE_CHECKING

from argosy.core.config.schema import Rate, joined
from argosy.core.errors import InputError
from argosy.model.post.config import PreferenceConfig, check_method, make_method
from argosy.model.post.preferences.methods import METHODS, Method

if TYPE_CHECKING:
    _WithMethods = PreferenceConfig
else:
    _WithMethods = joined(PreferenceConfig, METHODS.values())


class PreferenceMethodConfig(_WithMethods):
    """Config of the policy's learning from preferences; kto takes answers with a `label` as it takes pairs, which it
    splits in two (`preferences: feedback.jsonl`, `heldout: feedback_heldout.jsonl`)."""

    stage: str = "dpo"
    """Name of the checkpoint in results."""
    method: str = "dpo"
    """dpo (Rafailov et al. 2023), ipo (Azar et al. 2023), robust (Chowdhury et al. 2024), kto (Ethayarajh et al. 2024),
    orpo (Hong et al. 2024), simpo (Meng et al. 2024)."""
    learning_rate: Rate = 2e-4

    def check_fields(self) -> None:
        check_method(self, METHODS)
        try:
            _ = self.chosen
        except InputError as error:
            raise ValueError(str(error)) from None

    @property
    def chosen(self) -> Method:
        return make_method(self, METHODS)
