"""Chat templates, which are programs of whoever made a checkpoint."""

import pytest

from argosy.errors import InputError
from argosy.models import chat
from tests.tokenizer_fixtures import make_bpe


def test_a_template_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_S", 0.1)
    for template, message in (
        ("{% for a in range(99999) %}{% for b in range(99) %}{% endfor %}{% endfor %}", "has not ended after 0.1 s"),
        ("no mark", r"no chat template with \{% generation %\}"),
    ):
        with pytest.raises(InputError, match=message):
            chat.check_template(make_bpe(["text"], 300, template=template))
