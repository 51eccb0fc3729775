# SPDX-License-Identifier: Apache-2.0
"""Debian's unmodified verbs programs on the software RNIC, server and client over loopback: they come to their end
and report what they were asked to do. Also Detour's own plugin with this library as its verbs.

    programs.py LIBRARY DETOUR [TESTCASE...]
"""
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

SKIPPED = 77
NEEDED = ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat"]
LIBRARY = pathlib.Path(sys.argv[1]).resolve()
DETOUR = pathlib.Path(sys.argv[2]).resolve()
WAYS = {"preloaded": {"LD_PRELOAD": str(LIBRARY)}, "by library path": {"LD_LIBRARY_PATH": str(LIBRARY.parent)}}
LIMIT_S = 200  # what takes longer hangs


def environment(way="preloaded", **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DETOUR_", "LD_", "NCCL_"))}
    return {**kept, **WAYS.get(way, {}), **more}


def free_port():
    """A port below those that the kernel gives out itself: no other test's connection takes it meanwhile."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as text:
        first = int(text.read().split()[0])
    for _ in range(1000):
        port = random.randrange(10000, first) if first > 11000 else 0
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise AssertionError("no free port")


def is_listening(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            continue
        with open(table, encoding="ascii") as rows:
            if any(re.search(rf":{port:04X} \S+ 0A ", row) for row in rows):
                return True
    return False


class Program:
    """One running program; its output, standard error included, goes to memory."""

    def __init__(self, command, env):
        self.command = command
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def end(self, limit_s=LIMIT_S):
        """(exit code, output); AssertionError when it does not end in time."""
        try:
            out, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, _ = self.process.communicate()
            raise AssertionError(f"{' '.join(self.command)}: still ran after {limit_s} s\n{out}") from None
        return self.process.returncode, out


def start_pair(words, env):
    """Server and client, both running."""
    port = free_port()
    server = Program([*words, "-p", str(port)], env)
    deadline = time.monotonic() + LIMIT_S
    while not is_listening(port):
        if server.process.poll() is not None or time.monotonic() > deadline:
            server.process.kill()
            raise AssertionError(f"{' '.join(words)}: the server does not listen\n{server.end()[1]}")
        time.sleep(0.01)
    return server, Program([*words, "-p", str(port), "127.0.0.1"], env)


def run_pair(words, env):
    """Outputs of server and client, which have both ended well."""
    server, client = start_pair(words, env)
    try:
        results = [client.end(), server.end()]
    finally:
        for program in (server, client):
            if program.process.poll() is None:
                program.process.kill()
                program.end()
    for code, out in results:
        assert code == 0, f"{' '.join(words)}: exit code {code}\nclient:\n{results[0][1]}\nserver:\n{results[1][1]}"
    return results[1][1], results[0][1]


class Test(unittest.TestCase):
    def pingpong(self, way, *options):
        for out in run_pair(["ibv_rc_pingpong", "-d", "soft0", "-g", "0", "-n", "200", *options], environment(way)):
            self.assertRegex(out, r"(?m)^200 iters in ")
            self.assertNotIn("invalid data", out)

    def perftest(self, way, program, *options, rows, **settings):
        """`rows`: the sizes in the client's table, with the number of iterations that stands beside."""
        _, out = run_pair([program, "-d", "soft0", "-F", *options], environment(way, **settings))
        found = re.findall(r"(?m)^ (\d+)\s+(\d+)\s+[\d.]+\s+[\d.]+", out)
        self.assertEqual([(int(size), int(count)) for size, count in found], rows, out)

    def run_one(self, command, env):
        code, out = Program(command, env).end()
        self.assertEqual(code, 0, out)
        return out


class Programs(Test):
    def test_devices(self):
        for way in WAYS:
            with self.subTest(way):
                out = self.run_one(["ibv_devices"], environment(way, DETOUR_SOFT_DEVICES="3"))
                self.assertEqual(re.findall(r"(?m)^\s+(soft\d+)\s+[0-9a-f]{16}$", out), ["soft0", "soft1", "soft2"])

    def test_devinfo(self):
        for way in WAYS:
            with self.subTest(way):
                out = self.run_one(["ibv_devinfo", "-v"], environment(way, DETOUR_SOFT_RATE="1250000000"))
                self.assertEqual(re.findall(r"hca_id:\s+(\w+)", out), ["soft0", "soft1"])
                self.assertEqual(len(re.findall(r"state:\s+PORT_ACTIVE", out)), 2)
                self.assertEqual(len(re.findall(r"GID\[  0\]:\s+fd44:[0-9a-f:]+, RoCE v2", out)), 2)
                self.assertRegex(out, r"active_width:\s+4X")
                self.assertRegex(out, r"active_speed:\s+2.5 Gbps")
                self.assertIn("not for production", out)

    def test_bad_setting(self):
        code, out = Program(["ibv_devinfo"], environment(DETOUR_SOFT_DEVICES="99")).end()
        self.assertNotEqual(code, 0)
        self.assertIn("DETOUR_SOFT_DEVICES=99: expected a number from 1 to 16", out)

    def test_pingpong(self):
        for way in WAYS:
            for options in ([], ["-e"], ["-c"], ["-e", "-c", "-s", "100000"]):
                with self.subTest(way, options=options):
                    self.pingpong(way, *options)

    def test_bandwidth(self):
        for way, program in (("preloaded", "ib_write_bw"), ("preloaded", "ib_send_bw"), ("preloaded", "ib_read_bw"),
                             ("by library path", "ib_write_bw")):
            with self.subTest(way, program=program):
                self.perftest(way, program, "-n", "200", rows=[(65536, 200)])

    def test_latency(self):
        self.perftest("preloaded", "ib_write_lat", "-n", "50", rows=[(2, 50)])


class Plugin(Test):
    def test_plugin_over_the_drop_in_library(self):
        """Real devices, as far as the plugin can see: every byte is checked by `detour perf`."""
        env = environment("none", DETOUR_VERBS="system", DETOUR_IBV_LIB=str(LIBRARY), NCCL_DEBUG="INFO",
                          NCCL_SOCKET_IFNAME="=lo")
        out = self.run_one([str(DETOUR), "perf", "all_reduce", "-b", "1K", "-e", "1M", "-f", "32", "-n", "3"], env)
        self.assertIn("# Out of bounds values : 0 OK", out)
        self.assertIn(str(LIBRARY), out, "the plugin logs which library it loaded")


class MorePrograms(Test):
    def test_every_size(self):
        sizes = [(1 << shift, 100) for shift in range(1, 24)]
        self.perftest("preloaded", "ib_write_bw", "-a", "-n", "100", rows=sizes)
        self.perftest("preloaded", "ib_send_bw", "-a", "-n", "100", rows=sizes)

    def test_options(self):
        for program, options, rows in (
                ("ib_send_bw", ["-e", "-n", "200"], [(65536, 200)]),
                ("ib_read_bw", ["-b", "-n", "200"], [(65536, 200)]),
                ("ib_write_bw", ["-b", "-n", "200"], [(65536, 200)]),
                ("ib_write_bw", ["-q", "4", "-n", "200"], [(65536, 800)]),
                ("ib_write_bw", ["-l", "4", "-n", "200"], [(65536, 200)]),
                ("ib_write_bw", ["-I", "256", "-s", "256", "-n", "200"], [(256, 200)]),
                ("ib_write_bw", ["-m", "1024", "-Q", "1", "-n", "200"], [(65536, 200)]),
                ("ib_send_lat", ["-n", "200"], [(2, 200)]),
                ("ib_send_lat", ["-e", "-n", "200"], [(2, 200)]),
                ("ib_read_lat", ["-n", "200"], [(2, 200)]),
                ("ib_write_lat", ["-I", "64", "-s", "64", "-n", "100"], [(64, 100)])):
            with self.subTest(program, options=options):
                self.perftest("preloaded", program, *options, rows=rows)

    def test_library_path_too(self):
        self.perftest("by library path", "ib_write_lat", "-n", "100", rows=[(2, 100)])
        self.pingpong("by library path", "-N")

    def test_what_there_is_not_is_refused(self):
        """UD, SRQ, atomics: an error at once."""
        for words in (["ibv_ud_pingpong", "-g", "0"], ["ibv_srq_pingpong", "-g", "0"]):
            with self.subTest(words):
                code, out = Program([*words, "-d", "soft0", "-p", str(free_port())], environment()).end()
                self.assertNotEqual(code, 0)
                self.assertRegex(out, "(?i)create (QP|SRQ)")
        for words in (["ib_send_bw", "-c", "UD"], ["ib_send_bw", "--use-srq"], ["ib_atomic_bw"]):
            with self.subTest(words):
                pair = start_pair([*words, "-d", "soft0"], environment())
                for code, out in [program.end() for program in pair]:
                    self.assertNotEqual(code, 0, out)


class Deaths(Test):
    """kill -9 of one side: the other ends with an error."""

    def pair_in_full_run(self, *words):
        server, client = start_pair([*words, "-d", "soft0", "-D", "25"], environment())
        time.sleep(1.5)
        self.assertIsNone(server.process.poll())
        self.assertIsNone(client.process.poll())
        return server, client

    def expect_error_of(self, survivor, victim):
        victim.process.send_signal(signal.SIGKILL)
        code, out = survivor.end(20)
        victim.end()
        self.assertNotEqual(code, 0, out)
        return out

    def test_server_dies(self):
        for program in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
            with self.subTest(program):
                server, client = self.pair_in_full_run(program)
                out = self.expect_error_of(client, server)
                self.assertIn("Completion with error", out)

    def test_client_dies(self):
        server, client = self.pair_in_full_run("ib_write_bw")
        self.expect_error_of(server, client)


if __name__ == "__main__":
    missing = [program for program in NEEDED if not shutil.which(program)]
    if missing:
        print(f"programs: skipped: {', '.join(missing)} not found (scripts/setup.sh test installs them)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
