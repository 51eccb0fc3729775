# SPDX-License-Identifier: Apache-2.0
"""What experiments/falcon_processes.py makes of incidents and results, and where processes.py writes it."""
import math
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments"))
import falcon  # noqa: E402  # the folder is no package
import falcon_compound  # noqa: E402
import falcon_processes  # noqa: E402
import processes  # noqa: E402
import run  # noqa: E402

CLUSTER = {"replicas": 2, "stages": 3, "microbatches": 8, "stage_ms": [30, 30, 30], "message_bytes": 65536,
           "gradient_bytes": 1 << 25, "bytes_per_s": 1 << 30, "latency_ms": 0}
EVEN = {"step": "S1", "counts": [4, 4], "nodes": [0, 1, 2, 3, 4, 5], "slow_nodes": [], "slow_links": []}


def case(slow=None, remedied=None):
    return {"name": "figure 16, 1 links", "cluster": CLUSTER, "slow": {**EVEN, **(slow or {})},
            "remedied": {**EVEN, **(remedied or {})}, "link_ms": 120, "healthy_ms": 200, "predicted": (320, 230)}


def options(words, name):
    return [words[i + 1] for i, word in enumerate(words) if word == name]


def exchanged(count, pairs):
    """The ranks at all positions after exchanges as `detour pipeline` makes them: of ranks, one after the other."""
    nodes = list(range(count))
    for a, b in pairs:
        i, j = nodes.index(a), nodes.index(b)
        nodes[i], nodes[j] = b, a
    return nodes


class Words(unittest.TestCase):
    def test_exchanges_lead_to_the_positions_of_the_plan(self):
        rng = random.Random(1)
        for count in range(1, 17):
            nodes = rng.sample(range(count), count)
            self.assertEqual(exchanged(count, falcon_processes.exchanges(nodes)), nodes)

    def test_positions_that_stay_are_not_exchanged(self):
        self.assertEqual(falcon_processes.exchanges([0, 2, 1, 3]), [(1, 2)])
        self.assertEqual(falcon_processes.exchanges([0, 1, 2]), [])

    def test_a_slow_node_and_the_microbatches_of_its_remedy(self):
        words = falcon_processes.pipeline_words(case({"slow_nodes": [[5, 1900]]}, {"counts": [5, 3]}))
        self.assertEqual(options(words, "--slow-device"), ["2@1=1.900x,from=4"])
        self.assertEqual(options(words, "--dp-microbatches"), ["5,3@7"])
        self.assertEqual(options(words, "--exchange") + options(words, "--slow-link"), [])
        self.assertEqual(options(words, "--times"), ["10.000000,10.000000,10.000000"])

    def test_the_time_of_a_slow_link_is_that_of_its_messages(self):
        words = falcon_processes.pipeline_words(case({"slow_links": [[1, 4, 5000]]}, {"nodes": [1, 0, 2, 3, 4, 5]}))
        self.assertEqual(options(words, "--slow-link"), ["1@0-1@1=60.000ms,serial,from=4"])  # two there, two back
        self.assertEqual(options(words, "--exchange"), ["0-1@7"])
        self.assertEqual(options(words, "--dp-microbatches"), [])

    def test_the_simulator_gets_the_same_time(self):
        phase = falcon_processes.with_link_time(CLUSTER, {**EVEN, "slow_links": [[1, 4, 5000]]}, 120)
        word = falcon.slow_words(CLUSTER, phase, 0)[1]
        link, text = word.split("=")
        self.assertEqual(link, "1@0-1@1")
        ring_bytes = CLUSTER["gradient_bytes"]  # 2 (D - 1) / D of them, D = 2
        self.assertAlmostEqual(float(text.removesuffix("ms,serial")) * ring_bytes / CLUSTER["message_bytes"], 120, places=2)


class Recorded:
    """In the place of processes.Pipeline."""

    def __init__(self, results):
        self.results = iter(results)

    def run(self, *_):
        return next(self.results)


class Results(unittest.TestCase):
    def result(self, times, pause_ms=0.0):
        rows = [{"time_ms": time, "pause_ms": 0.0} for time in times]
        rows[falcon_processes.REMEDY_FROM]["pause_ms"] = pause_ms
        return {"iterations": rows}

    def test_phases_are_taken_apart_and_the_first_iteration_does_not_count(self):
        times = [999, 100, 110, 105, 200, 190, 201, 130, 150, 131]
        self.assertEqual(falcon_processes.measured(self.result(times, 42.0)), (105, 200, 131, 42.0))

    def test_runs_whose_equal_iterations_differ_are_repeated(self):
        steady = self.result([999, 100, 105, 110, 300, 310, 305, 130, 140, 131], 1.0)
        unsteady = self.result([999, 100, 105, 111, 300, 310, 305, 130, 140, 131], 2.0)
        self.assertEqual([falcon_processes.is_steady(one) for one in (steady, unsteady)], [True, False])
        for results, expected in (([steady], (1.0, 0)), ([unsteady, steady], (1.0, 1)), (9 * [unsteady], (2.0, 3))):
            result, _, tries = falcon_processes.steady_run(Recorded(results), [], math.inf)
            self.assertEqual((falcon_processes.measured(result)[3], tries), expected)

    def test_the_removed_part(self):
        self.assertAlmostEqual(falcon_processes.gain(100, 200, 120), 80)
        self.assertAlmostEqual(falcon_processes.gain(100, 200, 210), -10)

    def test_a_row_has_medians_and_ranges_of_the_ratios_in_each_run(self):
        runs = [(100, 200, 120, 30.0), (110, 198, 110, 50.0), (100, 150, 110, 40.0)]
        row = falcon_processes.row_of(case(remedied={"step": "S3"}), runs)
        self.assertEqual(row.split(" | ")[1:], [
            "100", "198", "110", "1.80 (1.50 to 2.00)", "1.10 (1.00 to 1.20)", "80 (80 to 100)",
            "200 ms, 1.60, 1.15, 75 %", "S3, 40 ms", "1.6x to 1.3x |"])

    def test_without_a_step_nothing_is_removed(self):
        row = falcon_processes.row_of(case(), [(100, 190, 191, 0.0)])
        self.assertEqual(row.split(" | ")[6:9], ["no step", "200 ms, 1.60, 1.15, 75 %", "S1"])


    def test_means_are_those_of_the_three_severities(self):
        cases = [{"name": name} for name in ("figure 13, 2 DP, medium", "figure 13, 2 DP, severe", "figure 13, 2 DP, weak",
                                             "figure 14, 1 slow groups", "figure 15, 4 PP, weak")]
        runs = {case["name"]: [(100, 200, remedied, 0.0), (100, 300, 500, 0.0), (100, 200, remedied, 0.0)]
                for case, remedied in zip(cases, (160, 150, 140, 0, 110))}
        self.assertEqual(falcon_processes.means_text(cases, runs),
                         "figure 13, 2 DP 50 % (55.3 %), figure 15, 4 PP 90 % (53.7 %)")


class Compound(unittest.TestCase):
    def phase(self, step, links=(), nodes=(), counts=(4, 4), places=(0, 1, 2, 3, 4, 5)):
        return {"step": step, "slow_links": list(links), "slow_nodes": list(nodes), "counts": list(counts),
                "nodes": list(places)}

    def compound(self):
        link, device, moved = [[1, 4, 5000]], [[5, 1900]], (1, 0, 2, 3, 4, 5)
        phases = [self.phase("S1", link), self.phase("S3", link, places=moved),
                  self.phase("S2", link, device, (5, 3), moved), self.phase("S2", (), device, (5, 3), moved),
                  self.phase("S1", places=moved)]
        return {"cluster": CLUSTER, "phases": phases, "link_ms": 120, "predicted": [100, 160, 100, 110, 110, 100]}

    def test_what_is_slow_and_the_steps_begin_with_their_phases(self):
        words = falcon_compound.pipeline_words(self.compound())
        at = falcon_compound.start_of
        self.assertEqual(options(words, "--slow-link"), [f"1@0-1@1=60.000ms,serial,from={at(0)},to={at(3)}"])
        self.assertEqual(options(words, "--slow-device"), [f"2@1=1.900x,from={at(2)},to={at(4)}"])
        self.assertEqual(options(words, "--exchange"), [f"0-1@{at(1)}"])
        self.assertEqual(options(words, "--dp-microbatches"), [f"5,3@{at(2)}", f"4,4@{at(4)}"])
        self.assertEqual(options(words, "-n"), [at(5)])

    def test_rows_have_the_ratios_of_each_run(self):
        rows = falcon_compound.rows_of(self.compound(), [([100, 170, 100, 120, 110, 100], 5.0),
                                                         ([200, 320, 200, 220, 220, 200], 9.0)])
        self.assertEqual(rows[1], "| link, S1 | 245 | 1.65 (1.60 to 1.70) | 1.60 | 1.70 |")
        self.assertEqual(rows[4], "| device, S2 | 165 | 1.10 (1.10 to 1.10) | 1.10 |  |")
        self.assertEqual(len(rows), 6)


class Document(unittest.TestCase):
    BEFORE = f"# Experiments\n\n## FALCON: a table\n\nrows\n\n## {run.PROCESSES}\n\nold text\n\n### One\n\n1\n\n### Two\n\n2\n"

    def test_a_subsection_is_replaced_and_all_else_stays(self):
        after = processes.merged(self.BEFORE, "### One\n\nnew\n")
        self.assertEqual(after, self.BEFORE.replace("\n1\n", "\nnew\n"))

    def test_a_new_subsection_is_the_last_one(self):
        self.assertEqual(processes.merged(self.BEFORE, "### Three\n\n3\n"), self.BEFORE + "\n### Three\n\n3\n")

    def test_the_section_is_replaced_but_for_subsections_that_it_does_not_have(self):
        after = processes.merged(self.BEFORE, f"## {run.PROCESSES}\n\nnew text\n\n### Two\n\nnew\n")
        self.assertEqual(after, self.BEFORE.replace("old text", "new text").replace("\n2\n", "\nnew\n"))

    def test_a_document_without_the_section_gets_it(self):
        text = f"## {run.PROCESSES}\n\ntext\n"
        self.assertEqual(processes.merged("# Experiments\n", text), "# Experiments\n\n" + text)


if __name__ == "__main__":
    unittest.main()
