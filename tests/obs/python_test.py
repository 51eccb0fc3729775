# SPDX-License-Identifier: Apache-2.0
"""python/detour_stat.py, on ranks of `detour perf`. Usage: python_test.py LIBRARY CC DETOUR"""
import ctypes
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CC = "cc"  # the compiler of the header, from the command line
DETOUR = "detour"


class Module(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="detour-stat-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.settings = {**os.environ, "DETOUR_RUNTIME_DIR": self.folder, "DETOUR_VERBS": "soft",
                         "DETOUR_SOCKET_IFNAME": "=lo"}

    def call(self, pid, line):
        """The answer to a line on the command socket."""
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(f"{self.folder}/{pid}.sock")
            one.sendall(line.encode() + b"\n")
            return one.recv(1000).decode()

    def test_ranks_that_send_to_each_other(self):
        perf = subprocess.Popen([DETOUR, "perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--timeout", "60"],
                                env=self.settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(perf.wait)
        self.addCleanup(perf.terminate)
        links = set()
        while links != {(0, 1), (1, 0)}:  # ctest's own limit ends a test that waits in vain
            self.assertIsNone(perf.poll())
            links = {(c["from_rank"], c["to_rank"]) for process in detour_stat.read(folder=self.folder)
                     for c in process["connections"] if c["is_send"] and c["messages"] > 100}
            time.sleep(0.05)
        processes = detour_stat.read(folder=self.folder)
        self.assertEqual(sorted(process["rank"] for process in processes), [0, 1])
        for process in processes:
            first = process["events"][0]
            self.assertEqual((first["kind"], first["number"], first["rank"]), ("process", 0, process["rank"]))
            for field in ("connection", "peer", "path", "verdict", "cause", "nic", "peer_rank"):
                self.assertIsNone(first[field], field)
            for c in process["connections"]:
                self.assertGreater(c["bytes"], c["messages"])
                self.assertIn(c["nic"], ("soft0", "soft1"))
                if c["is_send"]:
                    self.assertLessEqual(abs(sum(c["service_count"]) - c["messages"]), 1)  # copied while it counts
        starts, events = set(), detour_stat.follow(folder=self.folder)
        while (event := next(events)) is not None:
            starts.add((event["pid"], event["number"], event["kind"]))
        self.assertLessEqual({(process["pid"], 0, "process") for process in processes}, starts)
        while (event := next(events)) is not None:
            self.assertNotIn((event["pid"], event["number"], event["kind"]), starts)
        self.assertTrue(self.call(processes[0]["pid"], "remedy S4: 1 slow ranks").startswith("ok"))
        self.assertTrue(self.call(processes[0]["pid"], "remedy S5: 1 slow ranks").startswith("error"))
        remedies = [event for event in detour_stat.read(folder=self.folder)[0]["events"] if event["kind"] == "remedy"]
        self.assertEqual([(event["step"], event["text"]) for event in remedies], [("S4", "S4: 1 slow ranks")])
        self.assertIsNone(processes[0]["events"][0]["step"])
        one = detour_stat.read(processes[0]["pid"], self.folder)
        self.assertEqual([process["pid"] for process in one], [processes[0]["pid"]])
        for link in processes.links:
            sender = [process for process in processes if process["rank"] == link["from_rank"]][0]
            self.assertIn(link["connection"], [c["id"] for c in sender["connections"] if c["is_send"]])
        self.assertEqual(set(detour_stat.slow_links(processes)),
                         {(link["from_rank"], link["to_rank"]) for link in processes.links if link["is_slow"]})

    def test_links_are_those_of_the_library(self):
        links = []
        perf = subprocess.Popen([DETOUR, "perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--timeout", "60"],
                                env=self.settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(perf.wait)
        self.addCleanup(perf.terminate)
        while {(link["from_rank"], link["to_rank"]) for link in links} != {(0, 1), (1, 0)}:
            self.assertIsNone(perf.poll())  # until both have a verdict
            links = detour_stat.read(folder=self.folder).links
            time.sleep(0.05)

    def test_slow_links_are_the_slow_ones(self):
        row = {"from_rank": 0, "to_rank": 1, "is_slow": True, "delay_ns": 30200000}
        healthy = {**row, "to_rank": 2, "is_slow": False, "delay_ns": 0}
        self.assertEqual(detour_stat.slow_links(detour_stat.Processes(links=[row, healthy])), {(0, 1): 0.0302})

    def test_nobody(self):
        self.assertEqual(detour_stat.read(folder=self.folder), [])
        self.assertEqual(detour_stat.read(folder=self.folder + "/none"), [])
        with self.assertRaisesRegex(detour_stat.Error, "process 7 does not use Detour, or has ended"):
            detour_stat.read(7, self.folder)

    def test_structs_are_those_of_the_header(self):
        lines = [(f"sizeof(struct {name})", ctypes.sizeof(struct)) for name, struct in detour_stat._STRUCTS.items()]
        for name, struct in detour_stat._STRUCTS.items():
            for field, *_ in struct._fields_:
                place, member = getattr(struct, field), f"((struct {name} *)0)->{field}"
                lines += [(f"offsetof(struct {name}, {field})", place.offset), (f"sizeof({member})", place.size)]
        lines.append(("DETOUR_STAT_ERROR_BYTES", detour_stat._ERROR_BYTES))
        prints = "\n".join(f'printf("%lld\\n", (long long)({line}));' for line, _ in lines)
        source = pathlib.Path(self.folder, "layout.c")
        source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"detour/stat.h\"\n"
                          f"int main(void) {{\n{prints}\nreturn 0; }}\n")
        subprocess.run([CC, "-I", ROOT / "include", source, "-o", source.with_suffix("")], check=True)
        found = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([(line, int(value)) for (line, _), value in zip(lines, found)], lines)

    def test_functions_are_documented(self):
        for name in detour_stat.__all__:
            self.assertTrue(getattr(detour_stat, name).__doc__, name)


if __name__ == "__main__":
    os.environ["DETOUR_STAT_LIBRARY"] = sys.argv.pop(1)
    CC, DETOUR = sys.argv.pop(1), sys.argv.pop(1)
    sys.path.insert(0, str(ROOT / "python"))
    import detour_stat
    unittest.main()
