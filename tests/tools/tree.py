# SPDX-License-Identifier: Apache-2.0
"""Which source files the checks look at, and what each layer may include. The table is DESIGN's."""
import pathlib

# layer -> the layers whose headers it may include (besides its own)
MAY_INCLUDE = {
    "base": set(),
    "softrnic": {"base"},
    "dropin": {"base", "softrnic"},
    "delay": {"base"},
    "detect": {"base"},
    "sched": {"base"},
    "verbs": {"base", "softrnic"},
    "obs": {"base"},
    "failover": {"base", "verbs", "obs"},
    "hostpath": {"base", "verbs", "obs"},
    "transport": {"base", "softrnic", "verbs", "obs", "delay", "detect", "failover", "hostpath"},
    "plugin": {"base", "transport", "verbs", "obs"},
    "doctor": {"base", "verbs", "transport"},
    "cli": {"base", "delay", "obs", "doctor"},
}


def sources(root, *suffixes):
    """(layer, path) of every file with one of the suffixes in the product's folders."""
    for layer in [*MAY_INCLUDE, "include"]:
        folder = pathlib.Path(root, layer)
        for path in sorted(folder.rglob("*")):
            if path.suffix in suffixes:
                yield layer, path
