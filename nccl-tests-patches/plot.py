#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Iterations of nccl-tests and injected delays on one time axis, as a picture.

The iteration log (0001-iteration-log.md, with -z 3) gives the points, its marks the vertical lines, the record
of `detour inject record` the delays below. Needs python3-matplotlib.
"""
import argparse
import csv
import json
import sys


def fail(text):
    print(f"plot.py: {text}", file=sys.stderr)
    sys.exit(2)


def read_log(name):
    """(iterations as (start_ns, duration_ns), unfinished starts, marks as (ns, text), stalls as (since_ns, ns))."""
    started, done, marks, stalls = {}, [], [], []
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line.rstrip())
            except json.JSONDecodeError as error:
                fail(f"{name}: line {number}, column {error.colno}: {error.msg}")
            key = tuple(entry.get(part) for part in ("process", "thread", "bytes", "in_place", "iteration"))
            if "start_ns" in entry:
                started[key] = entry["start_ns"]
            elif "end_ns" in entry and key in started:
                start = started.pop(key)
                done.append((start, entry["end_ns"] - start))
            elif "mark_ns" in entry:
                marks.append((entry["mark_ns"], entry["text"]))
            elif entry.get("gpus") == 0:
                stalls.append((entry["since_ns"], entry["stall_ns"]))
    return done, sorted(started.values()), marks, stalls


def read_record(name):
    """Delays as (hand-over ns, delay ns)."""
    with open(name, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if "delay_ns" not in (rows.fieldnames or []):
            fail(f"{name}: line 1: expected a record of `detour inject record`")
        try:
            return [(int(row["time_ns"]), int(row["delay_ns"])) for row in rows]
        except (TypeError, ValueError):
            fail(f"{name}: line {rows.line_num}: time_ns and delay_ns must be whole numbers")


def draw(log, delays, out):
    try:
        import matplotlib
    except ImportError:
        fail("matplotlib is not installed (Debian: python3-matplotlib)")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    done, unfinished, marks, stalls = log
    zero = min([start for start, _ in done] + unfinished + [at for at, _ in delays])
    seconds = lambda ns: (ns - zero) / 1e9  # noqa: E731
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(11, 6))
    top.scatter([seconds(start) for start, _ in done], [ns / 1e6 for _, ns in done], s=6)
    for start in unfinished:
        top.axvline(seconds(start), color="tab:red", linestyle=":")
    for since, until in stalls:
        top.axvspan(seconds(since), seconds(until), color="tab:red", alpha=0.1)
    for at, text in marks:
        top.axvline(seconds(at), color="tab:gray")
        top.annotate(text, (seconds(at), 1), xycoords=("data", "axes fraction"), rotation=90, fontsize=7, va="top")
    top.set_ylabel("iteration (ms)")
    bottom.scatter([seconds(at) for at, _ in delays], [ns / 1e6 for _, ns in delays], s=4, color="tab:orange")
    bottom.set_ylabel("injected delay (ms)")
    bottom.set_xlabel("time (s)")
    figure.tight_layout()
    figure.savefig(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", help="file of --iteration_log")
    parser.add_argument("record", help="file of `detour inject record`")
    parser.add_argument("out", help="picture to write: .svg, .png or .pdf")
    options = parser.parse_args()
    try:
        log, delays = read_log(options.log), read_record(options.record)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    if not log[0] and not log[1]:
        fail(f"{options.log}: there is no iteration in it")
    draw(log, delays, options.out)


if __name__ == "__main__":
    main()
