#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs pipelines of real processes (`detour pipeline`) beside their simulation and writes the section "Runs of real
processes" of docs/experiments.md; the tables in virtual time stay as they are.

  processes.py BUILD              all runs, about 35 minutes, on an otherwise idle machine
  processes.py BUILD --falcon     only FALCON's figures 13 to 17, about 18 minutes
  processes.py BUILD --figure-17  only FALCON's figure 17 (falcon_compound.py), about 2 minutes
  processes.py BUILD --quick      the same runs with few iterations, to try the script: printed, not written

Subsections of the document that no run writes (figures 18 and 19: overhead.py prints them) stay."""
import argparse
import datetime
import itertools
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import falcon_compound
import falcon_processes
import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUSY = 0.25  # load per core above which the machine is not idle

SCHEDULES = ["1f1b", "zb-h1", "zb-h2"]
MODES = ["delegated", "nccl"]
DELAYS_MS = [0, 10, 30, 60]
SHAPES = [(4, 12), (8, 16)]  # devices, microbatches
TIMES_MS = "10,10,10"
PAYLOAD = "64K"


class Pipeline:
    """Runs of one program, and the largest share of the cores that any of them used."""

    def __init__(self, build):
        self.program = pathlib.Path(build, "bin/detour")
        self.cpu = 0.0
        self.busy = 0

    def run(self, *options, rules="", event_command=""):
        environment = {**os.environ, "DETOUR_INJECT": rules, "DETOUR_EVENT_COMMAND": event_command}
        with tempfile.TemporaryDirectory(prefix="detour-experiments-") as folder:
            path = pathlib.Path(folder, "result.json")
            command = [self.program, "pipeline", *map(str, options), "--json", path]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
            result = json.loads(path.read_text(encoding="utf-8"))
        self.cpu = max(self.cpu, *(row["cpu"] for row in result["iterations"]))
        self.busy += sum(not row["comparable"] for row in result["iterations"])
        return result


def shape_options(devices, microbatches, schedule, mode, delay_ms):
    options = ["--devices", devices, "--microbatches", microbatches, "--times", TIMES_MS, "--schedule", schedule,
               "--mode", mode]
    return options + (["--slow-link", f"{devices - 2}-{devices - 1}={delay_ms}ms"] if delay_ms else [])


def simulated_ms(build, options):
    """The same pipeline in virtual time: small messages on a fast link."""
    command = [pathlib.Path(build, run.PROGRAM), *map(str, options), "--message", PAYLOAD, "--slice", PAYLOAD,
               "--free-links"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["iteration_ns"] / 1e6


def prediction(pipeline, build, iterations):
    """The table of prediction errors, and all errors in percent. The first iteration of a run warms up."""
    lines = ["| devices, microbatches | mode | schedule | " + " | ".join(f"{ms} ms" for ms in DELAYS_MS) + " |",
             "| --- | --- | --- |" + " --- |" * len(DELAYS_MS)]
    errors = []
    for (devices, microbatches), mode, schedule in itertools.product(SHAPES, MODES, SCHEDULES):
        cells = []
        for delay_ms in DELAYS_MS:
            options = shape_options(devices, microbatches, schedule, mode, delay_ms)
            result = pipeline.run(*options, "--payload", PAYLOAD, "-n", iterations + 1)
            times = [row["time_ms"] for row in result["iterations"][1:]]
            expected = simulated_ms(build, options)
            error = 100 * (statistics.mean(times) / expected - 1)
            errors.append(error)
            cells.append(f"{expected:.2f}, {statistics.mean(times):.2f} ms: {error:+.2f} %")
        lines.append("| " + " | ".join([f"{devices}, {microbatches}", mode, schedule, *cells]) + " |")
        print(lines[-1], flush=True)
    return lines, errors


def longest_ms(result):
    """The longest way of a message in the iteration of the timeline."""
    return max(message["arrived_ms"] - message["sent_ms"] for message in result["timeline"]["messages"])


# The cases of SHIFT's figure 10, and flapping proper: what fails, and rules of injection. In software a busy backup is
# one on which every message takes longer.
FAILURES = {
    "nothing fails": ([], ""),
    "the RNIC stays away, idle backup": (["--kill", "first@iteration=4"], ""),
    "the RNIC stays away, busy backup: 2 ms more per message": (["--kill", "first@iteration=4"],
                                                                "device=soft1 latency=2ms"),
    "the RNIC is back before iteration 7, busy backup": (["--kill", "first@iteration=4,back=7"],
                                                         "device=soft1 latency=2ms"),
    "the RNIC flaps: away for 300 ms of each second": ([], "device=soft0 flap=300ms/1s"),
}
FAILURE_ITERATIONS = 12


def failure(pipeline, name, repeats):
    """Longest way of a message in the iteration of the failure, that iteration, the mean of those behind it, and how
    many iterations are lost: a row of the table."""
    options, rules = FAILURES[name]
    base = ["--devices", 4, "--microbatches", 12, "--times", TIMES_MS, "--payload", PAYLOAD, "-n", FAILURE_ITERATIONS,
            "--timeline", 4]
    ways, failing, behind, lost = [], [], [], 0
    for _ in range(repeats):
        result = pipeline.run(*base, *options, rules=rules)
        times = [row["time_ms"] for row in result["iterations"]]
        lost += FAILURE_ITERATIONS - len(times)
        ways.append(longest_ms(result))
        failing.append(times[4])
        behind.append(statistics.mean(times[5:]))
    cells = [f"{statistics.median(values):.2f}, {max(values):.2f}" for values in (ways, failing, behind)]
    return "| " + " | ".join([name, *cells, str(lost)]) + " |"


def failure_lines(pipeline, repeats):
    lines = ["| median and largest, ms | longest way of a message in iteration 4 | iteration 4 | mean of iterations 5 to 11 | "
             "iterations lost |", "| --- | --- | --- | --- | --- |"]
    for name in FAILURES:
        lines.append(failure(pipeline, name, repeats))
        print(lines[-1], flush=True)
    return lines


# A job as in SHIFT's figure 10 that makes checkpoints: its RNICs fail in the middle of an iteration, traffic goes over the
# backup, some iterations later the job ends, and is started again.
CHECKPOINT_EVERY, CHECKPOINT_FAILS, CHECKPOINT_ENDS, CHECKPOINT_ITERATIONS = 4, 5, 7, 10


def repeated(rows, resumed):
    """How many iterations of a job the restarted job runs a second time."""
    return rows[-1]["iteration"] + 1 - resumed[0]["iteration"]


def restart(pipeline, is_early):
    """A job and its restart: the rows of both."""
    with tempfile.TemporaryDirectory(prefix="detour-checkpoints-") as folder:
        base = ["--devices", 2, "--dp", 2, "--microbatches", 12, "--times", TIMES_MS, "--payload", PAYLOAD,
                "--gradients", "1M", "--checkpoint", folder, "--every", CHECKPOINT_EVERY]
        command = f"touch {folder}/checkpoint-now" if is_early else ""
        rows = pipeline.run(*base, "-n", CHECKPOINT_ENDS, "--kill", f"first@iteration={CHECKPOINT_FAILS}",
                            event_command=command)["iterations"]
        return rows, pipeline.run(*base, "-n", CHECKPOINT_ITERATIONS, "--resume")["iterations"]


def checkpoint_lines(pipeline, repeats):
    lines = ["| checkpoints | iterations without one, ms | time of a checkpoint, ms | the iteration of the failure, ms | "
             "iterations repeated |", "| --- | --- | --- | --- | --- |"]
    for name, is_early in (f"every {CHECKPOINT_EVERY} iterations", False), ("and one made by the event command", True):
        runs = [restart(pipeline, is_early) for _ in range(repeats)]
        rows = [row for first, _ in runs for row in first]
        values = ([row["time_ms"] for row in rows if "checkpoint" not in row and row["iteration"] != CHECKPOINT_FAILS],
                  [row["checkpoint_ms"] for row in rows if "checkpoint" in row],
                  [row["time_ms"] for row in rows if row["iteration"] == CHECKPOINT_FAILS],
                  [repeated(first, resumed) for first, resumed in runs])
        cells = [f"{statistics.median(column):.4g}, {max(column):.4g}" for column in values]
        lines.append("| " + " | ".join([name, *cells]) + " |")
        print(lines[-1], flush=True)
    return lines


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def state(loads, pipeline, beside):
    """`loads`: the first one is that before the first run. `beside`: what else ran, in words."""
    idle = "otherwise idle" if loads[0] < BUSY * os.cpu_count() else "NOT IDLE: times of other work are in the results"
    if beside:
        idle += f"; {beside}"
    busy = f"; {pipeline.busy} iterations above 70 % are not comparable" if pipeline.busy else ""
    return (f"{datetime.date.today()}, {cpu_name()}, {os.cpu_count()} cores, Linux {platform.release()}, load {loads[0]:.2f} "
            f"before, at most {max(loads[1:] or loads):.2f} later ({idle}). The ranks used {100 * pipeline.cpu:.0f} % of "
            f"the cores at most{busy}.")


def falcon_lines(arguments, parts=(falcon_processes, falcon_compound)):
    lines = []
    for part in parts:
        pipeline = Pipeline(arguments.build)
        lines += part.subsection(pipeline, arguments.build, 1 if arguments.quick else 5, arguments.load,
                                 lambda loads, pipeline=pipeline: state(loads, pipeline, arguments.beside))
    return lines


def section(arguments):
    build, (iterations, repeats) = arguments.build, (1, 1) if arguments.quick else (20, 10)
    pipeline = Pipeline(build)
    before = os.getloadavg()[0]
    start = time.monotonic()
    table, errors = prediction(pipeline, build, iterations)
    failures = failure_lines(pipeline, repeats)
    checkpoints = checkpoint_lines(pipeline, repeats)
    sizes = [abs(error) for error in errors]
    lines = [f"## {run.PROCESSES}", "", run.wrap(state([before, os.getloadavg()[0]], pipeline, arguments.beside)), "", run.wrap(
        "`make experiments-processes` runs `detour pipeline`: processes with software RNICs, computing is a timed wait. "
        f"F, B and W take 10 ms, a message has {PAYLOAD}, the link between the last two devices is slow. Cells: the time "
        f"of an iteration in virtual time (detour-sim-pipeline --free-links, the same program), the mean of {iterations} "
        "iterations of a run, their difference."), "", *table, "", run.wrap(
        f"Mean of the differences' sizes {statistics.mean(sizes):.2f} %, largest {max(sizes):.2f} % (AdaPtis reports a "
        "mean of 2.12 % for its model)."), "", run.wrap(
        f"The cases of SHIFT's figure 10 (\"nearly unaffected\", \"almost no degradation\"), {repeats} runs of "
        f"{FAILURE_ITERATIONS} iterations with 4 devices and zb-h1 each: the first RNIC of every rank fails in the middle "
        "of iteration 4, and traffic goes over the second one."), "", *failures, "", run.wrap(
        f"The same with checkpoints, {repeats} runs with 2 devices and 2 replicas: the RNICs fail in iteration "
        f"{CHECKPOINT_FAILS}, the job ends after {CHECKPOINT_ENDS} iterations and is started again with `--resume`. Cells: "
        "median and largest."), "", *checkpoints, "", *falcon_lines(arguments)]
    print(f"{time.monotonic() - start:.0f} s")
    return "\n".join(lines)


def parts_of(section):
    """What is before the first subsection, and {title: text} of the subsections."""
    begin, *parts = ("\n" + section).split("\n### ")
    return begin.strip(), {part.split("\n")[0]: "### " + part.strip() for part in parts}


def merged(document, text):
    """The document with this section, or with these subsections alone. Subsections that `text` does not have stay."""
    heading = f"## {run.PROCESSES}\n"
    before, _, old = document.partition("\n" + heading)
    (begin, parts), (old_begin, old_parts) = parts_of(text), parts_of(heading + old)
    return "\n\n".join([before.rstrip(), begin or old_begin, *{**old_parts, **parts}.values()]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--quick", action="store_true")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--falcon", action="store_true")
    only.add_argument("--figure-17", action="store_true")
    parser.add_argument("--load", type=float, default=math.inf, help="each run of --falcon waits until the load is below this")
    parser.add_argument("--beside", help="what else runs on the machine, for the document")
    arguments = parser.parse_args()
    if arguments.figure_17:
        text = "\n".join(falcon_lines(arguments, [falcon_compound]))
    elif arguments.falcon:
        text = "\n".join(falcon_lines(arguments))
    else:
        text = section(arguments)
    if arguments.quick:
        print(text)
    else:
        run.DOCUMENT.write_text(merged(run.DOCUMENT.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
