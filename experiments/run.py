#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tables of tables.py in virtual time and writes docs/experiments.md.

  run.py BUILD            all tables
  run.py BUILD --table ID one table, the others stay as they are in the document
  run.py BUILD --check    one row of each, compared with the document: exact, since virtual time is"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

from tables import MORE_SYSTEMS, SYSTEMS, TABLES

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/experiments.md"
PROGRAM = "tests/detour-sim-pipeline"
LAST_CELL = {"trace": "The last cell of the last event:", "hour": "The last cell of the last delay:"}
PROCESSES = "Runs of real processes"  # the section of processes.py
REMEDIES = "FALCON:"  # how those of falcon.py begin


class Runs:
    """Runs of the programs, each once, several at a time."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        if not (self.build / PROGRAM).exists():
            sys.exit(f"{self.build}: has no {PROGRAM}; `make experiments` builds it in build/")
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        self.started = {}

    def run(self, words):
        command = [self.build / words[0], *words[1:]]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            sys.exit(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
        return json.loads(result.stdout)

    def start(self, words):
        key = tuple(words)
        if key not in self.started:
            self.started[key] = self.pool.submit(self.run, words)
        return self.started[key]

    def time_ns(self, words, is_mean):
        return self.start(words).result()["mean_ns" if is_mean else "iteration_ns"]


def systems_of(table):
    return table.get("systems", SYSTEMS)


def words_of(system, case, with_links):
    """The program of a cell and its options."""
    links = case["links"][system] if isinstance(case["links"], dict) else case["links"]
    options = {**SYSTEMS, **MORE_SYSTEMS}[system] + case["options"] + (links if with_links else [])
    return [case.get("program", PROGRAM), *options]


def value_of(options, name):
    return options[options.index(name) + 1]


def bound_ns(case):
    """What no schedule avoids on a serial link (tables.py); stages of 10, 10 and 10 ms."""
    stages, microbatches = int(value_of(case["options"], "--devices")), int(value_of(case["options"], "--microbatches"))
    link, delay = value_of(case["links"], "--slow-link").split("ms")[0].split("=")
    before = int(link.split("-")[0]) + 1
    operation_ns = 10_000_000
    delay_ns = int(delay) * 1_000_000
    crossing = before * operation_ns + microbatches * delay_ns
    rest = 2 * (stages - before) * operation_ns + delay_ns + before * operation_ns + operation_ns
    return max(crossing + rest, (3 * microbatches + stages - 1) * operation_ns)


def cell(time_ns, base_ns):
    return f"{time_ns / 1e6:.3f} ms, {time_ns / base_ns:.3f}x"


def start_row(runs, table, case):
    for system in systems_of(table):
        runs.start(words_of(system, case, True))
        runs.start(words_of(table.get("against", system), case, False))


def row_of(runs, table, case):
    is_mean = table.get("mean", False)
    cells = []
    for system in systems_of(table):
        time_ns = runs.time_ns(words_of(system, case, True), is_mean)
        cells.append(cell(time_ns, runs.time_ns(words_of(table.get("against", system), case, False), is_mean)))
    if table.get("bound"):
        cells.append(cell(bound_ns(case), runs.time_ns(words_of("re-planned + delegated", case, False), False)))
    return "| " + " | ".join([case["name"], *cells]) + " |"


def trace_row(runs, table):
    """Minutes of the whole trace."""
    cells = []
    for system in systems_of(table):
        base_ns = runs.time_ns(words_of(system, table["cases"][0], False), False)
        events_ns = [runs.time_ns(words_of(system, case, True), False) for case in table["cases"]]
        each, count = table["trace"]["each"], table["trace"]["iterations"]
        total_ns = sum(events_ns) * each + (count - each * len(events_ns)) * base_ns
        cells.append(f"{total_ns / 6e10:.3f} min, {total_ns / (count * base_ns):.3f}x")
    return "| " + " | ".join(["all 1,200 iterations", *cells]) + " |"


def hour_rows(runs, table):
    """Iterations per minute over a list of delays that last equally long."""
    rows = []
    for name, delays in table["hour"].items():
        cells = []
        for system in systems_of(table):
            per_minute = {delay: 6e10 / runs.time_ns(words_of(system, case, True), False)
                          for delay, case in zip(table["delays"], table["cases"])}
            base = 6e10 / runs.time_ns(words_of(system, table["cases"][0], False), False)
            mean = sum(per_minute[delay] for delay in delays) / len(delays)
            cells.append(f"{mean:.3f} / min, {base / mean:.3f}x")
        rows.append("| " + " | ".join([name, *cells]) + " |")
    return rows


def command_of(table):
    case = table["cases"][-1]
    system = list(systems_of(table))[-1]
    words = [f"'{word}'" if set(word) & set(" ()") else word for word in words_of(system, case, True)]
    return "    build/" + " ".join(words)


def wrap(text):
    lines, line = [], ""
    for word in text.split():
        if len(line) + len(word) + 1 > 118:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def write_table(runs, table):
    systems = [*systems_of(table), *(["bound"] if table.get("bound") else [])]
    lines = [f"## {table['title']}", "", wrap(table["paper"] + "."), "", "| | " + " | ".join(systems) + " |",
             "| --- |" + " --- |" * len(systems)]
    lines += [row_of(runs, table, case) for case in table["cases"]]
    if "trace" in table:
        lines.append(trace_row(runs, table))
    if "hour" in table:
        lines += hour_rows(runs, table)
    lines += ["", f"![{table['title']}](experiments/{table['id']}.svg)"]  # charts.py
    lines += ["", wrap("Reported: " + table["reported"])]
    if table["note"]:
        lines += ["", wrap(table["note"])]
    return "\n".join([*lines, "", LAST_CELL.get(table["id"], "The last cell of the last row:"), "", command_of(table), ""])


def read_tables():
    """{title: text} of the document as it is."""
    parts = DOCUMENT.read_text(encoding="utf-8").split("\n## ")[1:] if DOCUMENT.exists() else []
    return {part.split("\n")[0]: "## " + part.rstrip() + "\n" for part in parts}


def write_document(runs, chosen):
    kept = read_tables()
    for table in TABLES:
        for case in table["cases"] if table["id"] in chosen else []:
            start_row(runs, table, case)
    texts = [(ROOT / "experiments/preface.md").read_text(encoding="utf-8")]
    for table in TABLES:
        if table["id"] in chosen or table["title"] in kept:
            texts.append(write_table(runs, table) if table["id"] in chosen else kept[table["title"]])
    texts += [text for title, text in kept.items() if title == PROCESSES or title.startswith(REMEDIES)]
    DOCUMENT.write_text("\n".join(texts).rstrip() + "\n", encoding="utf-8")


def check(runs):
    """The last row of each table is in the document."""
    for table in TABLES:
        start_row(runs, table, table["cases"][-1])
    written = set(DOCUMENT.read_text(encoding="utf-8").splitlines())
    wrong = [row for table in TABLES if (row := row_of(runs, table, table["cases"][-1])) not in written]
    for row in wrong:
        print(f"docs/experiments.md does not have this row (make experiments writes it anew):\n{row}")
    print(f"experiments: {len(TABLES) - len(wrong)} of {len(TABLES)} rows as in docs/experiments.md")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", choices=[table["id"] for table in TABLES])
    arguments = parser.parse_args()
    runs = Runs(arguments.build)
    if arguments.check:
        return check(runs)
    write_document(runs, [arguments.table] if arguments.table else [table["id"] for table in TABLES])
    return 0


if __name__ == "__main__":
    sys.exit(main())
