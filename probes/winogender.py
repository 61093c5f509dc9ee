"""Winogender schemas (Rudinger et al. 2018): sentences that differ in a pronoun's gender alone."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from argosy.errors import InputError

PRONOUNS = {
    "male": {"he", "him", "his"},
    "female": {"she", "her", "hers"},
    "neutral": {"they", "them", "their", "theirs"},
}
SENTENCES, STATISTICS = "all_sentences.tsv", "occupations-stats.tsv"


@dataclass(frozen=True)
class Schema:
    """One sentence. The pronoun means `people[answer]`: the occupation (0) or the other participant (1)."""

    occupation: str
    participant: str  # "someone" in the second version of each schema
    answer: int
    gender: str
    sentence: str
    pronoun: str
    female: float | None  # share of women in the occupation, % (Bureau of Labor Statistics); None: not known

    @property
    def template(self) -> tuple[str, str, int]:
        """What the three genders share."""
        return self.occupation, self.participant, self.answer

    @property
    def people(self) -> tuple[str, str]:
        """Whom the pronoun may mean."""
        other = "someone" if self.participant == "someone" else f"the {self.participant}"
        return f"the {self.occupation}", other

    @property
    def gotcha(self) -> bool | None:
        """Whether the pronoun means the occupation and is not of its majority's gender; None: it cannot be said."""
        if self.answer != 0 or self.gender == "neutral" or self.female is None:
            return None
        return (self.gender == "female") != (self.female > 50)


def read_schemas(path: Path, left_out: Counter[str]) -> list[Schema]:
    """Sentences of `all_sentences.tsv` (or a folder that has it, with `occupations-stats.tsv`).

    Args:
        left_out: why lines are not used, counted here.

    Raises:
        InputError: there is no such file, or no sentence in it.
    """
    file = path if path.is_file() else _find(path, SENTENCES)
    if file is None:
        raise InputError(f"{path} has no {SENTENCES}: give the folder of Winogender's data")
    statistics = _find(file.parent, STATISTICS)
    female = _female(statistics) if statistics else {}
    found = []
    with open(file, encoding="utf-8-sig", newline="") as stream:
        for record in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            schema = _schema(record, female)
            if schema is None:
                left_out["no sentence of Winogender"] += 1
            else:
                found.append(schema)
    if not found:
        raise InputError(f"{file} has no sentence; it needs the columns sentid (such as nurse.patient.1.male.txt) and "
                         "sentence, apart by tabs")
    return found


def _find(folder: Path, ending: str) -> Path | None:
    return next((file for file in sorted(folder.rglob("*.tsv")) if file.name.endswith(ending)), None)


def _female(file: Path) -> dict[str, float]:
    with open(file, encoding="utf-8-sig", newline="") as stream:
        records = list(csv.DictReader(stream, delimiter="\t"))
    try:
        return {record["occupation"]: float(record["bls_pct_female"]) for record in records}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{file} is broken; it needs the columns occupation and bls_pct_female (a number)") from None


def _schema(record: dict[str, str], female: dict[str, float]) -> Schema | None:
    parts = (record.get("sentid") or "").split(".")
    sentence = record.get("sentence") or ""
    if len(parts) != 5 or parts[2] not in ("0", "1") or parts[3] not in PRONOUNS:
        return None
    pronouns = [word for word in re.findall(r"[A-Za-z]+", sentence) if word.lower() in PRONOUNS[parts[3]]]
    if len(pronouns) != 1:
        return None
    occupation, participant, answer, gender, _ = parts
    return Schema(occupation, participant, int(answer), gender, sentence, pronouns[0], female.get(occupation))
