# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/experiments.md: for each the paper's figure, what was run, and what the paper reports.

A system is a column: a schedule, a mode of transfer (pipeline/executor.h), and whether the schedule is made for the slow
links. A case is a row: its options for detour-sim-pipeline, and the name of its links."""

import hour

SYSTEMS = {
    "1F1B": ["--schedule", "1f1b"],
    "ZB": ["--schedule", "zb"],
    "ZB + host path": ["--schedule", "zb", "--mode", "hostpath"],
    "ZB + delegated": ["--schedule", "zb", "--mode", "delegated"],
    "re-planned": ["--schedule", "adaptra", "--replan"],
    "re-planned + delegated": ["--schedule", "adaptra", "--replan", "--mode", "delegated"],
}

# Ways of launching NCCL's kernels (pipeline/mode.h), and which part of the host path costs nothing.
LAUNCHES = {name: ["--launch", name] for name in ("sends", "isend", "isend-free", "batched", "batched-free")}
FREE = "1024G"
PARTS = {
    "delegated": ["--schedule", "zb", "--mode", "delegated"],
    "D2H free": ["--schedule", "zb", "--mode", "delegated", "--to-host-rate", FREE],
    "H2D free": ["--schedule", "zb", "--mode", "delegated", "--to-gpu-rate", FREE],
    "RDMA free": ["--schedule", "zb", "--mode", "delegated", "--rate", FREE],
}

# Columns of single tables.
MORE_SYSTEMS = {
    "ZB, moved": ["--schedule", "zb"],
    "re-planned, moved": ["--schedule", "adaptra", "--replan", "--mode", "delegated"],
    "following + delegated": ["--schedule", "adaptra", "--replan", "--adapt", "--mode", "delegated"],
    "ZB batched": ["--schedule", "zb", "--launch", "batched"],
    **LAUNCHES,
    **PARTS,
    # Of detour-sim-intra.
    "searched": ["--schedule", "auto"],
    "following": ["--adapt", "iteration"],
    "intra, 0 ms": ["--adapt", "intra"],
    "intra, 1 ms": ["--adapt", "intra", "--decision", "1"],
    "intra, 5 ms": ["--adapt", "intra", "--decision", "5"],
    "measured, 5 ms": ["--adapt", "intra", "--decision", "5", "--measured"],
    "any order": ["--adapt", "iteration", "--bound"],
}

LARGE = ["--devices", "8", "--microbatches", "32"]  # GPT-2 14B and larger: 8 stages
SMALL = ["--devices", "4", "--microbatches", "12"]  # GPT-2 7B: 4 stages, as in the paper's section 3.1


def slow(*links, ms, kind=""):
    """Options that slow these links, each named by its first device."""
    return [part for link in links for part in ("--slow-link", f"{link}-{link + 1}={ms}ms{kind}")]


def case(name, options, links=()):
    """`options` without slow links are the row's base; its ratios are to the same system without `links`."""
    return {"name": name, "options": options, "links": list(links)}


def intra(name, low, high):
    """A row of detour-sim-intra."""
    return {"name": name, "options": ["--iterations", "500"], "links": ["--effect", DYNAMIC.format(low, high)],
            "program": "tests/detour-sim-intra"}


def replicas(ms, bytes_each, kind=""):
    """The link between two replicas of the first stage; moved: between the first two stages of a replica. Gradients of a
    stage of 7 billion parameters in 4 stages."""
    name = f"{ms} ms{kind.replace(',', ', ')}, {bytes_each} bytes per gradient"
    options = SMALL + ["--iterations", "1", "--dp", "2", "--gradients", str(7_000_000_000 // 4 * bytes_each)]
    between, inside = [["--slow-link", f"{ends}={ms}ms{kind}"] for ends in ("0@0-0@1", "0@0-1@0")]
    links = {"ZB": between, "ZB, moved": inside, "re-planned, moved": inside}
    return {"name": name, "options": options, "links": links}


DYNAMIC = "latency=normal(30ms,10ms) every=uniform({}ms,{}ms)"

TABLES = [
    {
        "id": "latency",
        "title": "One slow link, latency",
        "paper": "PipeMorph figure 15, ADAPTRA figure 15: GPT-2 14B, 8 stages, the link between the last two",
        "systems": ["1F1B", "ZB", "ZB batched", *list(SYSTEMS)[2:]],
        "cases": [case(f"{ms} ms", LARGE, slow(6, ms=ms)) for ms in range(0, 61, 10)],
        "reported": "At 60 ms: 1F1B 2.70x, ZB 4.24x, ZB + delegated (PipeMorph-CPU) 2.15x, re-planned + delegated "
                    "(PipeMorph) 1.13x.",
        "note": "As in the paper, re-planning and delegation together lose almost nothing beyond the delay itself, each "
                "way once. Either alone does not: a new schedule has more warm-up forwards, whose sends then wait for "
                "slots, and staged sends do not help while receives are posted late, since the delay of a message begins "
                "with its receive. That is why delegation does both. ZB batched is the paper's ZB (see below).",
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
        "id": "replicas",
        "title": "A slow link between replicas, and moved into a pipeline",
        "paper": "PipeMorph figures 3 and 19, ADAPTRA figures 3 and 18: 7B, 2 replicas of 4 stages; 10, 20 and 30 ms per "
                 "message of 80 packets",
        "cases": [replicas(30, 4, ",serial"), replicas(30, 2)]
                 + [replicas(ms, 2, ",serial") for ms in (10, 20, 30)],
        "against": "ZB",
        "systems": ["ZB", "ZB, moved", "re-planned, moved"],
        "reported": "At 30 ms: up to 8.04x between replicas (first column); 3.6x faster once the link is moved to the first "
                    "two stages of a pipeline, which leaves at most 2.24x (second column); 1.96x faster again with a new "
                    "schedule and delegation, which leaves 1.14x (third column).",
        "note": "Ratios are to ZB without slow links, its gradients included. The packets of the papers are 512 KiB, since "
                "80 of them are a message of 40 MiB; a serial delay is that of each packet, as in ADAPTRA. The time of the "
                "first column is that of the bytes: how many there are decides the ratio, and the papers do not state it. "
                "The 8.04x lie between gradients of 2 and of 4 bytes per parameter. With them, the second column has a "
                "larger base, so its ratio is smaller than that of a pipeline alone (see above). A serial link that takes "
                "30 ms for a message has just the rate that the pipeline needs, so a new schedule gains less there than "
                "with delays that overlap (second row). In the third column, gradients are staged as well, on healthy "
                "links too.",
    },
    {
        "id": "launch",
        "title": "How NCCL's kernels are launched",
        "paper": "What makes ZB 4.24 times slower in PipeMorph figure 15; the columns are those of `--launch`, see "
                 "[pipeline](pipeline.md#how-nccls-kernels-are-launched)",
        "systems": LAUNCHES,
        "cases": [case(name, ["--schedule", schedule, *count], slow(link, ms=ms))
                  for name, schedule, count, link, ms in (
                      ("1F1B, 8 stages, last link, 60 ms", "1f1b", LARGE, 6, 60),
                      ("ZB, 4 stages, first link, 30 ms", "zb", SMALL, 0, 30),
                      ("ZB, 4 stages, last link, 30 ms", "zb", SMALL, 2, 30),
                      ("ZB, 8 stages, last link, 30 ms", "zb", LARGE, 6, 30),
                      ("ZB, 8 stages, last link, 60 ms", "zb", LARGE, 6, 60))],
        "reported": "1F1B, 60 ms: 2.70x. ZB, 60 ms, 8 stages, last link: 4.24x; 4 stages, 30 ms: 1.9x for both links.",
        "note": "Every microbatch crosses the slow link twice, with its activation and with its gradient. With `sends` the two "
                "delays overlap. In NCCL they add up: kernels of a communicator run one after the other, and that of a "
                "receive ends with the message, so 32 microbatches cost 32 times 120 ms. This is most of the difference "
                "between 2.66x and the paper's 4.24x. The queue of transfers that all peers share is not: `isend` has one "
                "per pair, and the same times but for one row. Neither is the order of launches: the `-free` columns are "
                "the same, and a device is then counted as waiting instead of held. The runtime of Zero Bubble launches "
                "as `batched`, read in its source. Megatron-LM's 1F1B does not: it puts a send and the receive of the "
                "other direction into one kernel at both ends, whose delays overlap as with `sends`.",
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
        "systems": [*SYSTEMS, "following + delegated"],
        "reported": "Up to 2.8x faster than 1F1B and ZB.",
        "note": "The mean of 20 iterations. The schedule of the re-planned columns is made once, for 30 ms on every link. "
                "The last column begins with it and then follows the delays between iterations, by the protocol of "
                "`detour pipeline --adapt iteration`: decided on the mean delay of each link in an iteration, when two in "
                "a row call for a change, and used from the third iteration after that on. Delays are drawn again several "
                "times within an iteration, so it follows their mean and not the single delay.",
    },
    {
        "id": "intra",
        "title": "Re-planning within an iteration",
        "paper": "PipeMorph section 8, future work: 5 % to the optimum are missing with delays that change as in the table "
                 "above",
        "cases": [intra(f"{name}: U({low}, {high}) ms", low, high)
                  for name, low, high in (("A", 50, 100), ("B", 100, 200), ("C", 200, 400))],
        "mean": True,
        "against": "searched",
        "systems": ["searched", "following", "intra, 0 ms", "intra, 1 ms", "intra, 5 ms", "measured, 5 ms", "any order"],
        "reported": "Not measured in the paper.",
        "note": "Why `detour pipeline` has no `--adapt intra`: where delays change faster than an iteration, re-planning "
                "within it gains nothing over re-planning between iterations (row A), and by how much an implementation "
                "could differ from that is bounded. `detour-sim-intra` computes the mean of 500 iterations in the model of "
                "`detour_simulate()`: 7B as above, without copies; both directions of a link have the same delay. "
                "`searched` has one schedule, made by `auto` for 30 ms; `following` begins with `adaptra` and follows the "
                "mean delays between iterations, as above; the `intra` columns do that, too, and also call "
                "`detour_replan()` within the iteration whenever a delay changes. Their planner is better than any real "
                "one: it knows the delay of each link and the state of each device at that instant, costs nothing, and the "
                "stated time later all devices use the new order for the operations that have not begun, without a "
                "failed agreement. `measured` knows only the delay of the last message that has arrived on each link and "
                "way. `any order` is a lower bound on the time of every order of operations in the iterations of "
                "`following`, also of one that is chosen with all future delays known (tests/sim/intra_bound.h). Its "
                "distance to `following`, 1.9, 1.5 and 1.4 %, is more than anything could gain, less than the 5 % of the "
                "paper. With the seeds 1 to 5 (`--seed`), the times with a decision of 1 ms and with measured delays "
                "differ from `following` by 0.0 to +0.7 and 0.0 to +1.7 ms (A), -3.3 to -2.1 and -2.0 to -0.8 ms (B), -5.4 "
                "to -3.9 and -3.9 to -2.0 ms (C): in A the delays are different ones before a new order is executed; in C, "
                "where a delay lasts as long as half an iteration, the measured gain is 0.4 to 0.8 %, below the 1 % from "
                "which `detour_adapt()` changes a schedule at all.",
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
        "id": "parts",
        "title": "What the host path's parts cost without any delay",
        "paper": "PipeMorph figure 21, left: all communication delegated, no slow link; a part is made 1 TiB/s fast",
        "cases": [case(f"{mib} MiB per message", LARGE + ["--message", f"{mib}M", "--slice", f"{mib * 128}K"], [])
                  for mib in (8, 40, 80, 160)],
        "against": "ZB",
        "systems": PARTS,
        "reported": "Copies from the GPU 0.6 to 1.2 % of an iteration, copies to it 2.6 to 4.4 %, CPU-side RDMA 5.7 to "
                    "10.5 %, in part overlapped.",
        "note": "The difference of a column to the first one is what the part adds to an iteration. Ratios are to ZB without "
                "the host path. The decision is not in it: `adaptra` takes less than 1 ms for 8 stages and 32 microbatches "
                "([benchmarks](benchmarks.md)), once for a change of the delays.",
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
    {
        "id": "hour",
        "title": "An hour of changing delays",
        "paper": "PipeMorph section 7.5 and figure 22: 140B, a recorded trace of which the paper has the figure, the median "
                 "13.0 ms, the mean 22.3 ms and the 99th percentile 79.3 ms. Here: a trace with these three and the same "
                 "congested part (experiments/hour.py), on the link between the last two of 8 stages",
        "cases": [case(f"{delay:g} ms, {count / 3.6:.1f} % of the hour", LARGE, slow(6, ms=delay))
                  for delay, count in hour.WINDOWS.items()],
        "delays": list(hour.WINDOWS),
        "hour": {"the hour": hour.trace(), "1300 to 2500 s": hour.congested()},
        "reported": "Iterations per minute over the hour: PipeMorph 45.9, 1F1B 41.4, ZB 33.6 (1.11x and 1.36x), in the "
                    "congested part 1.30x and 1.47x.",
        "note": "A delay lasts 10 s, several iterations, each of which has the time of its delay's row; the re-planned columns "
                "have the schedule of the delay from its first iteration on. The ratio of the last two rows is the rate without "
                "delay over the rate. PipeMorph has 1.69x the rate of 1F1B here and 1.24x that of ZB: more and less than in "
                "the paper, where ZB falls behind 1F1B (see above for what its NCCL does beyond the model). The paper does not "
                "state which links its delays are on.",
    },
]
