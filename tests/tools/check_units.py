# SPDX-License-Identifier: Apache-2.0
"""Every source file with logic has a unit test: module/y.c, and a header module/y.h that has functions and no y.c, is
covered when a file tests/module/*_test.cc is called y_test.cc or includes module/y.h. A y.c without a header of its own is
also covered by a test that calls one of its functions. unit_exceptions.py names the files that need no unit test, each with
the reason."""
import pathlib
import re
import sys

import c_source
import findings
import tree
from unit_exceptions import EXCEPTIONS


def tests_of(root, module):
    """(name, includes, what it calls) of every test of a module."""
    for path in sorted(pathlib.Path(root, "tests", module).glob("*_test.cc")):
        text = path.read_text(encoding="utf-8")
        calls = set().union(*map(c_source.calls, c_source.functions(text)))
        yield path.name, set(c_source.includes(text)), calls


def is_covered(path, functions, tests, has_header):
    """path: from the root, as text."""
    header = path.rsplit(".", 1)[0] + ".h"
    exported = {function.name for function in functions if not function.is_static}
    return any(name == pathlib.PurePosixPath(path).stem + "_test.cc" or header in includes
               or (not has_header and exported & calls) for name, includes, calls in tests)


def find(root):
    sources = {path: (module, list(c_source.functions(text)))
               for module, path, text in tree.relative_sources(root, ".c", ".h") if module != "include"}
    tests = {module: list(tests_of(root, module)) for module in tree.MAY_INCLUDE}
    found = {}
    for path, (module, functions) in sources.items():
        stem = path.rsplit(".", 1)[0]
        if functions and not (path.endswith(".h") and f"{stem}.c" in sources) and \
                not is_covered(path, functions, tests[module], f"{stem}.h" in sources):
            found[path] = None
    needless = {f"{path} is an exception, but has a test or does not exist": None for path in EXCEPTIONS
                if path not in found}
    needless |= {f"{path} is an exception, but there is no {test}": None for path, reason in EXCEPTIONS.items()
                 for test in re.findall(r"tests/[\w/.*]*\w", reason) if not list(pathlib.Path(root).glob(test))}
    return {path: None for path in found if path not in EXCEPTIONS} | needless


if __name__ == "__main__":
    sys.exit(findings.run(sys.argv[1:], "units", find,
                          "tests/MODULE/ has a unit test that includes the header of each source file",
                          "every source file with logic has a unit test"))
