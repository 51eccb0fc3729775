# SPDX-License-Identifier: Apache-2.0
"""Source files without a unit test of their own, each with what tests it instead (check_units.py)."""
_OP = "a row of the table in cli/perf/op.c: tests/cli/perf/op_test.cc carries out the plans of every row"
_PIPELINE = "a part of ranks that run: tests/process/pipeline_test.cc checks their outcomes, with faulty plugins too"
_PERF = "a part of ranks that run: tests/process/perf_test.cc compares their output, with faulty plugins too"
_PAIRS = "a part of ranks that run: tests/process/pairs_test.cc compares their output, with a faulty plugin too"
_ENGINE = "a part of the engine behind softrnic/engine.h: tests/softrnic/engine_*_test.cc"
_FRONT = "a part of libibverbs' calls behind softrnic/softrnic.h: tests/softrnic/front_*_test.cc"
_LOCAL = "a part of the wire `local`: tests/softrnic/local_*_test.cc run it, among processes that die too"
_BACK_END = "a back end behind verbs/queue.h: tests/verbs/posting_test.cc runs every test on both"
_SCHED = "a verb of `detour sched`: tests/cli/sched/cli_test.py compares its output for good and bad input"
_MITIGATE = "`detour mitigate`: tests/cli/mitigate_test.py compares its output for good and bad input"
_VIEW = "a format of detour_plan_write(): tests/sched/format/view_test.cc compares its output byte by byte"

EXCEPTIONS = {
    "cli/main/main.c": "main() and the table of commands: tests/cli/sched/ and tests/process/ run the program",
    "cli/perf/json.c": "the file that cli/perf/report.h announces: tests/cli/perf/report_test.cc reads it",
    "cli/mitigate.c": _MITIGATE,
    "cli/mitigate_report.c": _MITIGATE,
    "cli/stat_json.c": "the output of `detour stat`: tests/cli/stat_test.cc compares it",
    "cli/stat_print.c": "the output of `detour stat`: tests/cli/stat_test.cc compares it",
    **dict.fromkeys(map("cli/perf/op_{}.c".format, ["all_gather", "all_reduce", "alltoall", "broadcast", "latency",
                                                    "reduce_scatter", "sendrecv"]), _OP),
    **dict.fromkeys(map("cli/perf/{}.c".format, ["perf", "rank"]), _PERF),
    **dict.fromkeys(map("cli/perf/{}.c".format, ["pairs", "pairs_rank"]), _PAIRS),
    **dict.fromkeys(map("cli/pipeline/{}.c".format, ["move", "pipeline", "rank"]), _PIPELINE),
    **dict.fromkeys(map("cli/sched/{}.c".format, ["adapt", "compare", "model", "model_options", "optimize", "optimize_options",
                                                  "optimize_picture", "optimize_report", "run", "tolerance"]),
                    _SCHED),
    "sched/format/adapt.c": "the member \"adapt\": tests/cli/sched/cli_test.py and docs_test.py compare it",
    **dict.fromkeys(map("sched/format/{}.c".format, ["gantt", "json_write", "schedule_write", "svg", "trace"]), _VIEW),
    "dropin/calls.c": "libibverbs' names for the software RNIC's calls: tests/dropin/load_test.cc calls them",
    "dropin/configure.c": "the settings of the drop-in library: tests/dropin/programs.py starts programs with them",
    "dropin/provider_calls.c": "symbols of libibverbs' private interface: tests/dropin/symbols.py compares them",
    "transport/device_thread.c": "the driver of transport/service.c, which is tested: tests/plugin/ and tests/process/ run it",
    "plugin/net_v8.c": "NCCL's table of functions: every test of tests/plugin/ calls it",
    "plugin/control.c": "the commands of a process: tests/process/nic_test.cc gives them",
    "verbs/barrier.h": "an order that no single thread can see: the table in docs/architecture.md",
    "verbs/posting_dv.c": _BACK_END,
    "verbs/posting_std.c": _BACK_END,
    "verbs/fault_calls.c": "the calls that the fault layer replaces: tests/verbs/fault_layer_test.cc",
    **dict.fromkeys(map("softrnic/{}".format, ["engine_state.h", "requester.c", "requester_ack.c", "responder.c",
                                               "responder_reply.c", "transmit.c"]), _ENGINE),
    **dict.fromkeys(map("softrnic/{}".format, ["driver.c", "driver_copy.c", "driver_fork.c", "front.h", "front_post.c", "front_wr.c"]),
                    _FRONT),
    **dict.fromkeys(map("softrnic/{}.c".format, ["local_host", "local_link"]), _LOCAL),
}
