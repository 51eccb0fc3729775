#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the verdicts on the traffic of `detour perf`. Two ranks over software RNICs; rules slow the links down
for some seconds, repeatedly, and `detour_stat` reads the verdicts meanwhile.

usage: bench/detect_traffic.py [BUILD [PHASES [RULE...]]]

Each rule gets PHASES slow phases of 4 s with 6 s between them. Printed for each: phases in which all links were called
slow by at least half of what the rule adds, and after how long (median); and of the time without a rule, the share in
which some link was called slow, at all and by that amount. Other load of the machine slows software RNICs down, too, and
counts against the verdicts here.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RULES = ["latency=30ms", "latency=1ms", "serial=0.2ms", "serial=0.05ms"]
SLOW_S, HEALTHY_S, SETTLE_S, POLL_S = 4.0, 6.0, 3.0, 0.02


def adds_ms(rule):
    found = re.search(r"(?:latency|serial)=([\d.]+)ms", rule)
    if not found:
        sys.exit(f"detect_traffic.py: {rule}: expected latency= or serial= with a time in ms")
    return float(found[1])


def main(build="build", phases="3", *rules):
    rules = [(rule, adds_ms(rule) / 2) for rule in rules or RULES]
    build = pathlib.Path(build).resolve()
    os.environ["DETOUR_STAT_LIBRARY"] = str(build / "lib/libdetour-stat.so")
    sys.path.insert(0, str(ROOT / "python"))
    import detour_stat

    with tempfile.TemporaryDirectory(prefix="detour-detect-") as folder:
        settings = {**os.environ, "DETOUR_RUNTIME_DIR": folder, "DETOUR_VERBS": "soft", "DETOUR_SOCKET_IFNAME": "=lo"}

        def detour(*words):
            subprocess.run([build / "bin/detour", *words], env=settings, check=True, stdout=subprocess.DEVNULL)

        def senders():
            return [c for process in detour_stat.read(folder=folder) for c in process["connections"] if c["is_send"]]

        def slow_by_ms():
            """The extra time of each sender's transfers; None: it is not called slow."""
            return [c["delay_ns"] / 1e6 if c["verdict"] == "slow" else None for c in senders()]

        def watch(seconds):
            """(time, delays) for this many seconds."""
            end, seen = time.monotonic() + seconds, []
            while time.monotonic() < end:
                seen.append((time.monotonic(), slow_by_ms()))
                time.sleep(POLL_S)
            return seen

        perf = subprocess.Popen([build / "bin/detour", "perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels",
                                 "1", "--timeout", "3600"], env=settings, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            while not senders() or any(c["verdict"] == "learning" for c in senders()):
                time.sleep(0.1)
            print("load average", os.getloadavg()[0])
            print(f"{'rule':20} {'noticed':>10} {'after (median)':>15} {'slow without a rule':>20} {'by as much':>11}")
            for rule, enough_ms in rules:
                noticed, looks, slow, as_much = [], 0, 0, 0
                is_enough = lambda by_ms: by_ms is not None and by_ms >= enough_ms  # noqa: E731
                for _ in range(int(phases)):
                    time.sleep(SETTLE_S)
                    seen = watch(HEALTHY_S - SETTLE_S)
                    looks += len(seen)
                    slow += sum(any(by_ms is not None for by_ms in now) for _, now in seen)
                    as_much += sum(any(map(is_enough, now)) for _, now in seen)
                    began = time.monotonic()
                    detour("inject", "add", *rule.split())
                    seen = watch(SLOW_S)
                    detour("inject", "clear")
                    after = [at - began for at, now in seen if now and all(map(is_enough, now))]
                    noticed += after[:1]
                middle = f"{1e3 * statistics.median(noticed):.0f} ms" if noticed else "-"
                print(f"{rule:20} {len(noticed):>5} of {phases:>2} {middle:>14} {100 * slow / looks:>18.1f} % "
                      f"{100 * as_much / looks:>9.1f} %", flush=True)
        finally:
            perf.terminate()
            perf.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
