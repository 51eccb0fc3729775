#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters, cases and traces of incidents, made from distributions.json; README.md has the formats and the reasons.

    generate.py --seed N --cluster NAME   prints the trace of a seed
    generate.py --write | --check         writes the files, or compares them"""
import argparse
import hashlib
import json
import math
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = range(1, 1001)
CASES_COMMENT = "times in seconds; slowdowns from the text, times of figure 20 that the text lacks are chosen"

# Appendix 9.2: gradients 12 L h^2 / (T P) values, activations b n_ctx h values, two bytes each.
CONTEXT, VALUE_BYTES = 2048, 2
MODELS = {"gpt2-7b": (32, 4096), "gpt2-13b": (40, 5120)}
# Section 7.1: 400 Gbit/s between nodes. Inside a node: NVSwitch of the H800, 200 GB/s each way (its data sheet).
BETWEEN_NODES, INSIDE_NODE = 50_000_000_000, 200_000_000_000
LATENCY_MS = 0.01
# S2: table 6, up to 64 groups. S3: section 7.5, under a minute. S4: section 7.5, tens of minutes; figure 17 restarts after
# 170 s (t = 30 to 200) at 1.3 and 250 s at 0.9 instead of 1.7 iterations/s: 40 s + 118 s lost.
COSTS_MS = {"S2": 10, "S3": 60_000, "S4": 1_200_000}
COSTS_17_MS = {**COSTS_MS, "S3": 10_000, "S4": 158_000}

# name: (model, TP, replicas, stages, microbatches, healthy iteration in ms, bytes/s, costs). Iterations: figure 20 has 17.1
# a minute, figure 17 has 1.7 a second; those of figures 13 to 16 are not in the text, and neither are the microbatches.
CLUSTERS = {
    "falcon-13-dp2": ("gpt2-7b", 4, 2, 1, 64, 588.235, INSIDE_NODE, COSTS_MS),
    "falcon-13-dp4": ("gpt2-7b", 2, 4, 1, 64, 588.235, INSIDE_NODE, COSTS_MS),
    "falcon-13-dp8": ("gpt2-7b", 1, 8, 1, 64, 588.235, INSIDE_NODE, COSTS_MS),
    "falcon-15-pp4": ("gpt2-7b", 1, 4, 4, 64, 588.235, BETWEEN_NODES, COSTS_MS),
    "falcon-15-pp8": ("gpt2-7b", 1, 2, 8, 64, 588.235, BETWEEN_NODES, COSTS_MS),
    "falcon-17": ("gpt2-7b", 1, 4, 4, 64, 588.235, BETWEEN_NODES, COSTS_17_MS),
    "falcon-64": ("gpt2-13b", 1, 16, 4, 128, 3508.772, BETWEEN_NODES, COSTS_MS),
    # No figure's: that of figure 17 with half as many stages, small enough for every assignment of nodes to be tried.
    "falcon-8": ("gpt2-7b", 1, 4, 2, 64, 588.235, BETWEEN_NODES, COSTS_17_MS),
}


def ring_ms(cluster):
    """The all-reduce of one stage's gradients over its replicas, as a ring."""
    replicas = cluster["replicas"]
    return (2 * (replicas - 1) / replicas * cluster["gradient_bytes"] / cluster["bytes_per_s"] * 1000
            + 2 * (replicas - 1) * cluster["latency_ms"])


def make_cluster(name):
    model, tensor, replicas, stages, microbatches, iteration_ms, bytes_per_s, costs = CLUSTERS[name]
    layers, hidden = MODELS[model]
    cluster = {"version": 1, "name": f"{model} {tensor}TP {replicas}DP {stages}PP", "replicas": replicas,
               "stages": stages, "microbatches": microbatches,
               "message_bytes": CONTEXT * hidden * VALUE_BYTES,
               "gradient_bytes": 12 * layers * hidden ** 2 * VALUE_BYTES // (tensor * stages),
               "bytes_per_s": bytes_per_s, "latency_ms": LATENCY_MS, "costs_ms": costs}
    message_ms = cluster["message_bytes"] / bytes_per_s * 1000 + LATENCY_MS
    pipeline_ms = iteration_ms - ring_ms(cluster) - 2 * (stages - 1) * message_ms
    cluster["stage_ms"] = [round(pipeline_ms / (microbatches // replicas + stages - 1), 3)] * stages
    return cluster


def device(node, factor, start_s, duration_s):
    return {"start_s": start_s, "duration_s": duration_s, "device": {"node": node, "factor": factor}}


def link(cluster, a, b, slowdown, start_s, duration_s):
    """A link of a ring of replicas that makes the iteration slower by that factor."""
    iteration_ms = (ring_ms(cluster) + 2 * (cluster["stages"] - 1) * (
        cluster["message_bytes"] / cluster["bytes_per_s"] * 1000 + cluster["latency_ms"])
        + sum(cluster["stage_ms"]) + (cluster["microbatches"] // cluster["replicas"] - 1) * max(cluster["stage_ms"]))
    factor = 1 + (slowdown - 1) * iteration_ms / ring_ms(cluster)
    return {"start_s": start_s, "duration_s": duration_s, "link": {"a": a, "b": b, "factor": round(factor, 3)}}


def make_cases(clusters, laws):
    severity = {name: laws["severity"][name]["value"] for name in ("weak", "medium", "severe")}
    small, figure17, large = clusters["falcon-15-pp4"], clusters["falcon-17"], clusters["falcon-64"]
    cases = {}
    for name, factor in severity.items():
        for replicas in (2, 4, 8):
            cases[f"figure 13, {replicas} DP, {name}"] = (f"falcon-13-dp{replicas}", [device(0, factor, 0, 3600)])
        for stages in (4, 8):
            key = f"falcon-15-pp{stages}"
            cases[f"figure 15, {stages} PP, {name}"] = (key, [link(clusters[key], 1, 1 + stages, factor, 0, 3600)])
    for count in range(1, 5):
        cases[f"figure 14, {count} slow groups"] = (
            "falcon-13-dp4", [device(node, severity["severe"], 0, 3600) for node in range(count)])
    # Section 7.3: 1.6, 1.7 and 1.9 times as long with one, two and three links.
    for count, slowdown in ((1, 1.6), (2, 1.7), (3, 1.9)):
        cases[f"figure 16, {count} links"] = (
            "falcon-15-pp4", [link(small, s, 4 + s, slowdown, 0, 3600) for s in range(1, 1 + count)])
    # Section 7.3: throughput 1.7 -> 1.0 at t = 30; a device at t = 200, from 1.3 to 0.5.
    cases["figure 17"] = ("falcon-17", [link(figure17, 1, 5, 1.7, 30, 1000), device(6, 2.6, 200, 1000)])
    # Section 7.5: two links, remedied at t = 600 and t = 2100, and eight devices of varying severity.
    factors = [severity[name] for name in ("weak", "medium", "severe", "medium", "weak", "severe", "medium", "weak")]
    cases["figure 20"] = ("falcon-64", [link(large, 5, 9, 1.5, 580, 620), link(large, 34, 38, 1.5, 2080, 620)] + [
        device(4 * 2 * k + k % 4, factor, 200 + 400 * k, 300) for k, factor in enumerate(factors)])
    return {"comment": CASES_COMMENT,
            "cases": {name: {"cluster": key, "incidents": incidents} for name, (key, incidents) in cases.items()}}


def draw_duration(rng, laws, law):
    duration = laws["duration_s"]
    value = -duration["mean"][law]["value"] * math.log(1 - rng.random())
    return round(min(max(value, duration["min"]["value"]), duration["max"]["value"]), 1)


def draw_slowdown(rng, laws, law):
    low, high = (math.log(laws["slowdown"][law][end]["value"]) for end in ("min", "max"))
    return round(math.exp(low + (high - low) * rng.random()), 3)


def make_trace(seed, cluster, laws):
    """Small clusters (less than 64 nodes) have the laws of sampling jobs, larger ones those of large jobs."""
    rng = random.Random(seed)
    replicas, stages = cluster["replicas"], cluster["stages"]
    large = replicas * stages >= 64
    weights = laws["kind"]["large" if large else "small"]["value"]
    incidents, start_s = [], 0.0
    while True:
        start_s = round(start_s + 7200 * rng.random(), 1)
        draw = rng.random() * sum(weights.values())
        kinds = ["device", "link"] if draw >= weights["device"] + weights["link"] else [
            "device" if draw < weights["device"] else "link"]
        for kind in kinds:
            law = "large" if large else kind
            stage, replica = int(rng.random() * stages), int(rng.random() * replicas)
            node, peer = replica * stages + stage, (replica + 1) % replicas * stages + stage
            duration_s, slowdown = draw_duration(rng, laws, law), draw_slowdown(rng, laws, law)
            incidents.append(device(node, slowdown, start_s, duration_s) if kind == "device"
                             else link(cluster, node, peer, slowdown, start_s, duration_s))
        if len(incidents) >= 8 or rng.random() >= 0.5:
            return {"seed": seed, "incidents": incidents}


def text_of(document):
    return json.dumps(document, indent=1) + "\n"


def digest_line(name, cluster, laws):
    digest = hashlib.sha256()
    for seed in SEEDS:
        digest.update(text_of(make_trace(seed, cluster, laws)).encode())
    return f"{digest.hexdigest()}  {name}\n"


def make_files():
    """{path: text} of every file that is made."""
    laws = json.loads((HERE / "distributions.json").read_text(encoding="utf-8"))
    clusters = {name: make_cluster(name) for name in CLUSTERS}
    files = {f"clusters/{name}.json": text_of(cluster) for name, cluster in clusters.items()}
    files["cases.json"] = text_of(make_cases(clusters, laws))
    files["seeds.sha256"] = "".join(digest_line(name, clusters[name], laws) for name in ("falcon-17", "falcon-64"))
    files["seeds-8.sha256"] = digest_line("falcon-8", clusters["falcon-8"], laws)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cluster", choices=CLUSTERS, default="falcon-64")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.seed is not None:
        laws = json.loads((HERE / "distributions.json").read_text(encoding="utf-8"))
        sys.stdout.write(text_of(make_trace(options.seed, make_cluster(options.cluster), laws)))
        return 0
    differ = 0
    for path, text in make_files().items():
        if options.write:
            (HERE / path).write_text(text, encoding="utf-8")
        elif (HERE / path).read_text(encoding="utf-8") != text:
            print(f"{path} is not what generate.py makes; if that is intended: generate.py --write")
            differ = 1
    return differ


if __name__ == "__main__":
    sys.exit(main())
