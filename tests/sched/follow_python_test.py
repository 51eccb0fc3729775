# SPDX-License-Identifier: Apache-2.0
"""python/detour_follow.py: files that give a schedule, and files that must not do harm. Usage: follow_python_test.py LIBRARY"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
PROFILE = {"version": 1, "microbatches": 12, "stages": [{"f_ms": 10, "b_ms": 10, "w_ms": 10}] * 4,
           "links": [{"forward_ms": 0, "backward_ms": 0}] * 3}
GOOD = {"version": 1, "fence": 3, "number": 1, "kind": "replan", "reason": "a test",
        "links": [{"from": 0, "to": 1, "delay_ms": 20}, {"from": 1, "to": 0, "delay_ms": 20}]}


class Watched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "next.csv")
        self.count = 0

    def replace(self, data):
        new = self.path.with_suffix(".new")
        new.write_bytes(data if isinstance(data, bytes) else data.encode())
        self.count += 1  # versions differ even where the clock of the file system is coarse
        os.utime(new, ns=(self.count, self.count))
        new.replace(self.path)

    def looks(self, source, current="", profile=None):
        """What it gives, and its warnings, which are single lines."""
        with self.assertLogs("detour_torch", "WARNING") as logs:
            detour_follow.log.warning("(assertLogs wants one)")
            given = source.look(profile, current)
        for line in logs.output:
            self.assertNotIn("\n", line)
        return given, logs.output[1:]


class CsvFiles(Watched):
    def test_each_version_of_a_file_is_given_once(self):
        source = detour_follow.source(self.path, [0])
        self.assertEqual(self.looks(source), (None, []))  # it is not there yet
        self.replace("0F0,0B0\n")
        self.assertEqual(self.looks(source), ("0F0,0B0\n", []))
        self.assertEqual(self.looks(source), (None, []))
        self.replace("0F0,0I0,0W0\n")
        self.assertEqual(self.looks(source, "0F0,0I0,0W0\n"), (None, []))  # in use already
        self.path.unlink()
        self.assertEqual(self.looks(source), (None, []))
        self.replace("0F0,0B0\n")
        self.assertEqual(self.looks(source), ("0F0,0B0\n", []))

    def test_files_that_are_no_text_give_one_warning(self):
        source = detour_follow.source(self.path, [0])
        self.replace(b"\xff\xfe")
        os.mkfifo(self.path.with_suffix(".fifo"))
        for part in ["can't decode", None]:
            given, lines = self.looks(source)
            self.assertEqual((given, len(lines)), (None, bool(part)))
            self.assertIn(part or "", "".join(lines))
        for path, part in [(self.path.with_suffix(".fifo"), "not a regular file"), (self.path.parent, "directory")]:
            given, lines = self.looks(detour_follow.source(path, [0]))
            self.assertEqual((given, len(lines)), (None, 1))
            self.assertIn(part, lines[0])
        os.truncate(self.path, detour_follow._CSV_BYTES + 1)  # sparse
        self.assertIn("has more than", self.looks(source)[1][0])


class FollowedDecisions(Watched):
    def setUp(self):
        super().setUp()
        self.path = self.path.with_name("decision.json")
        self.source = detour_follow.source(self.path, [0, 1, 2, 3])
        made = detour_sched.plan(PROFILE, "adaptra")
        self.current = detour_sched.convert(PROFILE, made, "csv")

    def decide(self, decision, profile=PROFILE):
        self.replace(decision if isinstance(decision, (str, bytes)) else json.dumps(decision))
        return self.looks(self.source, self.current, profile)

    def test_a_decision_makes_a_schedule_for_the_slow_link(self):
        given, lines = self.decide(GOOD)
        self.assertEqual(lines, [])
        slow = {**PROFILE, "links": [{"forward_ms": 20, "backward_ms": 20}] + PROFILE["links"][1:]}
        self.assertLess(detour_sched.simulate(slow, given)["makespan_ms"],
                        detour_sched.simulate(slow, self.current)["makespan_ms"])
        self.assertEqual(self.decide(GOOD), (None, []))  # the same decision again
        self.current = given  # adopted: for these links no schedule is better
        self.assertEqual(self.decide({**GOOD, "number": 2}), (None, []))

    def test_older_fences_and_numbers_are_dropped(self):
        self.assertEqual(self.decide({**GOOD, "kind": "hold"}), (None, []))
        for older in [{"number": 1}, {"number": 0}, {"fence": 2, "number": 9}]:
            self.assertEqual(self.decide({**GOOD, **older}), (None, []))
        self.assertIsNotNone(self.decide({**GOOD, "fence": 4, "number": 0})[0])

    def test_a_decision_from_before_the_start_is_no_decision_about_this_job(self):
        self.replace(json.dumps({**GOOD, "fence": 9, "number": 4}))
        self.source = detour_follow.source(self.path, [0, 1, 2, 3])
        self.assertEqual(self.looks(self.source, self.current, PROFILE), (None, []))
        self.assertIsNotNone(self.decide({**GOOD, "fence": 1, "number": 1})[0])  # of this job's own controller
        self.assertEqual(self.decide({**GOOD, "fence": 0, "number": 5}), (None, []))

    def test_a_decision_from_after_the_start_of_the_process_is_followed(self):
        """The controller decides again for a job that has restarted, maybe before the job looks for the first time."""
        self.replace(json.dumps(GOOD))
        os.utime(self.path)
        self.source = detour_follow.source(self.path, [0, 1, 2, 3])
        self.assertIsNotNone(self.looks(self.source, self.current, PROFILE)[0])

    def test_malformed_decisions_are_one_warning_and_leave_the_number_free(self):
        for wrong, part in [("", "Expecting value"), ("[" * 100000, "nested too deeply"), ("[]", "must be an object"),
                            ({**GOOD, "version": 2}, "version is 2"), ({**GOOD, "version": True}, "version is true"),
                            ({**GOOD, "fence": -1}, "fence is -1"), ({**GOOD, "number": 1e300}, "number is 1e+300"),
                            ({**GOOD, "number": 1 << 63}, "number is"), ({**GOOD, "links": None}, "links is missing"),
                            (json.dumps(GOOD).replace("20", "NaN", 1), "NaN is not a number"), (b"\xff", "can't decode")]:
            given, lines = self.decide(wrong)
            self.assertEqual((given, len(lines)), (None, 1), wrong)
            self.assertIn(part, lines[0])
        self.assertIsNotNone(self.decide(GOOD)[0])

    def test_links_that_the_library_refuses(self):
        for number, (link, part) in enumerate([({"from": 0, "to": 9, "delay_ms": 1}, "to is 9"),
                                               ({"from": 0, "to": 1, "delay_ms": -1}, "delay_ms"),
                                               ({"from": 0, "to": 1, "delay_ms": "1"}, "delay_ms"), (7, "links[0]")]):
            given, lines = self.decide({**GOOD, "number": number, "links": [link]})
            self.assertEqual((given, len(lines)), (None, 1))
            self.assertIn(part, lines[0])

    def test_without_a_profile_no_schedule_can_be_made(self):
        given, lines = self.decide(GOOD, profile=None)
        self.assertEqual((given, len(lines)), (None, 1))
        self.assertIn("no profile", lines[0])

    def test_the_default_place_is_the_runtime_folder(self):
        os.environ["DETOUR_RUNTIME_DIR"] = str(self.path.parent)
        self.addCleanup(os.environ.pop, "DETOUR_RUNTIME_DIR")
        self.source = detour_follow.source("control", [0, 1, 2, 3])
        self.assertIsNotNone(self.decide(GOOD)[0])


if __name__ == "__main__":
    os.environ["DETOUR_SCHED_LIBRARY"] = sys.argv.pop(1)
    import detour_follow
    import detour_sched
    unittest.main()
