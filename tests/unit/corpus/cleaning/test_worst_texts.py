"""Work of the patterns over documents grows as the text does: a quarter of a MB of its worst text is done in a second.

A child process has a generous limit of CPU time for each text, which a quadratic pattern exceeds a hundredfold."""

import resource
import signal
from collections.abc import Callable, Iterator

from argosy.corpus.text.personal import triggers
from tests.processes import run_python

SIZE = 2**18
SECONDS = 10  # of CPU time a text; each takes less than one
_KEY = "aB3dE5gH7jK9mN1pQ2rS4"


def personal() -> Iterator[str]:
    """Pieces whose repetition leads each pattern on as far as it goes."""
    for begin in {pattern: begin for begin, pattern in triggers().items()}.values():
        yield from (begin, f"{begin}a1-", f"{begin}{_KEY}.", f"{begin}A ")
    yield from ("eyJaaaaaaaaa.", "eyJaaaaaaaaa-eyJ.", "-----BEGIN A PRIVATE KEY-----", "-----BEGIN A B ")
    yield from ("password:   ", "1", "1 ", "+1 ", "(0", "12.", "1.1.1.1 ", "1-", "4111 1111 ", "2:", "2001:", "2001::")
    yield from ("a@", "a.a@a.", "a-@a-", "1@1.", "00 1 (0) 1 ", "1.2.3.4      ", "订单", "no.:# 123456789 ")


def others() -> Iterator[tuple[str, str]]:
    """Names of functions of `run`, and pieces."""
    for piece in ("a.", ".", "-", "_", "/\\", "`", "```", "<", "<a", "http://", "a-.@", "@a ", " a"):
        yield "markup", piece
    for piece in ("coding:", "?>", " ", "\n", "/*", "copyright ", "// \n", "terms of the "):
        for begin in ("", "# ", "/*", "<?xml", "<?php"):
            yield "licence", f"{begin}\0{piece}"
    for piece in ("\n", " ", "\n ", "###", "### \n", "```", "```\n", "<|", "中. ", "中,  ", "[INST", "user "):
        yield "faults", f"```json\0{piece}"
        yield "faults", f"中\0{piece}"
    for piece in ("\x0b", "\x85", "&#", "&amp;", "&a", "â€", "Ã", "锟斤拷", "é\u0301", "\u0301", "\r\n", "中"):
        yield "unicode", piece
    for piece in ("1", " ", "1 ", ",", "1-", "1.", "\\frac{", "(", "or ", "2^{", "亿"):
        yield "numbers", f"5\0{piece}"


def run(kind: str) -> Callable[[str], object]:
    """The function that a piece is for."""
    from argosy.corpus.cleaning.batch import Batch
    from argosy.corpus.cleaning.filter import Resources
    from argosy.corpus.cleaning.filters.code_quality import without_licence
    from argosy.corpus.cleaning.filters.pii import Pii, PiiConfig
    from argosy.corpus.cleaning.filters.unicode import clean_text
    from argosy.corpus.data.schemas import Document
    from argosy.corpus.text import faults
    from argosy.corpus.text.scripts import without_markup
    from argosy.corpus.text.values import amounts, begins_with_several, ends_with_alternatives, value_of

    def numbers(text: str) -> None:
        for read in (amounts, begins_with_several, ends_with_alternatives, value_of):
            read(text)

    def rules(text: str) -> None:
        found = faults.Generated("json", text)
        for rule in (faults.ascii_punctuation, faults.broken_characters, faults.invalid_json, faults.special_tokens):
            rule(found)

    pii = Pii(PiiConfig(), Resources())
    return {"personal": lambda text: pii(Batch([Document("a", text, "web")])), "markup": without_markup,
            "numbers": numbers, "licence": without_licence, "faults": rules, "unicode": clean_text}[kind]


def main() -> None:
    """Say each text before it is read, and have it read within the limit."""
    for kind, piece in [*(("personal", piece) for piece in personal()), *others()]:
        print(kind, repr(piece), flush=True)
        begin, _, rest = piece.rpartition("\0")
        text = begin + rest * (SIZE // len(rest))
        spent = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(spent.ru_utime + spent.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        run(kind)(text)


def test_no_pattern_takes_more_than_its_share_of_the_worst_text() -> None:
    done = run_python("-m", "tests.unit.corpus.cleaning.test_worst_texts")
    *_, last = ["", *done.stdout.splitlines()]
    assert done.returncode != -signal.SIGXCPU, f"more than {SECONDS} s of CPU time for {last}"
    assert not done.returncode, done.stderr


if __name__ == "__main__":
    main()
