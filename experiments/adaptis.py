# SPDX-License-Identifier: Apache-2.0
"""The tables of "Results" in docs/adaptis.md, beside AdaPtis (arXiv 2509.23722): `detour sched optimize` on the known
models. Everything but the seconds is the same on every machine.

Usage: adaptis.py DETOUR [end-to-end|sequences|parts|time]..."""
import itertools
import json
import resource
import subprocess
import sys

FAMILIES, SIZES, DEVICES = ["gemma", "deepseek", "nemotron-h"], ["small", "medium", "large"], [4, 8, 16]
NAMES = ["S-1F1B", "I-1F1B", "ZB", "ZB-V", "Hanayo", "Mist", "tuned", "optimized"]
PARTS = [("1 placement", ["placement"]), ("2 scheduling", ["schedule"]), ("3 partition", ["partition"]),
         ("1+2", ["placement", "schedule"]), ("1+3", ["placement", "partition"]), ("2+3", ["schedule", "partition"]),
         ("1+2+3", ["partition", "placement", "schedule"])]


def run(*args, text=None):
    done = subprocess.run([DETOUR, "sched", *map(str, args)], input=text, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(done.stderr)


def optimize(family, size, devices, microbatches, *args, seq=2048, tensor=2):
    model = run("model", "--family", family, "--size", size, "--devices", devices, "--microbatches", microbatches,
                "--seq", seq, "--tensor", tensor, "--expert", 8)
    made = json.loads(run("optimize", "-", "--json", *args, text=model))
    return {row["name"]: row for row in made["pipelines"]}, made


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def speedup(rows, name):
    """Over S-1F1B; a dash for what does not exist."""
    return f"{rows['S-1F1B']['makespan_ms'] / rows[name]['makespan_ms']:.2f}" if "makespan_ms" in rows[name] else "-"


def end_to_end():
    """Figure 8: 4 P microbatches."""
    head("model", "P", *(f"{name}" for name in NAMES[1:]), "bubbles of S-1F1B %", "of the result %", "above the bound %")
    gaps, gains = [], {name: [] for name in NAMES}
    for family, size, devices in itertools.product(FAMILIES, SIZES, DEVICES):
        rows, _ = optimize(family, size, devices, 4 * devices)
        best = rows["optimized"]
        gaps.append(100 * (best["ratio_to_bound"] - 1))
        for name in NAMES:
            if "makespan_ms" in rows[name]:
                gains[name].append(rows[name]["makespan_ms"] / best["makespan_ms"])
        row(f"{family} {size}", devices, *(speedup(rows, name) for name in NAMES[1:]),
            f"{100 * rows['S-1F1B']['bubble_ratio']:.1f}", f"{100 * best['bubble_ratio']:.1f}", f"{gaps[-1]:.2f}")
    print("\nmean above the bound", f"{sum(gaps) / len(gaps):.2f} %, largest {max(gaps):.2f} %")
    for name, values in gains.items():
        print(f"result over {name}: mean {sum(values) / len(values):.2f}, largest {max(values):.2f}")


def sequences():
    """Figure 9: Nemotron-H large, P = 8, T = 4, 64 microbatches."""
    head("sequence", *NAMES[1:], "above the bound %")
    for tokens in [1024, 2048, 4096, 8192, 16384, 32768]:
        rows, _ = optimize("nemotron-h", "large", 8, 64, seq=tokens, tensor=4)
        row(f"{tokens // 1024}K", *(speedup(rows, name) for name in NAMES[1:]),
            f"{100 * (rows['optimized']['ratio_to_bound'] - 1):.2f}")


def parts():
    """Figure 10: throughput with some parts tuned, in percent of all."""
    head("model", "none", *(name for name, _ in PARTS))
    for family in FAMILIES:
        every = None
        cells = []
        for _, tuned in reversed(PARTS):
            rows, _ = optimize(family, "medium", 8, 32, "--tune", ",".join(tuned))
            every = every or rows["optimized"]["makespan_ms"]
            cells.append(f"{100 * every / rows['optimized']['makespan_ms']:.0f} %")
        row(family, f"{100 * every / rows['S-1F1B']['makespan_ms']:.0f} %", *reversed(cells))


def time():
    """Figure 13: processor seconds of one core."""
    head("model", "P", *(f"{count} microbatches" for count in [16, 64, 256]))
    for family, size, devices in itertools.product(FAMILIES, SIZES, [4, 16]):
        seconds = []
        for count in [16, 64, 256]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            optimize(family, size, devices, count)
            seconds.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        row(f"{family} {size}", devices, *(f"{value:.2f}" for value in seconds))


TABLES = {"end-to-end": end_to_end, "sequences": sequences, "parts": parts, "time": time}

if __name__ == "__main__":
    DETOUR = sys.argv[1]
    for wanted in sys.argv[2:] or TABLES:
        print(f"## {wanted}\n")
        TABLES[wanted]()
        print()
