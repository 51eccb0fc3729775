# SPDX-License-Identifier: Apache-2.0
"""Includes point downwards only (tree.py has the table); NCCL and verbs types stay where they belong."""
import re
import sys

import tree

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.M)
# header prefix -> the only layers that may include it
RESERVED = {"infiniband/": {"softrnic", "dropin", "verbs"}, "plugin/nccl": {"plugin", "cli"}}


def problems_in(layer, path):
    for name in INCLUDE.findall(path.read_text()):
        for prefix, layers in RESERVED.items():
            if name.startswith(prefix) and layer not in layers:
                yield f"{path}: {name} may only be included by {', '.join(sorted(layers))}"
        target = name.split("/")[0]
        reserved = any(name.startswith(prefix) for prefix in RESERVED)
        if not reserved and target in tree.MAY_INCLUDE and target != layer \
                and target not in tree.MAY_INCLUDE.get(layer, set()):
            yield f"{path}: {layer}/ may not include {name}"
        if name.startswith(".."):
            yield f"{path}: {name} is a relative include; write the path from the root"


def main(root):
    found = [p for layer, path in tree.sources(root, ".c", ".h") for p in problems_in(layer, path)]
    print("\n".join(found) or "includes: all point downwards")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
