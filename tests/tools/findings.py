# SPDX-License-Identifier: Apache-2.0
"""The output of the checks of structure: each finding on a line and the rule behind them, or one line that all is good."""
import pathlib


def run(arguments, check, find, rule, good):
    """The main function of a check: find(root) returns {finding: how many, or None}. Returns whether there is one."""
    found = find(pathlib.Path(arguments[0]))
    lines = [finding if number is None else f"{finding} = {number}" for finding, number in sorted(found.items())]
    print("\n".join([*lines, f"{check}: the rule: {rule}"] if lines else [f"{check}: {good}"]))
    return bool(lines)
