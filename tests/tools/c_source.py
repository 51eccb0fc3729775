# SPDX-License-Identifier: Apache-2.0
"""C and C++ read as text in the form that clang-format gives it: the brace that opens a function stands alone on its line,
as does the brace that closes it."""
import re
import typing

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
_NOT_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
_NAME = re.compile(r"(\w+)\s*\(")
_CALL = re.compile(r"\b([a-zA-Z_]\w*)\s*\(")
_TYPE_AND_NAME = re.compile(r"\w[\w:<>,&* ]*[ *&][\w:~]+\(")
_NO_FUNCTION = re.compile(r"\s*(namespace|class|struct \w+$|union|enum|extern)\b[^(]*$")


class Function(typing.NamedTuple):
    name: str
    is_static: bool
    first_line: int  # of the signature
    last_line: int
    body: str


def code_of(text):
    """The text without comments and literals; every line keeps its number."""
    return _NOT_CODE.sub(lambda match: '""' * (match[0][0] in "\"'") + "\n" * match[0].count("\n"), text)


def _signature_line(lines, brace):
    """The first line of the signature that ends above the brace."""
    first = brace - 1
    while first > 0 and not re.search(r"[;{}:]$|^\s*#|^$", lines[first - 1]):
        first -= 1
    return first


def functions(text):
    """Every function of a file, methods and tests of C++ too."""
    lines = [line.rstrip() for line in code_of(text).splitlines()]
    at = 0
    while at < len(lines):
        brace, at = at, at + 1
        if lines[brace].strip() != "{" or brace == 0:
            continue
        first = _signature_line(lines, brace)
        signature = " ".join(lines[first:brace])
        name = _NAME.search(re.sub(r"__attribute__\s*\(\(.*?\)\)", "", signature))
        if not name or _NO_FUNCTION.match(signature) or \
                (lines[brace] != "{" and not _TYPE_AND_NAME.match(signature.strip())):
            continue  # a namespace, a class, or the block of a macro that loops
        closing = lines[brace].replace("{", "}")
        last = next((i for i in range(brace, len(lines)) if lines[i] == closing), len(lines) - 1)
        test = re.match(r"TEST\w*\((\w+), *(\w+)\)", signature)
        yield Function(f"{test[1]}.{test[2]}" if test else name[1], "static" in signature.split(), first + 1, last + 1, "\n".join(lines[brace:last]))
        at = last + 1


def calls(function):
    """Names that a function calls, or that look like it."""
    return set(_CALL.findall(function.body))


def includes(text):
    return INCLUDE.findall(text)
