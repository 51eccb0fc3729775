#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FALCON's figure 12 with `detour pipeline`: the time of an iteration by the traffic's rhythm (iteration_ns of the pages,
include/detour/stat.h) against the runner's own, from one begin_ms to the next, on several shapes of the job. Each rank's
pages are read every 20 ms while the job runs. Printed per shape: the error of the whole run, as in the paper (at most 1.2 %),
and of means of ten iterations, as on generated traffic (tests/detect/iteration_test.cc), and of single iterations.

A link or device that becomes slow moves the begin of the later ranks' iterations once, by its delay, which is no error of the
estimate: iterations next to a change are left out. Numbers are those of an idle machine; the load is printed.

  iteration_time.py BUILD [--iterations N] [--shape NAME]..."""
import argparse
import importlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

BUSY = 0.25  # load per core above which the machine is not idle
WARM_UP = 30  # iterations, until all ranks have found the period
MEAN_OF = 10
AROUND = 3  # iterations left out on either side of a change
SETTLE_S = 0.05  # an iteration is evaluated this long after its end (DT_RANK_TIME_SETTLE_NS)
POLL_S = 0.02  # reports come every 100 ms at most (transport/health.c)


def steps(words, first, last, count, value):
    """`count` equal parts of the iterations [first, last), each with its own value of one option."""
    made = []
    for i in range(count):
        begin, end = (first + (last - first) * k // count for k in (i, i + 1))
        made += [words, f"{value(i + 1)},from={begin},to={end}"]
    return made


def drift(option, target, first, last, value):
    return [word if k % 2 == 0 else target + word
            for k, word in enumerate(steps(option, first, last, 10, value))]


def shapes(n):
    """{name: (words of the command, iterations at which something changes)}; small steps are none."""
    third, end = n // 3, 2 * n // 3
    middle = f",from={third},to={end}"
    four = ["--devices", "4", "--microbatches", "8", "--times", "4,4,4"]
    return {
        "2 devices": (["--devices", "2", "--microbatches", "8", "--times", "6,6,6"], []),
        "2 devices, short": (["--devices", "2", "--microbatches", "4", "--times", "3,3,3"], []),
        "4 devices": (four, []),
        "4 devices, 1f1b": ([*four, "--schedule", "1f1b"], []),
        "4 devices, zb-v": ([*four, "--schedule", "zb-v"], []),
        "4 devices, unequal times": (["--devices", "4", "--microbatches", "12", "--times", "3,6,2"], []),
        "8 devices": (["--devices", "8", "--microbatches", "16", "--times", "4,4,4"], []),
        "2 devices, 2 replicas": (["--devices", "2", "--dp", "2", "--microbatches", "8", "--times", "4,4,4"], []),
        "slow link": ([*four, "--slow-link", "1-2=15ms" + middle], [third, end]),
        "slow device": ([*four, "--slow-device", "2=1.5x" + middle], [third, end]),
        "device drifts to 1.2x": ([*four, *drift("--slow-device", "2=", third, n, lambda k: f"{1 + 0.02 * k:.2f}x")], []),
        "link drifts to 10 ms": ([*four, *drift("--slow-link", "1-2=", third, n, lambda k: f"{k}ms")], []),
    }


class Pages:
    """Reads the pages in a thread: {process: [(time, complete iterations, time of the last one)]}, an entry per change."""

    def __init__(self, stat, folder):
        self.stat, self.folder = stat, folder
        self.rows = {}
        self.is_over = False
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.is_over:
            now = time.monotonic()
            for process in self.stat.read(folder=str(self.folder)):
                rows = self.rows.setdefault(process["pid"], [])
                if process["iterations"] and (not rows or rows[-1][1] != process["iterations"]):
                    rows.append((now, process["iterations"], (process["iteration_ns"] or 0) / 1e6))
            time.sleep(POLL_S)

    def end(self):
        self.is_over = True
        self.thread.join()
        return list(self.rows.values())


def blocks_of(rows):
    """[(time, number of the first iteration, count, mean ms)]. A report may have several iterations. One that repeats the
    time before exactly is no new one: the rank took another connection for its clock, and the numbers begin anew."""
    segments = [[]]
    for (_, before, old_ms), (when, number, ms) in zip(rows, rows[1:]):
        if ms == old_ms:
            segments.append([])
        elif ms:
            segments[-1].append((when, before, number - before, ms))
    return [segment for segment in segments if segment]


def place(segment, begin_ms):
    """The number that the runner gives to the detector's iteration 0: of the few that the times of the reports allow, the
    one with the smallest errors. None: the segment is too short to tell, or most of it is outside the run."""
    when, first, count, _ = segment[len(segment) // 2]
    ended = sum(begin <= 1000 * (when - SETTLE_S) for begin in begin_ms) - 1 - first - count
    found = []
    for offset in range(ended - 2, ended + 2):
        errors = [abs(error) for _, error in errors_of(segment, offset, begin_ms)]
        if len(errors) >= max(3, len(segment) // 2):
            found.append((statistics.median(errors), offset))
    return min(found)[1] if found else None


def errors_of(segment, offset, begin_ms, is_left_out=lambda first, last: False):
    """[(number of iterations, error of the report)]."""
    found = []
    for _, first, count, ms in segment:
        first, last = first + offset, first + offset + count
        if 0 <= first and last < len(begin_ms) and not is_left_out(first, last):
            found.append((count, count * ms / (begin_ms[last] - begin_ms[first]) - 1))
    return found


def windows(segment, offset, begin_ms, length, is_left_out):
    """Errors of the sums of consecutive reports of at least `length` iterations; 0: of all."""
    found, begun, sum_ms, last = [], None, 0, 0
    for _, first, count, ms in segment:
        first += offset
        if first < 0 or first + count >= len(begin_ms) or is_left_out(first, first + count) or (begun is not None and first != last):
            begun, sum_ms = None, 0
            continue
        begun = first if begun is None else begun
        last, sum_ms = first + count, sum_ms + count * ms
        if length and last - begun >= length:
            found.append(sum_ms / (begin_ms[last] - begin_ms[begun]) - 1)
            begun, sum_ms = None, 0
    if not length and begun is not None and last > begun:
        found.append(sum_ms / (begin_ms[last] - begin_ms[begun]) - 1)
    return found


class Shape:
    """The errors of all ranks of one run."""

    def __init__(self, rows_of_ranks, begin_ms, changes):
        self.single, self.means, self.whole = [], [], []
        self.covered = 0  # iterations that were reported and compared
        def is_left_out(first, last):
            return first < WARM_UP or any(first <= change + AROUND and last >= change - AROUND for change in changes)
        self.wanted = len(rows_of_ranks) * sum(not is_left_out(i, i + 1) for i in range(len(begin_ms) - 1))
        for rows in rows_of_ranks:
            for segment in blocks_of(rows):
                offset = place(segment, begin_ms)
                if offset is None:
                    continue
                reports = errors_of(segment, offset, begin_ms, is_left_out)
                self.single += [abs(error) for _, error in reports]
                self.covered += sum(count for count, _ in reports)
                self.means += map(abs, windows(segment, offset, begin_ms, MEAN_OF, is_left_out))
                self.whole += map(abs, windows(segment, offset, begin_ms, 0, is_left_out))


def text_of(errors):
    if not errors:
        return "none"
    errors = sorted(errors)
    p99 = errors[min(len(errors) - 1, int(0.99 * len(errors)))]
    return f"{len(errors):5}: p50 {100 * statistics.median(errors):.3f} % p99 {100 * p99:.3f} % max {100 * errors[-1]:.3f} %"


def run(detour, stat, words, iterations, changes):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="detour-iteration-"))
    try:
        (folder / "runtime").mkdir(mode=0o700)
        environment = dict(os.environ, DETOUR_VERBS="soft", DETOUR_SOCKET_IFNAME="=lo", DETOUR_RUNTIME_DIR=str(folder / "runtime"))
        pages = Pages(stat, folder / "runtime")
        done = subprocess.run([detour, "pipeline", *words, "-n", str(iterations), "--json", str(folder / "result.json")],
                              env=environment, text=True, capture_output=True, check=False)
        rows = pages.end()
        if done.returncode:
            sys.exit(f"iteration_time.py: detour pipeline {' '.join(words)}: {done.stderr.strip()}")
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))["iterations"]
    finally:
        shutil.rmtree(folder)
    begin_ms = [row["begin_ms"] for row in result]
    between = sum(b - a - row["time_ms"] for a, b, row in zip(begin_ms, begin_ms[1:], result)) / (begin_ms[-1] - begin_ms[0])
    period = statistics.median(b - a for a, b in zip(begin_ms, begin_ms[1:]))
    return Shape(rows, begin_ms, changes), period, between, len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--shape", action="append", help="one of the shapes (default: all of them)")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    os.environ.setdefault("DETOUR_STAT_LIBRARY", str(build / "lib/libdetour-stat.so.0"))
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
    stat = importlib.import_module("detour_stat")
    known = shapes(options.iterations)
    before, worst, missing = os.getloadavg()[0], 0, []
    for name in options.shape or known:
        if name not in known:
            parser.error(f"--shape {name}: expected one of: {', '.join(known)}")
        words, changes = known[name]
        load = os.getloadavg()[0]
        shape, period, between, ranks = run(str(build / "bin/detour"), stat, words, options.iterations, changes)
        print(f"{name}: {period:.2f} ms, {100 * between:.1f} % of it between the iterations; {ranks} ranks, load {load:.1f}\n"
              f"  whole run {text_of(shape.whole)}\n  means of {MEAN_OF} {text_of(shape.means)}\n"
              f"  single {text_of(shape.single)}\n"
              f"  compared: {shape.covered} of {shape.wanted} iterations of all ranks", flush=True)
        worst = max([worst, *shape.means])
        missing += [] if shape.means else [name]
    busy = "" if before < BUSY * os.cpu_count() else "; NOT IDLE: times of other work are in the results"
    print(f"largest error of a mean of {MEAN_OF}: {100 * worst:.3f} %; {os.cpu_count()} cores, load {before:.2f} before and "
          f"{os.getloadavg()[0]:.2f} after{busy}")
    if missing:
        print(f"iteration_time.py: no iteration time was found: {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
