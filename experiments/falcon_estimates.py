# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/mitigate.md: the estimates of `detour mitigate` for the frozen cases, and what another schedule gains once a
slow link is between two stages. For falcon.py --estimates, which prints them; `programs` is its."""
import json
import pathlib
import subprocess
import tempfile

import generate  # falcon_costs.py knows its folder
from falcon_machines import MACHINE_FIGURES, between_machines


def event_of(case):
    event = {"version": 1, "nodes": [], "links": []}
    for incident in case["incidents"]:
        if "link" in incident:
            event["links"].append(incident["link"])
        else:
            event["nodes"].append({"node": incident["device"]["node"], "compute": incident["device"]["factor"]})
    return event


def plan_of(programs, cluster, case):
    """Times of a healthy iteration: without a remedy, with S2, with S3."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "cluster.json")
        path.write_text(generate.text_of(cluster), encoding="utf-8")
        command = [programs.build / "bin/detour", "mitigate", "--event", "-", "--cluster", path, "--json"]
        result = subprocess.run(command, input=json.dumps(event_of(case)), capture_output=True, text=True, check=True)
    made = json.loads(result.stdout)
    return [step["iteration_ms"] / made["healthy_ms"] for step in made["steps"][:3]]


def without_severity(name):
    return name.removesuffix(", weak").removesuffix(", medium").removesuffix(", severe")


def jobs_of(cases):
    """(name of the row, job, case), then the cases with a slow path between machines."""
    jobs = [(without_severity(name), generate.make_cluster(case["cluster"]), case) for name, case in sorted(cases.items())]
    moved = [(f"{without_severity(name)}, between machines", *between_machines(case))
             for name, case in sorted(cases.items()) if name.startswith(MACHINE_FIGURES)]
    return jobs + moved


def estimate_rows(programs, cases):
    """One for all severities of a case; S2 is that of figures 13 and 14, S3 that of 15 and 16."""
    groups, rows = {}, []
    for name, cluster, case in jobs_of(cases):
        groups.setdefault(name, []).append(plan_of(programs, cluster, case))
    for name, plans in groups.items():
        plans.sort()
        steps = {"figure 13": [1], "figure 14": [1], "figure 15": [2], "figure 16": [2]}.get(name[:9], [1, 2])
        cells = [", ".join(f"{plan[step]:.2f}" for plan in plans) if step in (0, *steps) else "" for step in range(3)]
        gains = [(plan[0] - plan[steps[-1]]) / (plan[0] - 1) for plan in plans]
        rows.append("| " + " | ".join([name, *cells, f"{100 * sum(gains) / len(gains):.0f} %"]) + " |")
    return rows


SYSTEMS = {"1f1b": ["--schedule", "1f1b"], "zb": ["--schedule", "zb"], "adaptra, re-planned": ["--schedule", "adaptra", "--replan"]}
FACTORS = (4.042, 6)  # of the bytes; the first: a medium link of figure 15


def moved_words(cluster, system, factor):
    """The link between the two middle stages of every replica, as S3 leaves a slow link between two machines."""
    middle = cluster["stages"] // 2
    link_ms = cluster["message_bytes"] / cluster["bytes_per_s"] * 1000 * factor
    return [*system, "--devices", str(cluster["stages"]), "--microbatches", str(cluster["microbatches"] // cluster["replicas"]),
            "--dp", str(cluster["replicas"]), "--times", ",".join(3 * [f"{cluster['stage_ms'][0] / 3:.6f}"]),
            "--message", str(cluster["message_bytes"]), "--gradients", str(cluster["gradient_bytes"]),
            "--rate", str(cluster["bytes_per_s"]), "--latency", str(round(1000 * cluster["latency_ms"])), "--iterations", "1",
            *(["--slow-link", f"{middle - 1}-{middle}={link_ms:.6f}ms,serial"] if factor > 1 else [])]


def replan_rows(programs):
    rows = []
    for name in ("falcon-15-pp4", "falcon-15-pp8"):
        cluster = generate.make_cluster(name)
        healthy = {system: programs.iteration_ns(moved_words(cluster, words, 1)) for system, words in SYSTEMS.items()}
        for factor in FACTORS:
            times = [programs.iteration_ns(moved_words(cluster, words, factor)) / healthy[system]
                     for system, words in SYSTEMS.items()]
            rows.append("| " + " | ".join([f"{cluster['stages']} stages, {factor:g} times", *(f"{one:.3f}" for one in times)]) + " |")
        rows.append("| " + " | ".join([f"{cluster['stages']} stages, healthy, ms",
                                       *(f"{one / 1e6:.2f}" for one in healthy.values())]) + " |")
    return rows


def print_estimates(programs, cases):
    print("| case | slow | S2 | S3 | removed |", "| --- |" + " --- |" * 4, *estimate_rows(programs, cases), "", sep="\n")
    print("| the slow link | " + " | ".join(SYSTEMS) + " |", "| --- |" + " --- |" * 3, *replan_rows(programs), sep="\n")
    return 0
