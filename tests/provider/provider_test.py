# SPDX-License-Identifier: Apache-2.0
"""Debian's unmodified verbs programs, and Detour's command with its plugin, on the real libibverbs and libmlx5, which
find the stand-in for the kernel's device (uverbs.h) instead of a kernel that has RDMA.

    provider_test.py STAND-IN DETOUR DATA-TEST [TESTCASE...]
"""
import ctypes
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "dropin"))
import programs  # noqa: E402  pylint: disable=wrong-import-position

NEEDED = ["ibv_devinfo", "ibv_rc_pingpong"]
# The stand-in was written for this release; other releases may ask a kernel for more.
LIBMLX5 = re.compile(r"libmlx5\.so\.[\d.]+\.44\.0$")


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="detour-provider-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def environment(self, **more):
        return programs.environment(TMPDIR=self.folder, **more)

    def run_one(self, command, **more):
        code, out = programs.Program(command, self.environment(**more)).end()
        self.assertEqual(code, 0, out)
        self.assertNotIn("uverbs stand-in: refused", out)
        return out


class Programs(Test):
    def test_devices_are_those_of_mlx5(self):
        out = self.run_one(["ibv_devinfo", "-v"])
        self.assertEqual(sorted(re.findall(r"hca_id:\s+(\w+)", out)), ["mlx5_0", "mlx5_1"])
        self.assertEqual(re.findall(r"vendor_part_id:\s+(\d+)", out), ["4119", "4119"])
        self.assertEqual(len(re.findall(r"state:\s+PORT_ACTIVE", out)), 2)
        self.assertEqual(len(re.findall(r"GID\[  0\]:\s+fd44:[0-9a-f:]+, RoCE v2", out)), 2)
        self.assertEqual(os.listdir(self.folder), [], "the files of sysfs are removed at the end")

    def test_pingpong_with_its_check_of_the_data(self):
        words = ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-c", "-n", "300"]
        for out in programs.run_pair(words, self.environment()):
            self.assertRegex(out, r"(?m)^300 iters in ")
            self.assertNotIn("invalid data", out)

    def test_what_is_not_answered_is_refused_in_one_line(self):
        words = ["ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-e", "-p", str(programs.free_port())]
        code, out = programs.Program(words, self.environment()).end()
        self.assertNotEqual(code, 0, out)
        self.assertRegex(out, r"(?m)^uverbs stand-in: refused: command 17 of mlx5_0 ")

    def test_messages_and_failover_of_the_plugin(self):
        """Two ranks, every byte checked. A send of each completes with an error: the path is fenced, and its messages
        go over the other device."""
        for posting in ("std", "dv"):
            with self.subTest(posting):
                out = self.run_one(
                    [str(programs.DETOUR), "perf", "all_reduce", "-b4K", "-e1M", "-f16", "-n3", "--channels=1"],
                    DETOUR_VERBS="system", DETOUR_POSTING=posting, NCCL_DEBUG="INFO", NCCL_SOCKET_IFNAME="=lo",
                    DETOUR_INJECT="device=mlx5_0 status=retry_exceeded count=1")
                self.assertIn("# Out of bounds values : 0 OK", out)
                self.assertRegex(out, r"\[verbs-loaded\] verbs: \S*/libibverbs\.so\.1: ")
                self.assertIn("2 devices: mlx5_0 mlx5_1", out)
                self.assertEqual("[dv-in-use] mlx5_0" in out, posting == "dv", out)
                self.assertRegex(out, r"\[path-settled\] .* path 0, mlx5_0 to mlx5_0, epoch 0 is settled: .* "
                                      r"retry count exceeded .* over mlx5_1 ")


class Data(Test):
    """The suite of messages above NCCL's interface (tests/plugin/data_test.cc)."""

    def data(self, posting):
        out = self.run_one([sys.argv[3]], DETOUR_VERBS="system", DETOUR_POSTING=posting, DETOUR_SOCKET_IFNAME="=lo")
        self.assertRegex(out, r"(?m)^\[  PASSED  \] [1-9]\d* tests")

    def test_std(self):
        self.data("std")

    def test_dv(self):
        self.data("dv")


def what_is_missing():
    missing = [program for program in NEEDED if not shutil.which(program)]
    try:
        ctypes.CDLL("libmlx5.so.1")
    except OSError:
        return missing + ["libmlx5.so.1"]
    with open("/proc/self/maps", encoding="ascii") as maps:
        return missing if any(LIBMLX5.search(row.rstrip()) for row in maps) else missing + ["libmlx5 of rdma-core 44.0"]


if __name__ == "__main__":
    if what_is_missing():
        print(f"provider: skipped: {', '.join(what_is_missing())} not found (scripts/setup.sh test installs "
              "ibverbs-providers)")
        sys.exit(programs.SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
