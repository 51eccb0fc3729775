#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the tables of docs/experiments.md: docs/experiments/ID.svg for each. `make experiments` calls it.

usage: charts.py

Needs matplotlib (Debian: python3-matplotlib); without it the pictures stay as they are."""
import pathlib
import re
import sys

from run import ROOT, read_tables
from tables import TABLES

FOLDER = ROOT / "docs/experiments"
RATIO = re.compile(r"([0-9.]+)x$")
DELAY = re.compile(r"([0-9.]+) ms(,|$)")


def rows_of(text):
    """The names of the columns, and (name, values) of each row."""
    lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("|")]
    head, body = lines[0], lines[2:]
    columns = head[-(len(body[0]) - 1):]
    return columns, [(row[0], [float(RATIO.search(cell).group(1)) for cell in row[1:]]) for row in body]


def draw_lines(axes, columns, rows):
    delays = [float(DELAY.match(name).group(1)) for name, _ in rows]
    for column, name in enumerate(columns):
        axes.plot(delays, [values[column] for _, values in rows], marker="o", markersize=3, label=name)
    axes.set_xlabel("delay (ms)")
    axes.grid(True, linewidth=0.3)


def draw_bars(axes, columns, rows):
    width = 0.8 / len(columns)
    for column, name in enumerate(columns):
        places = [row + (column - (len(columns) - 1) / 2) * width for row in range(len(rows))]
        axes.barh(places, [values[column] - 1 for _, values in rows], height=width, left=1, label=name)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.grid(True, axis="x", linewidth=0.3)


def draw(plt, table, text):
    columns, rows = rows_of(text)
    delays = [row for row in rows if DELAY.match(row[0])]
    is_lines = len(delays) >= 3 and len({DELAY.match(name).group(1) for name, _ in delays}) == len(delays)
    figure, axes = plt.subplots(figsize=(8, 4 if is_lines else 1 + 0.14 * len(rows) * (len(columns) + 1)))
    label = "time of an iteration: ratio in the table"
    if is_lines:
        draw_lines(axes, columns, delays)
        axes.set_ylabel(label)
    else:
        draw_bars(axes, columns, rows)
        axes.set_xlabel(label)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    figure.savefig(FOLDER / f"{table['id']}.svg", metadata={"Date": None}, bbox_inches="tight")
    plt.close(figure)


def main():
    try:
        import matplotlib
    except ImportError:
        print("charts: no matplotlib (Debian: python3-matplotlib); docs/experiments/*.svg stay as they are")
        return 0
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "detour", "svg.fonttype": "none", "font.size": 9})
    import matplotlib.pyplot as plt

    FOLDER.mkdir(exist_ok=True)
    texts = read_tables()
    for table in TABLES:
        if table["title"] in texts:
            draw(plt, table, texts[table["title"]])
    return 0


if __name__ == "__main__":
    sys.exit(main())
