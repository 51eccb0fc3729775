# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of experiments/iteration_time.py on made-up reports whose errors are known."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "experiments"))
import iteration_time  # noqa: E402  # the folder is no package

BEGIN_MS = [5000 + 100 * i + (7 * i * i) % 13 for i in range(101)]  # times between 87 and 113 ms


def reports(offset, count, error=0.0, lag_s=0.1):
    """Of the iterations from `offset` on, one each: its time with this relative error."""
    rows = [(0, 7, 1)]
    for i in range(count):
        begin, end = BEGIN_MS[offset + i], BEGIN_MS[offset + i + 1]
        rows.append((end / 1000 + lag_s, 8 + i, (end - begin) * (1 + error)))
    return rows


class IterationTime(unittest.TestCase):
    def test_exact_reports_have_no_error(self):
        for lag_s in (0.06, 0.15, 0.2):
            shape = iteration_time.Shape([reports(20, 70, lag_s=lag_s)], BEGIN_MS, [])
            self.assertEqual(len(shape.single), 20 + 70 - iteration_time.WARM_UP)
            self.assertEqual(len(shape.means), 6)
            self.assertEqual((shape.covered, shape.wanted), (60, 70))
            self.assertLess(max(shape.single + shape.means + shape.whole), 1e-9, lag_s)

    def test_an_error_is_found_as_it_is(self):
        shape = iteration_time.Shape([reports(20, 70, error=0.01)], BEGIN_MS, [])
        for errors in (shape.single, shape.means, shape.whole):
            self.assertAlmostEqual(min(errors), 0.01)
            self.assertAlmostEqual(max(errors), 0.01)

    def test_a_report_of_several_iterations_counts_for_all_of_them(self):
        rows = reports(20, 70)
        (when, number, first_ms), second_ms = rows[50], rows[51][2]
        rows[50:52] = [(when + 0.1, number + 1, (first_ms + second_ms) / 2)]
        shape = iteration_time.Shape([rows], BEGIN_MS, [])
        self.assertEqual((len(shape.single), shape.covered), (59, 60))
        self.assertLess(max(shape.single + shape.means + shape.whole), 1e-9)

    def test_another_clock_is_another_segment(self):
        rows = reports(20, 40)
        when, number, ms = rows[-1]
        rows.append((when + 0.3, number + 1, ms))  # three iterations that nothing was reported of
        rows += [(then, number + 2 + i, ms) for i, (then, _, ms) in enumerate(reports(63, 30)[1:])]
        shape = iteration_time.Shape([rows], BEGIN_MS, [])
        self.assertEqual(len(shape.single), 20 + 40 - iteration_time.WARM_UP + 30)
        self.assertLess(max(shape.single + shape.means + shape.whole), 1e-9)

    def test_iterations_beside_a_change_are_left_out(self):
        rows = reports(20, 70)
        rows[41] = (rows[41][0], rows[41][1], rows[41][2] + 50)  # iteration 60 begins later
        self.assertGreater(max(iteration_time.Shape([rows], BEGIN_MS, []).means), 0.04)
        shape = iteration_time.Shape([rows], BEGIN_MS, [60])
        self.assertLess(max(shape.single + shape.means + shape.whole), 1e-9)

    def test_reports_before_the_run_and_too_few_of_them_say_nothing(self):
        shape = iteration_time.Shape([reports(20, 70, lag_s=-1000), [], [(1, 1, 5)], reports(50, 2)], BEGIN_MS, [])
        self.assertEqual(shape.single + shape.means + shape.whole, [])

    def test_a_drift_covers_its_iterations_in_equal_steps(self):
        words = iteration_time.drift("--slow-device", "2=", 50, 150, lambda k: f"{1 + 0.02 * k:.2f}x")
        self.assertEqual(words[:4], ["--slow-device", "2=1.02x,from=50,to=60", "--slow-device", "2=1.04x,from=60,to=70"])
        self.assertEqual(words[-1], "2=1.20x,from=140,to=150")


if __name__ == "__main__":
    unittest.main()
