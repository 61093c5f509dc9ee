"""Removal of unwanted languages; the language is filled in where nobody has said.

Scripts and function words decide about most documents; those that they leave in doubt are given to py3langid
(Barbaresi; langid.py, Lui and Baldwin 2012), which carries its model of 97 languages."""

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import yaml
from pydantic import Field

from argosy.core.lazy import Array, Flags, Floats, np
from argosy.corpus.cleaning.batch import Batch
from argosy.corpus.cleaning.filter import Filter, FilterConfig, Rule, Scores, Share
from argosy.corpus.text.scripts import without_markup

if TYPE_CHECKING:
    from argosy.corpus.cleaning.kernels.filters.language import Prose

# Whose shares are scores; what else the library knows is "other".
LANGUAGES = ("zh", "en", "ja", "ko", "ru", "el", "ar", "he", "hi", "th", "fr", "de", "es", "it", "pt", "nl", "sv", "pl",
             "tr", "id", "vi", "uk", "cs", "da", "fi", "hu", "ro", "no", "bg", "fa", "other")
_CODES = {long: short for short, longs in yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).items() for long in longs}  # fmt: skip
_SEVERAL = ("ru", "ar", "hi")  # scripts that several languages write
_MIXED = 0.1  # Chinese about programs may be mostly English words, but no English text has so much Chinese
_SCRIPT_LETTERS = 10  # of a script beside Latin words that are no prose
_LOOK_AT = 4000  # characters that the library is given; more do not change the answer
_LEAST_LETTERS = 20  # of a text that it can tell about
_CERTAIN = 0.7  # least probability of its answer
_MAIN = 0.5  # share of a language that is a page's main one without doubt
_CLEAR = 2.0  # times as many function words as of the next language


class LanguageConfig(FilterConfig):
    """The languages to keep."""

    name: str = "language"
    skip_channels: tuple[str, ...] = ("code",)
    allowed: Annotated[tuple[str, ...], Field(min_length=1)] = ("zh", "en")
    """Languages to keep. A text too short or too plain to tell is kept as what it says it is."""
    least: dict[str, Share] = Field({})
    """Least share of a document's prose that its main language must have, by language, as {en: 0.65}; else 0."""

    def check_fields(self) -> None:
        for field, langs in (("allowed", self.allowed), ("least", self.least)):
            for lang in langs:
                if lang not in LANGUAGES:
                    raise ValueError(f"{field} has {lang!r}, which is not told from others, allowed: "
                                     f"{', '.join(LANGUAGES)}")


class Language(Filter[LanguageConfig]):
    """A filter that drops a document in a language that is not wanted, or not the one that it is declared to be in.

    Scores: by language the share of the prose that is in it, of the document's main language alone; and `declared`, 1
    where that is not the declared one. Nothing is told of a document without enough prose."""

    scoring: ClassVar[tuple[str, ...]] = ("skip_channels",)  # whose documents get no language

    def __call__(self, batch: Batch) -> tuple[Batch, Scores]:
        from argosy.corpus.cleaning.kernels.filters.language import measure

        declared = np.array([declared_code(document.lang) for document in batch.documents], np.str_)
        names, shares = self._told(batch, measure(batch.points, batch.starts), declared == "zh")
        scores = {lang: np.where(names == lang, shares, np.nan) for lang in LANGUAGES}
        scores["other"] = np.where((names != "") & ~np.isin(names, LANGUAGES), shares, np.nan)
        scores["declared"] = np.where((names != "") & (declared != ""), names != declared, np.nan).astype(np.float64)
        skipped = self.config.skip_channels
        return batch.with_languages([
            document.lang or ("" if document.channel in skipped else str(name))
            for document, name in zip(batch.documents, names.tolist(), strict=True)]), scores

    def rules(self) -> Sequence[Rule]:
        """List a rule a language, and that of the declared one."""
        allowed, least = self.config.allowed, self.config.least
        return [*(Rule(lang, f"too little {lang}", least=least.get(lang, 0)) if lang in allowed
                  else Rule(lang, f"language {lang}", most=0) for lang in LANGUAGES),
                Rule("declared", "not the declared language", most=0)]

    def _told(self, batch: Batch, prose: "Prose", chinese: Flags) -> tuple[Array, Floats]:
        """Name the main language of each document ("": nothing tells), and the share of its prose that is in it.

        `chinese`: whether a document is declared to be, (documents,)."""
        from argosy.corpus.cleaning.kernels.filters.language import LATIN, SCRIPTS

        langs = np.array([*SCRIPTS, *LATIN])
        weights = prose.weights
        total = np.maximum(weights.sum(axis=1) + prose.unknown, 1e-9)
        best = weights.argmax(axis=1)
        most = weights[np.arange(len(batch)), best]
        chinese = chinese & (weights[:, 0] > _MIXED * total)
        best[chinese] = 0
        by_script = best < len(SCRIPTS)
        told = np.where(by_script, (most > prose.unknown) | (most >= _SCRIPT_LETTERS), most > 0)
        names = np.where(told & (most > 0), langs[best], "").astype("<U5")
        shares = most / np.maximum(np.where(by_script, total - prose.unknown, total), 1e-9)  # beside names of things
        for at in np.flatnonzero(self._doubtful(prose, names, shares) & ~chinese).tolist():
            lang, probability = classify(batch.documents[at].text)
            told_share = lang == names[at] and lang in LATIN[1:] and shares[at] >= _MAIN  # of a page of two languages
            if probability >= _CERTAIN and not told_share:
                names[at], shares[at] = lang, probability
        return names, shares

    def _doubtful(self, prose: "Prose", names: Array, shares: Array) -> Array:
        """Tell where scripts and function words do not decide: none is told, or two languages are near each other."""
        from argosy.corpus.cleaning.kernels.filters.language import LATIN

        ordered = np.sort(prose.hits, axis=1)
        near = np.isin(names, LATIN) & (ordered[:, -1] < _CLEAR * ordered[:, -2])
        near |= np.isin(names, LATIN[1:])  # of them more languages are near than are listed, as Czech is to Polish
        latin = prose.weights[:, -len(LATIN) :].sum(axis=1) + prose.unknown
        nothing = (names == "") & (latin > 0)
        little = np.isin(names, LATIN) & (shares < _MAIN)
        doubt = near | nothing | little | np.isin(names, _SEVERAL)
        return np.asarray((prose.letters >= _LEAST_LETTERS) & doubt)


@lru_cache
def declared_code(lang: str) -> str:
    """Return the ISO 639-1 code of a tag as zh-CN, en_US, eng or zho_Hans; "" of others, which declare nothing."""
    code = lang.strip().lower().replace("_", "-").partition("-")[0]
    code = _CODES.get(code, code)
    return code if len(code) == 2 and code.isascii() and code.isalpha() else ""


def classify(text: str) -> tuple[str, float]:
    """Return the most likely of the library's 97 languages for the prose of a text, ISO 639-1, and its probability."""
    text = text if len(text) <= _LOOK_AT else text[: _LOOK_AT // 2] + text[len(text) // 2 :][: _LOOK_AT // 2]
    lang, probability = _library().classify(without_markup(text))
    return str(lang), float(probability)


@cache
def _library() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
