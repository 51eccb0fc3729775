// SPDX-License-Identifier: Apache-2.0
// Files of jobs and events: what they mean, what is refused with which line, and mutated ones.
#include "detour/mitigate.h"

#include "tests/planner/fuzz/model_fuzz.h"
#include "tests/planner/mitigate/cluster.h"
#include "tests/sched/format/mutation.h"

using namespace mitigate_test;

namespace
{
const char *const kCluster = R"({"version": 1, "name": "job", "replicas": 2, "stages": 2, "microbatches": 8,
 "stage_ms": [10, 12.5], "message_bytes": 1000, "gradient_bytes": 5000, "bytes_per_s": 1000000, "latency_ms": 0.5,
 "state_bytes": 70000, "copy_bytes_per_s": 2000000, "nodes": [3, 2, 1, 0], "costs_ms": {"S1": 7, "S2": 10, "S3": 60000, "S4": 1200000}})";
const char *const kEvent = R"({"version": 1, "slow_iterations": 12, "nodes": [{"node": 3, "compute": 1.5}],
 "links": [{"a": 0, "b": 2, "factor": 4, "delay_ms": 3}]})";

std::string Replaced(std::string text, const std::string &what, const std::string &with)
{
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), with);
}

struct detour_cluster *ReadCluster(struct detour_arena *arena, const std::string &text,
                                   std::string *line = nullptr)
{
    struct detour_cluster *cluster = nullptr;
    struct detour_error error = {};
    detour_cluster_from_json(arena, "c", text.data(), text.size(), &cluster, &error);
    if (line)
        *line = error.text;
    return cluster;
}

std::string Refuse(const std::string &what, const std::string &with)
{
    Arena arena;
    std::string line;
    EXPECT_EQ(ReadCluster(arena, Replaced(kCluster, what, with), &line), nullptr) << with;
    return line;
}

std::string RefuseEvent(const std::string &what, const std::string &with)
{
    Arena arena;
    struct detour_event *event = nullptr;
    struct detour_error error = {};
    const std::string text = Replaced(kEvent, what, with);
    detour_event_from_json(arena, ReadCluster(arena, kCluster), "e", text.data(), text.size(), &event,
                           &error);
    EXPECT_EQ(event, nullptr) << with;
    return error.text;
}

TEST(MitigateFiles, ClusterHasTheValuesOfItsFile)
{
    Arena arena;
    const struct detour_cluster *cluster = ReadCluster(arena, kCluster);
    ASSERT_NE(cluster, nullptr);
    EXPECT_STREQ(cluster->name, "job");
    EXPECT_EQ(cluster->replica_count, 2);
    EXPECT_EQ(cluster->stage_ns[1], 12500000);
    EXPECT_EQ(cluster->latency_ns, 500000);
    EXPECT_EQ(cluster->nodes[0], 3);
    EXPECT_EQ(cluster->cost_ns[DETOUR_STEP_S1], 7 * kMs);
    EXPECT_EQ(cluster->cost_ns[DETOUR_STEP_S4], 1200000 * kMs);
    EXPECT_EQ(cluster->state_bytes, 70000);
    EXPECT_EQ(cluster->copy_bytes_per_s, 2000000);
    const struct detour_cluster *without =
        ReadCluster(arena, Replaced(kCluster, "\"state_bytes\": 70000, \"copy_bytes_per_s\": 2000000, ", ""));
    ASSERT_NE(without, nullptr);
    EXPECT_EQ(without->state_bytes, 0);
    EXPECT_EQ(without->copy_bytes_per_s, 0);
}

TEST(MitigateFiles, MachinesHaveNamesOrNumbers)
{
    Arena arena;
    const auto machines_of = [&](const std::string &list) {
        const struct detour_cluster *cluster =
            ReadCluster(arena, Replaced(kCluster, "\"nodes\"", "\"machines\": " + list + ", \"nodes\""));
        return cluster ? std::vector<int32_t>(cluster->machines, cluster->machines + 4)
                       : std::vector<int32_t>();
    };
    EXPECT_EQ(ReadCluster(arena, kCluster)->machines, nullptr);
    EXPECT_EQ(machines_of("[\"b\", \"b\", \"a\", \"b\"]"), (std::vector<int32_t>{0, 0, 1, 0}));
    EXPECT_EQ(machines_of("[7000000000, 3, \"3\", -1]"), (std::vector<int32_t>{0, 1, 1, 2}));
    for (const char *bad : {"[0, 0, 1]", "[0, 0, 1, 1.5]", "[0, 0, 1, \"\"]", "[0, 0, 1, null]", "3"}) {
        const std::string line = Refuse("\"nodes\"", std::string("\"machines\": ") + bad + ", \"nodes\"");
        EXPECT_EQ(line.find("c: machines"), 0u) << line;
        EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    }
    EXPECT_EQ(Refuse("\"nodes\"", "\"machines\": [0, 0, 1, {}], \"nodes\""),
              "c: machines[3] must be the name or the number of a machine");
}

TEST(MitigateFiles, EventHasTheValuesOfItsFile)
{
    Arena arena;
    struct detour_event *event = nullptr;
    ASSERT_EQ(detour_event_from_json(arena, ReadCluster(arena, kCluster), "e", kEvent, strlen(kEvent), &event,
                                     nullptr),
              DETOUR_OK);
    EXPECT_EQ(event->slow_iterations, 12);
    EXPECT_EQ(event->slowness.nodes[0].compute_permille, 1500);
    EXPECT_EQ(event->slowness.nodes[0].network_permille, 1000);
    EXPECT_EQ(event->slowness.links[0].b, 2);
    EXPECT_EQ(event->slowness.links[0].factor_permille, 4000);
    EXPECT_EQ(event->slowness.links[0].delay_ns, 3 * kMs);
}

TEST(MitigateFiles, BadClustersAreRefusedWithOneLine)
{
    EXPECT_EQ(Refuse("\"version\": 1", "\"version\": 2").substr(0, 12), "c: version i");
    EXPECT_EQ(Refuse("\"name\": \"job\", ", ""), "c: name is missing");
    EXPECT_EQ(Refuse("\"job\"", "\"\""), "c: name must have 1 to 63 printable ASCII characters");
    EXPECT_EQ(Refuse("\"job\"", "3"), "c: name must be a string");
    EXPECT_NE(Refuse("\"replicas\": 2", "\"replicas\": 9000").find("c: replicas is 9000; "),
              std::string::npos);
    EXPECT_NE(Refuse("\"stages\": 2", "\"stages\": 2049").find("c: stages is 2049; "), std::string::npos);
    EXPECT_NE(Refuse("\"microbatches\": 8", "\"microbatches\": 1").find("c: microbatches is 1; "),
              std::string::npos);
    EXPECT_NE(Refuse("[10, 12.5]", "[10]").find("one for each stage"), std::string::npos);
    EXPECT_EQ(Refuse("[10, 12.5]", "[10, 0]"), "c: stage_ms[1] is 0; it must be at least 0.000001 (ms)");
    EXPECT_EQ(Refuse("[10, 12.5]", "[10, 1e-9]"),
              "c: stage_ms[1] is 1e-09; it must be at least 0.000001 (ms)");
    EXPECT_NE(Refuse("[10, 12.5]", "[10, -1]").find("c: stage_ms[1] is -1"), std::string::npos);
    EXPECT_EQ(Refuse("[3, 2, 1, 0]", "[3, 2, 1, 1]"),
              "c: nodes[3] is 1; each node from 0 to 3 must have one position");
    EXPECT_NE(Refuse("\"S3\": 60000, ", "").find("c: costs_ms.S3 is missing"), std::string::npos);
    EXPECT_NE(Refuse("\"S3\"", "\"S5\"").find("S5"), std::string::npos);
    EXPECT_NE(Refuse("70000", "-1").find("c: state_bytes is -1; "), std::string::npos);
    EXPECT_NE(Refuse("70000", "1e30").find("c: state_bytes"), std::string::npos);
    EXPECT_NE(Refuse("70000", "\"all\"").find("c: state_bytes"), std::string::npos);
    EXPECT_NE(Refuse("2000000", "null").find("c: copy_bytes_per_s"), std::string::npos);
    EXPECT_NE(Refuse("}}", "}").size(), 0u);
    EXPECT_EQ(
        Refuse("\"name\"", "\"speed\": 1, \"name\""),
        "c: speed is not a known field; there are version, name, replicas, stages, microbatches, stage_ms, "
        "message_bytes, gradient_bytes, bytes_per_s, latency_ms, nodes, costs_ms, state_bytes, "
        "copy_bytes_per_s or machines");
}

TEST(MitigateFiles, BadEventsAreRefusedWithOneLine)
{
    EXPECT_NE(RefuseEvent("\"node\": 3", "\"node\": 4").find("e: nodes[0].node is 4"), std::string::npos);
    EXPECT_EQ(RefuseEvent("1.5", "0.5"),
              "e: nodes[0].compute must be a number from 1 to 1000: 2 takes twice a healthy time");
    EXPECT_EQ(RefuseEvent("1.5", "\"x\""),
              "e: nodes[0].compute must be a number from 1 to 1000: 2 takes twice a healthy time");
    EXPECT_EQ(RefuseEvent("\"b\": 2", "\"b\": 0"),
              "e: a slow link joins node 0 to itself; it must join two nodes");
    EXPECT_EQ(RefuseEvent(", \"compute\": 1.5", ""),
              "e: nodes[0] has neither compute nor network, which state how slow it is");
    EXPECT_EQ(RefuseEvent(", \"factor\": 4, \"delay_ms\": 3", ""),
              "e: links[0] has neither factor nor delay_ms, which state how slow it is");
    for (const char *again : {"{\"a\": 0, \"b\": 2, \"factor\": 4}", "{\"a\": 2, \"b\": 0, \"delay_ms\": 9}"})
        EXPECT_EQ(RefuseEvent("\"delay_ms\": 3}", std::string("\"delay_ms\": 3}, ") + again).substr(12),
                  again[6] == '0' ? "is link 0-2 again; links[0] has it"
                                  : "is link 2-0 again; links[0] has it");
    EXPECT_EQ(RefuseEvent("1.5}", "1.5}, {\"node\": 3, \"network\": 2}"),
              "e: nodes[1] is node 3 again; nodes[0] has it");
    EXPECT_NE(RefuseEvent("12", "-1").find("e: slow_iterations is -1"), std::string::npos);
    EXPECT_NE(RefuseEvent("\"links\"", "\"lines\"").find("lines"), std::string::npos);
}

TEST(MitigateFiles, MutatedFilesAreReadOrRefusedWithOneLine)
{
    const std::string both = std::string(kCluster) + "\n\n" + kEvent;
    EXPECT_EQ(dt_fuzz_mitigate(both.data(), both.size()), nullptr);
    const std::string machines = Replaced(both, "\"nodes\"", "\"machines\": [\"a\", 7, \"a\", 7], \"nodes\"");
    EXPECT_EQ(dt_fuzz_mitigate(machines.data(), machines.size()), nullptr);
    sched_test::Mutate("mitigate", dt_fuzz_mitigate, {both, machines, kEvent, kCluster}, 4000, 1);
}
} // namespace
