#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `bench-sched-speed --csv` measured: time over operations, with lines of slope 1 and n log n.

usage: bench-sched-speed --csv | bench/sched_speed_plot.py OUT.svg

Needs matplotlib (Debian: python3-matplotlib).
"""
import csv
import math
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench-sched-speed --csv | sched_speed_plot.py OUT.svg")
    rows = list(csv.DictReader(sys.stdin))
    if not rows or "stages" not in rows[0]:
        sys.exit("sched_speed_plot.py: standard input is not what bench-sched-speed --csv prints")
    names = [name for name in rows[0] if name not in ("stages", "microbatches")]
    matplotlib.rcParams.update({"svg.hashsalt": "detour", "font.size": 9})
    figure, axes = plt.subplots(figsize=(7, 4.2))
    operations = {i: 3 * int(row["stages"]) * int(row["microbatches"]) for i, row in enumerate(rows)}
    for name in names:
        points = [(operations[i], float(row[name])) for i, row in enumerate(rows) if row[name]]
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=name)
    first, last = operations[0], operations[len(rows) - 1]
    start = float(rows[0]["adaptra"])
    for label, style, cost in (
        ("n", ":", lambda n: n),
        ("n log n", "--", lambda n: n * math.log(n)),
    ):
        ends = [start * cost(n) / cost(first) for n in (first, last)]
        axes.plot([first, last], ends, style, color="grey", linewidth=1, label=label)
    axes.set(xscale="log", yscale="log", xlabel="operations, 3 S N", ylabel="ms of the processor")
    axes.grid(True, which="major", linewidth=0.3)
    axes.legend(fontsize=8, ncol=2)
    figure.tight_layout()
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
