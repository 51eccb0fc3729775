# SPDX-License-Identifier: Apache-2.0
"""The tables of "Results" in docs/adaptis.md, beside AdaPtis (arXiv 2509.23722): `detour sched optimize` on the known
models. Everything but the seconds is the same on every machine.

Usage: adaptis.py BUILD [end-to-end|sequences|scaling|parts|time|runs]...
       adaptis.py BUILD --check   one row of `runs`, compared with the document"""
import itertools
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

FAMILIES, SIZES, DEVICES = ["gemma", "deepseek", "nemotron-h"], ["small", "medium", "large"], [4, 8, 16]
NAMES = ["S-1F1B", "I-1F1B", "ZB", "ZB-V", "Hanayo", "Mist", "tuned", "optimized"]
PARTS = [("1 placement", ["placement"]), ("2 scheduling", ["schedule"]), ("3 partition", ["partition"]),
         ("1+2", ["placement", "schedule"]), ("1+3", ["placement", "partition"]), ("2+3", ["schedule", "partition"]),
         ("1+2+3", ["partition", "placement", "schedule"])]


DOCUMENT = pathlib.Path(__file__).resolve().parent.parent / "docs/adaptis.md"


def execute(program, *args, text=None):
    done = subprocess.run([BUILD / program, *map(str, args)], input=text, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else sys.exit(done.stderr)


def run(*args, text=None):
    return execute("bin/detour", "sched", *args, text=text)


def model_of(family, size, devices, microbatches, seq, tensor=2, data=1):
    return run("model", "--family", family, "--size", size, "--devices", devices, "--microbatches", microbatches,
               "--seq", seq, "--tensor", tensor, "--expert", 8, "--data", data)


def optimize(family, size, devices, microbatches, *args, seq=2048, tensor=2, data=1):
    made = json.loads(run("optimize", "-", "--json", *args,
                          text=model_of(family, size, devices, microbatches, seq, tensor, data)))
    return {row["name"]: row for row in made["pipelines"]}, made


def line(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def row(*cells):
    print(line(*cells))


def head(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def speedup(rows, name):
    """Over S-1F1B; a dash for what does not exist."""
    return f"{rows['S-1F1B']['iteration_ms'] / rows[name]['iteration_ms']:.2f}" if "iteration_ms" in rows[name] else "-"


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


def scaling():
    """Figures 14 and 15: Nemotron-H large, sequence 4096, P = 8, 32 microbatches of each replica."""
    head("GPUs", "T", "D", *NAMES[1:], "of 8 GPUs", "above the bound %")
    for axis in ["tensor", "data"]:
        first = None
        for degree in [1, 2, 4, 8] if axis == "tensor" else [1, 2, 4, 8, 16]:
            rows, _ = optimize("nemotron-h", "large", 8, 32, seq=4096, **{"tensor": 1, "data": 1, axis: degree})
            best = rows["optimized"]
            first = first or best["iteration_ms"]
            gain = first / best["iteration_ms"] * (degree if axis == "data" else 1)
            row(8 * degree, degree if axis == "tensor" else 1, degree if axis == "data" else 1,
                *(speedup(rows, name) for name in NAMES[1:]), f"{gain:.2f}", f"{100 * (best['ratio_to_bound'] - 1):.2f}")


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


def simulate(model, profile, *args):
    """Model and run of a pipeline of the model in virtual time, through the plugin: ms, ms, difference in percent."""
    message = model["layers"][0]["message_bytes"]
    made = json.loads(execute("tests/detour-sim-pipeline", "--profile", profile, "--message", message, *args))
    predicted, measured = made["predicted_ns"], made["mean_ns"]
    return predicted / 1e6, measured / 1e6, 100 * (measured / predicted - 1)


def run_result(family, size, devices):
    """Of the result of the search: cells of a row, difference in percent."""
    with tempfile.TemporaryDirectory() as folder:
        profile, plan = pathlib.Path(folder, "p.json"), pathlib.Path(folder, "s.json")
        rows, _ = optimize(family, size, devices, 4 * devices, "--profile-out", profile, "--schedule-out", plan, seq=4096)
        expected, measured, difference = simulate(json.loads(model_of(family, size, devices, 4 * devices, 4096)), profile,
                                                  "--plan", plan)
    return [f"{family} {size}", devices, rows["optimized"]["stages"], f"{expected:.3f}", f"{measured:.3f}",
            f"{difference:.2f}"], difference


def run_baseline(text, wanted):
    """Of a pipeline of a report: the difference in percent."""
    model = json.loads(text)
    model["fixed"] = {"stages": wanted["stages"], "layers": wanted["layers"], "placement": wanted["placement"]}
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "p.json")
        run("optimize", "-", "--json", "--budget", 1, "--profile-out", profile, text=json.dumps(model))
        expected, _, difference = simulate(model, profile, "--schedule", wanted["algorithm"])
    if abs(expected - wanted["makespan_ms"]) > 1e-6:
        sys.exit(f"{wanted['name']}: {expected} ms, but {wanted['makespan_ms']} ms in the report")
    return difference


def runs():
    """Figure 12: 4 P microbatches, sequence 4096, T = 2."""
    head("model", "P", "stages", "model, ms", "run, ms", "difference %")
    differences = []
    for family, size, devices in itertools.product(FAMILIES, SIZES, DEVICES):
        cells, difference = run_result(family, size, devices)
        differences.append(difference)
        row(*cells)
    print(f"\nmean {sum(differences) / len(differences):.2f} %, largest {max(differences):.2f} %\n")
    head("model", "P", *NAMES[:6])
    for size, devices in itertools.product(SIZES, DEVICES):
        rows, _ = optimize("nemotron-h", size, devices, 4 * devices, seq=4096)
        text = model_of("nemotron-h", size, devices, 4 * devices, 4096)
        row(f"nemotron-h {size}", devices, *(f"{run_baseline(text, rows[name]):.2f}" if "makespan_ms" in rows[name] else "-"
                                             for name in NAMES[:6]))


def check():
    """0 if the document has the row of the first model of `runs`, exactly."""
    cells, _ = run_result("nemotron-h", "small", 4)
    if line(*cells) in DOCUMENT.read_text().splitlines():
        return 0
    print(f"{DOCUMENT.name} does not have the row that was measured:\n{line(*cells)}")
    return 1


TABLES = {"end-to-end": end_to_end, "sequences": sequences, "scaling": scaling, "parts": parts, "time": time, "runs": runs}

if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1])
    if sys.argv[2:] == ["--check"]:
        sys.exit(check())
    for wanted in sys.argv[2:] or TABLES:
        print(f"## {wanted}\n")
        TABLES[wanted]()
        print()
