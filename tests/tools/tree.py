# SPDX-License-Identifier: Apache-2.0
"""The modules of the product, lowest first, and what each may include and call (check_includes.py, check_cycles.py).
docs/architecture.md shows the same table (check_folders.py)."""
import pathlib

MAY_INCLUDE = {}


def _module(name, *includes, and_below=()):
    """and_below: modules that may be included with everything that they may include."""
    MAY_INCLUDE[name] = set(includes).union(*({below} | MAY_INCLUDE[below] for below in and_below))


_module("base")
_module("delay", "base")
_module("detect", "base")
_module("obs", "base")
_module("softrnic", "base")
_module("verbs", and_below=["softrnic"])
_module("dropin", "obs", and_below=["verbs"])
_module("failover", "base", "verbs")
_module("hostpath", "base", "verbs", "detect")
_module("transport/protocol", "base", "verbs", "failover")
_module("transport/session", and_below=["transport/protocol"])
_module("transport/path", "obs", and_below=["transport/protocol", "hostpath"])
_module("transport/message", "delay", "obs", and_below=["transport/session", "transport/path", "hostpath"])
_module("failover/switchover", and_below=["transport/message"])
_module("hostpath/staged", and_below=["transport/message"])
_module("transport", and_below=["failover/switchover", "hostpath/staged"])
_module("plugin", "base", "verbs", "obs", "transport/protocol", "transport/session", "transport/message",
        "failover/switchover", "transport")
_module("doctor", "base", "verbs", "failover", "transport/protocol", "transport/path")
_module("sched", "base")
_module("sched/search", and_below=["sched"])
_module("sched/format", and_below=["sched"])
_module("planner", and_below=["sched/search", "sched/format"])
_module("planner/format", and_below=["planner"])
_module("planner/cost", and_below=["planner"])
_module("planner/mitigate", and_below=["planner"])
_module("pipeline", "base")
_module("job", "base")
_module("controller", "base", "obs")
_module("cli", "base", "delay", "obs", "doctor", "job", "controller")
_module("cli/perf", and_below=["cli"])
_module("cli/sched", and_below=["cli"])
_module("cli/pipeline", "pipeline", and_below=["cli"])
_module("cli/main", and_below=["cli/perf", "cli/sched", "cli/pipeline"])


def module_of(path):
    """The module that a file of the product belongs to: the longest name that its path begins with, or None."""
    parts = pathlib.PurePosixPath(path).parent.parts
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in MAY_INCLUDE or name == "include":
            return name
    return None


def sources(root, *suffixes):
    """(module, path) of every file with one of the suffixes in the product's folders."""
    for top in sorted({name.split("/")[0] for name in MAY_INCLUDE} | {"include"}):
        for path in sorted(pathlib.Path(root, top).rglob("*")):
            if path.suffix in suffixes:
                yield module_of(path.relative_to(root)) or top, path


def relative_sources(root, *suffixes):
    """(module, path from the root as text, the file's text) of every file with one of the suffixes."""
    for module, path in sources(root, *suffixes):
        yield module, path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
