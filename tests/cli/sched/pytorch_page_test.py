# SPDX-License-Identifier: Apache-2.0
"""docs/pytorch.md as a reader follows it: its files are written, its commands run in order, and the training step has the
gradients of the plain model on every rank, and the schedule is swapped.

Usage: pytorch_page_test.py DETOUR. Exit code 77 (skipped) where torch 2.8 or later is not installed; PYTHON in the
environment names another interpreter that has it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/pytorch.md"
PROBE = """import sys, torch, torch.distributed as dist
version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
sys.exit(version < (2, 8) or not dist.is_gloo_available())"""


FILE = re.compile(r"`(\w+\.py)`:\n\n((?:    (?!\$ ).*\n|\n)+)")
COMMAND = re.compile(r"^    \$ (.*)$", re.MULTILINE)


def main():
    detour, python = pathlib.Path(sys.argv[1]).resolve(), os.environ.get("PYTHON", sys.executable)
    if subprocess.run([python, "-c", PROBE], stderr=subprocess.DEVNULL, check=False).returncode:
        print("skipped: there is no torch 2.8 or later with gloo")
        sys.exit(77)
    environment = {**os.environ, "PATH": f"{detour.parent}:{pathlib.Path(python).parent}:{os.environ['PATH']}",
                   "OMP_NUM_THREADS": "1"}
    page = PAGE.read_text()
    files, commands = FILE.findall(page), COMMAND.findall(page)
    environment["PYTHONPATH"] = str(PAGE.parents[1] / "python")
    environment["DETOUR_SCHED_LIBRARY"] = str(detour.parents[1] / "lib/libdetour-sched.so.0")
    printed = ""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files:
            pathlib.Path(folder, name).write_text(re.sub("(?m)^    ", "", text))
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                sys.exit(f"$ {command}\n{done.stdout}exit code {done.returncode}")
            printed += done.stdout
    right = printed.count("the gradients of its stages are those of the plain model")
    numbers = re.findall(r"(?m)^step \d: schedule (\d), loss", printed)
    print(f"{len(files)} files, {len(commands)} commands; gradients of {right} ranks; schedules {numbers}")
    sys.exit((len(files), right, numbers) != (4, 4, ["0", "1", "1", "1"]))


if __name__ == "__main__":
    main()
