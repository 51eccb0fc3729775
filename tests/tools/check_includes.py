# SPDX-License-Identifier: Apache-2.0
"""Includes point down only (tree.py has the table); NCCL and verbs types stay where they belong."""
import sys

import c_source
import findings
import tree

# header prefix -> the only modules that may include it
RESERVED = {"infiniband/": {"softrnic", "dropin", "verbs"}, "plugin/nccl": {"plugin", "job"}}


def is_allowed(module, name):
    for prefix, modules in RESERVED.items():
        if name.startswith(prefix):
            return module in modules
    target = tree.module_of(name)
    return target in (None, "include", module) or target in tree.MAY_INCLUDE.get(module, set())


def find(root):
    return {f"{path} -> {name}": None for module, path, text in tree.relative_sources(root, ".c", ".h")
            for name in c_source.includes(text) if name.startswith("..") or not is_allowed(module, name)}


if __name__ == "__main__":
    sys.exit(findings.run(sys.argv[1:], "includes", find,
                          "includes follow the table of tests/tools/tree.py and are written from the root",
                          "all point down"))
