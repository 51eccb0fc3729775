# SPDX-License-Identifier: Apache-2.0
"""Stock NCCL through Detour without a GPU: collectives and exchanges of all kinds, their bytes checked, and what
happens when ranks, RNICs or the network fail.

    cases.py BUILD [VERSION] [TESTCASE...]      a VERSION of scripts/nccl_wheels.sh, cu12-2.28.9 unless named
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import ranks

BUILD = pathlib.Path(sys.argv[1]).resolve()
VERSION = sys.argv[2] if len(sys.argv) > 2 and "-" in sys.argv[2] else "cu12-2.28.9"
NCCL = ranks.find_nccl(VERSION)

KB, MB = 1 << 10, 1 << 20
INT8, UINT8, INT32, INT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = 0, 1, 2, 4, 6, 7, 8, 9
TYPES_REDUCED = range(10)  # the 8-bit floating point types are reduced from compute capability 9.0 on
SUM, PROD, MAX, MIN, AVG = range(5)


class Case(unittest.TestCase):
    """A job that has to end well, with no wrong element."""

    def run_job(self, count, steps, statuses=None, **options):
        job = ranks.Job(BUILD, NCCL, count, steps, **options)
        got = job.end()
        self.assertEqual(got, statuses or [0] * count, job.output())
        self.assertNotRegex(job.output(), r"not implemented: ")
        for name, size, _, wrong in ranks.operations(job.output()):
            self.assertEqual(wrong, 0, f"{name} of {size} bytes\n{job.output()}")
        return job


class Collectives(Case):
    """Values and sizes."""

    def test_uses_detour(self):
        job = self.run_job(2, [f"all_reduce:{MB}:2"], settings={"NCCL_DEBUG": "INFO"})
        self.assertRegex(job.output(), r"via NET/Detour/\d")

    def test_every_collective_of_two_ranks(self):
        names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv", "all_to_all"]
        self.run_job(2, [f"{name}:{size}:2" for name in names for size in (8, 4 * KB, 300001, 3 * MB)])

    def test_every_collective_of_three_ranks(self):
        names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv", "all_to_all"]
        self.run_job(3, [f"{name}:{size}:3" for name in names for size in (12, 300000)])

    def test_in_place(self):
        names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]
        for count in (2, 3):
            self.run_job(count, ["in_place:1", *(f"{name}:{size}:{count}" for name in names
                                                 for size in (24, 4 * KB, 300000, 3 * MB))])

    def test_every_type_and_operation(self):
        self.run_job(3, [f"all_reduce:{size}:1:{kind}:{operation}" for kind in TYPES_REDUCED
                         for operation in (SUM, PROD, MAX, MIN, AVG) for size in (3000, 160000)])


class Protocols(Case):
    """Sizes around the places where NCCL changes its protocol, its slices and its chunks."""

    def sizes(self, protocol, count, **more):
        around = [edge + delta for edge in (16, 128, 1920, 64 * KB, 512 * KB, MB) for delta in (-8, 0, 8)]
        self.run_job(count, ["all_reduce:0", *(f"all_reduce:{size}" for size in around), f"all_gather:{MB + 24}",
                             f"reduce_scatter:{MB + 24}", f"broadcast:{MB + 8}", f"reduce:{MB + 8}", "send_recv:0",
                             *(f"send_recv:{size}:1:1" for size in (1, 4095, 4097, 131071, 131073, MB + 1))],
                     settings={"NCCL_PROTO": protocol, **more})

    def test_simple(self):
        self.sizes("Simple", 2)

    def test_ll(self):
        self.sizes("LL", 2, NCCL_ALLOC_P2P_NET_LL_BUFFERS="1")

    def test_ll128(self):
        self.sizes("LL128", 2)

    def test_nccls_own_choice_of_three_ranks(self):
        self.run_job(3, [f"all_reduce:{size}:2" for size in (0, 4, 32 * KB, 33 * KB, 256 * KB, MB + 4, 8 * MB)])

    def test_64_mebibytes(self):
        self.run_job(2, [f"all_reduce:{64 * MB}", f"send_recv:{64 * MB}"])


class Communicators(Case):
    """Set-up, several communicators, abort."""

    def test_split(self):
        self.run_job(3, ["split:3"])

    def test_several_communicators(self):
        self.run_job(2, ["comms:4"])

    def test_abort_in_set_up(self):
        job = self.run_job(1, ["abort_init:200"])
        self.assertIn("ncclCommAbort in set-up returned 0", job.output())

    def test_abort_in_traffic(self):
        job = self.run_job(2, [f"all_reduce:{MB}:2", "abort:60"])
        self.assertEqual(job.output().count("ncclCommAbort in traffic returned 0"), 2, job.output())

    def test_killed_rank(self):
        job = self.run_job(2, [f"all_reduce:{MB}:20", "kill:1", f"all_reduce:{MB}:100000"], statuses=[7, -9])
        self.assertRegex(job.output(), r"rank 0: async error \d: NET/Detour : \[connection-failed\] connection .*(dead|gone)")
        self.assertRegex(job.output(), r"rank 0: ncclCommAbort returned 0")


def flaps(count, size):
    """Steps in which soft0 and soft1 fail in turn, `count` times, under all-reduces of `size` bytes."""
    steps = []
    for i in range(count):
        steps += [f"mark:down{i % 2}", f"all_reduce:{size}:40", f"send_recv:{size}:10", f"mark:up{i % 2}",
                  f"all_reduce:{size}:40", "sleep:100"]
    return steps


FLAPS = {f"{action}{i}": [("nic", f"soft{i}", action)] for i in (0, 1) for action in ("down", "up")}


SHOWS_EVENTS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "NET", "DETOUR_STABLE_MS": "50"}


class Faults(Case):
    """RNICs and the control network fail under traffic. The traffic behind a mark runs while the test acts on it."""

    def run_with(self, steps, actions, settings=None, **options):
        """actions: {mark: [arguments of `detour`, ...]}, at rank 0's mark."""
        done = []

        def act(rank, mark):
            if rank == 0:
                done.extend(job.detour(*words) for words in actions[mark])

        job = ranks.Job(BUILD, NCCL, 2, steps, settings={**SHOWS_EVENTS, **(settings or {})}, on_mark=act, **options)
        statuses = job.end()
        return job, statuses

    def assert_unharmed(self, job, statuses):
        self.assertEqual(statuses, [0, 0], job.output())
        self.assertEqual(sum(wrong for *_, wrong in ranks.operations(job.output())), 0, job.output())

    def test_rnic_down_and_up(self):
        job, statuses = self.run_with(
            [f"all_reduce:{MB}:30", "mark:down", f"all_reduce:{MB}:150", f"send_recv:{MB}:50", "mark:up",
             f"all_reduce:{MB}:150", "sleep:300", f"all_reduce:{MB}:30"],
            {"down": [("nic", "soft0", "down")], "up": [("nic", "soft0", "up")]})
        self.assert_unharmed(job, statuses)
        self.assertRegex(job.output(), "is (settled|fenced)")
        self.assertRegex(job.output(), "is in use again")

    def test_both_rnics_in_turn(self):
        job, statuses = self.run_with(
            [f"all_reduce:{MB}:20", *(step for mark in ("a", "b", "c", "d") for step in
                                      (f"mark:{mark}", f"all_reduce:{MB}:100", "sleep:200"))],
            {"a": [("nic", "soft0", "down")], "b": [("nic", "soft0", "up")], "c": [("nic", "soft1", "down")],
             "d": [("nic", "soft1", "up")]})
        self.assert_unharmed(job, statuses)

    def test_silent_loss(self):
        job, statuses = self.run_with(
            [f"all_reduce:{MB}:30", "mark:lose", f"all_reduce:{MB}:150", "mark:end", f"all_reduce:{MB}:50"],
            {"lose": [("nic", "soft0", "drop", "100%")], "end": [("nic", "soft0", "drop", "0%")]})
        self.assert_unharmed(job, statuses)
        self.assertRegex(job.output(), "is (settled|fenced)")

    def test_both_rnics_dead_is_an_error_with_the_reason(self):
        job, statuses = self.run_with(
            [f"all_reduce:{MB}:30", "mark:dead", f"all_reduce:{MB}:100000"],
            {"dead": [("nic", "soft0", "down"), ("nic", "soft1", "down")]}, settings={"DETOUR_DEAD_MS": "500"})
        self.assertEqual(statuses, [7, 7], job.output())
        for rank in (0, 1):
            self.assertRegex(job.ranks[rank].output(), r"async error \d: .*\bconnection\b.*")
            self.assertIn("ncclCommAbort returned 0", job.ranks[rank].output())

    def test_control_network_cut(self):
        job, statuses = self.run_with([f"all_reduce:{MB}:30", f"send_recv:{MB}:5", "cut:1", f"all_reduce:{MB}:100",
                                       f"send_recv:{MB}:30"], {})
        self.assert_unharmed(job, statuses)
        cut = re.search(r"rank 1: (\d+) control connections cut", job.output())
        self.assertGreater(int(cut[1]), 0)

    def test_rnic_down_under_injected_delay(self):
        job, statuses = self.run_with(
            [f"all_reduce:{256 * KB}:20", "mark:down", f"all_reduce:{256 * KB}:60", "mark:up", f"send_recv:{MB}:20"],
            {"down": [("nic", "soft1", "down")], "up": [("nic", "soft1", "up")]},
            settings={"DETOUR_INJECT": "latency=2ms"})
        self.assert_unharmed(job, statuses)


class Features(Case):
    """What Detour does beside failover, seen by NCCL."""

    def watch(self, steps, words, settings=None, count=2):
        """Runs `detour WORDS` at rank 0's mark; (job, its outputs)."""
        answers = []

        def act(rank, mark):
            if rank == 0:
                answers.append(job.detour(*words[mark]))

        job = ranks.Job(BUILD, NCCL, count, steps, settings=settings, on_mark=act)
        self.assertEqual(job.end(), [0] * count, job.output())
        return job, answers

    def test_stat_reads_ranks_and_messages(self):
        rounds = 20
        # The ranks end their last round at different times: the last of several looks counts.
        _, answers = self.watch([f"all_reduce:{64 * KB}:{rounds}", *["sleep:200", "mark:stat"] * 8, "sleep:1000"],
                                {"stat": ("stat", "--json")}, count=3, settings={"NCCL_PROTO": "Simple"})
        processes = json.loads(answers[-1])["processes"]
        self.assertEqual([process["process"] for process in processes], ["nccl-rank"] * 3)
        self.assertEqual(sorted(process["rank"] for process in processes), [0, 1, 2])
        sends = [c for process in processes for c in process["connections"] 
                 if c["direction"] == "send" and c["messages"]]
        pairs = {(c["from"], c["to"]) for c in sends}
        self.assertIn(pairs, ({(0, 1), (1, 2), (2, 0)}, {(1, 0), (2, 1), (0, 2)}))
        # A ring of three: each rank sends 2 (n - 1) / n of the data, in 2 (n - 1) chunks of 2 slices per channel.
        for pair in pairs:
            own = [c for c in sends if (c["from"], c["to"]) == pair]
            self.assertEqual(sum(c["messages"] for c in own), rounds * 8 * len(own))
        self.assertEqual(sum(c["bytes"] for c in sends), rounds * 4 * 64 * KB)

    def test_injected_delay_is_counted(self):
        job, answers = self.watch([f"all_reduce:{64 * KB}:5", "mark:add", f"all_reduce:{64 * KB}:100", "mark:list",
                                   "sleep:300"],
                                  {"add": ("inject", "add", "device=soft0", "latency=3ms"),
                                   "list": ("inject", "list")})
        self.assertEqual(len(ranks.operations(job.output())), 4)
        acted = re.findall(r"^\d+ +nccl-rank +1 +\S+ +(\d+) .*latency=3ms$", answers[1], re.MULTILINE)
        self.assertEqual(len(acted), 2, answers[1])
        for count in acted:
            self.assertGreater(int(count), 0, answers[1])

    def staged(self, settings, steps, words):
        _, answers = self.watch([*steps, "mark:stat", "sleep:1500"], {**words, "stat": ("stat", "--json")},
                                settings=settings)
        processes = json.loads(answers[-1])["processes"]
        return sum(c.get("staged_messages", 0) for process in processes for c in process["connections"])

    def test_host_path_on(self):
        steps = [f"all_reduce:{size}:20" for size in (64, 4 * KB, 64 * KB, MB)] + [f"send_recv:{MB}:10"]
        self.assertGreater(self.staged({"DETOUR_HOSTPATH": "on"}, steps, {}), 0)

    def test_host_path_auto_takes_over_a_slow_link(self):
        steps = [f"all_reduce:{256 * KB}:200", "mark:slow", f"all_reduce:{256 * KB}:100"]
        self.assertGreater(self.staged({"DETOUR_HOSTPATH": "auto"}, steps,
                                       {"slow": ("inject", "add", "latency=20ms")}), 0)


GPU_SETTINGS = {"DETOUR_CUDA_LIB": str(BUILD / "tests" / "libfake_cuda.so"), "DETOUR_NCCL_HOST_GDR": "1", "NCCL_NET_GDR_LEVEL": "SYS", "NCCL_NET_PLUGIN": "gpu-double",
                "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}


class GpuMemory(Case):
    """GPUDirect RDMA on the double of plugins/gpu_double.c: what arrives is visible late and out of order, unless it
    is flushed; and bugs of plugins in this respect, which have to be seen."""

    steps = [f"all_reduce:{size}:10" for size in (64, 4 * KB, 256 * KB)] + [f"send_recv:{300 * KB}:5:1",
                                                                          f"all_gather:{512 * KB}:5"]

    def run_on_gpu_memory(self, protocol):
        job = self.run_job(2, self.steps, settings={**GPU_SETTINGS, "NCCL_PROTO": protocol})
        self.assertRegex(job.output(), r"via NET/Detour/\d/GDRDMA")

    def test_simple(self):
        self.run_on_gpu_memory("Simple")

    def test_ll(self):
        self.run_on_gpu_memory("LL")

    def test_ll128(self):
        self.run_on_gpu_memory("LL128")

    def test_rnics_down_and_up_in_turn(self):
        done = []

        def act(rank, mark):
            if rank == 0:
                done.extend(job.detour(*words) for words in FLAPS[mark])

        job = ranks.Job(BUILD, NCCL, 2, flaps(2, 256 * KB), settings={**GPU_SETTINGS, "NCCL_PROTO": "Simple",
                                                                     "DETOUR_STABLE_MS": "50"}, on_mark=act)
        self.assertEqual(job.end(), [0, 0], job.output())
        self.assertEqual(sum(wrong for *_, wrong in ranks.operations(job.output())), 0, job.output())
        self.assertEqual(len(done), 4)

    def assert_found(self, bug, protocol, steps, settings=GPU_SETTINGS):
        """The job must not end well: wrong elements, or it hangs."""
        job = ranks.Job(BUILD, NCCL, 2, steps, settings={**settings, "NCCL_PROTO": protocol, "DETOUR_GPU_DOUBLE": bug})
        statuses = job.end(limit_s=20)
        self.assertNotEqual(statuses, [0, 0], f"{bug} was not found\n{job.output()}")
        for status in statuses:
            self.assertIn(status, (0, 1, None), job.output())

    def test_finds_a_late_write_after_completion(self):
        self.assert_found("late_write", "Simple", [f"all_reduce:{256 * KB}:100"],
                          {"NCCL_NET_PLUGIN": "gpu-double"})

    def test_finds_a_lost_flush(self):
        self.assert_found("lost_flush", "Simple", [f"all_reduce:{256 * KB}:50"])

    def test_finds_stores_of_four_bytes(self):
        self.assert_found("short_stores", "LL", [f"all_reduce:{4 * KB}:50"])


class Calls(Case):
    """NCCL's messages, recorded by plugins/recorder.c, beside those of `detour perf` for the same operations."""

    ROUNDS = 4
    SIZES = [64 * 8 ** k for k in range(6)]  # LL, Simple, and chunks of several lengths

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="detour-calls.")
        self.addCleanup(self.folder.cleanup)
        self.settings = {"NCCL_NET_PLUGIN": "recorder", "DETOUR_RECORD": f"{self.folder.name}/record",
                         "DETOUR_FORWARD_TO": f"{BUILD}/lib/libnccl-net-detour.so"}

    def messages(self, pid):
        """{bytes: messages} that this process sent."""
        return dict(json.loads(pathlib.Path(f"{self.folder.name}/record.{pid}").read_text())["sends"])

    def nccls(self, name, rounds):
        job = self.run_job(2, [f"{name}:{size}:{rounds}" for size in self.SIZES], settings=self.settings)
        return self.messages(job.ranks[0].process.pid)

    def perfs(self, name, rounds):
        command = [BUILD / "bin" / "detour", "perf", name, "-b", str(self.SIZES[0]), "-e", str(self.SIZES[-1]), "-f", "8",
                   "-n", str(rounds), "-w", "0", "-c", "0", "--plugin", BUILD / "tests/nccl/libnccl-net-recorder.so"]
        env = {**{key: value for key, value in os.environ.items() if not key.startswith(("DETOUR_", "NCCL_"))},
               **ranks.DETOUR_SETTINGS, **self.settings, "DETOUR_RUNTIME_DIR": self.folder.name}
        done = subprocess.run(command, env=env, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.messages(re.search(r"Rank +0 Pid +(\d+)", done.stdout)[1])

    def compare(self, nccls_name, perfs_name, nccls_rounds=ROUNDS, perfs_rounds=ROUNDS):
        self.assertEqual(self.perfs(perfs_name, perfs_rounds), self.nccls(nccls_name, nccls_rounds))

    def test_all_reduce(self):
        self.compare("all_reduce", "all_reduce", perfs_rounds=self.ROUNDS // 2)  # in place, too

    def test_all_gather(self):
        self.compare("all_gather", "all_gather", perfs_rounds=self.ROUNDS // 2)

    def test_reduce_scatter(self):
        self.compare("reduce_scatter", "reduce_scatter", perfs_rounds=self.ROUNDS // 2)

    def test_broadcast(self):
        # nccl-rank changes the root from round to round: rank 0 sends in every other one.
        self.compare("broadcast", "broadcast", nccls_rounds=2 * self.ROUNDS, perfs_rounds=self.ROUNDS // 2)

    def test_send_and_receive(self):
        self.compare("send_recv", "sendrecv")

    def test_all_to_all(self):
        self.compare("all_to_all", "alltoall")


class Many(Faults):
    """By scripts/nccl_soak.sh, not in CI: more ranks, all sizes, and faults for thousands of operations."""

    def test_four_and_eight_ranks(self):
        for count in (4, 8):
            self.run_job(count, [f"{name}:{size}:2" for name in ("all_reduce", "all_gather", "reduce_scatter", "send_recv",
                                                                 "broadcast", "reduce", "all_to_all")
                                 for size in (8 * count, 64 * KB, 3 * MB)])

    def test_sizes_from_0_to_64_mebibytes(self):
        sizes = sorted({0, *((1 << k) + delta for k in range(3, 27) for delta in (-4, 0, 4))})
        self.run_job(2, [f"all_reduce:{size}" for size in sizes] + [f"send_recv:{size}" for size in sizes])

    def test_alternating_flaps(self):
        job, statuses = self.run_with(flaps(30, 256 * KB), FLAPS)
        self.assert_unharmed(job, statuses)

    def test_alternating_flaps_on_gpu_memory(self):
        job, statuses = self.run_with(flaps(10, 256 * KB), FLAPS, settings={**GPU_SETTINGS, "NCCL_PROTO": "LL"})
        self.assert_unharmed(job, statuses)

    def test_alternating_flaps_on_the_host_path(self):
        job, statuses = self.run_with(flaps(10, 256 * KB), FLAPS, settings={"DETOUR_HOSTPATH": "on"})
        self.assert_unharmed(job, statuses)

    def test_fifty_splits(self):
        self.run_job(3, ["split:50"])


if __name__ == "__main__":
    words = [word for word in sys.argv[2:] if word != VERSION]
    unittest.main(argv=[sys.argv[0], *words], verbosity=2)
