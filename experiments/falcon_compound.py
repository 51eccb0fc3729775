# SPDX-License-Identifier: Apache-2.0
"""FALCON's figure 17 with `detour pipeline`: a slow link, then a slow device, and what the ladder does about them, in one run of
16 ranks; a subsection that processes.py writes.

The phases are those of the table in virtual time (falcon.py), a few iterations of each. Steps are executed by the ranks at
iteration boundaries, S3 and the two S2 (to other numbers of microbatches, and back)."""
import statistics

import falcon
import falcon_processes as processes
import generate  # falcon.py knows its folder
import run

TITLE = "FALCON's figure 17"
CASE = "figure 17"
EACH, WARM_UP = processes.EACH, processes.WARM_UP
REPORTED = {"healthy": 1.7, "link, S1": 1.0, "link, S3": 1.3, "link, device, S3": 0.5, "link, device, S2": 0.9}  # iterations/s


def case_of(programs):
    incident = falcon.cases()[CASE]
    cluster = generate.make_cluster(incident["cluster"])
    line = programs.incidents(incident["cluster"], [incident], "--phases")[0]
    cluster = {**cluster, "message_bytes": processes.MESSAGE_BYTES,
               "gradient_bytes": processes.SIMULATED_GRADIENT_BYTES}
    phases = [phase for phase in line["ladder"]["phases"] if phase["iterations"]]
    healthy_ms = falcon.healthy_ns(programs, cluster, falcon.FIXED_1F1B) / 1e6
    times = phases[0]["duration_ns"] / phases[0]["iterations"] / line["healthy_ns"]  # of the slow link alone
    link_ms = (times - 1) * healthy_ms
    predicted = [falcon.executed_ns(programs, cluster, processes.with_link_time(cluster, phase, link_ms),
                                    falcon.FIXED_1F1B) / 1e6 for phase in phases]
    return {"cluster": cluster, "phases": phases, "link_ms": link_ms, "predicted": [healthy_ms, *predicted]}


def start_of(k):
    """The first iteration of phase k; before phase 0 everything is well."""
    return WARM_UP + EACH * (k + 1)


def spans(phases, key):
    """{what is slow: (factor, first phase, phase after the last one)}; each is slow once."""
    found = {}
    for k, phase in enumerate(phases):
        for *what, factor in phase[key]:
            first = found.get(tuple(what), (factor, k, k))[1]
            found[tuple(what)] = (factor, first, k + 1)
    return found


def during(first, end, count):
    return f"from={start_of(first)}" + (f",to={start_of(end)}" if end < count else "")


def pipeline_words(case):
    cluster, phases = case["cluster"], case["phases"]
    replicas, stages = cluster["replicas"], cluster["stages"]
    words = processes.job_words(cluster, start_of(len(phases)))
    for (node,), (permille, first, end) in spans(phases, "slow_nodes").items():
        words += ["--slow-device", f"{node % stages}@{node // stages}={permille / 1000:.3f}x,{during(first, end, len(phases))}"]
    message_ms = case["link_ms"] / (2 * (replicas - 1))
    for (a, b), (_, first, end) in spans(phases, "slow_links").items():
        words += ["--slow-link", f"{a % stages}@{a // stages}-{b % stages}@{b // stages}={message_ms:.3f}ms,serial,"
                  f"{during(first, end, len(phases))}"]
    nodes, counts = list(range(replicas * stages)), falcon.even_counts(cluster)
    for k, phase in enumerate(phases):
        if phase["counts"] != counts:
            counts = phase["counts"]
            words += ["--dp-microbatches", ",".join(map(str, counts)) + f"@{start_of(k)}"]
        if phase["nodes"] != nodes:
            words += [word for a, b in processes.exchanges(phase["nodes"], nodes)
                      for word in ("--exchange", f"{a}-{b}@{start_of(k)}")]
            nodes = phase["nodes"]
    return words


def name_of(phase):
    slow = ["link"] * bool(phase["slow_links"]) + ["device"] * bool(phase["slow_nodes"])
    return ", ".join([*(slow or ["nothing"]), phase["step"]])


def rows_of(case, runs):
    """`runs`: (median times of the phases, largest pause) of each."""
    names, rows = ["healthy", *map(name_of, case["phases"])], []
    for k, name in enumerate(names):
        times = [medians[k] for medians, _ in runs]
        ratios = [medians[k] / medians[0] for medians, _ in runs]
        reported = f"{REPORTED['healthy'] / REPORTED[name]:.2f}" if name in REPORTED else ""
        rows.append("| " + " | ".join([name, f"{statistics.median(times):.0f}", processes.spread(ratios, ".2f"),
                                       f"{case['predicted'][k] / case['predicted'][0]:.2f}", reported]) + " |")
    return rows


def measured(result):
    return ([statistics.median(times) for times in processes.phases_of(result)],
            max(row["pause_ms"] for row in result["iterations"]))


def subsection(pipeline, build, rounds, load_limit, state):
    """`state`: a function of loads, the text about the machine."""
    case = case_of(falcon.Programs(build))
    runs, loads, repeated = [], [], 0
    for _ in range(rounds):
        result, load, tries = processes.steady_run(pipeline, pipeline_words(case), load_limit)
        runs.append(measured(result))
        loads.append(load)
        repeated += tries
        print(f"load {load:.1f}, {repeated} repeated:", *rows_of(case, runs[-1:]), sep="\n", flush=True)
    pauses = [pause for _, pause in runs]
    return [f"### {TITLE}", "", run.wrap(
        f"The compound incident of the table in virtual time above, with 16 processes: {EACH} iterations of each phase in one "
        f"run, {rounds} runs. The ranks execute S3 (`--exchange`, a pause of {processes.spread(pauses, '.0f')} ms) and both S2 "
        "(`--dp-microbatches`, to other numbers and back). Times: the median of the runs' medians; ratios to the healthy "
        "iterations of the same run, median and range. Gradients and the delay of the slow link are as for figures 13 to 16."),
        "", run.wrap(state(loads)), "", run.wrap(
            f"{repeated} runs were repeated, since equal iterations differed by more than {100 * processes.UNSTEADY:.0f} %."), "",
        "| slow, step in force | iteration, ms | times healthy | in virtual time | in the paper's text |",
        "| --- |" + " --- |" * 4, *rows_of(case, runs), "", run.wrap(
            "The paper's ratios are those of its iterations per second (1.7 healthy). It takes S4 then; the ladder here does "
            "not, and S4 has its own tests (`process.pipeline`, `process.remedy_loop_restart`). As in the figures before, the "
            "slow link is unused after S3, which is no aim of the paper's exchanges."), ""]
