#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/model/failover.pml and docs/model/pair.pml with spin.

usage: check.py --list          the names of all cases, one per line
       check.py NAME...         checks them; "all" is every case
       check.py --keep DIR ...  leaves what was built, and the trail of an error, in DIR/NAME

A case is a set of bounds (-D options, README.md in docs/model) with what must come out. A case without a
mutation passes when the search was exhaustive and found nothing. A case that plants a bug passes only when the
search reports the violation that the bug must cause.
"""
import argparse
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

MODELS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "model"
MEMORY_MB = 3500
SECONDS = 280
SKIP = 77


class Case(NamedTuple):
    name: str
    bounds: str
    search: str = "safety"  # safety, cycle (no non-progress cycle), or the name of an LTL property
    violates: str = ""      # planted bug: what the search must report; "" for none
    model: str = "failover"


# What a violation looks like in the search's report.
VIOLATIONS = {
    "once": "assertion violated  !(bad_once)",
    "right": "assertion violated  !(bad_right)",
    "early": "assertion violated  !(bad_early)",
    "fresh": "assertion violated  !(bad_fresh)",
    "lost": "assertion violated ( !(failed)",
    "live": "assertion violated ((((((loc[0]",
    "live in band": "assertion violated (((((((loc[0]",
    "livelock": "assertion violated (dials<",
    "one carrier": "assertion violated ((process[0].state==",
}

CASES = [
    # two paths, two epochs, two faults anywhere, one control message lost or repeated early
    Case("safety", "M=2 N=1"),
    Case("safety_two_slots", "M=2 N=2 ADV=0"),
    Case("safety_every_step", "M=2 N=1 ADV=0 FINE"),
    Case("safety_three_epochs", "M=2 N=1 K=3 ADV=0"),
    Case("safety_three_paths", "M=2 N=1 PATHS=3 FAULTS=1 ADV=0"),
    Case("safety_two_queue_pairs", "M=2 N=1 QPS=2 ADV=0"),
    Case("safety_old_messages_stay", "M=2 N=1 ADV=0 STICKY"),
    # no path is used before probes were answered, so an OPENED of another epoch costs time and nothing else
    Case("safety_opened_of_any_epoch", "M=2 N=1 K=3 ADV=0 ANYOPENED"),
    Case("safety_close", "M=2 N=1 ADV=0 CLOSE"),
    Case("safety_device_gone", "M=2 N=1 ADV=0 GONE"),
    Case("safety_device_fatal", "M=2 N=1 ADV=0 FATAL"),
    Case("safety_receiver_asks", "M=2 N=1 ADV=0 ASKS"),
    Case("safety_discarded_completions", "M=2 N=1 ADV=0 DISCARDS"),
    Case("safety_control_gone", "M=2 N=1 ADV=0 TCPGONE"),
    Case("cycle", "M=2 N=1 ADV=0", "cycle"),
    Case("ltl_once", "M=2 N=1 ADV=0 LTL", "once"),
    Case("ltl_early", "M=2 N=1 ADV=0 LTL", "early"),
    Case("ltl_live", "M=2 N=1 ADV=0 LTL", "live"),
    # planted bugs
    Case("bug_no_receiver_fence", "M=3 NOFENCE", violates="once"),
    Case("bug_no_sender_fence", "M=3 NOSENDERFENCE", violates="live"),
    Case("bug_resume_before_proof", "M=3 SAIDEARLY", violates="once"),
    Case("bug_resume_ignored", "M=3 TRUSTSENDER", violates="once"),
    Case("bug_one_cts_ring", "M=3 ONERING", violates="live"),
    Case("bug_cts_not_published_again", "M=3 NOREPUBLISH", violates="live"),
    Case("bug_rewind_all", "M=3 REWINDALL", violates="once"),
    Case("bug_no_repeat", "M=3 NOREPEAT", violates="live"),
    Case("bug_resume_of_any_epoch", "M=3 ANYRESUME", violates="once"),
    Case("bug_open_before_settled", "M=3 OPENEARLY", violates="live"),
    Case("bug_same_psns", "M=3 SAMEPSN", violates="once"),
    Case("bug_immediate_filtered_by_epoch", "M=3 IMMFILTER", violates="early"),
    Case("bug_parts_kept", "M=3 QPS=2 KEEPPARTS", violates="once"),
    Case("bug_silent_close", "M=3 CLOSE SILENTCLOSE", violates="live"),
    Case("bug_dead_device_trusted", "M=2 N=1 FAULTS=1 ADV=0 FATAL TRUSTDEAD", violates="once"),
    Case("bug_fence_without_stop", "M=2 N=1 FAULTS=1 ADV=0 DISCARDS NOASK", violates="early"),
    Case("bug_fence_without_poll", "M=2 N=1 FAULTS=1 ADV=0 DISCARDS NODRAIN", violates="lost"),
    Case("bug_acknowledged_after_switch", "M=2 N=1 FAULTS=1 ADV=0 DISCARDS LATEACK", violates="early"),
    Case("bug_frames_on_tcp_alone", "M=2 N=1 FAULTS=1 ADV=0 TCPGONE TCPALONE", violates="live in band"),
    Case("bug_acknowledged_is_received", "M=2 FAULTS=1 ADV=0 GONE BLINDTRUST", violates="live"),
    # the carrier of a pair of processes
    Case("pair_one_break_one_giveup", "BREAKS=1 GIVEUPS=1", model="pair"),
    Case("pair_two_breaks", "BREAKS=2 GIVEUPS=0", model="pair"),
    Case("pair_two_giveups", "BREAKS=0 GIVEUPS=2", model="pair"),
    Case("pair_small_end_dials", "WANT1=0", model="pair"),
    Case("pair_large_end_dials", "WANT0=0", model="pair"),
    Case("pair_death", "DEATH", model="pair"),
    Case("bug_pair_any_round", "ANYROUND", violates="livelock", model="pair"),
    Case("bug_pair_both_give_up", "NOPARK", violates="livelock", model="pair"),
    Case("bug_pair_both_keep", "KEEPBOTH", violates="one carrier", model="pair"),
]


def build(case, folder):
    """The verifier of a case: folder/pan."""
    defines = ["-D" + bound for bound in case.bounds.split()]
    spin = subprocess.run(["spin", "-a", *defines, str(MODELS / f"{case.model}.pml")], cwd=folder, capture_output=True, text=True)
    if spin.returncode or not (folder / "pan.c").exists():
        raise SystemExit(f"{case.name}: spin refuses the model:\n{spin.stdout}{spin.stderr}")
    search = {"safety": ["-DSAFETY"], "cycle": ["-DNP"]}.get(case.search, [])
    # A search that ends early, or is small, takes less time than the optimization of its verifier.
    optimize = "-O0" if case.violates or case.model == "pair" else "-O1"
    subprocess.run(["gcc", optimize, "-w", "-DCOLLAPSE", f"-DMEMLIM={MEMORY_MB}", *search, "-o", "pan", "pan.c"],
                   cwd=folder, check=True)


def run(case, folder):
    """The report of the search."""
    how = {"safety": [], "cycle": ["-l"]}.get(case.search, ["-a", "-N", case.search])
    limit = (MEMORY_MB + 300) << 20
    try:
        pan = subprocess.run(["./pan", "-w24", *how], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=SECONDS, check=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode() + f"\nsearch not completed in {SECONDS} s"
    return pan.stdout


def verdict(case, report):
    """None, or what is wrong."""
    errors = re.search(r"errors: (\d+)", report)
    found = [line for line in report.splitlines() if line.startswith("pan:1:") or line.startswith("pan: ")]
    if case.violates:
        if not errors or errors[1] == "0":
            return f"the planted bug was not caught (it must violate '{case.violates}')"
        if VIOLATIONS[case.violates] not in report:
            return f"caught, but not by '{case.violates}': {found[:1]}"
        return None
    if not errors:
        return "no result:\n" + report[-600:]
    if errors[1] != "0":
        return f"violated: {found[:1]} (check.py --keep DIR {case.name}, then spin -t -p on DIR/{case.name})"
    for word in ("not completed", "max search depth too small", "out of memory", "hash-compact"):
        if word in report.lower():
            return f"the search was not exhaustive: {word}"
    return None


def check(case, keep):
    begun = time.monotonic()
    folder = pathlib.Path(keep, case.name) if keep else pathlib.Path(tempfile.mkdtemp(prefix="detour-model-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        build(case, folder)
        report = run(case, folder)
        wrong = verdict(case, report)
    finally:
        if not keep:
            shutil.rmtree(folder)
    states = re.search(r"(\d+) states, stored", report)
    memory = re.search(r"([\d.]+)\s+total actual memory", report)
    print(f"{'FAIL' if wrong else 'ok':4} {case.name:32} {case.bounds:36} states {states[1] if states else '?':>9}"
          f"  {float(memory[1]) if memory else 0:6.0f} MB  {time.monotonic() - begun:5.1f} s"
          + (f"  caught by '{case.violates}'" if case.violates and not wrong else ""), flush=True)
    if wrong:
        print(f"     {wrong}", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description="Checks the models of docs/model/ with spin.")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--list", action="store_true", help="the names of all cases")
    parser.add_argument("--keep", metavar="DIR", help="leave what was built in DIR/NAME")
    options = parser.parse_args()
    if options.list:
        print("\n".join(case.name for case in CASES))
        return 0
    chosen = [case for case in CASES if case.name in options.names or "all" in options.names]
    unknown = set(options.names) - {case.name for case in CASES} - {"all"}
    if unknown or not chosen:
        parser.error(f"no case {', '.join(sorted(unknown)) or 'named'}; --list shows them")
    for tool in ("spin", "gcc"):
        if not shutil.which(tool):
            print(f"model: {tool} is not installed: skipped (scripts/setup.sh ci installs it)")
            return SKIP
    return 0 if all([check(case, options.keep) for case in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
