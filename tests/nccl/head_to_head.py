# SPDX-License-Identifier: Apache-2.0
"""NCCL's own transports beside Detour, under the same faults of the same software RNICs: prints a table.

    head_to_head.py BUILD [VERSION] [LIMIT_S]    cu12-2.30.7 and 60 s per run unless named

NCCL's IB transport runs on build/lib/softrnic/libibverbs.so.1, with a topology file, since NCCL wants a PCI path for its
NICs. Its timeouts are set to Detour's defaults; NCCL's defaults (20, 7) detect a dead link after 30 s and more. A row
with resiliency counts only if NCCL's log shows that it is active. NCCL's recovery of a port takes more than 3 s from
when its link is up, hence the pauses of 20 s. In all IB columns NCCL merges both RNICs into one device and cuts each message in two.
Behind the slow link a cell is the mean of 50 all-reduces, since that is what the rate decides.
"""
import pathlib
import re
import subprocess
import sys

import ranks

BUILD = pathlib.Path(sys.argv[1]).resolve()
VERSION = sys.argv[2] if len(sys.argv) > 2 else "cu12-2.30.7"
LIMIT_S = int(sys.argv[3]) if len(sys.argv) > 3 else 60
NCCL = ranks.find_nccl(VERSION)
MB = 1 << 20

IB = {"NCCL_NET": "IB", "NCCL_NET_PLUGIN": "none", "NCCL_IB_HCA": "=soft0,soft1", "NCCL_IB_TIMEOUT": "16",
      "NCCL_IB_RETRY_CNT": "6", "NCCL_TOPO_FILE": str(ranks.HERE / "topology.xml"),
      "LD_LIBRARY_PATH": f"{BUILD}/tests/nccl:{BUILD}/lib/softrnic", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "NET"}
FAILOVER = {**IB, "NCCL_NET_FORCE_MERGE": "soft0,soft1", "NCCL_IB_RESILIENCY_PORT_FAILOVER": "1"}
TRANSPORTS = {
    "Detour": (ranks.DETOUR_SETTINGS, None),
    "IB": (IB, None),
    "IB, failover": (FAILOVER, r"configured with \d+ probing QPs"),
    "IB, failover and recovery": ({**FAILOVER, "NCCL_IB_RESILIENCY_PORT_RECOVERY": "1"},
                                  r"configured with \d+ recovery QPs"),
    "Socket": ({"NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none"}, None),
}
DOWN, UP = ("nic", "soft0", "down"), ("nic", "soft0", "up")
SLOW_LINK = "soft0 at 20 MB/s"
SCENARIOS = {
    "no fault": ([f"all_reduce:{MB}:200"], {}),
    "cable of soft0 pulled": ([f"all_reduce:{MB}:50", "mark:down", f"all_reduce:{MB}:200"], {"down": [DOWN]}),
    "the same cable pulled twice": (
        [f"all_reduce:{MB}:50", "mark:down", f"all_reduce:{MB}:200", "mark:up", "sleep:20000", f"all_reduce:{MB}:50",
         "mark:down", f"all_reduce:{MB}:200"], {"down": [DOWN], "up": [UP]}),
    "first soft0, then soft1": (
        [f"all_reduce:{MB}:50", "mark:down", f"all_reduce:{MB}:200", "mark:up", "sleep:20000", f"all_reduce:{MB}:50",
         "mark:down1", f"all_reduce:{MB}:200"], {"down": [DOWN], "up": [UP], "down1": [("nic", "soft1", "down")]}),
    "soft0 loses all data silently": ([f"all_reduce:{MB}:50", "mark:lose", f"all_reduce:{MB}:200"],
                                      {"lose": [("nic", "soft0", "drop", "100%")]}),
    SLOW_LINK: ([f"all_reduce:{MB}:50", "mark:slow", f"all_reduce:{MB}:50"],
                         {"slow": [("nic", "soft0", "rate", "20M")]}),
}


def first_error(text):
    """The line that gives the reason of a failed run."""
    for pattern in (r"async error \d: .*", r"NCCL WARN (?!Could not find real path).*", r"rank \d: .*(?:error|failed).*"):
        found = re.search(pattern, text)
        if found:
            return found[0][:110]
    return "failed"


def run(transport, scenario):
    """One cell: pause, wrong elements, error or hang."""
    plugin, active = TRANSPORTS[transport]
    steps, actions = SCENARIOS[scenario]

    def act(rank, mark):
        if rank == 0:
            for words in actions[mark]:
                job.detour(*words)

    job = ranks.Job(BUILD, NCCL, 2, steps, plugin=plugin, on_mark=act)
    statuses = job.end(LIMIT_S)
    text = job.output()
    if active and not re.search(active, text):
        return "void: NCCL's log does not show it active", ""
    if "ibv_create_qp failed with error Operation not supported" in text:
        return "void: the RNIC has no UC queue pairs", ""
    results = ranks.operations(text)
    slowest = max((slowest for *_, slowest, _ in results), default=0)
    wrong = sum(wrong for *_, wrong in results)
    if statuses == [0, 0] and scenario == SLOW_LINK:
        return f"{1000 * ranks.mean_s(text):.0f} ms each, {wrong} wrong", ""
    if statuses == [0, 0]:
        return f"{slowest:.0f} ms, {wrong} wrong", ""
    kind = f"hang ({LIMIT_S} s)" if None in statuses else "error"
    return f"{kind}, {wrong} wrong before", first_error(text) if "error" in kind else ""


def main():
    machine = subprocess.check_output(["date", "+%F"], text=True).strip()
    print(f"NCCL {VERSION}, {machine}; a cell is the longest all-reduce of 1 MB and the wrong elements\n")
    print("| fault | " + " | ".join(TRANSPORTS) + " |")
    print("| --- |" + " --- |" * len(TRANSPORTS), flush=True)
    reasons, void = [], set()
    for scenario in SCENARIOS:
        cells = []
        for transport in TRANSPORTS:
            if transport == "Socket" and scenario != "no fault":
                cells.append("uses no RNIC")
                continue
            if transport in void:
                cells.append("void")
                continue
            cell, reason = run(transport, scenario)
            cells.append(cell)
            if cell.startswith("void"):
                void.add(transport)
            if reason:
                reasons.append(f"- {scenario}, {transport}: `{reason}`")
        print(f"| {scenario} | " + " | ".join(cells) + " |", flush=True)
    print("\n" + "\n".join(reasons))


if __name__ == "__main__":
    main()
