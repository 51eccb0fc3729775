# SPDX-License-Identifier: Apache-2.0
"""FALCON's figures 13 to 16 with `detour pipeline`: a subsection that processes.py writes.

Incidents, stages, microbatches and remedies are those of the table in virtual time (falcon.py): the ladder's last step, its
numbers of microbatches and its positions. In one run an iteration warms up, then some are healthy, some are slow, and some
have the remedy, which the ranks execute at an iteration boundary. The bytes of the gradients are few, and a slow link has a
delay instead, by which the iteration is as many times as long as with the frozen incident.

A case is its cluster (a healthy one of few bytes) and two phases of an incident's run, `slow` and `remedied`, as
detour-sim-incidents prints them."""
import math
import os
import statistics
import time

import falcon
import generate  # falcon.py knows its folder
import run

TITLE = "FALCON's figures 13 to 16"
WARM_UP, EACH = 1, 3  # iterations; EACH: of the healthy ones, the slow ones, those with the remedy
SLOW_FROM, REMEDY_FROM, ITERATIONS = WARM_UP + EACH, WARM_UP + 2 * EACH, WARM_UP + 3 * EACH
UNSTEADY, TRIES = 0.1, 4  # a run is repeated if equal iterations differ by more
SEVERITIES = ("weak", "medium", "severe")
GRADIENT_BYTES = 256 << 10  # of a device here: one slice for each part of a ring
SIMULATED_GRADIENT_BYTES = 32 << 20  # the least that detour-sim-pipeline takes: 1 ms
MESSAGE_BYTES = 64 << 10


# ---- cases ----

def case_of(programs, name, incident):
    cluster = generate.make_cluster(incident["cluster"])
    options = ["--phases", "--highest", falcon.highest_step(name)]
    line = programs.incidents(incident["cluster"], [incident], *options)[0]
    slow, remedied = (falcon.last_slow(line[policy]["phases"]) for policy in ("never", "ladder"))
    cluster = {**cluster, "message_bytes": MESSAGE_BYTES, "gradient_bytes": SIMULATED_GRADIENT_BYTES}
    healthy_ms = falcon.healthy_ns(programs, cluster, falcon.FIXED_1F1B) / 1e6
    times = slow["duration_ns"] / slow["iterations"] / line["healthy_ns"]  # as long as a healthy iteration
    link_ms = (times - 1) * healthy_ms
    predicted = [falcon.executed_ns(programs, cluster, with_link_time(cluster, phase, link_ms), falcon.FIXED_1F1B) / 1e6
                 for phase in (slow, remedied)]
    return {"name": name, "cluster": cluster, "slow": slow, "remedied": remedied, "link_ms": link_ms,
            "healthy_ms": healthy_ms, "predicted": predicted}


def with_link_time(cluster, phase, added_ms):
    """For falcon.words_of: slow links whose part of a ring of gradients takes that much longer."""
    replicas = cluster["replicas"]
    ring_bytes = 2 * (replicas - 1) / replicas * cluster["gradient_bytes"]
    ring_ms = ring_bytes / cluster["bytes_per_s"] * 1000
    return {**phase, "slow_links": [[a, b, 1000 * added_ms / ring_ms] for a, b, _ in phase["slow_links"]]}


# ---- runs ----

def exchanges(nodes, start=None):
    """Pairs of ranks that exchange their positions, one pair after the other, until the node of each position is that of
    `nodes`. Without `start`, the nodes of before, rank and position have the same number."""
    present, pairs = list(start or range(len(nodes))), []
    for position, node in enumerate(nodes):
        if present[position] != node:
            pairs.append((present[position], node))
            present[present.index(node)] = present[position]
            present[position] = node
    return pairs


def job_words(cluster, iterations):
    """Options of `detour pipeline` for the healthy job."""
    replicas = cluster["replicas"]
    return ["--devices", cluster["stages"], "--dp", replicas, "--microbatches", cluster["microbatches"] // replicas, "--times",
            ",".join(3 * [f"{cluster['stage_ms'][0] / 3:.6f}"]), "--schedule", "1f1b", "--mode", "nccl", "--payload",
            MESSAGE_BYTES, "--gradients", GRADIENT_BYTES, "-n", iterations]


def pipeline_words(case):
    """Options of `detour pipeline`: what becomes slow, and what the remedy is."""
    cluster, phase, remedied = case["cluster"], case["slow"], case["remedied"]
    replicas, stages = cluster["replicas"], cluster["stages"]
    words = job_words(cluster, ITERATIONS)
    for node, permille in phase["slow_nodes"]:
        words += ["--slow-device", f"{node % stages}@{node // stages}={permille / 1000:.3f}x,from={SLOW_FROM}"]
    message_ms = case["link_ms"] / (2 * (replicas - 1))  # the link has so many messages of a ring in each direction
    for a, b, _ in phase["slow_links"]:
        words += ["--slow-link", f"{a % stages}@{a // stages}-{b % stages}@{b // stages}={message_ms:.3f}ms,serial,"
                  f"from={SLOW_FROM}"]
    if remedied["counts"] != falcon.even_counts(cluster):
        words += ["--dp-microbatches", ",".join(map(str, remedied["counts"])) + f"@{REMEDY_FROM}"]
    for a, b in exchanges(remedied["nodes"]):
        words += ["--exchange", f"{a}-{b}@{REMEDY_FROM}"]
    return words


def phases_of(result):
    """Times of the iterations of each phase: healthy, slow, and with the remedy."""
    times = [row["time_ms"] for row in result["iterations"]]
    return [times[start:start + EACH] for start in range(WARM_UP, len(times), EACH)]


def measured(result):
    """Of one run: the median iteration healthy, slow and with the remedy, and the pause of the remedy, all in ms."""
    return (*map(statistics.median, phases_of(result)), result["iterations"][REMEDY_FROM]["pause_ms"])


def is_steady(result):
    """Equal iterations take equal times, whatever these are; otherwise other work was in the way."""
    return all(max(times) <= (1 + UNSTEADY) * min(times) for times in phases_of(result))


def gain(healthy, slow, remedied):
    """Percent of the slowdown that the remedy removes."""
    return 100 * (slow - remedied) / (slow - healthy)


# ---- the subsection ----

def spread(values, form):
    """Median and range."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def row_of(case, runs):
    """`runs`: what measured() returns of each."""
    healthy, slow, remedied, pauses = zip(*runs)
    ratios = [spread([time / base for time, base in zip(times, healthy)], ".2f") for times in (slow, remedied)]
    step = case["remedied"]["step"]
    gains = spread([gain(*one[:3]) for one in runs], ".0f") if step != "S1" else "no step"
    base, (slow_ms, remedied_ms) = case["healthy_ms"], case["predicted"]
    simulated = f"{slow_ms / base:.2f}, {remedied_ms / base:.2f}, {gain(base, slow_ms, remedied_ms):.0f} %"
    cells = [case["name"], *(f"{statistics.median(times):.0f}" for times in (healthy, slow, remedied)), *ratios, gains,
             f"{base:.0f} ms, {simulated}", step + (f", {statistics.median(pauses):.0f} ms" if max(pauses) else ""),
             falcon.paper_of(case["name"])]
    return "| " + " | ".join(cells) + " |"


def load_below(limit):
    """Waits until the load is."""
    while os.getloadavg()[0] >= limit:
        time.sleep(1)
    return os.getloadavg()[0]


def steady_run(pipeline, words, load_limit):
    """The first steady run of a few, or the last one; the load before it, and how many were repeated."""
    for tries in range(TRIES):
        load = load_below(load_limit)
        result = pipeline.run(*words)
        if is_steady(result):
            break
    return result, load, tries


def measure(pipeline, cases, rounds, load_limit=math.inf):
    """{name: runs}, the loads before the runs, and the number of runs that were repeated. Every round has a run of each case,
    so that a change of the machine meets all of them."""
    runs, loads, repeated = {case["name"]: [] for case in cases}, [], 0
    for turn in range(rounds):
        for case in cases:
            result, load, tries = steady_run(pipeline, pipeline_words(case), load_limit)
            one = measured(result)
            runs[case["name"]].append(one)
            loads.append(load)
            repeated += tries
            print(f"{turn + 1} of {rounds}, load {load:.1f}, {repeated} repeated:", row_of(case, [one]), flush=True)
    return runs, loads, repeated


def means_text(cases, runs):
    """Of the cases that differ in their severity only, beside the paper's means."""
    groups = {}
    for case in cases:
        group, _, severity = case["name"].rpartition(", ")
        if severity in SEVERITIES:
            groups.setdefault(group, []).append(statistics.median(gain(*one[:3]) for one in runs[case["name"]]))
    return ", ".join(f"{group} {statistics.mean(gains):.0f} % ({falcon.paper_of(group).split(' (')[0]})"
                     for group, gains in groups.items())


def subsection(pipeline, build, rounds, load_limit, state):
    """`state`: a function of loads, the text about the machine."""
    programs = falcon.Programs(build)
    cases = [case_of(programs, name, incident) for name, incident in sorted(falcon.cases().items())
             if name.split(",")[0] in falcon.FIGURES]
    runs, loads, repeated = measure(pipeline, cases, rounds, load_limit)
    return [f"### {TITLE}", "", run.wrap(
        "The cases of the table in virtual time above with processes, a rank for each device: 2 to 8 (figures 13 and 14) and "
        "16. Stages, microbatches and remedies are the same; the ranks execute the remedy at an iteration boundary "
        f"(`--dp-microbatches`, `--exchange`). {rounds} runs of each case in turn, with {EACH} iterations that are healthy, "
        f"{EACH} slow, and {EACH} with the remedy. Times: the median of the runs' medians. Ratios to the healthy iterations of "
        "the same run, and the removed part of the slowdown: median and range of the runs. Virtual time is "
        "detour-sim-pipeline's, with equal delays."), "", run.wrap(state(loads)), "", run.wrap(
            f"A run in which {EACH} equal iterations differ by more than {100 * UNSTEADY:.0f} % is repeated, up to {TRIES - 1} "
            f"times: {repeated} were, beside the {len(loads)} that count."), "",
        "| | healthy, ms | slow, ms | remedied, ms | slow, times healthy | remedied, times healthy | removed, % | virtual "
        "time: healthy, slow, remedied, removed | step, pause | in the paper's text |", "| --- |" + " --- |" * 9,
        *(row_of(case, runs[case["name"]]) for case in cases), "", run.wrap(
            "Removed, the mean of weak, medium and severe, with the paper's in parentheses: " + means_text(cases, runs) + ". "
            "After S3 the slow links are unused, which is no aim of the paper's exchanges (see above)."), "", run.wrap(
            "The bytes of the gradients do not fit, 1.6 to 12.9 GB of a device in the clusters' files. Here they are "
            f"{GRADIENT_BYTES >> 10} KiB, so that a healthy iteration is shorter by the all-reduce, and a slow link delays each "
            "message instead, such that the estimated iteration is as many times as long as in the table above."), ""]
