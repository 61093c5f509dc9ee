"""Source code: a document a file, with its language."""

from collections.abc import Iterator

from argosy.corpus.data.jsonl import Reject
from argosy.corpus.data.readers import Reader, Record, Span, suffix_of
from argosy.corpus.data.readers.encodings import read_text
from argosy.corpus.data.sources import InputFile, SourceConfig

LANGUAGES = {
    "Ada": ".adb .ads", "Assembly": ".asm .s", "Awk": ".awk", "Batchfile": ".bat .cmd", "C": ".c .h",
    "C#": ".cs .csx", "C++": ".cpp .cc .cxx .hpp .hh .hxx .ipp .inl", "CMake": ".cmake", "COBOL": ".cob .cbl",
    "CSS": ".css", "Clojure": ".clj .cljs .cljc .edn", "CoffeeScript": ".coffee", "Common Lisp": ".lisp .lsp .cl",
    "Crystal": ".cr", "Cuda": ".cu .cuh", "Cython": ".pyx .pxd", "D": ".d", "Dart": ".dart", "Elixir": ".ex .exs",
    "Elm": ".elm", "Emacs Lisp": ".el", "Erlang": ".erl .hrl", "F#": ".fs .fsi .fsx",
    "Fortran": ".f .for .f90 .f95 .f03 .f08", "GLSL": ".glsl .vert .frag", "Go": ".go", "Gradle": ".gradle",
    "GraphQL": ".graphql .gql", "Groovy": ".groovy", "HCL": ".tf .hcl", "HLSL": ".hlsl", "Haskell": ".hs .lhs",
    "INI": ".ini .cfg", "Java": ".java", "JavaScript": ".js .mjs .cjs .jsx", "Julia": ".jl", "Kotlin": ".kt .kts",
    "Lean": ".lean", "Less": ".less", "Lua": ".lua", "MATLAB": ".matlab", "Makefile": ".mk .mak", "Nim": ".nim",
    "Nix": ".nix", "OCaml": ".ml .mli", "Objective-C": ".m", "Objective-C++": ".mm", "PHP": ".php",
    "Pascal": ".pas .pp .dpr", "Perl": ".pl .pm", "PowerShell": ".ps1 .psm1", "Prolog": ".pro",
    "Protocol Buffer": ".proto", "Python": ".py .pyi .pyw", "R": ".r", "Racket": ".rkt", "Ruby": ".rb .rake .gemspec",
    "Rust": ".rs", "SCSS": ".scss", "SQL": ".sql", "Sass": ".sass", "Scala": ".scala .sc", "Scheme": ".scm .ss",
    "Shell": ".sh .bash .zsh .fish .ksh", "Solidity": ".sol", "Svelte": ".svelte", "Swift": ".swift", "TOML": ".toml",
    "Tcl": ".tcl", "TeX": ".tex .sty .cls", "Thrift": ".thrift", "TypeScript": ".ts .tsx .mts .cts",
    "VHDL": ".vhd .vhdl", "Verilog": ".v .sv .svh", "Vim Script": ".vim", "Visual Basic": ".vb .bas", "Vue": ".vue",
    "YAML": ".yaml .yml", "Zig": ".zig",
}  # fmt: skip
_BY_SUFFIX = {suffix: language for language, suffixes in LANGUAGES.items() for suffix in suffixes.split()}


class Code(Reader):
    """Source code. It is kept as it is, with the spaces around it."""

    name = "code"
    suffixes = tuple(_BY_SUFFIX)
    unit = "record"

    def read(self, file: InputFile, span: Span, config: SourceConfig) -> Iterator[Record | Reject]:
        """Yield the file."""
        text = read_text(file, config)
        if isinstance(text, Reject):
            yield text
        elif text and not text.isspace():
            suffix = suffix_of(file.path)
            language = _BY_SUFFIX[suffix if suffix in _BY_SUFFIX else suffix.rpartition(".")[0]]
            yield Record(1, 0, {config.text_field: text, "language": language})
