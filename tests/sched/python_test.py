# SPDX-License-Identifier: Apache-2.0
"""python/detour_sched.py. Usage: python_test.py LIBRARY"""
import os
import pathlib
import sys
import unittest

PROFILE = {"version": 1, "microbatches": 12, "stages": [{"f_ms": 10, "b_ms": 10, "w_ms": 10}] * 4,
           "links": [{"forward_ms": 0, "backward_ms": 0}] * 3}
SLOW = {**PROFILE, "links": [{"forward_ms": 20, "backward_ms": 20}] + PROFILE["links"][1:]}


class Module(unittest.TestCase):
    def test_plan_and_replay(self):
        plan = detour_sched.plan(PROFILE, "adaptra")
        self.assertEqual((plan["makespan_ms"], plan["algorithm"]), (390, "adaptra"))
        self.assertEqual([stage["warmup"] for stage in plan["stages"]], [7, 5, 3, 1])
        slow = detour_sched.simulate(SLOW, plan)
        self.assertEqual(slow["makespan_ms"], 440)
        self.assertEqual(len(slow["report"]["links"]), 3)

    def test_every_algorithm_or_its_reason(self):
        for name in detour_sched.algorithms():
            try:
                detour_sched.check(PROFILE, detour_sched.plan(PROFILE, name))
            except detour_sched.Error as error:
                self.assertIn("zb-v needs two stages on each device", str(error))

    def test_csv_both_ways(self):
        plan = detour_sched.plan(PROFILE, "zb-h1")
        csv = detour_sched.convert(PROFILE, plan, "csv")
        self.assertEqual(csv.count("\n"), 4)
        self.assertEqual(detour_sched.convert(PROFILE, csv, "csv"), csv)
        self.assertIn("SEND_F", detour_sched.convert(PROFILE, csv, "csv-comms"))
        self.assertTrue(detour_sched.convert(PROFILE, csv, "svg").startswith("<svg"))

    def test_errors_are_one_line(self):
        for call, line in [(lambda: detour_sched.plan({"version": 1}, "zb"), "profile: microbatches is missing"),
                           (lambda: detour_sched.plan(PROFILE, "best"), "algorithm is best; it must be one of"),
                           (lambda: detour_sched.convert(PROFILE, "0F0x\n", "csv"), "schedule: row 1, column 1"),
                           (lambda: detour_sched.convert(PROFILE, {}, "xml"), "form is xml; it must be one of")]:
            with self.assertRaises(detour_sched.Error) as caught:
                call()
            self.assertIn(line, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_functions_are_documented(self):
        for name in detour_sched.__all__:
            self.assertTrue(getattr(detour_sched, name).__doc__, name)


if __name__ == "__main__":
    os.environ["DETOUR_SCHED_LIBRARY"] = sys.argv.pop(1)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import detour_sched
    unittest.main()
