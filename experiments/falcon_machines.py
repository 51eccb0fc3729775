# SPDX-License-Identifier: Apache-2.0
"""Cases of FALCON whose slow link is between two machines of several devices; falcon.py has their rows."""
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "incidents"))
import generate  # noqa: E402

MACHINE_FIGURES = ("figure 15", "figure 16")
GPUS = 8  # of a machine of the paper


def between_machines(case):
    """The case on two machines, and its slow links between them: job, case. A stage's slow link joins the last replica of
    the first machine and the first one of the second machine."""
    cluster = generate.make_cluster(case["cluster"])
    stages, nodes = cluster["stages"], cluster["replicas"] * cluster["stages"]
    cluster["machines"] = [node // GPUS for node in range(nodes)]
    incidents = []
    for incident in case["incidents"]:
        stage = incident["link"]["a"] % stages
        ends = {"a": GPUS - stages + stage, "b": GPUS + stage}
        incidents.append({**incident, "link": {**incident["link"], **ends}})
    return cluster, {**case, "incidents": incidents}


def slow_links(cluster, phase):
    """[(a, b, permille)] of nodes; a link between two machines stands for all pairs of their nodes."""
    machines = cluster.get("machines")
    if not machines:
        return phase["slow_links"]
    nodes_of = {machine: [n for n, of in enumerate(machines) if of == machine] for machine in machines}
    slow = {}
    for a, b, permille in phase["slow_links"]:
        is_path = machines[a] != machines[b]
        for pair in itertools.product(nodes_of[machines[a]], nodes_of[machines[b]]) if is_path else [(a, b)]:
            slow[pair] = max(permille, slow.get(pair, 0))
    return [(a, b, permille) for (a, b), permille in slow.items()]
