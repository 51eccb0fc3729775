# SPDX-License-Identifier: Apache-2.0
"""`detour sched` as a user runs it: outputs, bad input in one line, exit codes. Usage: cli_test.py DETOUR"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "sched" / "golden"
DETOUR = None  # the program under test, from the command line


def profile(delay_ms=0, **more):
    """The papers' example: 4 equal stages, 12 microbatches, a delay on the first link."""
    links = [{"forward_ms": delay_ms if i == 0 else 0, "backward_ms": delay_ms if i == 0 else 0} for i in range(3)]
    return {"version": 1, "microbatches": 12, "stages": [{"f_ms": 10, "b_ms": 10, "w_ms": 10}] * 4,
            "links": links, **more}


class Sched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run_sched(self, *args, stdin=""):
        return subprocess.run([DETOUR, "sched", *args], input=stdin, capture_output=True, text=True, timeout=240,
                              env={**os.environ, "LC_ALL": "C.UTF-8"})

    def good(self, *args, stdin=""):
        done = self.run_sched(*args, stdin=stdin)
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def bad(self, code, line, *args, stdin=""):
        """One line on standard error that contains `line`."""
        done = self.run_sched(*args, stdin=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(line, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stdout


class Plan(Sched):
    def test_json_has_the_fields_of_the_format(self):
        made = json.loads(self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra"))
        self.assertEqual(made["version"], 1)
        self.assertEqual(made["algorithm"], "adaptra")
        self.assertEqual(made["makespan_ms"], 390)
        self.assertEqual([stage["stage"] for stage in made["stages"]], [0, 1, 2, 3])
        self.assertEqual([stage["peak_inflight"] for stage in made["stages"]], [7, 5, 3, 1])
        self.assertEqual(made["stages"][0]["ops"][0], {"op": "F", "mb": 0, "start_ms": 0, "end_ms": 10})
        self.assertLessEqual({"longest_span_ms", "lower_bound_ms", "proven_optimal"}, made.keys())

    def test_profile_from_standard_input(self):
        made = json.loads(self.good("plan", "--profile", "-", "--algo", "zb-h1", stdin=json.dumps(profile())))
        self.assertEqual(made["makespan_ms"], 390)

    def test_every_format_is_written(self):
        path = self.file("p", profile(5))
        for name in ["json", "csv", "csv-comms", "trace", "svg", "text"]:
            with self.subTest(name):
                text = self.good("plan", "--profile", path, "--algo", "zb", "--format", name)
                if name in ("json", "trace"):
                    json.loads(text)
                elif name == "svg":
                    self.assertTrue(xml.etree.ElementTree.fromstring(text).tag.endswith("svg"))
                elif name == "text":
                    self.assertIn("device 3", text)
                else:
                    self.assertEqual(text.count("\n"), 4)
                    self.assertEqual("SEND" in text, name == "csv-comms")

    def test_trace_is_what_perfetto_takes(self):
        """Of the trace event format: slices that do not overlap, spans and arrows with both ends, counters."""
        trace = json.loads(self.good("plan", "--profile", self.file("p", profile(5)), "--algo", "zb", "--format", "trace"))
        self.assertEqual(trace["displayTimeUnit"], "ms")
        rows, ends, kinds = {}, {}, set()
        for event in trace["traceEvents"]:
            kinds.add(event["ph"])
            self.assertLessEqual({"ph", "name", "pid", "tid"}, event.keys())
            if event["ph"] != "M":
                self.assertGreaterEqual(event["ts"], 0)
            if event["ph"] == "X":
                rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
            elif event["ph"] in "besf":
                ends.setdefault(({"b": "be", "e": "be"}.get(event["ph"], "sf"), event["cat"], event["id"]),
                                []).append(event)
            elif event["ph"] == "C":
                self.assertTrue(all(isinstance(value, (int, float)) for value in event["args"].values()))
        self.assertEqual(kinds, set("MXbesfC"))
        self.assertEqual(sum(map(len, rows.values())), 144)
        for row in rows.values():
            row.sort()
            self.assertTrue(all(end <= start for (_, end), (start, _) in zip(row, row[1:])))
        for (pair, *_), both in ends.items():
            self.assertEqual("".join(event["ph"] for event in both), pair)
            self.assertLessEqual(both[0]["ts"], both[1]["ts"])
        for (pair, *_), (start, end) in ends.items():  # an arrow begins and ends in a slice
            for event in (start, end) if pair == "sf" else ():
                self.assertTrue(any(begin <= event["ts"] <= finish for begin, finish in rows[event["pid"], event["tid"]]))

    def test_out_writes_the_file_and_nothing_else(self):
        out = str(self.folder / "s.json")
        self.assertEqual(self.good("plan", "--profile", self.file("p", profile()), "--algo", "1f1b", "--out", out), "")
        self.assertEqual(json.loads(pathlib.Path(out).read_text())["algorithm"], "1f1b")

    def test_ascii_is_ascii(self):
        self.good("plan", "--profile", self.file("p", profile()), "--algo", "zb", "--format", "text",
                  "--ascii").encode("ascii")

    def test_same_input_same_output(self):
        args = ["plan", "--profile", self.file("p", profile(20))]
        self.assertEqual(self.good(*args), self.good(*args))


class Wide(Sched):
    """Pictures of 8 stages and 32 microbatches."""

    def setUp(self):
        super().setUp()
        wide = {"version": 1, "microbatches": 32, "stages": [{"f_ms": 10, "b_ms": 11, "w_ms": 9}] * 8,
                "links": [{"forward_ms": 3, "backward_ms": 3}] * 7}
        self.path = self.file("p", wide)

    def test_text_keeps_to_its_columns(self):
        for columns in (60, 80, 120):
            for more in ([], ["--ascii"]):
                text = self.good("plan", "--profile", self.path, "--algo", "zb", "--format", "text", "--columns",
                                 str(columns), *more)
                self.assertEqual(sum(line.startswith("device") for line in text.splitlines()), 8)
                self.assertLessEqual(max(map(len, text.splitlines())), max(columns, 80))  # the legend has 80
                chart = [line for line in text.splitlines() if line.startswith(("device", "ms", " max"))]
                self.assertEqual(len(chart), 17)
                self.assertLessEqual(max(map(len, chart)), columns)

    def test_every_operation_of_the_svg_is_named_and_inside(self):
        drawn = xml.etree.ElementTree.fromstring(self.good("plan", "--profile", self.path, "--algo", "zb", "--format",
                                                           "svg"))
        width = float(drawn.get("width"))
        texts = [element for element in drawn.iter() if element.tag.endswith("text")]
        self.assertGreaterEqual(len(texts), 3 * 8 * 32)
        self.assertTrue(all(0 <= float(element.get("x", 0)) <= width for element in texts))


class Frozen(Sched):
    def test_an_order_made_without_delay_is_replayed_under_delays(self):
        schedule = self.file("s", self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra"))
        for delay_ms, makespan_ms in [(0, 390), (10, 400), (20, 440), (30, 500)]:
            report = json.loads(self.good("simulate", "--profile", self.file("q", profile(delay_ms)),
                                          "--schedule", schedule))
            self.assertEqual(report["makespan_ms"], makespan_ms)
            self.assertEqual(len(report["report"]["devices"]), 4)
            self.assertEqual(len(report["report"]["links"]), 3)

    def test_csv_replays_like_json(self):
        plain = self.file("p", profile())
        csv = self.good("plan", "--profile", plain, "--algo", "adaptra", "--format", "csv")
        report = json.loads(self.good("simulate", "--profile", self.file("q", profile(20)), "--schedule", "-",
                                      stdin=csv))
        self.assertEqual((report["makespan_ms"], report["algorithm"]), (440, "external"))

    def test_simulate_reads_what_it_wrote(self):
        path = self.file("p", profile(10))
        once = self.good("plan", "--profile", path, "--algo", "zb-h2")
        twice = self.good("simulate", "--profile", path, "--schedule", "-", stdin=once)
        again = self.good("simulate", "--profile", path, "--schedule", "-", stdin=twice)
        self.assertEqual(twice, again)


class Check(Sched):
    def test_valid(self):
        path = self.file("p", profile())
        verdict = json.loads(self.good("check", "--profile", path, "--schedule", "-",
                                       stdin=self.good("plan", "--profile", path, "--algo", "zb")))
        self.assertEqual(verdict, {"version": 1, "valid": True, "stages": 4, "devices": 4, "microbatches": 12,
                                   "operations": 144, "times_checked": True})

    def test_times_of_other_links_are_not_held_against_an_order(self):
        made = self.good("plan", "--profile", self.file("p", profile()), "--algo", "zb")
        verdict = json.loads(self.good("check", "--profile", self.file("q", profile(20)), "--schedule", "-",
                                       stdin=made))
        self.assertEqual((verdict["valid"], verdict["times_checked"]), (True, False))

    def test_wrong_times(self):
        path = self.file("p", profile())
        made = json.loads(self.good("plan", "--profile", path, "--algo", "zb"))
        made["stages"][3]["ops"][0]["start_ms"] = 29
        out = self.bad(2, "detour sched check: standard input: ", "check", "--profile", path, "--schedule", "-",
                       stdin=json.dumps(made))
        self.assertFalse(json.loads(out)["valid"])

    def test_deadlock_shows_the_cycle(self):
        pair = {"version": 1, "microbatches": 2, "stages": [{"f_ms": 1, "b_ms": 1, "w_ms": 1}] * 2,
                "links": [{"forward_ms": 0, "backward_ms": 0}]}
        csv = self.file("s.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
        done = self.run_sched("check", "--profile", self.file("p", pair), "--schedule", csv)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn(csv + ": ", done.stderr)
        self.assertIn("waits for", done.stderr)
        self.assertEqual(json.loads(done.stdout)["valid"], False)

    def test_over_memory(self):
        made = self.good("plan", "--profile", self.file("p", profile()), "--algo", "zb-h2")
        tight = self.file("q", profile(memory={"max_inflight": [6, 5, 3, 1]}))
        self.bad(2, "stage 0", "check", "--profile", tight, "--schedule", "-", stdin=made)


class Adapt(Sched):
    def test_a_slow_link_calls_for_a_new_schedule_and_the_same_links_do_not(self):
        made = self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra")
        slow = json.loads(self.good("adapt", "--profile", self.file("q", profile(20)), "--schedule", "-",
                                    "--algo", "adaptra", stdin=made))
        self.assertLess(slow["makespan_ms"], 440)  # of the present one under this delay
        same = self.run_sched("adapt", "--profile", self.file("p", profile()), "--schedule", "-", "--algo", "adaptra",
                              stdin=made)
        self.assertEqual((same.returncode, same.stderr),
                         (0, "detour sched adapt: keep: the links are as planned\n"))
        self.assertEqual(json.loads(same.stdout)["makespan_ms"], 390)

    def test_what_must_be_gained(self):
        made = self.file("s", self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra"))
        args = ["adapt", "--profile", self.file("q", profile(20)), "--schedule", made, "--algo", "adaptra"]
        for more, why in [(["--min-gain", "50"], "no schedule found that pays"),
                          (["--switch-cost-ms", "1000", "--horizon", "1"], "no schedule found that pays"),
                          (["--min-change-ms", "30"], "the links are as planned"),
                          (["--planned", self.file("r", profile(20))], "the links are as planned")]:
            kept = self.run_sched(*args, *more)
            self.assertIn("detour sched adapt: keep: " + why, kept.stderr)
            self.assertEqual((kept.returncode, json.loads(kept.stdout)["makespan_ms"]), (0, 440))
        self.bad(2, "--min-gain 0: expected a percentage", *args, "--min-gain", "0")
        self.bad(2, "--horizon 0: expected a whole number", *args, "--horizon", "0")


    def test_the_decision_is_in_the_json(self):
        made = self.file("s", self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra"))
        args = ["adapt", "--profile", self.file("q", profile(20)), "--schedule", made, "--algo", "adaptra"]
        changed = json.loads(self.good(*args))
        adapt = changed["adapt"]
        self.assertEqual((adapt["decision"], adapt["verdict"]), ("change", "change"))
        self.assertEqual((adapt["planned_makespan_ms"], adapt["present_makespan_ms"]), (390, 440))
        self.assertEqual(adapt["candidate_makespan_ms"], changed["makespan_ms"])
        self.assertEqual(adapt["gain_ms"], 440 - changed["makespan_ms"])
        self.assertAlmostEqual(adapt["gain_percent"], 100 * adapt["gain_ms"] / 440)
        self.assertEqual(adapt["needed"], {"gain_percent": 1, "switch_cost_ms": 0, "horizon_iterations": 100,
                                           "change_ms": 0, "change_percent": 5, "allow_offload": False})
        kept = json.loads(self.run_sched(*args, "--min-change-ms", "30").stdout)["adapt"]
        self.assertEqual((kept["decision"], kept["verdict"], kept["candidate_makespan_ms"], kept["gain_ms"]),
                         ("keep", "unchanged", None, None))
        self.assertEqual(json.loads(self.good("simulate", "--profile", self.file("q", profile(20)), "--schedule", "-",
                                              stdin=json.dumps(changed)))["makespan_ms"], changed["makespan_ms"])

    def delays(self, *links):
        return json.dumps({"version": 1, "links": links, "processes": "whatever else there is"})

    def test_delays_by_link_and_by_rank(self):
        base = self.file("p", profile(2))
        made = self.file("s", self.good("plan", "--profile", base, "--algo", "adaptra"))
        slow = [{"forward_ms": 20, "backward_ms": 2}, {"forward_ms": 0, "backward_ms": 0},
                {"forward_ms": 0, "backward_ms": 5}]
        for more, links in [
                ([], [{"link": 0, "direction": "forward", "delay_ms": 18}, {"link": 2, "direction": "backward",
                                                                           "delay_ms": 5}]),
                ([], [{"from": 0, "to": 1, "factor": 10}, {"from": 0, "to": 1, "factor": 3, "since": "now"},
                      {"from": 3, "to": 2, "delay_ms": 5, "factor": None}, {"from": 3, "to": 0, "delay_ms": 99}]),
                (["--ranks", "0,0,1,1,2,2,3,3"],
                 [{"from": 1, "to": 3, "delay_ms": 18, "verdict": "slow"}, {"from": 0, "to": 2, "delay_ms": 1},
                  {"from": 0, "to": 1, "delay_ms": 99}, {"from": 7, "to": 5, "delay_ms": 5},
                  {"from": 2, "to": 4, "verdict": "healthy"}])]:
            with self.subTest(links):
                done = self.run_sched("adapt", "--profile", base, "--schedule", made, "--delays", "-", *more,
                                      stdin=self.delays(*links))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout)["links"], slow)

    def test_bad_delays(self):
        base = self.file("p", profile())
        made = self.file("s", self.good("plan", "--profile", base, "--algo", "zb"))
        args = ["adapt", "--profile", base, "--schedule", made, "--delays", "-"]
        for links, line in [([{"link": 3, "delay_ms": 1}], "links[0].link is 3; it must be a link"),
                            ([{"link": 0, "factor": 2}], "links[0] has a factor, but its link takes no time"),
                            ([{"link": 0, "factor": -2}], "links[0].factor must be a number above 0"),
                            ([{"link": 0}], "links[0] has neither delay_ms"),
                            ([{"delay_ms": 1}], "links[0] has neither link nor from and to"),
                            ([{"from": 1, "delay_ms": 1}], "links[0].to is missing"),
                            ([{"from": None, "to": 0, "delay_ms": 1}], "links[0].from is null; it must be a device"),
                            ([{"link": 0, "direction": "up", "delay_ms": 1}], "links[0].direction is \"up\""),
                            ([{"link": 0, "delay_ms": 100001}], "links[0].delay_ms is 100001; it must be"),
                            ([7], "links[0] must be an object")]:
            with self.subTest(line):
                self.bad(2, "detour sched adapt: standard input: " + line, *args, stdin=self.delays(*links))
        self.bad(2, "version is missing", *args, stdin="{}")
        self.bad(2, "links is missing", *args, stdin="{\"version\": 1}")
        self.bad(2, "rank 1 is on device 4; the profile has devices 0 to 3", *args, "--ranks", "0,4",
                 stdin=self.delays())
        self.bad(2, "links[0].to is 2; it must be a rank, a whole number from 0 to 1", *args, "--ranks", "0,1",
                 stdin=self.delays({"from": 0, "to": 2, "delay_ms": 1}))
        self.bad(2, "--ranks needs --delays", *args[:-2], "--ranks", "0,1")
        self.bad(2, "--ranks 0,x: expected whole numbers", *args, "--ranks", "0,x")

    def test_replan_inside_an_iteration(self):
        base = self.file("p", profile())
        made = self.file("s", self.good("plan", "--profile", base, "--algo", "adaptra"))
        args = ["adapt", "--profile", base, "--schedule", made, "--delays", "-"]
        delays = self.delays({"link": 0, "delay_ms": 20})
        plan = json.loads(self.good(*args, "--now-ms", "95", stdin=delays))
        self.assertEqual((plan["adapt"]["now_ms"], plan["adapt"]["started"]), (95, [10, 9, 8, 7]))
        self.assertLess(plan["makespan_ms"], plan["adapt"]["present_makespan_ms"])
        self.assertEqual(plan["adapt"]["candidate_makespan_ms"], plan["makespan_ms"])
        before = json.loads(pathlib.Path(made).read_text())
        for stage, old in zip(plan["stages"], before["stages"]):  # the past stays, and nothing new starts in it
            past = [op for op in old["ops"] if op["start_ms"] < 95]
            self.assertEqual(stage["ops"][:len(past)], past)
            self.assertTrue(all(op["start_ms"] >= 95 for op in stage["ops"][len(past):]))
            self.assertEqual(sorted((op["op"], op["mb"]) for op in stage["ops"]),
                             sorted((op["op"], op["mb"]) for op in old["ops"]))
        late = json.loads(self.run_sched(*args, "--now-ms", "95", "--started", "9,9,8,7", stdin=delays).stdout)
        self.assertGreaterEqual(late["stages"][0]["ops"][9]["start_ms"], 95)
        kept = self.run_sched(*args, "--now-ms", "95", "--min-gain", "60", stdin=delays)
        self.assertIn("keep: no schedule found that pays", kept.stderr)
        kept = json.loads(kept.stdout)
        self.assertEqual(kept["makespan_ms"], kept["adapt"]["present_makespan_ms"])
        self.bad(2, "--started has 1 numbers", *args, "--now-ms", "95", "--started", "9", stdin=delays)
        self.bad(2, "--started needs --now-ms", *args, "--started", "9", stdin=delays)
        self.bad(2, "device 0, position 10: ", *args, "--now-ms", "95", "--started", "11,9,8,7", stdin=delays)


class Tolerance(Sched):
    def test_the_curve_passes_through_the_replayed_makespans(self):
        schedule = self.file("s", self.good("plan", "--profile", self.file("p", profile()), "--algo", "adaptra"))
        made = json.loads(self.good("tolerance", "--profile", self.file("p", profile()), "--schedule", schedule))
        self.assertEqual((made["makespan_ms"], made["directions"]), (390, "both"))
        self.assertEqual([link["link"] for link in made["links"]], [0, 1, 2])
        curve, tolerable_ms = made["links"][0]["curve"], made["links"][0]["tolerable_ms"]

        def makespan(delay_ms):
            point = [p for p in curve if p["delay_ms"] <= delay_ms][-1]
            return point["makespan_ms"] + point["slope"] * (delay_ms - point["delay_ms"])

        self.assertEqual([makespan(delay_ms) for delay_ms in (0, 10, 20, 30)], [390, 400, 440, 500])
        self.assertLessEqual(makespan(tolerable_ms), 390 + tolerable_ms)
        self.assertGreater(makespan(tolerable_ms + 1), 390 + tolerable_ms + 1)

    def test_table_and_directions(self):
        path = self.file("p", profile())
        made = self.good("plan", "--profile", path, "--algo", "zb")
        self.assertIn("tolerable ms", self.good("tolerance", "--profile", path, "--schedule", "-", "--format", "text",
                                                stdin=made))
        forward = json.loads(self.good("tolerance", "--profile", path, "--schedule", "-", "--direction", "forward",
                                       "--delay-max-ms", "2.5", stdin=made))
        self.assertEqual((forward["directions"], forward["delay_max_ms"]), ("forward", 2.5))
        self.bad(2, "--direction up: expected forward, backward or both", "tolerance", "--direction", "up")
        self.bad(2, "--delay-max-ms -1: expected a number from 0", "tolerance", "--delay-max-ms", "-1")


class Compare(Sched):
    def test_all_algorithms_are_there(self):
        made = json.loads(self.good("compare", "--profile", self.file("p", profile(10))))
        rows = {row["algorithm"]: row for row in made["algorithms"]}
        self.assertLessEqual({"gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "zb", "adaptra",
                              "adaptra-initial"}, rows.keys())
        self.assertIn("two stages on each device", rows["zb-v"]["problem"])
        self.assertGreaterEqual(rows["zb"]["makespan_ms"], 400)

    def test_table_and_plot(self):
        path = self.file("p", profile(10))
        table = self.good("compare", "--profile", path, "--format", "text", "--ascii")
        self.assertIn("makespan ms", table)
        table.encode("ascii")
        self.assertIn("|####", table)
        picture = self.folder / "c.svg"
        self.good("compare", "--profile", path, "--format", "text", "--svg", str(picture))
        drawn = picture.read_text()
        self.assertEqual(self.good("compare", "--profile", path, "--format", "svg"), drawn)
        for name in ["auto", "gpipe", "zb-h2", "adaptra", "exact"]:
            self.assertIn(f">{name}</text>", drawn)
        xml.etree.ElementTree.fromstring(drawn)
        self.bad(1, "cannot be written", "compare", "--profile", path, "--svg", str(self.folder / "no" / "c.svg"))


class BadInput(Sched):
    def test_profiles(self):
        for change, line in [
                ({"stages": None}, "stages is null; it must be an array"),
                ({"microbatches": -1}, "microbatches is -1; it must be"),
                ({"links": []}, "links has 0 entries; it must have 3"),
                ({"memory": {"max_inflight": [1, 2]}}, "memory.max_inflight has 2 entries; it must have 4"),
                ({"memory": {"bytes_f": 8, "capacity": 7}}, "one microbatch alone needs 8"),
                ({"speed": 1}, "speed is not a known field"),
                ({"version": 2}, "version is 2; this library reads version 1")]:
            with self.subTest(line):
                path = self.file("p.json", {**profile(), **change})
                self.bad(2, path + ": " + line if "alone" not in line else line, "plan", "--profile", path)

    def test_stdin_is_named(self):
        self.bad(2, "detour sched plan: standard input: line 1, column", "plan", "--profile", "-", stdin="{")

    def test_csv_that_pytorch_would_misread(self):
        path = self.file("p", profile())
        csv = self.good("plan", "--profile", path, "--algo", "1f1b", "--format", "csv")
        for broken, line in [(csv + "\n", "row 5 has no action"),
                             (csv.replace("0F1,", "0F1x,", 1), "row 1, column 2: \"0F1x\" has text"),
                             (csv.replace(",0B11\n", "\n", 1), "I (or B) of stage 0, microbatch 11 is missing"),
                             (csv.replace("3F1,", "3F0,", 1), "3F0 is there already"),
                             ("\ufeff" + csv, "byte order mark")]:
            with self.subTest(line):
                self.bad(2, line, "simulate", "--profile", path, "--schedule", "-", stdin=broken)

    def test_files(self):
        path = self.file("p", profile())
        self.bad(2, "nowhere.json: No such file or directory", "plan", "--profile", "nowhere.json")
        self.bad(2, "Is a directory", "plan", "--profile", str(self.folder))
        self.bad(2, "only one file can come from standard input", "check", "--profile", "-", "--schedule", "-",
                 stdin=json.dumps(profile()))
        self.bad(1, "cannot be written: No such file or directory", "plan", "--profile", path, "--algo", "zb",
                 "--out", str(self.folder / "no" / "where"))
        self.bad(1, "/dev/full: writing failed: No space left on device", "plan", "--profile", path, "--algo", "zb",
                 "--out", "/dev/full")

    def test_full_standard_output(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([DETOUR, "sched", "plan", "--algo", "zb", "--profile", self.file("p", profile())],
                                  stdout=full, stderr=subprocess.PIPE, text=True, timeout=240)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output: writing failed: No space left on device", done.stderr)

    def test_options(self):
        path = self.file("p", profile())
        self.bad(2, "--profile is missing", "plan")
        self.bad(2, "--schedule is missing", "simulate", "--profile", path)
        self.bad(2, "--algo best: expected one of", "plan", "--profile", path, "--algo", "best")
        self.bad(2, "--format xml: expected one of json, csv, csv-comms, trace, svg, text", "plan", "--format", "xml")
        self.bad(2, "--format csv: expected one of json, svg, text", "compare", "--format", "csv")
        self.bad(2, "--budget-ms 0: expected a whole number from 1", "plan", "--budget-ms", "0")
        self.bad(2, "--budget-ms 1e3: expected a whole number", "plan", "--budget-ms", "1e3")
        self.bad(2, "unrecognized option '--bogus'", "plan", "--bogus")
        self.bad(2, "option '--profile' requires an argument", "plan", "--profile")
        self.bad(2, "--warmup 1,,2: expected whole numbers", "plan", "--warmup", "1,,2")
        self.bad(2, "--warmup has 2 numbers;", "plan", "--profile", path, "--warmup", "1,2")
        self.bad(2, "'p.json' is not an option", "plan", "p.json")
        self.bad(2, "unknown verb 'frob'", "frob")
        self.assertEqual(self.run_sched("plan", "--frob").returncode, 2)
        self.assertEqual(self.run_sched().returncode, 2)

    def test_algorithms_that_do_not_fit_say_why(self):
        self.bad(2, "zb-v needs two stages on each device", "plan", "--profile", self.file("p", profile()),
                 "--algo", "zb-v")
        tight = self.file("q", profile(memory={"max_inflight": [4, 4, 4, 4]}))
        self.bad(2, tight + ": ", "plan", "--profile", tight, "--algo", "zb-h2")


class Model(Sched):
    MEASURED = {"version": 1, "name": "mine",
                "layers": [{"type": "decoder", "count": 6, "f_ms": [1, 3, 2], "bw_ms": [4, 4.5, 5], "parameters": 10}]}

    def test_a_family_has_the_layers_of_the_paper(self):
        for family, size, layers in [("gemma", "small", 32), ("deepseek", "medium", 32), ("nemotron-h", "large", 112)]:
            made = json.loads(self.good("model", "--family", family, "--size", size, "--seq", "4096", "--devices", "8",
                                        "--microbatches", "64", "--tensor", "2", "--expert", "8", "--data", "4"))
            self.assertEqual(made["name"], f"{family}-{size} s4096 b1 t2 e8 d4 h800")
            self.assertEqual(made["microbatches"], 64)
            self.assertEqual(sum(layer.get("count", 1) for layer in made["layers"]), layers + 2)
            self.assertEqual(made["devices"], [{"count": 8, "capacity_bytes": 80000000000}])

    def test_a_longer_sequence_takes_longer(self):
        times = [json.loads(self.good("model", "--family", "gemma", "--seq", seq))["layers"][1]["f_ms"]
                 for seq in ("2048", "8192", "32768")]
        self.assertGreater(times[1], 4 * times[0])  # attention grows with the square
        self.assertGreater(times[2], 4 * times[1])

    def test_measured_times_become_medians(self):
        path = self.file("m", self.MEASURED)
        made = json.loads(self.good("model", "--profile", path, "--devices", "2", "--microbatches", "4", "--capacity",
                                    "80G", "--bandwidth", "1G", "--latency-ms", "0.5"))
        self.assertEqual(made["layers"], [{"type": "decoder", "count": 6, "f_ms": 2, "b_ms": 2.5, "w_ms": 2,
                                           "bw_ms": 4.5, "parameter_bytes": 20, "gradient_bytes": 40,
                                           "optimizer_bytes": 120}])
        self.assertEqual(made["devices"], [{"count": 2, "capacity_bytes": 80 * 2**30}])
        self.assertEqual(made["links"], {"latency_ms": 0.5, "bytes_per_s": 2**30, "overlap": True})
        again = self.good("model", "--profile", "-", stdin=json.dumps(made))
        self.assertEqual(json.loads(again), made)

    def test_bad_input_is_one_line(self):
        self.bad(2, "give either --family, a known model, or --profile", "model")
        self.bad(2, "--family llama: expected gemma, deepseek, nemotron-h or gpt", "model", "--family", "llama")
        self.bad(2, "--size huge: expected small, medium or large", "model", "--family", "gemma", "--size", "huge")
        self.bad(2, "no GPU 'tpu'; there are h800, h100 and a100", "model", "--family", "gemma", "--gpu", "tpu")
        self.bad(2, "--seq 0: expected a whole number", "model", "--family", "gemma", "--seq", "0")
        self.bad(2, "40 devices for 34 layers", "model", "--family", "gemma", "--devices", "40")
        self.bad(2, "--capacity, --bandwidth and --latency-ms go with --profile", "model", "--family", "gemma",
                 "--capacity", "80G")
        path = self.file("m", self.MEASURED)
        self.bad(2, path + ": microbatches is missing", "model", "--profile", path, "--devices", "2")
        self.bad(2, "unrecognized option '--uniform'", "model", "--uniform", "8x32:9,10,6")


class Optimize(Sched):
    """Four devices, layers of which the last is heavy."""
    MODEL = {"version": 1, "name": "heavy <end>", "microbatches": 8, "layers": [
        {"type": "embedding", "f_ms": 0.5, "b_ms": 0, "w_ms": 0.5, "message_bytes": 1000},
        {"type": "decoder", "count": 10, "f_ms": 1, "b_ms": 1, "w_ms": 1, "parameter_bytes": 100,
         "activation_bytes": 10, "message_bytes": 1000},
        {"type": "head", "f_ms": 4, "b_ms": 4, "w_ms": 4}], "devices": [{"count": 4, "capacity_bytes": 1000}]}

    def test_report(self):
        made = json.loads(self.good("optimize", self.file("m", self.MODEL), "--json"))
        rows = {row["name"]: row for row in made["pipelines"]}
        self.assertEqual(list(rows), ["S-1F1B", "I-1F1B", "ZB", "ZB-V", "Hanayo", "Mist", "tuned", "optimized"])
        best = rows["optimized"]
        for name, row in rows.items():
            self.assertIn("problem" if "problem" in row else "makespan_ms", row)
            if "problem" not in row:
                self.assertGreaterEqual(row["makespan_ms"], best["makespan_ms"], name)
                self.assertEqual(sum(row["layers"]), 12)
                self.assertLessEqual(row["peak_bytes"], 1000)
        self.assertGreaterEqual(best["ratio_to_bound"], 1)
        self.assertLess(best["ratio_to_bound"], 1.02)
        self.assertLess(best["makespan_ms"], 0.8 * rows["S-1F1B"]["makespan_ms"])
        self.assertEqual(best["makespan_ms"] / best["ratio_to_bound"], made["lower_bound"]["makespan_ms"])

    def test_slow_links_and_devices_show_what_keeping_the_pipeline_costs(self):
        path = self.file("m", self.MODEL)
        rows = [{row["name"]: row for row in json.loads(self.good("optimize", path, *args))["pipelines"]}
                for args in ([], ["--slow-link", "0-1=40ms", "--slow-device", "2=2x"])]
        healthy, slow, kept = rows[0]["optimized"], rows[1]["optimized"], rows[1]["kept"]
        self.assertEqual((kept["layers"], kept["placement"]), (healthy["layers"], healthy["placement"]))
        self.assertNotEqual((slow["layers"], slow["placement"]), (healthy["layers"], healthy["placement"]))
        self.assertLess(slow["makespan_ms"], 0.9 * kept["makespan_ms"])

    def test_the_other_verbs_read_its_files(self):
        profile, schedule = os.path.join(self.folder, "P.json"), os.path.join(self.folder, "S.json")
        table = self.good("optimize", self.file("m", self.MODEL), "--format", "text", "--ascii", "--profile-out",
                          profile, "--schedule-out", schedule)
        self.assertRegex(table, r"(?m)^optimized +[0-9.]+ +[0-9.]+ +0.00 +1\.0[0-9]{3}")
        self.assertRegex(table, r"(?m)^device 3   stage .*head")
        self.assertTrue(json.loads(self.good("check", "--profile", profile, "--schedule", schedule))["valid"])
        made = json.loads(self.good("simulate", "--profile", profile, "--schedule", schedule))
        self.assertIn(f"{made['makespan_ms']:.3f}", table)
        csv = self.good("optimize", self.file("m", self.MODEL), "--format", "csv")
        self.assertEqual(len(csv.splitlines()), 4)

    def test_picture_is_well_formed(self):
        path = os.path.join(self.folder, "o.svg")
        self.good("optimize", self.file("m", self.MODEL), "--svg", path)
        with open(path, encoding="utf-8") as file:
            written = file.read()
        self.assertEqual(written, self.good("optimize", self.file("m", self.MODEL), "--format", "svg"))
        texts = [element.text for element in xml.etree.ElementTree.fromstring(written).iter() if element.text]
        self.assertTrue(any(text.startswith("heavy <end>: 12 layers in") for text in texts))
        self.assertEqual(sum(text.startswith("layer ") for text in texts), 12)
        self.assertNotIn("hsl(", written)

    def test_megatron_layout(self):
        fixed = dict(self.MODEL, fixed={"stages": 8, "layers": [1, 2, 2, 2, 2, 1, 1, 1],
                                        "placement": [0, 1, 2, 3, 0, 1, 2, 3]})
        made = json.loads(self.good("optimize", self.file("m", fixed)))
        self.assertEqual(made["megatron_layout"], "E|tt|tt|tt|tt|t|t|L")
        fixed["fixed"]["placement"] = [0, 1, 2, 3, 3, 2, 1, 0]
        self.assertNotIn("megatron_layout", json.loads(self.good("optimize", self.file("m", fixed))))

    def test_parts_can_be_kept(self):
        def makespan(*args):
            return json.loads(self.good("optimize", self.file("m", self.MODEL), *args))["pipelines"][-1]
        schedule, every = makespan("--tune", "schedule"), makespan()
        self.assertEqual(schedule["layers"], [4, 3, 2, 3])
        self.assertLess(every["makespan_ms"], schedule["makespan_ms"])
        self.assertEqual(makespan("--tune", "partition,placement,schedule"), every)

    def test_bad_input_is_one_line(self):
        path = self.file("m", self.MODEL)
        self.bad(2, "no device 4; devices of the model are 0 to 3", "optimize", path, "--slow-link", "0-4=1ms")
        self.bad(2, "--slow-link 0-1=1ms,to=3: expected A-B=TIME", "optimize", path, "--slow-link", "0-1=1ms,to=3")
        self.bad(2, "the model file is missing", "optimize")
        self.bad(2, "one model file is enough", "optimize", path, path)
        self.bad(2, "--tune all: expected partition, placement or schedule", "optimize", path, "--tune", "all")
        self.bad(2, "--budget 0: expected", "optimize", path, "--budget", "0")
        small = dict(self.MODEL, devices=[{"count": 4, "capacity_bytes": 200}])
        self.bad(2, "one microbatch needs 300 bytes more than all 4 devices have", "optimize", self.file("s", small))


class Help(Sched):
    def test_help_is_no_error(self):
        for args in [["--help"], ["plan", "--help"], ["model", "--help"], ["compare", "--help"], ["check", "--help"]]:
            self.assertIn("Usage: detour sched", self.good(*args))


if __name__ == "__main__":
    DETOUR = sys.argv.pop(1)
    unittest.main()
