# SPDX-License-Identifier: Apache-2.0
"""Every module has a README.md that begins with a heading with the module's path, as has each folder of tests that is a
program of its own. A module's README has about ten lines: what it is, what it is not, where to start reading."""
import pathlib
import sys

import findings
import tree

TESTS = ["tests", "tests/sim", "tests/tools"]
MODULE_LINES_MAX = 30


def is_good(path, module):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else [""]
    heading = lines[0].replace("`", "").split() if lines else []
    return heading[:1] == ["#"] and module in (word.rstrip("/:") for word in heading[1:]) \
        and 3 <= len(lines) and (module in TESTS or len(lines) <= MODULE_LINES_MAX)


def find(root):
    return {f"{module}/README.md": None for module in [*tree.MAY_INCLUDE, *TESTS]
            if not is_good(pathlib.Path(root, module, "README.md"), module)}


if __name__ == "__main__":
    sys.exit(findings.run(sys.argv[1:], "readmes", find,
                          f"a module has a README.md of 3 to {MODULE_LINES_MAX} lines that begins with `# MODULE/`",
                          "every module has its README.md"))
