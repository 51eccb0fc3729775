# SPDX-License-Identifier: Apache-2.0
"""python/detour_sched.py. Usage: python_test.py LIBRARY CC"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CC = "cc"  # the compiler of the headers, from the command line

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
                self.assertRegex(str(error), "(zb-v|hanayo) needs .* stages on each device")

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

    def test_compare(self):
        rows = {row["algorithm"]: row for row in detour_sched.compare(SLOW, node_budget=2000)}
        self.assertEqual(list(rows), detour_sched.algorithms())
        self.assertIn("two stages on each device", rows["zb-v"]["problem"])
        self.assertEqual((rows["auto"]["makespan_ms"], rows["auto"]["proven_optimal"]), (410, True))
        self.assertEqual((rows["zb-h1"]["peak_inflight"], rows["zb-h1"]["peak_bytes"]), (4, 0))

    def test_tolerance(self):
        links = detour_sched.tolerance(PROFILE, detour_sched.plan(PROFILE, "adaptra"))
        self.assertEqual([link["link"] for link in links], [0, 1, 2])
        self.assertEqual(links[0]["curve"][0], {"delay_ms": 0, "makespan_ms": 390, "slope": 1})
        self.assertEqual((links[0]["tolerable_ms"], links[0]["curve"][1]["slope"]), (14, 6))
        with self.assertRaises(detour_sched.Error):
            detour_sched.tolerance(PROFILE, detour_sched.plan(PROFILE, "zb"), "up")

    def test_adapt(self):
        plan = detour_sched.plan(PROFILE, "adaptra")
        delays = {"version": 1, "links": [{"from": 1, "to": 2, "delay_ms": 20}, {"from": 3, "to": 0, "delay_ms": 20}]}
        for arguments in [{"profile": SLOW}, {"profile": PROFILE, "delays": delays, "ranks": [0, 0, 1, 1]}]:
            changed = detour_sched.adapt(schedule=plan, **arguments)
            self.assertEqual((changed["adapt"]["decision"], changed["adapt"]["planned_makespan_ms"]), ("change", 390))
            self.assertLess(changed["makespan_ms"], changed["adapt"]["present_makespan_ms"])
        self.assertEqual(detour_sched.adapt(SLOW, plan)["makespan_ms"], 410)
        kept = detour_sched.adapt(SLOW, plan, min_gain_percent=50)
        self.assertEqual((kept["makespan_ms"], kept["adapt"]["verdict"]), (440, "no-gain"))
        self.assertEqual(detour_sched.adapt(SLOW, plan, planned=SLOW)["adapt"]["verdict"], "unchanged")
        csv = detour_sched.convert(PROFILE, plan, "csv")  # records no links: made for none, or for the healthy ones
        self.assertEqual(detour_sched.adapt(SLOW, csv)["adapt"]["decision"], "change")
        self.assertEqual(detour_sched.adapt(SLOW, csv, delays={"version": 1, "links": []})["adapt"]["verdict"],
                         "unchanged")

    def test_replan(self):
        plan = detour_sched.plan(PROFILE, "adaptra")
        delays = {"version": 1, "links": [{"link": 0, "delay_ms": 20}]}
        for schedule in (plan, detour_sched.convert(PROFILE, plan, "csv")):
            better = detour_sched.replan(PROFILE, schedule, 95, delays)
            self.assertEqual(better["adapt"]["started"], [10, 9, 8, 7])
            self.assertEqual(better["adapt"]["now_ms"], 95)
            self.assertLess(better["makespan_ms"], better["adapt"]["present_makespan_ms"])
        with self.assertRaisesRegex(detour_sched.Error, "started has 1 numbers"):
            detour_sched.replan(PROFILE, plan, 95, delays, started=[9])

    def test_structs_are_those_of_the_headers(self):
        lines = [(f"sizeof(struct {name})", ctypes.sizeof(struct)) for name, struct in detour_sched._STRUCTS.items()]
        for name, struct in detour_sched._STRUCTS.items():
            for field, *_ in struct._fields_:
                place, member = getattr(struct, field), f"((struct {name} *)0)->{field}"
                lines += [(f"offsetof(struct {name}, {field})", place.offset), (f"sizeof({member})", place.size)]
        lines += list(detour_sched._CONSTANTS.items())
        lines += [(f"DETOUR_FORMAT_{form.upper().replace('-', '_')}", i) for i, form in enumerate(detour_sched._FORMATS)]
        prints = "\n".join(f'printf("%lld\\n", (long long)({line}));' for line, _ in lines)
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "layout.c")
            source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"detour/sched_format.h\"\n"
                              f"int main(void) {{\n{prints}\nreturn 0; }}\n")
            subprocess.run([CC, "-I", ROOT / "include", source, "-o", source.with_suffix("")], check=True)
            found = subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([(line, int(value)) for (line, _), value in zip(lines, found)], lines)
        self.assertEqual(len(found), len(lines))

    def test_functions_are_documented(self):
        for name in detour_sched.__all__:
            self.assertTrue(getattr(detour_sched, name).__doc__, name)


if __name__ == "__main__":
    os.environ["DETOUR_SCHED_LIBRARY"] = sys.argv.pop(1)
    CC = sys.argv.pop(1)
    sys.path.insert(0, str(ROOT / "python"))
    import detour_sched
    unittest.main()
