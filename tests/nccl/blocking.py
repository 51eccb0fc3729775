# SPDX-License-Identifier: Apache-2.0
"""Which operations a slow link holds back in stock NCCL, compared with the mode nccl of pipeline/ (docs/nccl.md).

  blocking.py BUILD [VERSION]                   a link is held: exactly the kernels that the model names end before it is
                                                released. No time decides.
  blocking.py BUILD [VERSION] --times [ROUNDS] [--delay MS]
                                                a link is slow: when each kernel ends, beside the model's time

Programs are those of client/program.h, on three ranks; the model is nccl-model (model.cc)."""
import argparse
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import ranks

BYTES = 1 << 20  # 4 slices of 128 KiB on each of 2 channels: fewer than a connection's 8 slots
CHANNELS = 2
MANY = 8 << 20  # 32 slices: more than the slots
RANKS = 3
HOUR_NS = 3600 * 10**9
ENDED = re.compile(r"^rank (\d+): kernel (\d+) ended at (\d+) ns, (\d+) us after the launch$", re.MULTILINE)

# Title, program, the slow messages. `one` and `each` are one communicator, `pairs` one for each pair.
PROGRAMS = [
    ("two sends, the first slow", f"{BYTES}:one:0>1,0>2,0>1,0>2", "0>1"),
    ("the same, a stream for each", f"{BYTES}:each:0>1,0>2,0>1,0>2", "0>1"),
    ("the same, a communicator for each pair", f"{BYTES}:pairs:0>1,0>2,0>1,0>2", "0>1"),
    ("the same, in groups of two", f"{BYTES}:one:0>1+0>2,0>1+0>2", "0>1"),
    ("the same, more slices than slots", f"{MANY}:one:0>1,0>2", "0>1"),
    ("two receives, the first slow", f"{BYTES}:one:1>0,2>0,1>0,2>0", "1>0"),
    ("the same, a stream for each", f"{BYTES}:each:1>0,2>0,1>0,2>0", "1>0"),
    ("the same, a communicator for each pair", f"{BYTES}:pairs:1>0,2>0,1>0,2>0", "1>0"),
    ("a slow send, a receive", f"{BYTES}:one:0>1,2>0,0>1,2>0", "0>1"),
    ("the same, a communicator for each pair", f"{BYTES}:pairs:0>1,2>0,0>1,2>0", "0>1"),
    ("a slow receive, a send", f"{BYTES}:one:1>0,0>2,1>0,0>2", "1>0"),
]


def kernels_of(text):
    """{(rank, kernel): (time in ns, us after the launch)} of what nccl-rank or nccl-model printed."""
    return {(int(rank), int(kernel)): (int(at), int(after)) for rank, kernel, at, after in ENDED.findall(text)}


def model(build, program, slow, delay_ns):
    """{(rank, kernel): end in ns} by the mode nccl; a kernel of several messages is one that batches them."""
    launch = "isend-free" if ":pairs:" in program else "batched-free"
    done = subprocess.run([pathlib.Path(build, "tests/nccl/nccl-model"), launch, str(CHANNELS), str(delay_ns), slow, program],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"nccl-model: {done.stdout}{done.stderr}")
    return {key: at for key, (at, _) in kernels_of(done.stdout).items()}


class Run:
    """One job that runs programs one after the other, each with its rule. A rank waits for a file before each, which
    exists when the rule does."""

    def __init__(self, build, nccl, rows, latency):
        """rows: (program, slow messages)."""
        self.folder = tempfile.TemporaryDirectory(prefix="detour-nccl.")
        self.rows = rows
        self.latency = latency
        self.marked = [set() for _ in rows]
        steps = []
        for i, (program, _) in enumerate(rows):
            steps += [f"program:{program}", "all_reduce:64", f"mark:row{i}", f"await:{self.file(i)}",
                      f"program:{program}", "all_reduce:64"]
        self.job = ranks.Job(build, nccl, RANKS, steps, on_mark=self.mark)

    def file(self, row):
        return pathlib.Path(self.folder.name, f"row{row}")

    def mark(self, rank, text):
        self.marked[int(text.removeprefix("row"))].add(rank)

    def is_over(self):
        """A rank has failed, or all have ended and everything that they printed is read."""
        return (any(rank.process.poll() for rank in self.job.ranks) or
                not any(rank.reader.is_alive() for rank in self.job.ranks))

    def wait_for(self, condition, what):
        deadline = time.monotonic() + ranks.LIMIT_S
        while not condition():
            if (self.is_over() or time.monotonic() > deadline) and not condition():
                self.fail(f"{what} does not come")
            time.sleep(0.01)

    def fail(self, text):
        for rank in self.job.ranks:
            rank.process.kill()
        self.job.end(1)
        print(f"blocking: {text}\n{self.job.output()}")
        sys.exit(1)

    def start(self, row):
        """The row's rule exists, and its program begins. No message is under way when all ranks have come to the row."""
        sender, receiver = (int(end) for end in self.rows[row][1].split(">"))
        pids = [rank.process.pid for rank in self.job.ranks]
        self.wait_for(lambda: len(self.marked[row]) == RANKS, f"row {row}")
        answer = self.job.detour("inject", "add", "--pid", str(pids[sender]), f"peer={socket.gethostname()}:{pids[receiver]}",
                                 f"latency={self.latency}")
        if "rule" not in answer:
            self.fail(f"no rule: {answer}")
        self.file(row).touch()

    def clear(self):
        answer = self.job.detour("inject", "clear")
        if "error" in answer.lower():
            self.fail(answer)

    def ended(self, row):
        """What the row's second program printed so far: the first one warms up."""
        parts = {}
        for rank in self.job.ranks:
            text = rank.output().split(f"mark row{row}\n")
            if len(text) > 1:
                parts.update(kernels_of(text[1].split(": all_reduce ")[0]))
        return parts

    def end(self):
        statuses = self.job.end()
        self.folder.cleanup()
        if statuses != [0] * RANKS:
            print(f"blocking: exit statuses {statuses}\n{self.job.output()}")
            sys.exit(1)


def compare_held(build, nccl):
    """1 if NCCL holds back other kernels than the model."""
    run = Run(build, nccl, [(program, slow) for _, program, slow in PROGRAMS], "1h")
    wrong = 0
    for row, (title, program, slow) in enumerate(PROGRAMS):
        ends = model(build, program, slow, HOUR_NS)
        free = {key for key, at in ends.items() if at < HOUR_NS}
        run.start(row)
        run.wait_for(lambda row=row, free=free: free <= run.ended(row).keys(), f"{title} ({program}): not all of {sorted(free)}")
        released_ns = time.monotonic_ns()
        run.clear()
        run.wait_for(lambda row=row, ends=ends: ends.keys() <= run.ended(row).keys(), f"{title}: the end")
        early = {key for key, (at, _) in run.ended(row).items() if at < released_ns} - free
        wrong += bool(early)
        print(f"{'NOT AS THE MODEL' if early else 'ok'}: {title} ({program}, {slow} held): "
              f"{len(free)} of {len(ends)} kernels end" + (f", and {sorted(early)}" if early else ""), flush=True)
    run.end()
    return 1 if wrong else 0


def print_times(build, nccl, rounds, delay_ms):
    rows = [(program, slow) for _, program, slow in PROGRAMS]
    taken = [{} for _ in rows]
    for _ in range(rounds):
        run = Run(build, nccl, rows, f"{delay_ms}ms")
        for row in range(len(rows)):
            run.start(row)
            run.wait_for(lambda row=row: model(build, *rows[row], 0).keys() <= run.ended(row).keys(), "the end")
            run.clear()
            for key, (_, after_us) in run.ended(row).items():
                taken[row].setdefault(key, []).append(after_us / 1000)
        run.end()
    print("| program | kernel | NCCL, least | median | model | least / model |\n| --- | --- | --- | --- | --- | --- |")
    for row, (title, program, slow) in enumerate(PROGRAMS):
        ends = model(build, program, slow, delay_ms * 10**6)
        for key in sorted(key for key in ends if key[0] == 0):
            least, ms = min(taken[row][key]), ends[key] / 1e6
            ratio = f"{least / ms:.2f}" if ms else ""
            print(f"| {title} | {key[1]} | {least:.1f} ms | {statistics.median(taken[row][key]):.1f} ms | {ms:.1f} ms | {ratio} |")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("version", nargs="?", default="cu12-2.28.9")
    parser.add_argument("--times", nargs="?", type=int, const=5)
    parser.add_argument("--delay", type=int, default=30)
    arguments = parser.parse_args()
    nccl = ranks.find_nccl(arguments.version)
    if arguments.times:
        return print_times(arguments.build, nccl, arguments.times, arguments.delay)
    return compare_held(arguments.build, nccl)


if __name__ == "__main__":
    sys.exit(main())
