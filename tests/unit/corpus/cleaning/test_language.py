"""Languages: of sentences that people wrote here, of mixed pages, and of books."""

from typing import Any

import pytest

from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.text.scripts import identify
from tests.cleaning_fixtures import CHINESE, PROSE, document, folder, make, outcome

GERMAN = ("Der Zug kommt um acht Uhr morgens am Bahnhof an, und die Kinder sind nicht da. Das Wetter war schlecht, "
          "deshalb blieben alle zu Hause und lasen, bis es dunkel wurde.")
SENTENCES = {
    "de": GERMAN, "fr": "Il faisait mauvais, alors tout le monde est resté chez soi.",
    "es": "El tren llega a las ocho de la mañana y los niños no están.",
    "it": "Il tempo era brutto, quindi tutti sono rimasti a casa.", "pt": "Ontem compramos uma casa nova na cidade.",
    "nl": "Het weer was slecht, dus bleef iedereen thuis.", "sv": "Vädret var dåligt, så alla stannade hemma.",
    "pl": "Pogoda była zła, więc wszyscy zostali w domu.", "tr": "Hava kötüydü, bu yüzden herkes evde kaldı.",
    "vi": "Thời tiết xấu nên mọi người đều ở nhà.", "ru": "Погода была плохая, поэтому все остались дома.",
    "ja": "天気が悪かったので、みんな家にいました。", "ko": "날씨가 나빠서 모두 집에 있었습니다.",
    "cs": "Vlak přijíždí v osm hodin ráno a děti tam nejsou.", "fi": "Juna saapuu kahdeksalta aamulla asemalle.",
    "en": PROSE, "zh": CHINESE}


def named(*texts: str) -> list[str]:
    return [each.lang for each in make("language")(Batch([document(text) for text in texts]))[0].documents]


def test_sentences_of_many_languages_are_told() -> None:
    assert named(*SENTENCES.values()) == list(SENTENCES)
    assert [named(text)[0] for text in SENTENCES.values()] == list(SENTENCES)


def test_a_language_must_have_a_share_of_a_mixed_page() -> None:
    mixed = "\n\n".join([PROSE, PROSE, GERMAN])
    assert outcome("language", mixed) == mixed
    assert outcome("language", mixed, least={"en": 0.8}) == "dropped: too little en"
    assert outcome("language", mixed, allowed=["de"]) == "dropped: language en"
    assert outcome("language", f"{CHINESE}\n\n{PROSE}", least={"zh": 0.9}) == "dropped: too little zh"
    assert outcome("language", CHINESE, least={"zh": 0.9}) == CHINESE


@pytest.mark.parametrize("wrong", [{"allowed": ["english"]}, {"least": {"xx": 0.5}}])
def test_a_language_that_is_not_told_from_others_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} has '(english|xx)', .* allowed: zh, en, ja"):
        outcome("language", PROSE, **wrong)


@pytest.mark.parametrize("text", ["", "42", "x = 3.14 * r ** 2", "```\n" + GERMAN + "\n```", "GPT-4 "
"API v2", "https://a.de/und/der/die"])
def test_nothing_is_told_of_what_is_no_prose(text: str) -> None:
    assert named(text) == [""]


def test_the_scan_of_books_says_what_their_text_says() -> None:
    pages = [path.read_text(encoding="utf-8") for name in ("zh_d2l", "en_rustbook", "zh_rustbook")
             for path in sorted(folder(name).glob("*.md"))[::3]]
    pages = [page for page in pages if len(page) > 400]
    assert named(*pages) == [identify(page) for page in pages]
