# SPDX-License-Identifier: Apache-2.0
"""Where the time of FALCON's figure 20 goes. For falcon.py, which makes the document; a line is one of detour-sim-incidents."""
import itertools

import run
import generate  # falcon_costs.py knows its folder


def removed(lost_ns, never_ns):
    return f"{100 * (1 - lost_ns / never_ns):.1f} %"


def is_healthy(phase):
    return not phase["slow_nodes"] and not phase["slow_links"]


def even_counts(cluster):
    return cluster["replicas"] * [cluster["microbatches"] // cluster["replicas"]]


def large_cells(name, rates, lost, line):
    """`lost`: without remedies, with the ladder."""
    taken = ", ".join(f"{count} {step}" for step, count in line["ladder"]["taken"].items() if count and step != "S1")
    return "| " + " | ".join([name, *(f"{rate:.1f}" for rate in rates), removed(lost[1], lost[0]), taken]) + " |"


def large_row(name, line):
    return large_cells(name, rates_of(line), [line[policy]["lost_ns"] for policy in ("never", "ladder")], line)


def name_of(row):
    return row.split(" | ")[0].removeprefix("| ")


def percent(lost):
    """Removed; `lost`: without remedies, with the ladder."""
    return round(100 * (1 - lost[1] / lost[0]), 1)


def headline(lines, executed, gain):
    """`lines`: estimate, fixed and replanned with the frozen S3, and with Detour's; `executed`: what the executor lost in the
    estimate's with the frozen S3, and in the estimate's and the fixed one with Detour's; `gain`: of re-planning in the executor,
    as a part of an iteration."""
    estimated = [percent([line[policy]["lost_ns"] for policy in ("never", "ladder")]) for line in lines]
    measured = [percent(lost) for lost in executed]
    pause_s = max(phase["duration_ns"] for phase in lines[3]["ladder"]["phases"]
                  if not phase["iterations"] and phase["step"] == "S3") / 1e9
    return (
        "The paper's headline is 60.1 % of the slowdown removed. Here, with the S3 that Detour executes "
        f"({pause_s:.1f} s): {estimated[3]} % by the estimate and {measured[1]} % in the executor with 1F1B, {estimated[4]} and "
        f"{measured[2]} % with zb. With the cost of an S3 that was frozen before the planner (60 s): {estimated[0]} and "
        f"{measured[0]} % with 1F1B. Re-planning adds {estimated[5] - estimated[4]:.1f} points to zb's by the estimate. In the "
        f"executor the re-planned schedule is shorter than zb's by {100 * gain:.2f} % of an iteration at most, in any phase of both "
        "replanned runs (each with 64 MiB of gradients of a device instead of 6.3 GB). There is nothing to gain in this incident: S3 "
        "leaves the slow links "
        "unused, and a slow device bounds every schedule. Where an S3 moves a slow link into pipelines, re-planning gains 4.4 to "
        "8.1 points of a healthy iteration over 1F1B and nothing over zb ([mitigate](mitigate.md#re-planning-after-s3)).")


def lost_s(line, phase):
    return (phase["duration_ns"] - phase["iterations"] * line["healthy_ns"]) / 1e9


def where_the_rest_is(line):
    """Sums over the phases of the ladder's run."""
    phases = line["ladder"]["phases"]
    pauses = sum(lost_s(line, phase) for phase in phases if not phase["iterations"])
    calm = sum(lost_s(line, phase) for phase in phases if phase["iterations"] and is_healthy(phase))
    waiting, since = 0, 0  # since: the slow link is there
    for phase in phases:
        if phase["iterations"]:
            since = since + lost_s(line, phase) if phase["slow_links"] else 0
        elif phase["step"] == "S3":
            waiting, since = waiting + since, 0
    total, never = line["ladder"]["lost_ns"] / 1e9, line["never"]["lost_ns"] / 1e9
    whole = total - pauses - waiting - calm
    return (f"of {never:.0f} s that are lost without remedies {total:.0f} s stay with the ladder. "
            f"{pauses:.0f} s are the pauses of {line['ladder']['taken']['S3']} S3. {waiting:.0f} s pass with a slow link before its "
            f"S3. {calm:.0f} s pass until a recovery is confirmed. {whole:.0f} s remain under S2 and S3, where one device of 16 "
            f"replicas is slow: microbatches are whole, so that another replica gets a ninth one, and an iteration takes "
            f"{remedied_ratio(line):.3f} times as long.")


def remedied_ratio(line):
    """Of the longest phase in which a remedy is in force for something slow: its iteration, healthy ones."""
    phase = max((phase for phase in line["ladder"]["phases"] if phase["iterations"] and phase["step"] != "S1"
                 and phase["slow_nodes"]), key=lambda phase: phase["iterations"])
    return phase["duration_ns"] / phase["iterations"] / line["healthy_ns"]


def rates_of(line):
    return [6e10 / line["healthy_ns"], *(line[policy]["iterations"] / line[policy]["elapsed_ns"] * 6e10
                                         for policy in ("never", "ladder"))]


def pipeline_of(layers, factor, microbatches):
    """The estimate's formula, without links, in times of a healthy layer; the first stage is on the slow device."""
    times = [factor * layers[0], *layers[1:]]
    return sum(times) + (microbatches - 1) * max(times)


def layers_text(case):
    """A slow device: the best division of its pipeline's layers, beside a ninth microbatch elsewhere."""
    stages = generate.make_cluster(case["cluster"])["stages"]
    layers, even = generate.MODELS["gpt2-13b"][0], even_counts(generate.make_cluster(case["cluster"]))[0]
    healthy = pipeline_of(stages * [layers // stages], 1, even)
    s2 = pipeline_of(stages * [layers // stages], 1, even + 1) / healthy
    parts = []
    for factor in sorted({incident["device"]["factor"] for incident in case["incidents"] if "device" in incident}):
        best = min(pipeline_of(division, factor, even) for division in itertools.product(range(1, layers), repeat=stages)
                   if sum(division) == layers)
        parts.append(f"{best / healthy:.3f} for a device of {factor} times")
    return f"{', '.join(parts)}, and {s2:.3f} with S2"
