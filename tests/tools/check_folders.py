# SPDX-License-Identifier: Apache-2.0
"""The table of modules in docs/architecture.md is the table of tree.py: the same modules in the same order, each with what
it may include. A cell lists modules; "`x/` and below" stands for x and all that x may include. And every module of tree.py
has sources, and every source file of the product has a module."""
import pathlib
import re
import sys

import findings
import tree

ROW = re.compile(r"(?m)^\| `([\w/]+)/` \| .* \|(?: ([^|]*))? \|$")


def table(text):
    """{module: set of modules} of the rows that begin with a folder, in their order."""
    modules = {}
    for name, cell in ROW.findall(text):
        modules[name] = set()
        for included, below in re.findall(r"`([\w/]+)/`( and below)?", cell):
            modules[name] |= {included} | (tree.MAY_INCLUDE.get(included, set()) if below else set())
    modules.pop("include/detour", None)  # public headers: no module
    return modules


def find(root):
    shown = table(pathlib.Path(root, "docs/architecture.md").read_text(encoding="utf-8"))
    found = {}
    if list(shown) != list(tree.MAY_INCLUDE):
        found[f"docs/architecture.md: its modules are {' '.join(shown)}, those of tree.py {' '.join(tree.MAY_INCLUDE)}"] = None
    for module in shown.keys() & tree.MAY_INCLUDE.keys():
        differ = shown[module] ^ tree.MAY_INCLUDE[module]
        if differ:
            found[f"docs/architecture.md: {module}/ differs in {' '.join(sorted(differ))}"] = None
    with_sources = {tree.module_of(path) for _, path, _ in tree.relative_sources(root, ".c", ".h")}
    found.update({f"{module}/ has no source file": None for module in tree.MAY_INCLUDE.keys() - with_sources})
    return found


if __name__ == "__main__":
    sys.exit(findings.run(sys.argv[1:], "folders", find,
                          "docs/architecture.md shows the table of tests/tools/tree.py", "as docs/architecture.md shows"))
