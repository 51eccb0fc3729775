# SPDX-License-Identifier: Apache-2.0
"""Functions of 70 lines at most, files of 600 at most: the product's, the tests', Python's and the shell's."""
import ast
import pathlib
import re
import sys

import c_source
import findings

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
C_SUFFIXES = {".c", ".h", ".cc"}
SUFFIXES = C_SUFFIXES | {".py", ".sh"}


def sources(root):
    """Every source file, without those that a build makes."""
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and not folder.name.startswith((".", "build")) and not folder.is_symlink():
            yield from (path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and path.is_file())


def functions(path, text):
    """(name, lines) of every function of a file; a function of the shell ends with a brace as far in as its name."""
    if path.suffix in C_SUFFIXES:
        for function in c_source.functions(text):
            yield function.name, function.last_line - function.first_line + 1
    elif path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.name, node.end_lineno - node.lineno + 1
    else:
        for match in re.finditer(r"(?ms)^( *)(\w+)\(\) *\{$.*?^\1\}", text):
            yield match[2], match[0].count("\n") + 1


def find(root):
    found = {}
    for path in sources(root):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(root).as_posix()
        if text.count("\n") > FILE_LINES_MAX:
            found[name] = None
        found.update({f"{name} {function}": None for function, lines in functions(path, text)
                      if lines > FUNCTION_LINES_MAX})
    return found


if __name__ == "__main__":
    sys.exit(findings.run(sys.argv[1:], "length", find,
                          f"a function has at most {FUNCTION_LINES_MAX} lines, a file {FILE_LINES_MAX}",
                          "no function and no file is too long"))
