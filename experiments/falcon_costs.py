# SPDX-License-Identifier: Apache-2.0
"""What FALCON's remedies cost: the pause of an S3, a validation, the time of a plan of S2. For falcon.py, which makes the
document; `programs` is its."""
import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import run

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "incidents"))
import generate  # noqa: E402

NAMES = {"falcon-17": "16 devices", "falcon-64": "64 devices"}

# What an S3 moves, beside the frozen costs. Megatron-LM's distributed optimizer page counts 18 bytes per parameter for bf16
# parameters and fp32 gradients without sharding: 2 + 4 + 12. The gradients do not move: parameters 2, and in fp32 their
# copy, momentum and variance. Parameters of a device: its gradients of two bytes each (generate.py).
STATE_BYTES_PER_PARAMETER = 2 + 4 + 4 + 4
COPY_BYTES_PER_S = 50_000_000_000  # GPU copies of all tables (docs/experiments.md), below the 63 GB/s of PCIe 5.0 x16
# Connections closed and made anew, barriers: the longest pause of an S3 of 16 processes that move 256 KiB each, 272 ms on
# two busy cores ("FALCON's figures 13 to 16"), rounded up. A rank has no more connections in a larger job.
SET_UP_MS = 300
EXECUTED_S3 = "S3 as Detour executes it"


def with_state(cluster):
    """S3 costs the pause that follows from the job, instead of the frozen constant."""
    parameters = cluster["gradient_bytes"] // generate.VALUE_BYTES
    return {**cluster, "state_bytes": STATE_BYTES_PER_PARAMETER * parameters, "copy_bytes_per_s": COPY_BYTES_PER_S,
            "costs_ms": {**cluster["costs_ms"], "S3": SET_UP_MS}}


# ---- the pause of S3 ----

PAUSE_HEADING = f"{run.REMEDIES} the pause of S3"
MIB = 2**20
# Bytes, nodes in a circle, factor in permille, delay of a message in ns.
MOVES = ((16 * MIB, 2, 1000, 0), (128 * MIB, 2, 1000, 0), (1024 * MIB, 2, 1000, 0), (1024 * MIB, 3, 1000, 0),
         (1024 * MIB, 2, 8000, 0), (128 * MIB, 2, 1000, 5_000_000))


def state_bytes_of(name):
    return with_state(generate.make_cluster(name))["state_bytes"]


def move_rows(programs):
    rows = []
    for state, nodes, factor, delay_ns in (*MOVES, *((state_bytes_of(name), 2, 1000, 0) for name in NAMES)):
        command = [programs.build / "tests/detour-sim-move", *map(str, (state, nodes, factor, delay_ns))]
        line = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        size = f"{state / 1e9:.1f} GB" if state > 1024 * MIB else f"{state // MIB} MiB"
        link = f"{factor / 1000:.0f} times as slow" if factor > 1000 else f"{delay_ns / 1e6:.0f} ms later" if delay_ns else "healthy"
        off = 100 * abs(line["model_ns"] / line["moved_ns"] - 1)
        rows.append("| " + " | ".join([size, str(nodes), link, f"{line['moved_ns'] / 1e6:.3f}", f"{line['model_ns'] / 1e6:.3f}",
                                       f"{off:.3f} %"]) + " |")
    return rows


def pause_text(name):
    cluster = with_state(generate.make_cluster(name))
    state = cluster["state_bytes"]
    return (f"{NAMES[name]}, {cluster['name']}: {state / STATE_BYTES_PER_PARAMETER / 1e9:.3f} x 10^9 parameters of a device, "
            f"{state / 1e9:.1f} GB, copies of {2 * state / COPY_BYTES_PER_S:.2f} s")


def pause_section(programs):
    return [f"## {PAUSE_HEADING}", "", run.wrap(
        "The table compares the planner's price of an S3 ([mitigate](mitigate.md#the-pause-of-s3)) with its execution in virtual "
        "time: nodes exchange their states through the plugin's entry points at 400 Gbit/s and 10 us, with the slices of the runner's mover "
        "(1 MiB, eight under way in each direction; `detour-sim-move`)."), "",
        "| state of a node | nodes | link between the first two | executed, ms | model, ms | difference |",
        "| --- |" + " --- |" * 5, *move_rows(programs), "", run.wrap(
            "The last two are the states of FALCON's jobs: parameters of a stage (12 L h^2 / stages), 14 bytes each, since "
            "mixed-precision Adam of Megatron-LM has 2 of the parameter and 4 each of its fp32 copy, momentum and variance. "
            "Gradients are not moved; with those of 4 bytes Megatron-LM counts 18, without its [distributed optimizer]("
            "https://docs.nvidia.com/megatron-core/developer-guide/latest/distrib_optimizer.html), which would make the state "
            f"smaller. {'; '.join(pause_text(name) for name in NAMES)}: to the host before and to the GPU behind, as "
            "the paper dumps parameters into main memory, at the 50 GB/s of GPU copies in this document. The rest of the pause, "
            f"{SET_UP_MS / 1000:.1f} s, is the longest pause of 16 processes that move almost nothing (272 ms, two busy cores: "
            "\"FALCON's figures 13 to 16\" below); a rank has no more connections in a larger job."), "", run.wrap(
            "Not included: registration of the slots, 8 MiB in each direction whatever the state, copies of several devices that "
            "share a host's memory, and what a framework needs beside Detour, such as communicators. The runner's pauses on two cores with software RNICs are "
            "another scale: about 60 ms for 1 MiB and 0.5 to 1.1 s for 128 MiB (\"FALCON's figures 18 and 19\" below), in which the "
            "processor copies every byte and all parameters are compared."), ""]


# ---- validation ----

VALIDATED = (4, 16, 64, 256, 1023, 1024, 4096)  # ranks
PAPER_PASSES = {"ring": lambda ranks: 2 + ranks % 2, "tree": lambda ranks: 4}


def validation_rows(programs):
    """A row for each line of detour-sim-validation."""
    command = [programs.build / "tests/detour-sim-validation", *map(str, VALIDATED)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = []
    for line in map(json.loads, result.stdout.splitlines()):
        name = {"ring": "ring", "tree": "double tree"}[line["topology"]]
        times = [f"{line[key] / 1e6:.2f}" for key in ("exchange_ns", "slow_exchange_ns", "one_by_one_ns", "total_ns")]
        rows.append("| " + " | ".join([name, f"{line['ranks']:,}", str(line["passes"]),
                                       str(PAPER_PASSES[line["topology"]](line["ranks"])), *times]) + " |")
    return rows


def validation_section(programs):
    return [f"## {run.REMEDIES} cost of a validation", "", run.wrap(
        "FALCON section 4.3 and figure 9: a constant number of passes, whatever the number of ranks. `detour-sim-validation` "
        "runs the controller's state machine of a validation and the passes of `detour mitigate --validation` in virtual time: "
        "messages as `detour perf --pairs` has them (21 there and back of 1 MiB) at 400 Gbit/s and 10 us, 8 ranks on each host, "
        "rounds of controller and agents of 200 ms. An RNIC carries one message at a time in each direction, so that pairs of a "
        "pass that shared a rank would wait for each other."), "",
        "| | ranks | passes | paper | exchange, ms | with a link of 10 times, ms | one pair after the other, ms | messages held "
        "for, ms |", "| --- |" + " --- |" * 7, *sorted(validation_rows(programs), key=lambda row: row.startswith("| double")), "",
        run.wrap("Messages held is from the decision to hold until the last host has released, three rounds at most here: hosts "
                 "follow a decision at moments spread over a round, so that the last of many hosts comes nearer to its end. The "
                 "paper has no times. Not included are the start of the command's processes, their connections "
                 "and barriers, which grow with the ranks, and the test of computing, which all ranks do at once. The slow link "
                 "is found in each row."), ""]


# ---- table 6 ----

def print_groups(build):
    """The shortest of 300 calls of the library each: replicas of 1 to 2 ms, eight microbatches for each."""
    library = pathlib.Path(build, "lib/libdetour-sched.so").resolve()
    if not library.exists():
        sys.exit(f"{library} is not there; `make` builds it in build/")
    os.environ["DETOUR_SCHED_LIBRARY"] = str(library)
    sys.path.insert(0, str(HERE.parent / "python"))
    import detour_mitigate
    import detour_sched
    rng = random.Random(1)
    for groups in (16, 32, 64, 128, 256, 512):
        replicas = (detour_mitigate._Replica * groups)(*[
            detour_mitigate._Replica(round(1e6 * (1 + rng.random())), 0) for _ in range(groups)])
        times = []
        for _ in range(300):
            with detour_sched._Call() as call:
                began = time.perf_counter()
                call.run("detour_microbatches_assign", replicas, ctypes.c_int32(groups), ctypes.c_int32(8 * groups),
                         ctypes.byref(detour_mitigate._Microbatches()))
                times.append(time.perf_counter() - began)
        print(f"{groups} groups: {1e6 * min(times):.0f} us")
