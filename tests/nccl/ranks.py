# SPDX-License-Identifier: Apache-2.0
"""Processes with stock NCCL on host memory: finds the pinned libnccl, starts nccl-rank for each rank and reads what
they print. Used by the test programs beside it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
LIMIT_S = int(os.environ.get("DETOUR_NCCL_LIMIT_S", "120"))  # what takes longer hangs
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# NCCL's own settings: two processes of one machine take the network, and only rings, which kernels/ runs.
NCCL_SETTINGS = {
    "NCCL_SOCKET_IFNAME": "lo", "NCCL_ALGO": "Ring", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
    "NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_RAS_ENABLE": "0", "NCCL_DEBUG": "WARN",
}
DETOUR_SETTINGS = {
    "NCCL_NET": "Detour", "NCCL_NET_PLUGIN": "detour", "DETOUR_VERBS": "soft", "DETOUR_SOCKET_IFNAME": "=lo",
}


def skip(reason):
    print(f"nccl: skipped: {reason}")
    sys.exit(SKIPPED)


def find_nccl(version):
    """The folder of a pinned NCCL in the cache; skips the whole program, with the reason, where it is absent."""
    script = ROOT / "scripts" / "nccl_wheels.sh"
    words = [script] if os.environ.get("DETOUR_NCCL_FETCH") else [script, "--cached"]
    found = subprocess.run([*words, version], capture_output=True, text=True, check=False)
    if found.returncode:
        skip(found.stderr.strip())
    return pathlib.Path(found.stdout.strip())


class Rank:
    """One process; its output, standard error included, is kept line by line."""

    def __init__(self, number, command, env, on_mark):
        self.number = number
        self.lines = []
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, args=(on_mark,), daemon=True)
        self.reader.start()

    def read(self, on_mark):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            mark = re.match(r"mark (\S+)", line)
            if mark and on_mark:
                on_mark(self.number, mark.group(1))

    def output(self):
        return "\n".join(self.lines)

    def end(self, limit_s):
        """The exit status; None when it had to be killed."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = None
        self.reader.join(10)
        self.process.stdout.close()
        return status


class Job:
    """Ranks of one communicator. `build` is the build folder, `nccl` the folder of libnccl.so.2. Settings of NCCL and
    Detour in the environment reach the ranks only if the job `inherits` them."""

    def __init__(self, build, nccl, ranks, steps, settings=None, plugin=DETOUR_SETTINGS, on_mark=None, per_rank=None,
                 first_rank=0, command=None, inherits=False):
        self.build = pathlib.Path(build)
        self.folder = tempfile.TemporaryDirectory(prefix="detour-nccl.")
        dropped = ("LD_",) if inherits else ("DETOUR_", "NCCL_", "LD_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        self.env = {**kept, **NCCL_SETTINGS, "DETOUR_RUNTIME_DIR": self.folder.name,
                    "LD_LIBRARY_PATH": f"{self.build}/tests/nccl:{self.build}/lib", **plugin, **(settings or {})}
        program = command or (lambda rank: [f"{self.build}/tests/nccl/nccl-rank", str(rank), str(ranks),
                                            f"{self.folder.name}/id", f"{nccl}/libnccl.so.2", *steps])
        self.ranks = [Rank(rank, program(rank),
                           {**self.env, "NCCL_HOSTID": f"host-{rank}", **((per_rank or (lambda _: {}))(rank))}, on_mark)
                      for rank in range(first_rank, ranks)]

    def end(self, limit_s=LIMIT_S):
        """Exit statuses by rank."""
        deadline = time.monotonic() + limit_s
        statuses = [rank.end(max(0.1, deadline - time.monotonic())) for rank in self.ranks]
        self.folder.cleanup()
        return statuses

    def output(self):
        return "\n".join(f"--- rank {rank.number}\n{rank.output()}" for rank in self.ranks)

    def detour(self, *words):
        """Runs the command against these processes; its output."""
        done = subprocess.run([self.build / "bin" / "detour", *words], env=self.env, text=True, capture_output=True,
                              check=False)
        return done.stdout + done.stderr


def operations(text):
    """(name, bytes, slowest in ms, wrong elements) of each line that nccl-rank prints about an operation."""
    return [(name, int(size), float(slowest), int(wrong)) for name, size, slowest, wrong in re.findall(
        r"^rank \d+: (\w+) (\d+) type \d+ op \d+ x \d+: \S+ s, slowest (\S+) ms, (\d+) wrong$", text, re.MULTILINE)]


def mean_s(text):
    """The mean duration of an operation of the last step that printed one, in seconds."""
    times, seconds = re.findall(r"^rank \d+: \w+ \d+ type \d+ op \d+ x (\d+): (\S+) s, slowest", text, re.MULTILINE)[-1]
    return float(seconds) / int(times)
