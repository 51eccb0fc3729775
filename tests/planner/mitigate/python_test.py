# SPDX-License-Identifier: Apache-2.0
"""python/detour_mitigate.py. Usage: python_test.py LIBRARY CC DETOUR"""
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CC, DETOUR = "cc", "detour"  # from the command line

JOB = {"version": 1, "name": "job", "replicas": 4, "stages": 2, "microbatches": 32, "stage_ms": [10, 10],
       "message_bytes": 1000000, "gradient_bytes": 500000000, "bytes_per_s": 10000000000, "latency_ms": 0.01,
       "costs_ms": {"S2": 10, "S3": 60000, "S4": 1200000}}
EVENT = {"version": 1, "slow_iterations": 30, "links": [{"a": 1, "b": 3, "factor": 5}],
         "nodes": [{"node": 4, "compute": 1.5}]}


class Module(unittest.TestCase):
    def test_plan_is_that_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in ("job", "event")]
            for path, value in zip(paths, (JOB, EVENT)):
                path.write_text(json.dumps(value), encoding="utf-8")
            printed = json.loads(subprocess.run(
                [DETOUR, "mitigate", "--cluster", paths[0], "--event", paths[1], "--json"], check=True,
                capture_output=True).stdout)
        plan = detour_mitigate.plan(JOB, EVENT)
        self.assertEqual((plan["due"], plan["healthy_ms"]), (printed["due"], printed["healthy_ms"]))
        for row in printed["steps"]:
            step = plan["steps"][row["step"]]
            self.assertEqual(step["cost_ms"], row["cost_ms"])
            self.assertIn(step["iteration_ms"], row.values())
            self.assertIn(step["taken_after"], row.values())
        for key in ("microbatches", "weights"):
            self.assertEqual(plan["S2"][key], printed["S2"][key])
        for key in ("nodes", "microbatches", "moved", "optimal", "ended_early"):
            self.assertEqual(plan["S3"][key], printed["S3"][key])

    def test_options(self):
        # The slowness as a whole, 3 times as long, is beyond 90 % and within 300 %.
        self.assertEqual(detour_mitigate.plan(JOB, EVENT, noise_percent=90)["steps"]["S2"]["taken_after"], 1)
        self.assertIsNone(detour_mitigate.plan(JOB, EVENT, noise_percent=300)["steps"]["S2"]["taken_after"])
        quick = {**EVENT, "links": [], "slow_iterations": 2}
        self.assertEqual(detour_mitigate.plan(JOB, quick)["due"], "S2")
        self.assertEqual(detour_mitigate.plan(JOB, quick, noise_percent=90)["due"], "S1")

    def test_microbatches(self):
        made = detour_mitigate.microbatches([2, 5, 10], 12)
        self.assertEqual((made["microbatches"], made["time_ms"]), ([8, 3, 1], 16))
        self.assertEqual(made["weights"], [8 / 12, 3 / 12, 1 / 12])
        self.assertEqual(detour_mitigate.microbatches([2, 2], 4, [0, 4])["microbatches"], [3, 1])

    def test_iteration(self):
        plan = detour_mitigate.plan(JOB, EVENT)
        self.assertEqual(detour_mitigate.iteration_ms(JOB, EVENT), plan["steps"]["S1"]["iteration_ms"])
        self.assertEqual(detour_mitigate.iteration_ms(JOB, EVENT, counts=plan["S2"]["microbatches"]),
                         plan["steps"]["S2"]["iteration_ms"])
        self.assertEqual(detour_mitigate.iteration_ms(JOB, EVENT, plan["S3"]["nodes"], plan["S3"]["microbatches"]),
                         plan["steps"]["S3"]["iteration_ms"])
        self.assertEqual(detour_mitigate.iteration_ms(JOB, {"version": 1}), plan["healthy_ms"])

    def test_errors_are_one_line(self):
        for call, line in [(lambda: detour_mitigate.plan({"version": 1}, EVENT), "job: "),
                           (lambda: detour_mitigate.plan(JOB, {"version": 2}), "event: "),
                           (lambda: detour_mitigate.microbatches([2, 5], 1), "microbatch"),
                           (lambda: detour_mitigate.microbatches([2, 5], 4, [1]), "fixed_ms has 1 times"),
                           (lambda: detour_mitigate.iteration_ms(JOB, EVENT, [0]), "nodes has 1 numbers"),
                           (lambda: detour_mitigate.iteration_ms(JOB, EVENT, [0] * 8), "node")]:
            with self.assertRaises(detour_mitigate.Error) as caught:
                call()
            self.assertIn(line, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_structs_are_those_of_the_header(self):
        lines = []
        for name, struct in detour_mitigate._STRUCTS.items():
            lines.append((f"sizeof(struct {name})", ctypes.sizeof(struct)))
            for field, *_ in struct._fields_:
                place, member = getattr(struct, field), f"((struct {name} *)0)->{field}"
                lines += [(f"offsetof(struct {name}, {field})", place.offset), (f"sizeof({member})", place.size)]
        lines += [(f"DETOUR_STEP_{step}", i) for i, step in enumerate(detour_mitigate.STEPS)]
        prints = "\n".join(f'printf("%lld\\n", (long long)({line}));' for line, _ in lines)
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "layout.c")
            source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"detour/mitigate.h\"\n"
                              f"int main(void) {{\n{prints}\nreturn 0; }}\n")
            subprocess.run([CC, "-I", ROOT / "include", source, "-o", source.with_suffix("")], check=True)
            found = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([(line, int(value)) for (line, _), value in zip(lines, found)], lines)

    def test_functions_are_documented(self):
        for name in detour_mitigate.__all__:
            self.assertTrue(getattr(detour_mitigate, name).__doc__, name)


if __name__ == "__main__":
    os.environ["DETOUR_SCHED_LIBRARY"] = sys.argv.pop(1)
    CC, DETOUR = sys.argv.pop(1), sys.argv.pop(1)
    sys.path.insert(0, str(ROOT / "python"))
    import detour_mitigate
    unittest.main()
