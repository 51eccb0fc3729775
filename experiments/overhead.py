#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""FALCON's figures 18 and 19 with `detour pipeline`: what the controller costs a healthy iteration, and the pause of S3
through the plugin and through files. The plugin's own detection is on in both runs, since nothing turns it off: --detection
counts its instructions instead. Runs in pairs, one after the other and in changing order, so that slow changes of the
machine meet both; the differences of the pairs are printed, with the load. Numbers are those of an idle machine.

Files of parameters are written to the disk (fsync), dropped from this machine's memory and read again, as a checkpoint that
outlives the machine. --folder has to be on the disk to compare with; a file system in memory is refused. The cache of a disk,
or of the host of a virtual one, is not seen from here.

--processor compares processor times, which other work changes little, of jobs of several shapes: of all ranks with and
without a controller, and of the controller.

  overhead.py BUILD [--pairs N] [--iterations N] [--parameters SIZES] [--folder DIR]
  overhead.py BUILD --processor [--shapes DEVICESxREPLICAS,...] [--pairs N] [--iterations N]
  overhead.py BUILD --detection [--shapes DEVICESxREPLICAS,...] [--iterations N]"""
import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile

BUSY = 0.25  # load per core above which the machine is not idle
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


def job_of(shape):
    devices, replicas = shape.split("x")
    gradients = ["--dp", replicas, "--gradients", "64K"] if replicas != "1" else []
    return ["--devices", devices, *gradients, "--microbatches", "8", "--times", "4,4,4"]


def processor_s(child):
    """Waits for the child: its processor time, with that of its own children."""
    usage = os.wait4(child.pid, 0)[2]
    child.returncode = 0
    return usage.ru_utime + usage.ru_stime


class Runs:
    def __init__(self, build):
        self.detour = str(pathlib.Path(build, "bin/detour").resolve())
        if not pathlib.Path(self.detour).exists():
            sys.exit(f"overhead.py: {build}: has no bin/detour; `make` builds it in build/")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="detour-overhead-"))
        self.environment = dict(os.environ, DETOUR_VERBS="soft", DETOUR_SOCKET_IFNAME="=lo",
                                DETOUR_RUNTIME_DIR=str(self.folder / "runtime"))
        (self.folder / "runtime").mkdir(mode=0o700)

    def pipeline(self, *words):
        path = self.folder / "result.json"
        done = subprocess.run([self.detour, "pipeline", *words, "--json", str(path)], env=self.environment, text=True,
                              capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"overhead.py: detour pipeline {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(path.read_text(encoding="utf-8"))["iterations"]

    def iteration_ms(self, iterations, is_controlled):
        """The median iteration; the first tenth warms up. With a controller: agent, judge and decisions every 200 ms."""
        controller = subprocess.Popen([self.detour, "control"], env=self.environment,
                                      stdout=subprocess.DEVNULL) if is_controlled else None
        try:
            rows = self.pipeline(*job_of("2x2"), "-n", str(iterations))
        finally:
            if controller:
                controller.terminate()
                controller.wait()
        return statistics.median(row["time_ms"] for row in rows[iterations // 10:])

    def processor_times(self, shape, iterations, is_controlled):
        """Processor times of the job and of the controller, and the time that the iterations took, in seconds."""
        path = self.folder / "result.json"
        controller = subprocess.Popen([self.detour, "control"], env=self.environment,
                                      stdout=subprocess.DEVNULL) if is_controlled else None
        job = subprocess.Popen([self.detour, "pipeline", *job_of(shape), "-n", str(iterations), "--json", str(path)],
                               env=self.environment, stdout=subprocess.DEVNULL)
        job_s, controller_s = processor_s(job), 0
        if controller:
            controller.terminate()
            controller_s = processor_s(controller)
        rows = json.loads(path.read_text(encoding="utf-8"))["iterations"]
        path.unlink()
        return job_s, controller_s, sum(row["time_ms"] for row in rows) / 1000

    def pause_ms(self, size, folder):
        exchange = "1-2@1" + (f",through={folder}" if folder else "")
        rows = self.pipeline("--devices", "2", "--dp", "2", "--microbatches", "4", "--times", "1,1,1", "-n", "3", "--gradients",
                             size, "--exchange", exchange)
        return max(row["pause_ms"] for row in rows)


def pairs(count, without, with_it):
    """(without, with) of each pair; every second one begins with the other."""
    found = []
    for i in range(count):
        if i % 2:
            second = with_it()
            found.append((without(), second))
        else:
            first = without()
            found.append((first, with_it()))
    return found


def print_overhead(runs, options):
    found = pairs(options.pairs, lambda: runs.iteration_ms(options.iterations, False),
                  lambda: runs.iteration_ms(options.iterations, True))
    percent = sorted(100 * (with_it / without - 1) for without, with_it in found)
    print(f"figure 18: {options.pairs} pairs of {options.iterations} iterations, without and with a controller: "
          f"{', '.join(f'{a:.3f} and {b:.3f} ms' for a, b in found)}")
    print(f"  overhead: median {statistics.median(percent):+.2f} %, {percent[0]:+.2f} to {percent[-1]:+.2f} % (paper: 0.39 %)",
          flush=True)


def print_processor(runs, options):
    for shape in options.shapes.split(","):
        devices, replicas = map(int, shape.split("x"))
        found = pairs(options.pairs, lambda shape=shape: runs.processor_times(shape, options.iterations, False),
                      lambda shape=shape: runs.processor_times(shape, options.iterations, True))
        jobs = sorted(100 * (with_it[0] / without[0] - 1) for without, with_it in found)
        controllers = sorted(100 * with_it[1] / with_it[2] for _, with_it in found)
        print(f"{devices} devices, {replicas} replicas: {options.pairs} pairs of {options.iterations} iterations, processor time of "
              f"the job without and with a controller, of the controller, and the run's length: "
              f"{', '.join(f'{a[0]:.2f}, {b[0]:.2f}, {b[1]:.3f} and {b[2]:.1f} s' for a, b in found)}")
        print(f"  job: median {statistics.median(jobs):+.1f} %, {jobs[0]:+.1f} to {jobs[-1]:+.1f} %; controller: median "
              f"{statistics.median(controllers):.3f} % of one core, {controllers[0]:.3f} to {controllers[-1]:.3f} %; "
              f"{statistics.median(controllers) / devices / replicas:.3f} % for each rank", flush=True)


def instructions(profile):
    """Of the plugin's detection: the lines of detect/ and of the meter of its messages; and of the mathematical library, of
    which nothing else in a process of `detour pipeline` needs much."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", str(profile)], capture_output=True, text=True,
                          check=True).stdout
    found = {"detect": 0, "meter": 0, "libm": 0}
    for line in text.splitlines():
        words = line.split()
        if not words or not words[0].replace(",", "").isdigit():
            continue
        place = next((key for key, part in (("detect", "/detect/"), ("meter", "/transport/message/meter"), ("libm", "libm.so"))
                      if part in line), None)
        if place:
            found[place] += int(words[0].replace(",", ""))
    return found


def print_detection(runs, options, shape):
    """Rank 0 under callgrind, the others without; a process of the launcher has a profile of its own, without detection."""
    devices, replicas = map(int, shape.split("x"))
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    words = [runs.detour, "pipeline", *job_of(shape), "-n", str(options.iterations), "--timeout", "120", "--rendezvous", f"127.0.0.1:{port}"]
    others = [subprocess.Popen([*words, "--rank", str(rank)], env=runs.environment, stdout=subprocess.DEVNULL)
              for rank in range(1, devices * replicas)]
    result = runs.folder / "result.json"
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={runs.folder}/profile.%p", *words, "--rank", "0",
                    "--json", str(result)], env=runs.environment, capture_output=True, check=True)
    for other in others:
        other.wait()
    profiles = list(runs.folder.glob("profile.*"))
    found = max((instructions(path) for path in profiles), key=lambda one: one["detect"])
    for path in profiles:
        path.unlink()
    times = [row["time_ms"] for row in json.loads(result.read_text(encoding="utf-8"))["iterations"]]
    total, seconds = sum(found.values()), sum(times) / 1000
    print(f"{devices} devices, {replicas} replicas: detection of rank 0: {found} instructions in {len(times)} iterations of {statistics.mean(times):.0f} ms: "
          f"{total / len(times):.0f} per iteration, {total / seconds / 1e6:.3f} million per second; at one instruction a nanosecond "
          f"{total / seconds / 1e7:.3f} % of one core", flush=True)


def file_system(folder, mounts="/proc/self/mounts"):
    """The type of the one that the folder is on."""
    folder = pathlib.Path(folder).resolve()
    found = {}
    for line in pathlib.Path(mounts).read_text(encoding="utf-8").splitlines():
        point, kind = line.split()[1:3]
        point = pathlib.Path(point.encode().decode("unicode_escape"))
        if point == folder or point in folder.parents:
            found[len(point.parts)] = kind  # a later one hides an earlier one
    return found[max(found)]


def check_folder(folder):
    if not os.path.isdir(folder):
        sys.exit(f"overhead.py: {folder} is no folder; --folder has to name one on a disk")
    kind = file_system(folder)
    if kind in IN_MEMORY:
        sys.exit(f"overhead.py: {folder} is a file system in memory ({kind}); --folder has to name a folder on a disk")


def print_pauses(runs, options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="detour-overhead-", dir=options.folder))
    try:
        print(f"figure 19: files on {file_system(folder)}, written to the disk and dropped from memory before they are read")
        for size in options.parameters.split(","):
            found = pairs(options.pairs, lambda size=size: runs.pause_ms(size, None),
                          lambda size=size: runs.pause_ms(size, folder))
            ratios = sorted(disk / plugin for plugin, disk in found)
            print(f"figure 19: {size} of parameters per rank, pause through the plugin and through files: "
                  f"{', '.join(f'{a:.1f} and {b:.1f} ms' for a, b in found)}")
            print(f"  through files {statistics.median(ratios):.2f} times as long, {ratios[0]:.2f} to {ratios[-1]:.2f} "
                  "(paper: up to 6.72)", flush=True)
    finally:
        shutil.rmtree(folder)


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def shapes(text):
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*(,[1-9]\d*x[1-9]\d*)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of DEVICESxREPLICAS such as 2x2,4x1")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--pairs", type=positive, default=10)
    parser.add_argument("--iterations", type=positive, default=300)
    parser.add_argument("--parameters", default="1M,16M,128M")
    parser.add_argument("--shapes", type=shapes, default="2x2")
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--detection", action="store_true", help="needs valgrind")
    parser.add_argument("--folder", type=pathlib.Path, help="of the files, on the disk to compare with")
    options = parser.parse_args()
    check_folder(options.folder or tempfile.gettempdir())
    before = os.getloadavg()[0]
    runs = Runs(options.build)
    try:
        if options.detection:
            for shape in options.shapes.split(","):
                print_detection(runs, options, shape)
        elif options.processor:
            print_processor(runs, options)
        else:
            print_overhead(runs, options)
            print_pauses(runs, options)
    finally:
        shutil.rmtree(runs.folder)
    busy = "" if before < BUSY * os.cpu_count() else "; NOT IDLE: times of other work are in the results"
    print(f"{os.cpu_count()} cores, load {before:.2f} before and {os.getloadavg()[0]:.2f} after{busy}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
