#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the judge of a job (controller/judge.h) on made-up jobs of 1,024 ranks, as a page of docs/.

    scripts/judge_quality.py build --seeds 167 --raw quality.jsonl --out docs/judge-quality.md

For each seed: a trace of each kind of incident of 20 % and more, until it is named; for every OTHERS-th seed also those of
the other rows, of which quiet ones, drifts, and slow fabrics to their end. Finished traces are in the file --raw, one per line
(bench/judge_quality.c), so that a run goes on where it was stopped; with --seeds 0 the page is made of that file alone.
After a change of the judge, --again KIND... runs the older traces again that it can concern: those with an incident of such a
kind, those with two incidents, and those with anything wrong or late. A new line replaces the older one of its trace."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess

WEEK_S = 604800
JUDGE = 3  # written into each line; raised with a change of the judge or of the scores
SLOW_ROWS = range(2, 8)
OTHER_ROWS = [0, 1, *range(8, 18)]
MILD_ROWS = range(8, 13)
NAMED = ["link", "NIC", "device", "processor", "not named"]
TEXTS = {"LINK": "link, one direction", "LINK_BOTH": "link, both directions",
         "FLUCTUATING": "link, delays of PipeMorph", "NIC": "NIC", "DEVICE": "device", "PROCESSOR": "busy host"}
BANDS = ["20 % and more", "10 to 20 %", "drift below 10 %"]
SLOWED = ["LINK", "LINK_BOTH", "NIC", "DEVICE", "PROCESSOR"]
ROWS = [(kind, BANDS[0]) for kind in ["QUIET", "FABRIC", "LINK", "LINK_BOTH", "FLUCTUATING", "NIC", "DEVICE", "PROCESSOR"]]
ROWS += [(kind, band) for band in BANDS[1:] for kind in SLOWED]  # of bench-judge-quality


def jobs(first, seeds, others):
    """(seed, row, extent), all rows of a seed together: a run that is stopped has a part of each row."""
    for seed in range(first, first + seeds):
        yield from ((seed, row, "named") for row in SLOW_ROWS)
        if seed % others == 0:
            yield from ((seed, row, "named" if row in MILD_ROWS else "whole") for row in OTHER_ROWS)


def run(bench, job):
    seed, row, extent = job
    text = subprocess.run([bench, str(seed), str(len(ROWS)), extent, str(len(ROWS)), str(row)], check=True,
                          capture_output=True, text=True).stdout
    return json.dumps({**json.loads(text), "judge": JUDGE}, separators=(",", ":")) + "\n"


def read(path):
    traces = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            trace = json.loads(line)
            traces[(trace["seed"], trace["kind"], trace["band"])] = trace
    return traces


def is_concerned(trace, kinds):
    """Can a change of the judge that is about these kinds of incidents change it?"""
    wrong = any(not one["right"] or one["latency_s"] > trace["limit_s"] for one in trace["incidents"]
                if trace["kind"] != "FABRIC" and trace["band"] == BANDS[0])
    return (bool(trace["false_alarms"]) or wrong or len(trace["incidents"]) > 1 or
            any(one["kind"] in kinds for one in trace["incidents"]))


def measure(args):
    """Appends the traces that are missing in the file, and before them those to run again: of 20 % and more first."""
    bench = pathlib.Path(args.build) / "bench" / "bench-judge-quality"
    done = read(args.raw)
    traces = {job: done.get((job[0], *ROWS[job[1]])) for job in jobs(args.first, args.seeds, args.others)}
    wanted = [job for job, trace in traces.items() if trace and args.again is not None
              and trace.get("judge", 1) < JUDGE and is_concerned(trace, args.again)]
    wanted.sort(key=lambda job: ROWS[job[1]][1] != BANDS[0])
    wanted += [job for job, trace in traces.items() if not trace]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, open(args.raw, "a", encoding="utf-8") as raw:
        for text in pool.map(lambda job: run(bench, job), wanted):
            raw.write(text)
            raw.flush()
    lines = [json.dumps(trace, separators=(",", ":")) for trace in read(args.raw).values()]
    whole = args.raw.with_name(args.raw.name + ".new")
    whole.write_text("\n".join(lines) + "\n", encoding="utf-8")
    whole.replace(args.raw)


def incidents(traces):
    """{(band, kind): [(incident, limit in seconds)]} of first incidents, and those of second ones."""
    first, second = collections.defaultdict(list), collections.defaultdict(list)
    for trace in traces:
        for number, incident in enumerate(trace["incidents"]):
            if trace["kind"] != "FABRIC":
                (second if number else first)[(trace["band"], incident["kind"])].append((incident, trace["limit_s"]))
    return first, second


def quantile(values, share):
    return sorted(values)[int((len(values) - 1) * share)]


def in_time(found):
    return sum(one["right"] and one["latency_s"] <= limit for one, limit in found)


def matrix(groups, band):
    lines = ["| incident | traces | named " + " | ".join(NAMED) + " | kind and place right |",
             "| --- | --- |" + " --- |" * (len(NAMED) + 1)]
    for kind, text in TEXTS.items():
        found = groups.get((band, kind), [])
        if found:
            named = collections.Counter(one["named"] for one, _ in found)
            lines.append(f"| {text} | {len(found)} | " + " | ".join(str(named[name]) for name in NAMED) +
                         f" | {sum(one['right'] for one, _ in found)} |")
    return lines


def latencies(groups):
    lines = ["| incident | band | named right | within two iterations | latency, s: median | 99 % | largest |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for band in BANDS:
        for kind, text in TEXTS.items():
            found = groups.get((band, kind), [])
            times = [one["latency_s"] for one, _ in found if one["right"]]
            if times:
                lines.append(f"| {text} | {band} | {len(times)} of {len(found)} | {in_time(found)} | "
                             f"{quantile(times, .5):.1f} | {quantile(times, .99):.1f} | {max(times):.1f} |")
    return lines


def bound(events):
    """The rate of a Poisson process that gives at most `events` with a probability of 5 %, for 0 to 10 events."""
    return [3.00, 4.74, 6.30, 7.75, 9.15, 10.51, 11.84, 13.15, 14.43, 15.71, 16.96][events]


def sums(traces, first, second):
    slow = [one for groups in (first, second) for (band, _), found in groups.items() if band == BANDS[0]
            for one in found]
    right = sum(one["right"] for one, _ in slow)
    late = sorted((one for one, limit in slow if not one["right"] or one["latency_s"] > limit),
                  key=lambda one: one["factor"])
    weeks = sum(trace["simulated_s"] for trace in traces) / WEEK_S
    alarms = sum(trace["false_alarms"] for trace in traces)
    yield (f"- 20 % and more, with second incidents: {right} of {len(slow)} named right ({100 * right / len(slow):.2f} %), "
           f"{in_time(slow)} within two iterations of 3.5 s ({100 * in_time(slow) / len(slow):.2f} %).")
    if late:
        yield "- Not in time or not right: " + ", ".join(
            f"{TEXTS[one['kind']]} {one['factor']:.2f} times ({one.get('latency_s', float('nan')):.1f} s)"
            for one in late) + "."
    rate = f" With 95 % confidence, at most {bound(alarms) / weeks:.1f} a week." if alarms <= 10 else ""
    yield f"- False alarms: {alarms} in {weeks:.2f} weeks of the job.{rate}"
    for trace in traces:
        for alarm in trace["alarms"]:
            yield (f"  - {alarm['kind']}, {alarm['factor']:.2f} times, after {alarm['at_s']:.0f} s of the trace "
                   f"{trace['kind']}, {trace['band']}, seed {trace['seed']}")


def judges(traces):
    """Which traces ran with the present judge."""
    present = sum(trace.get("judge", 1) == JUDGE for trace in traces)
    return "All ran with the present judge." if present == len(traces) else \
        f"{present} ran with the present judge, the others with earlier ones."


def page(traces):
    first, second = incidents(traces)
    seeds = sorted({trace["seed"] for trace in traces})
    lines = ["# Quality of the judge of a job", "",
             f"Written by `scripts/judge_quality.py`: {len(traces)} traces of {len(seeds)} seeds, {seeds[0]} to {seeds[-1]}. "
             f"{judges(traces)} "
             "The method and the limits are in [detection.md](detection.md#over-all-hosts-of-a-job).", ""]
    lines += [*sums(traces, first, second), "", "## Latency", "", *latencies(first)]
    for band in BANDS:
        lines += ["", f"## Confusion matrix: {band}", "", *matrix(first, band)]
    if second:
        lines += ["", "## Second incidents of a trace", "", *matrix(second, BANDS[0])]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the build folder")
    parser.add_argument("--seeds", type=int, default=167, help="how many; 6 traces of 20 %% and more each (default 167)")
    parser.add_argument("--first", type=int, default=1, help="the first one (default 1)")
    parser.add_argument("--others", type=int, default=8, help="the other 12 rows for every such seed (default 8)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once (default: one per processor)")
    parser.add_argument("--again", nargs="*", choices=["FLUCTUATING", *SLOWED], help="run older traces again, see above")
    parser.add_argument("--raw", type=pathlib.Path, required=True, help="file of finished traces")
    parser.add_argument("--out", type=pathlib.Path, help="the page (default: to standard output)")
    args = parser.parse_args()
    if args.seeds:
        measure(args)
    traces = list(read(args.raw).values())
    if not traces:
        parser.error(f"{args.raw} has no trace")
    if args.out:
        args.out.write_text(page(traces), encoding="utf-8")
    else:
        print(page(traces), end="")


if __name__ == "__main__":
    main()
