# SPDX-License-Identifier: Apache-2.0
"""The cases with one release of NCCL after the other: prints the table of docs/nccl.md.

    versions.py BUILD [VERSION...]    the versions of scripts/nccl_wheels.sh that are in the cache, unless named

The programs are copied first: a cell is not a failure because they were rebuilt meanwhile.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import ranks

BUILD = pathlib.Path(sys.argv[1]).resolve()
CACHE = pathlib.Path(os.environ.get("DETOUR_NCCL_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "detour/nccl")
OLDEST_WITH_KERNELS = (2, 22)
COLUMNS = {
    "collectives, 2 ranks": "Collectives.test_every_collective_of_two_ranks",
    "3 ranks": "Collectives.test_every_collective_of_three_ranks",
    "types": "Collectives.test_every_type_and_operation",
    "Simple": "Protocols.test_simple",
    "LL": "Protocols.test_ll",
    "LL128": "Protocols.test_ll128",
    "split": "Communicators.test_split",
    "abort": "Communicators.test_abort_in_traffic",
    "killed rank": "Communicators.test_killed_rank",
    "RNIC down, up": "Faults.test_rnic_down_and_up",
    "silent loss": "Faults.test_silent_loss",
    "GPU memory": "GpuMemory.test_simple",
}


def copy_programs(build, to):
    """What the cases need of a build folder; the new folder."""
    for part in ("lib", "bin", "tests/nccl"):
        shutil.copytree(build / part, to / part, symlinks=True)
    shutil.copy(build / "tests" / "libfake_cuda.so", to / "tests")
    return to


def number(version):
    return tuple(int(part) for part in version.split("-")[1].split("."))


def sets_up(build, version):
    """A communicator of two ranks is set up and destroyed."""
    job = ranks.Job(build, CACHE / version, 2, [], settings={
        "LD_LIBRARY_PATH": f"{build}/tests/nccl:{build}/tests/nccl/driver:{build}/lib"})
    statuses = job.end(60)
    return "ok" if statuses == [0, 0] else "failed"


def run_case(build, version, case):
    command = [sys.executable, str(ranks.HERE / "cases.py"), str(build), version, case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return "ok"
    return "hang" if re.search(r"\[(None|7), (None|-9)|still ran|None", done.stderr) else "failed"


def main():
    versions = sys.argv[2:] or sorted((path.parent.name for path in CACHE.glob("cu*/libnccl.so.2")),
                                      key=lambda version: (version.split("-")[0], number(version)))
    if not versions:
        ranks.skip(f"no NCCL in {CACHE}; scripts/nccl_wheels.sh all fetches them")
    with tempfile.TemporaryDirectory(prefix="detour-versions.") as folder:
        print_table(copy_programs(BUILD, pathlib.Path(folder)), versions)


def print_table(build, versions):
    print(subprocess.check_output(["date", "+%F"], text=True))
    print("| NCCL | set-up | " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " --- |" * (len(COLUMNS) + 1), flush=True)
    for version in versions:
        cells = [sets_up(build, version)]
        cells += [run_case(build, version, case) if number(version) >= OLDEST_WITH_KERNELS else "-"
                  for case in COLUMNS.values()]
        print(f"| {version} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
