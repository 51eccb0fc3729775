# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experiments.md: for each the paper's figure, what was run, and what the paper reports.

A system is a column: a schedule, a mode of transfer (pipeline/executor.h), and whether the schedule is made for the slow
links. A case is a row: its options for detour-sim-pipeline, and the name of its links."""

SYSTEMS = {
    "1F1B": ["--schedule", "1f1b"],
    "ZB": ["--schedule", "zb"],
    "ZB + host path": ["--schedule", "zb", "--mode", "hostpath"],
    "ZB + delegated": ["--schedule", "zb", "--mode", "delegated"],
    "re-planned": ["--schedule", "adaptra", "--replan"],
    "re-planned + delegated": ["--schedule", "adaptra", "--replan", "--mode", "delegated"],
}

LARGE = ["--devices", "8", "--microbatches", "32"]  # GPT-2 14B and larger: 8 stages
SMALL = ["--devices", "4", "--microbatches", "12"]  # GPT-2 7B: 4 stages, as in the paper's section 3.1


def slow(*links, ms, kind=""):
    """Options that slow these links, each named by its first device."""
    return [part for link in links for part in ("--slow-link", f"{link}-{link + 1}={ms}ms{kind}")]


def case(name, options, links=()):
    """`options` without slow links are the row's base; its ratios are to the same system without `links`."""
    return {"name": name, "options": options, "links": list(links)}


DYNAMIC = "latency=normal(30ms,10ms) every=uniform({}ms,{}ms)"

TABLES = [
    {
        "id": "latency",
        "title": "One slow link, latency",
        "paper": "PipeMorph figure 15, ADAPTRA figure 15: GPT-2 14B, 8 stages, the link between the last two",
        "cases": [case(f"{ms} ms", LARGE, slow(6, ms=ms)) for ms in range(0, 61, 10)],
        "reported": "At 60 ms: 1F1B 2.70x, ZB 4.24x, ZB + delegated (PipeMorph-CPU) 2.15x, re-planned + delegated "
                    "(PipeMorph) 1.13x.",
        "note": "As in the paper, re-planning and delegation together lose almost nothing beyond the delay itself, each "
                "way once. Either alone does not: a new schedule has more warm-up forwards, whose sends then wait for "
                "slots, and staged sends do not help while receives are posted late, since the delay of a message begins "
                "with its receive. That is why delegation does both. ZB loses less here than in the paper (see above).",
    },
    {
        "id": "serial",
        "title": "One slow link, serial",
        "paper": "The same, with a link that carries one message per delay",
        "cases": [case(f"{ms} ms", LARGE, slow(6, ms=ms, kind=",serial")) for ms in (10, 20, 30, 40, 50, 60)]
                 + [case(f"{count} stages, {place} link, 60 ms", options, slow(link, ms=60, kind=",serial"))
                    for count, place, options, link in ((8, "first", LARGE, 0), (4, "first", SMALL, 0),
                                                        (4, "last", SMALL, 2))],
        "bound": True,
        "reported": "Not in the papers, which do not state whether delays of messages overlap.",
        "note": "Such a link has less than the rate that the pipeline needs as soon as the delay exceeds the time of a "
                "microbatch (30 ms), and then no schedule helps. The bound counts what nothing can avoid: all activations "
                "cross the slow link one after the other, the stages before it first, those behind it and the way back "
                "after the last one.",
    },
    {
        "id": "single",
        "title": "First and last link, 4 and 8 stages",
        "paper": "PipeMorph figure 16",
        "cases": [case(f"{count} stages, {place} link, {ms} ms", options, slow(link, ms=ms))
                  for count, options, last in ((4, SMALL, 2), (8, LARGE, 6))
                  for place, link in (("first", 0), ("last", last)) for ms in (30, 60)],
        "reported": "Up to 3.71x faster than 1F1B (7B, 60 ms, last) and 3.49x faster than ZB (14B, 60 ms, last). From 30 "
                    "to 60 ms iterations grow on average by 1.49x (1F1B), 1.69x (ZB), 1.30x (PipeMorph-CPU), 1.07x "
                    "(PipeMorph).",
        "note": "As in the paper, the last link costs a delegated ZB more than the first one, where more warm-up forwards "
                "cover the delay, and re-planning makes both alike.",
    },
    {
        "id": "multiple",
        "title": "Several slow links, 30 ms each",
        "paper": "PipeMorph figure 17: 14B, 8 stages",
        "cases": [case(name, LARGE, slow(*links, ms=30))
                  for name, links in (("0-1, 1-2", (0, 1)), ("0-1, 2-3", (0, 2)), ("0-1, 6-7", (0, 6)),
                                      ("0-1, 3-4, 6-7", (0, 3, 6)))],
        "reported": "On average PipeMorph takes 51.6 % less than 1F1B, 57.5 % less than ZB, 23.1 % less than PipeMorph-CPU.",
        "note": "The delays of several links add up in every column.",
    },
    {
        "id": "blocking",
        "title": "What a slow link costs a pipeline of 4 stages",
        "paper": "PipeMorph figures 3, 6 and 14: 7B",
        "cases": [case(f"first link, {ms} ms", SMALL, slow(0, ms=ms)) for ms in (10, 20, 30)]
                 + [case("last link, 30 ms", SMALL, slow(2, ms=30))],
        "reported": "First link (figures 3 and 6): ZB at most 2.24x for 10, 20 and 30 ms; 1.9x at 30 ms, from 710 to 1350 "
                    "ms. Last link (figure 14): ZB 703 ms, 1.9x, PipeMorph-CPU 579 ms, PipeMorph 398 ms, which is 30 ms "
                    "more than without delay: 1.57x and 1.08x.",
        "note": "",
    },
    {
        "id": "dynamic",
        "title": "Delays that change",
        "paper": "PipeMorph figure 18: 7B, every link N(30, 10) ms, drawn again at intervals of U(50, 100), U(100, 200), "
                 "U(200, 400) ms",
        "cases": [case(f"{name}: U({low}, {high}) ms", SMALL + ["--iterations", "21"],
                       slow(0, 1, 2, ms=30) + ["--effect", DYNAMIC.format(low, high)])
                  for name, low, high in (("A", 50, 100), ("B", 100, 200), ("C", 200, 400))],
        "mean": True,
        "reported": "Up to 2.8x faster than 1F1B and ZB.",
        "note": "The mean of 20 iterations. The schedule of the last two columns is made once, for 30 ms on every link; it "
                "does not follow the delays.",
    },
    {
        "id": "overhead",
        "title": "Forced host path without any delay",
        "paper": "PipeMorph figure 21: all communication delegated, no slow link",
        "cases": [case(f"{mib} MiB per message", LARGE + ["--message", f"{mib}M", "--slice", f"{mib * 128}K"], [])
                  for mib in (8, 40, 80, 160)],
        "against": "ZB",
        "systems": ["ZB", "ZB + host path", "ZB + delegated"],
        "reported": "No difference for 7B and 14B, up to 16.4 % for 30B and 60B.",
        "note": "Ratios are to ZB without the host path. The delegates of the paper send through Gloo, at less than the "
                "link's rate; here a staged message has the whole link, and only the copies cost.",
    },
    {
        "id": "trace",
        "title": "Nine events in 1,200 iterations",
        "paper": "ADAPTRA section 7.5 and table 3: 140B, 8 stages; each event lasts 70 iterations",
        "cases": [case(f"event {i}: " + ", ".join(f"{k}-{k + 1}" for k in links) + f", {ms} ms", LARGE, slow(*links, ms=ms))
                  for i, (links, ms) in enumerate((((2,), 30), ((0, 5), 40), ((6,), 20), ((2, 3, 6), 50), ((5,), 60),
                                                   ((1, 6), 60), ((0, 4), 20), ((0, 1, 2), 40), ((4, 5), 50)))],
        "trace": {"iterations": 1200, "each": 70},
        "reported": "The whole trace: 1F1B 45.4 min, ZB 46.9 min, ADAPTRA 33.2 min (1.37x and 1.41x faster).",
        "note": "The last row adds the events up and fills the other iterations with those without delay. The crash of an "
                "RNIC in iteration 1030, which costs the paper's baselines a restart, is not in it.",
    },
]
