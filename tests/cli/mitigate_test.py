# SPDX-License-Identifier: Apache-2.0
"""`detour mitigate` as a user runs it: the plan as a table and as JSON, bad input in one line, exit codes.
Usage: mitigate_test.py DETOUR"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

INCIDENTS = pathlib.Path(__file__).resolve().parents[2] / "experiments" / "incidents"
DETOUR = None  # the program under test, from the command line

CLUSTER = {"version": 1, "name": "job", "replicas": 4, "stages": 2, "microbatches": 32, "stage_ms": [10, 10],
           "message_bytes": 1000000, "gradient_bytes": 500000000, "bytes_per_s": 10000000000, "latency_ms": 0.01,
           "costs_ms": {"S2": 10, "S3": 6000, "S4": 1200000}}
NODE = {"version": 1, "nodes": [{"node": 5, "compute": 2}]}
LINK = {"version": 1, "slow_iterations": 500, "links": [{"a": 1, "b": 3, "factor": 9}]}


class Mitigate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, content):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def run_mitigate(self, *args, stdin=""):
        return subprocess.run([DETOUR, "mitigate", *args], input=stdin, capture_output=True, text=True, timeout=240)

    def plan(self, event, cluster=None, *args):
        """`cluster`: of this file if there is none."""
        done = self.run_mitigate("--event", self.file("e", event), "--cluster", self.file("c", cluster or CLUSTER), *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout) if "--json" in args else done.stdout

    def bad(self, line, *args, stdin=""):
        done = self.run_mitigate(*args, stdin=stdin)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(line, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_slow_node_gets_fewer_microbatches(self):
        made = self.plan(NODE, None, "--json")
        self.assertEqual((made["version"], made["cluster"], made["due"]), (1, "job", "S1"))
        steps = {step["step"]: step for step in made["steps"]}
        self.assertEqual(sum(made["S2"]["microbatches"]), 32)
        self.assertLess(made["S2"]["microbatches"][2], 8)
        self.assertEqual(made["S2"]["weights"], [count / 32 for count in made["S2"]["microbatches"]])
        self.assertGreater(steps["S2"]["removed_percent"], 50)
        self.assertEqual(steps["S2"]["due_iterations"], 1)
        self.assertEqual(steps["S4"]["iteration_ms"], made["healthy_ms"])
        self.assertAlmostEqual(steps["S1"]["iteration_ms"],
                               steps["S1"]["pipeline_ms"] + steps["S1"]["gradients_ms"], places=6)

    def test_slow_link_leaves_the_gradients(self):
        made = self.plan(LINK, None, "--json")
        steps = {step["step"]: step for step in made["steps"]}
        self.assertIsNone(steps["S2"]["due_iterations"])
        self.assertEqual((made["S3"]["links"][0]["before"], made["S3"]["optimal"]), ("data", True))
        self.assertNotEqual(made["S3"]["links"][0]["after"], "data")
        self.assertEqual(sorted(made["S3"]["nodes"]), list(range(8)))
        self.assertEqual(made["due"], "S3")
        self.assertLessEqual(steps["S3"]["due_iterations"], 500)

    def test_table_has_the_same_numbers(self):
        made, table = self.plan(LINK, None, "--json"), self.plan(LINK)
        for step in made["steps"]:
            self.assertRegex(table, rf"(?m)^{step['step']} .* {step['iteration_ms']:.3f} +{step['removed_percent']:.1f}  ")
        self.assertIn(f"{made['steps'][2]['due_iterations']} slow iterations\n", table)
        self.assertIn("never: it saves nothing", table)
        self.assertIn("now, with 500 slow so far: S3", table)
        self.assertRegex(table, r"(?m)^    link 1-3: data, 750.000 MB an iteration, becomes (none|pipeline), ")

    def test_the_pause_of_s3_follows_from_the_state(self):
        """40 GB at 10 GB/s, 10 us for each 8 MiB, and copies at 20 GB/s: 4.048 s and 4 s, beside the 6 s of the cost."""
        cluster = {**CLUSTER, "state_bytes": 40000000000, "copy_bytes_per_s": 20000000000}
        table, made = self.plan(LINK, cluster), self.plan(LINK, cluster, "--json")
        self.assertRegex(table, r"(?m)^S3 +exchange nodes +14\.048 ")
        self.assertIn("    each sends and receives a state of 40.000 GB: 8.048 s\n", table)
        self.assertAlmostEqual(made["steps"][2]["cost_ms"], 14047.7, places=1)
        self.assertGreater(made["steps"][2]["due_iterations"],
                           self.plan(LINK, None, "--json")["steps"][2]["due_iterations"])
        self.assertNotIn("a state of", self.plan(LINK))

    def test_nothing_slow_needs_nothing(self):
        table = self.plan({"version": 1})
        self.assertIn(": 1.00 times", table)
        self.assertIn("S3: no node moves; no assignment of nodes is better", table)
        self.assertEqual(table.count("never: it saves nothing"), 3)

    def test_slow_link_between_machines_is_one_of_all_their_nodes(self):
        """FALCON's figure 15: of two machines of eight nodes one link is named, and the gradients leave all 64."""
        cluster = {**CLUSTER, "stages": 4, "stage_ms": [10] * 4}
        event = {"version": 1, "links": [{"a": 5, "b": 9, "factor": 6}]}
        pairs = {"version": 1, "links": [{"a": a, "b": b, "factor": 6} for a in range(8) for b in range(8, 16)]}
        made = self.plan(event, {**cluster, "machines": 8 * ["rack1-a"] + 8 * ["rack1-b"]}, "--json")
        self.assertEqual(made["steps"], self.plan(pairs, cluster, "--json")["steps"])
        self.assertNotEqual(made["steps"], self.plan(event, cluster, "--json")["steps"])
        self.assertGreater(made["steps"][2]["removed_percent"], 90)
        self.assertEqual((made["S3"]["links"][0]["before"], made["S3"]["links"][0]["after"]), ("data", "pipeline"))

    def test_moves_that_save_nothing_are_not_printed(self):
        """Two stragglers in two replicas of one microbatch each: S3 would gather them in one stage, for no time."""
        cluster = {**CLUSTER, "replicas": 2, "microbatches": 2}
        table = self.plan({"version": 1, "nodes": [{"node": 0, "compute": 2}, {"node": 3, "compute": 2}]}, cluster)
        self.assertIn("S3: no node moves; ", table)
        self.assertNotIn("instead of", table)

    def test_search_that_its_budget_ends_is_marked(self):
        """Most nodes of 1,024 are slow, each differently, so that hardly any two positions are alike."""
        cluster = {**CLUSTER, "replicas": 256, "stages": 4, "stage_ms": [10] * 4, "microbatches": 512}
        nodes = [{"node": node, "compute": 1.001 + node / 1000} for node in range(0, 1000)]
        for event, ended in (({"version": 1, "nodes": nodes}, True), (LINK, False)):
            made, table = self.plan(event, cluster, "--json"), self.plan(event, cluster)
            self.assertEqual(made["S3"]["ended_early"], ended)
            self.assertEqual("S3: the search ended at its budget, 200000 exchanges" in table, ended)

    def test_every_frozen_case_has_a_plan_that_helps(self):
        cases = json.loads((INCIDENTS / "cases.json").read_text())["cases"]
        for name, case in cases.items():
            event = {"version": 1, "nodes": [], "links": []}
            for incident in case["incidents"]:
                if "link" in incident:
                    event["links"].append(incident["link"])
                else:
                    event["nodes"].append({"node": incident["device"]["node"], "compute": incident["device"]["factor"]})
            cluster = json.loads((INCIDENTS / "clusters" / f"{case['cluster']}.json").read_text())
            with self.subTest(name):
                made = self.plan(event, cluster, "--json")
                slow, *rest = (step["iteration_ms"] for step in made["steps"])
                self.assertGreater(slow, made["healthy_ms"])
                self.assertLessEqual(max(rest), slow)
                self.assertLessEqual(made["S3"]["bound_ms"], made["steps"][2]["iteration_ms"])

    def test_one_file_may_be_standard_input(self):
        done = self.run_mitigate("--event", "-", "--cluster", self.file("c", CLUSTER), stdin=json.dumps(NODE))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.bad("only one file can come from standard input", "-e", "-", "-c", "-")

    def test_bad_input_is_refused_in_one_line(self):
        event, cluster = self.file("e", NODE), self.file("c", CLUSTER)
        self.bad("--event is missing: the file that says what is slow", "--cluster", cluster)
        self.bad("--cluster is missing: the file of the job", "--event", event)
        self.bad("unexpected argument 'x'", "x")
        self.bad("/none: No such file or directory", "-e", event, "-c", str(self.folder / "none"))
        self.bad("Is a directory", "-e", str(self.folder), "-c", cluster)
        self.bad(": nodes[0].node is 8", "-c", cluster, "-e", self.file("f", {"version": 1, "nodes": [{"node": 8}]}))
        self.bad(": line 1, column 7: ", "-c", cluster, "-e", self.file("f", "nothing"))
        self.bad("standard input: ", "-e", event, "-c", "-", stdin="{}")
        twice = {"version": 1, "links": [{"a": 1, "b": 3, "delay_ms": 5}, {"a": 3, "b": 1, "delay_ms": 5}]}
        self.bad(": links[1] is link 3-1 again; links[0] has it", "-c", cluster, "-e", self.file("g", twice))
        self.bad(": stage_ms[1] is 0; it must be at least 0.000001 (ms)", "-e", event, "-c",
                 self.file("h", {**CLUSTER, "stage_ms": [10, 0]}))
        self.bad("stages is 0", "-e", event, "-c", self.file("d", {**CLUSTER, "stages": 0}))


if __name__ == "__main__":
    DETOUR = sys.argv.pop(1)
    unittest.main()
