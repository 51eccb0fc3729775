# SPDX-License-Identifier: Apache-2.0
"""Records recorded.json, the input of grafana_test.py: successive `detour stat --metrics` of two ranks that send to each
other over software RNICs, in the middle of which rank 0's messages are delayed, then the first RNIC goes down.

    python3 tests/monitoring/record.py build/bin/detour tests/monitoring/recorded.json
"""
import json
import os
import subprocess
import sys
import tempfile
import time

SNAPSHOTS = 21
PAUSE_S = 1
STEP_S = 15  # the distance that the recording stands for: that of usual scrapes
DELAY_AT, DOWN_AT = 8, 14


def samples(text):
    """{series: value} of the text format."""
    lines = [line.rpartition(" ") for line in text.splitlines() if line and not line.startswith("#")]
    return {series: float(value) for series, _, value in lines}


def main(detour, path):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        env = {**os.environ, "DETOUR_RUNTIME_DIR": folder, "DETOUR_VERBS": "soft", "DETOUR_SOCKET_IFNAME": "=lo"}
        env.pop("SLURM_JOB_ID", None)

        def run(*words):
            return subprocess.run([detour, *words], env=env, check=True, capture_output=True, text=True).stdout

        job = subprocess.Popen([detour, "perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1"], env=env,
                               stdout=subprocess.DEVNULL)
        try:
            time.sleep(8)
            snapshots = []
            for number in range(SNAPSHOTS):
                pids = {process["rank"]: process["pid"] for process in json.loads(run("stat", "--json"))["processes"]}
                if number == DELAY_AT:
                    run("inject", "add", "--pid", str(pids[0]), "latency=2ms")
                if number == DOWN_AT:
                    run("inject", "clear")
                    run("nic", "--pid", str(pids[0]), "soft0", "down")
                snapshots.append(samples(run("stat", "--metrics", "--job", "recorded")))
                time.sleep(PAUSE_S)
        finally:
            job.terminate()
            job.wait()
    series = sorted(set().union(*snapshots))
    values = {name: [snapshot.get(name) for snapshot in snapshots] for name in series}
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"step_s": STEP_S, "series": values}, out, separators=(",", ":"), indent=None)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
