# SPDX-License-Identifier: Apache-2.0
"""How far plans of S3 are from the optimum, on a cluster small enough to try every assignment of nodes, and from a bound on
larger ones. For falcon.py, which makes the document; `programs` and `traces_of` are its."""
import run

NAMES = {"falcon-8": "8 devices", "falcon-17": "16 devices", "falcon-64": "64 devices"}
REFERENCES = {"falcon-8": "optimum", "falcon-17": "bound", "falcon-64": "bound"}
CHECKED = {"falcon-8": 20, "falcon-17": 30, "falcon-64": 8}
MANY = 1000
LASTING_S = 600  # incidents at once: their number decides, not their time


def at_once(trace):
    return {**trace, "incidents": [{**incident, "start_s": 0, "duration_s": LASTING_S} for incident in trace["incidents"]]}


def plans_row(programs, traces_of, cluster, count, is_at_once):
    traces = traces_of(cluster, count)
    if is_at_once:
        traces = [at_once(trace) for trace in traces]
    reference = REFERENCES[cluster]
    plans = [line["ladder"]["plans"] for line in programs.incidents(cluster, traces, "--plans", reference)
             if "plans" in line["ladder"]]
    number = sum(one["count"] for one in plans)
    mean_ppm, largest_ppm = sum(one["above_sum_ppm"] for one in plans) / number, max(one["above_largest_ppm"] for one in plans)
    return "| " + " | ".join([f"{NAMES[cluster]}, seeds 1 to {count}{', at once' * is_at_once}", reference, str(number),
                              str(sum(one["equal"] for one in plans)), f"{mean_ppm / 1e4:.4f} %", f"{largest_ppm / 1e4:.4f} %"]) + " |"


def checked_rows(programs, traces_of):
    return [plans_row(programs, traces_of, cluster, count, is_at_once)
            for cluster, count in CHECKED.items() for is_at_once in (False, True)]


def plans_section(programs, traces_of):
    rows = checked_rows(programs, traces_of)
    rows += [plans_row(programs, traces_of, cluster, MANY, is_at_once) for cluster in CHECKED for is_at_once in (False, True)]
    return [f"## {run.REMEDIES} S3 beside the optimum and a bound", "", run.wrap(
        "Every plan of S3 that the ladder makes under these incidents, by its estimated iteration (`detour-sim-incidents --plans`). "
        "With 8 devices the plan of the local search, which tries up to 4,000 exchanges of nodes as with the larger clusters, is "
        "compared with the best of all 40,320 assignments; with 16 and 64 devices with the bound below which no assignment can be. "
        "\"At once\": all incidents of a seed are there together. The cluster of 8 devices is no figure's: that of figure 17 with "
        "half as many stages. Where no assignment avoids slow links the bound may be far below the optimum "
        "(`Incidents.PlansOfS3AreComparedWithTheBoundAndTheOptimum` has such a job)."), "",
        "| | compared with | plans | equal to it | above it, mean | largest |", "| --- |" + " --- |" * 5, *rows, ""]
