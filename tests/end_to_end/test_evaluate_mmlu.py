"""What every variant promises, on every item of MMLU."""

import pytest

from evals.variants import Chain
from tests.variant_properties import CHAIN, check, made, mmlu_items


@pytest.mark.parametrize("chain", [c for c in CHAIN if c.name != "all_orders"], ids=lambda chain: chain.name)
def test_every_variant_on_every_item(chain: Chain) -> None:
    for item, questions in made(chain, mmlu_items()):
        check(chain, item, questions)
