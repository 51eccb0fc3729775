# SPDX-License-Identifier: Apache-2.0
"""Records recorded_job.json, the second input of grafana_test.py: successive answers of two `detour control --listen` of one
job, four ranks of `detour pipeline` on software RNICs. A link becomes slow, messages are held and released, the link is
healthy again, and the controller with the lease is killed. The label `instance` is the one that Prometheus adds. Needs
redis-server.

    python3 tests/monitoring/record_job.py build/bin/detour tests/monitoring/recorded_job.json
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from record import STEP_S, samples

SNAPSHOTS = 25
PAUSE_S = 2
SLOW_AT, HOLD_AT, HEALTHY_AT, KILL_AT = 5, 9, 12, 20
JOB = "recorded"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def scrape(port, instance):
    """{series: value}, with the label `instance`; none of a controller that has ended."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = samples(answer.read().decode())
    except OSError:
        return {}
    return {name.replace("{", f'{{instance="{instance}",', 1): value for name, value in found.items()}


class Job:
    def __init__(self, detour, folder):
        self.detour, self.folder = detour, folder
        self.processes = []
        self.redis = f"redis://127.0.0.1:{free_port()}"
        self.run(["redis-server", "--port", self.redis.rpartition(":")[2], "--bind", "127.0.0.1", "--save", "", "--dir", folder])
        self.ports = [free_port() for _ in range(2)]
        store = ["--redis", self.redis, "--job", JOB]
        self.controllers = []
        for port in self.ports:
            self.controllers.append(self.run([detour, "control", *store, "--listen", str(port)]))
            time.sleep(1)  # the first one has the lease
        rendezvous = f"127.0.0.1:{free_port()}"
        self.ranks = []
        for rank, host in enumerate("abcd"):
            os.mkdir(f"{folder}/{host}", 0o700)
            self.run([detour, "agent", *store, "--host", host], host)
            self.ranks.append(self.run([detour, "pipeline", "--devices", "4", "--microbatches", "8", "--times", "4,4,4", "--adapt",
                                        "control", "-n", "100000", "--rank", str(rank), "--rendezvous", rendezvous], host))

    def environment(self, host):
        return {**os.environ, "DETOUR_RUNTIME_DIR": f"{self.folder}/{host}", "DETOUR_VERBS": "soft", "DETOUR_SOCKET_IFNAME": "=lo"}

    def run(self, words, host="a"):
        self.processes.append(subprocess.Popen(words, env=self.environment(host), stdout=subprocess.DEVNULL))
        return self.processes[-1]

    def inject(self, *words):
        subprocess.run([self.detour, "inject", *words], env=self.environment("c"), check=True, stdout=subprocess.DEVNULL)

    def change(self, number):
        if number == SLOW_AT:
            self.inject("add", f"peer={socket.gethostname()}:{self.ranks[3].pid}", "latency=25ms")
        if number == HOLD_AT:
            self.run([self.detour, "control", "hold", "--for", "1s", "--redis", self.redis, "--job", JOB])
        if number == HEALTHY_AT:
            self.inject("clear")
        if number == KILL_AT:
            self.controllers[0].kill()

    def scrape(self):
        return {name: value for i, port in enumerate(self.ports) for name, value in scrape(port, f"head{i}:9465").items()}

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def main(detour, path):
    with tempfile.TemporaryDirectory() as folder:
        job = Job(detour, folder)
        try:
            time.sleep(15)
            snapshots = []
            for number in range(SNAPSHOTS):
                job.change(number)
                time.sleep(PAUSE_S)
                snapshots.append(job.scrape())
        finally:
            job.end()
    values = {name: [snapshot.get(name) for snapshot in snapshots] for name in sorted(set().union(*snapshots))}
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"step_s": STEP_S, "series": values}, out, separators=(",", ":"), indent=None)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
