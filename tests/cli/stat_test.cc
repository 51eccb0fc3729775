/* SPDX-License-Identifier: Apache-2.0 */
/* `detour stat` on pages that this process wrote. */
#include <gtest/gtest.h>

#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "cli/command.h"
#include "cli/stat.h"
#include "cli/stat_events.h"
#include "obs/page.h"
#include "tests/obs/folder.h"

namespace
{
const uint64_t kMs = 1000000, kStart = 1700000000000 * kMs;

/* A process with a page; what it counts is written by the tests. */
class Process
{
  public:
    Process(const dt_runtime_dir &dir, int pid, const char *name, int job_rank = DT_PAGE_RANK_UNKNOWN)
    {
        dt_page_options options = {&dir, pid, name, kStart, 1000 * kMs, "nodea", job_rank};
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page));
    }
    ~Process()
    {
        dt_page_close(page);
    }

    dt_page_connection *Connect(bool is_send, const char *peer, int from_rank, uint64_t id = 0xabc)
    {
        dt_page_connection content = {};
        content.is_send = is_send;
        content.id = id;
        content.opened_ns = 1000 * kMs;
        content.from_rank = from_rank;
        content.path_count = 2;
        snprintf(content.peer, sizeof content.peer, "%s", peer);
        snprintf(content.path[0].own, sizeof content.path[0].own, "mlx5_0");
        snprintf(content.path[0].peer, sizeof content.path[0].peer, "mlx5_3");
        snprintf(content.path[1].own, sizeof content.path[1].own, "mlx5_1");
        snprintf(content.path[1].peer, sizeof content.path[1].peer, "mlx5_4");
        return dt_page_claim_connection(page, &content);
    }

    static void Judge(dt_page_connection *connection, dt_page_verdict verdict, uint64_t delay_ns = 0,
                      uint64_t factor_permille = 1000, uint32_t cause = 0)
    {
        dt_page_health health = {};
        health.verdict = verdict;
        health.cause = cause;
        health.since_ns = 2000 * kMs;
        health.delay_ns = delay_ns;
        health.factor_permille = factor_permille;
        dt_page_set_health(connection, &health);
    }

    void Write(dt_event_kind kind, uint64_t at_ms, const char *text)
    {
        dt_event_record event = dt_event_of(kind, at_ms * kMs);
        dt_event_write(dt_page_events(page), &event, "%s", text);
    }

    dt_page *page = nullptr;
};

class Stat : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
        setenv("TZ", "UTC", 1);
    }
    void TearDown() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    void Run(std::vector<std::string> words, int expected_code = DT_EXIT_OK)
    {
        std::vector<char *> argv;
        words.insert(words.begin(), "detour stat");
        for (std::string &word : words)
            argv.push_back(&word[0]);
        argv.push_back(nullptr);
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        EXPECT_EQ(expected_code, dt_stat_command(static_cast<int>(words.size()), argv.data()));
        fflush(stdout);
        out = testing::internal::GetCapturedStdout();
        err = testing::internal::GetCapturedStderr();
        if (expected_code != DT_EXIT_OK) {
            EXPECT_NE("", err) << "a failure without a word";
        }
    }

    /* The lines of `out` that hold `part`. */
    std::vector<std::string> Lines(const std::string &part)
    {
        std::vector<std::string> found;
        size_t begin = 0;
        for (size_t end; (end = out.find('\n', begin)) != std::string::npos; begin = end + 1) {
            std::string line = out.substr(begin, end - begin);
            if (line.find(part) != std::string::npos)
                found.push_back(line);
        }
        return found;
    }

    /* A name as the processes of these tests give it. */
    static std::string Here(int pid)
    {
        return "nodea:" + std::to_string(pid);
    }

    Folder folder;
    std::string out, err;
    double forward_ms = -1, backward_ms = -1;
};

TEST_F(Stat, TheTableHasALineForEachConnection)
{
    Process one(folder.dir, 11, "trainer");
    dt_page_connection *send = one.Connect(true, "there:12", 4);
    one.Connect(false, "there:12", 5);
    dt_page_add(&send->message_count, 1000);
    dt_page_add(&send->payload_bytes, 3 << 20);
    dt_page_add(&send->service_ns, 1000 * 2500);
    dt_page_add(&send->service_count[dt_page_service_bucket(2500)], 1000);
    dt_page_add(&send->rewound_count, 7);
    dt_page_add(&send->path_down_count, 2);
    send->path_now = 1;
    Process::Judge(send, DT_PAGE_VERDICT_HEALTHY);
    Run({});
    ASSERT_EQ(1u, Lines("PID").size());
    std::vector<std::string> sends = Lines(" send "), receives = Lines(" recv ");
    ASSERT_EQ(1u, sends.size()) << out;
    ASSERT_EQ(1u, receives.size()) << out;
    for (const char *part : {"11 ", "trainer", "   4    5 there:12", "mlx5_1-mlx5_4", " 1000   3.00M",
                             "2.50us", "4.10us", "       7        2", "healthy"})
        EXPECT_NE(std::string::npos, sends[0].find(part)) << part << "\n" << sends[0];
    EXPECT_NE(std::string::npos, receives[0].find("   5    4 there:12")) << receives[0];

    Process::Judge(send, DT_PAGE_VERDICT_SLOW, 30 * kMs, 12300, DETOUR_STAT_CAUSE_LINK);
    send->path_now = UINT32_MAX;
    Run({"--pid", "11"});
    sends = Lines(" send ");
    ASSERT_EQ(1u, sends.size());
    EXPECT_NE(std::string::npos, sends[0].find("none-none")) << sends[0];
    EXPECT_NE(std::string::npos, sends[0].find("slow 12.30x (+30.0ms) for ")) << sends[0];
    EXPECT_NE(std::string::npos, sends[0].find(": the link between the two NICs")) << sends[0];
    Process two(folder.dir, 12, "idle");
    Run({});
    EXPECT_EQ(1u, Lines("12       idle         no connection").size()) << out;
}

/* Ranks 0 and 1 send to each other, 1 sends to 2, which sends nothing. */
TEST_F(Stat, LinksAreTheWorstOfEachPairOfRanks)
{
    Process a(folder.dir, 21, "a"), b(folder.dir, 22, "b"), c(folder.dir, 23, "c");
    dt_page_connection *to_b = a.Connect(true, Here(22).c_str(), 0, 1);
    dt_page_connection *to_b_too = a.Connect(true, Here(22).c_str(), 0, 2);
    a.Connect(false, Here(22).c_str(), 1, 3);
    dt_page_connection *to_a = b.Connect(true, Here(21).c_str(), 1, 3);
    dt_page_connection *to_c = b.Connect(true, Here(23).c_str(), 1, 4);
    dt_page_connection *early = b.Connect(true, Here(21).c_str(), 1, 5);
    (void)early;
    Process::Judge(to_b, DT_PAGE_VERDICT_HEALTHY);
    Process::Judge(to_b_too, DT_PAGE_VERDICT_SLOW, 30 * kMs, 4500, DETOUR_STAT_CAUSE_OWN_NIC);
    Process::Judge(to_a, DT_PAGE_VERDICT_WAITING, 9 * kMs, 2000, DETOUR_STAT_CAUSE_PEER_NOT_READY);
    Process::Judge(to_c, DT_PAGE_VERDICT_SLOW, 1, 1200);
    Run({"--json"});
    json_t *document = json_loads(out.c_str(), 0, nullptr);
    ASSERT_NE(nullptr, document) << out;
    json_t *links = json_object_get(document, "links");
    ASSERT_EQ(2u, json_array_size(links)) << "the rank of c is not known\n" << out;
    const char *verdict, *cause;
    int from, to;
    double delay_ms, factor;
    ASSERT_EQ(0, json_unpack(json_array_get(links, 0), "{s:i,s:i,s:F,s:F,s:s,s:s}", "from", &from, "to", &to,
                             "delay_ms", &delay_ms, "factor", &factor, "verdict", &verdict, "cause", &cause));
    EXPECT_EQ(0, from);
    EXPECT_EQ(1, to);
    EXPECT_DOUBLE_EQ(30, delay_ms);
    EXPECT_DOUBLE_EQ(4.5, factor);
    EXPECT_STREQ("slow", verdict);
    EXPECT_STREQ("this host's NIC", cause);
    ASSERT_EQ(0, json_unpack(json_array_get(links, 1), "{s:i,s:i,s:F,s:s}", "from", &from, "to", &to,
                             "delay_ms", &delay_ms, "verdict", &verdict));
    EXPECT_EQ(1, from);
    EXPECT_EQ(0, to);
    EXPECT_DOUBLE_EQ(0, delay_ms);
    EXPECT_STREQ("healthy", verdict) << "waiting for the peer is not network time";
    json_t *processes = json_object_get(document, "processes");
    ASSERT_EQ(3u, json_array_size(processes));
    EXPECT_EQ(3u, json_array_size(json_object_get(json_array_get(processes, 0), "connections")));
    EXPECT_EQ(1, json_integer_value(json_object_get(json_array_get(processes, 1), "rank")));
    EXPECT_TRUE(json_is_null(json_object_get(json_array_get(processes, 2), "rank")));
    json_decref(document);
}

/* The pipe of docs/sched-cli.md, with the program that was built. */
TEST_F(Stat, ItsJsonIsInputOfSchedAdapt)
{
    std::string detour = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../bin/detour";
    Process a(folder.dir, 31, "a"), b(folder.dir, 32, "b");
    dt_page_connection *forward = a.Connect(true, Here(32).c_str(), 0, 1);
    dt_page_connection *backward = b.Connect(true, Here(31).c_str(), 1, 2);
    Process::Judge(forward, DT_PAGE_VERDICT_HEALTHY);
    Process::Judge(backward, DT_PAGE_VERDICT_HEALTHY);
    std::string stage = "{\"f_ms\": 10, \"b_ms\": 10, \"w_ms\": 10}",
                way = "{\"forward_ms\": 0, \"backward_ms\": 0}";
    std::ofstream(folder.path + "/P.json")
        << "{\"version\": 1, \"microbatches\": 12, \"stages\": [" << stage << "," << stage << "," << stage
        << "," << stage << "], \"links\": [" << way << "," << way << "," << way << "]}";
    std::string in = "cd " + folder.path + " && ";
    ASSERT_EQ(0, system((in + detour + " sched plan --profile P.json --algo adaptra --out S.json").c_str()));
    std::string pipe =
        in + detour + " stat --json | " + detour +
        " sched adapt --profile P.json --schedule S.json --delays - --ranks 0,1,2,3 >out.json 2>err";
    auto adapted = [&](const char *member) {
        EXPECT_EQ(0, system(pipe.c_str())) << pipe;
        json_t *plan = json_load_file((folder.path + "/out.json").c_str(), 0, nullptr);
        json_t *value = json_object_get(json_object_get(plan, "adapt"), member);
        std::string text = json_is_string(value) ? json_string_value(value) : "";
        json_t *link = json_array_get(json_object_get(plan, "links"), 0);
        forward_ms = json_number_value(json_object_get(link, "forward_ms"));
        backward_ms = json_number_value(json_object_get(link, "backward_ms"));
        json_decref(plan);
        return text;
    };
    EXPECT_EQ("unchanged", adapted("verdict"));
    Process::Judge(forward, DT_PAGE_VERDICT_SLOW, 20 * kMs, 9000, DETOUR_STAT_CAUSE_LINK);
    Process::Judge(backward, DT_PAGE_VERDICT_SLOW, 19 * kMs, 9000, DETOUR_STAT_CAUSE_LINK);
    EXPECT_EQ("change", adapted("decision"));
    EXPECT_DOUBLE_EQ(20, forward_ms);
    EXPECT_DOUBLE_EQ(19, backward_ms);
}

TEST_F(Stat, EventsHaveTheirMomentAndComeInItsOrder)
{
    Process one(folder.dir, 11, "trainer", 3), two(folder.dir, 12, "other");
    one.Write(DT_EVENT_KIND_PATH, 3250, "path 0 is down");
    two.Write(DT_EVENT_KIND_DEVICE, 3249, "soft1: port error");
    Run({"--events"});
    std::string line = "2023-11-14 22:13:22.250  11       trainer             3 path       path 0 is down";
    ASSERT_EQ(1u, Lines(line).size()) << out;
    ASSERT_EQ(1u, Lines("12       other               - device     soft1: port error").size()) << out;
    EXPECT_LT(out.find("soft1"), out.find(line)) << "the oldest first";
}

/* Members that are not known are absent. */
TEST_F(Stat, AnEventIsOneJsonObject)
{
    Process one(folder.dir, 11, "trainer", 3), two(folder.dir, 12, "trainer", 4);
    one.Connect(true, Here(12).c_str(), 0, 0xabc);
    one.Write(DT_EVENT_KIND_CONTROL, 3000, "nic soft0 down");
    dt_event_record event = dt_event_of(DT_EVENT_KIND_VERDICT, 3250 * kMs);
    event.connection = 0xabc;
    event.is_send = 1;
    event.path = 1;
    event.verdict = DT_PAGE_VERDICT_SLOW;
    event.cause = DETOUR_STAT_CAUSE_LINK;
    event.since_ns = 3000 * kMs;
    event.factor_permille = 8000;
    event.delay_ns = 2500000;
    strcpy(event.nic, "mlx5_1");
    strcpy(event.peer_nic, "mlx5_4");
    strcpy(event.peer, Here(12).c_str());
    dt_event_write(dt_page_events(one.page), &event, "to %s: slow", event.peer);
    strcpy(event.peer, "\xff:1"); // a peer's text is not trusted
    strcpy(event.next_nic, "mlx5_2");
    event.connection = 0xdef;
    dt_event_write(dt_page_events(one.page), &event, "\xff");
    Run({"--events", "--json", "--pid", "11"});
    std::vector<std::string> lines = Lines("{");
    ASSERT_EQ(3u, lines.size()) << out;
    EXPECT_EQ("{\"time_s\":1700000002.0,\"kind\":\"control\",\"pid\":11,\"number\":0,\"process\":\"trainer\","
              "\"host\":\"nodea\",\"rank\":3,\"text\":\"nic soft0 down\"}",
              lines[0]);
    EXPECT_EQ(
        "{\"time_s\":1700000002.25,\"kind\":\"verdict\",\"pid\":11,\"number\":1,\"process\":\"trainer\","
        "\"host\":\"nodea\",\"rank\":3,\"nic\":\"mlx5_1\",\"connection\":\"0000000000000abc\",\"direction\":"
        "\"send\",\"from\":0,\"peer\":\"nodea:12\",\"peer_nic\":\"mlx5_4\",\"path\":1,\"verdict\":\"slow\","
        "\"cause\":\"the link between the two "
        "NICs\",\"factor\":8.0,\"since_s\":1700000002.0,\"delay_ms\":2.5,"
        "\"text\":\"to nodea:12: slow\"}",
        lines[1])
        << "the peer's page was not read, so its rank is not known";
    json_t *last = json_loads(lines[2].c_str(), 0, nullptr);
    EXPECT_EQ(nullptr, json_object_get(last, "peer"));
    EXPECT_STREQ("mlx5_2", json_string_value(json_object_get(last, "next_nic")));
    EXPECT_STREQ("slow", json_string_value(json_object_get(last, "verdict")));
    json_decref(last);
    Run({"--events", "--json"});
    EXPECT_EQ(1u, Lines("\"rank\":3,\"peer_rank\":4,").size()) << out;
}

TEST_F(Stat, ARemedyHasItsStep)
{
    Process one(folder.dir, 11, "trainer", 3);
    dt_event_record event = dt_event_of(DT_EVENT_KIND_REMEDY, 3000 * kMs);
    event.value = 4;
    dt_event_write(dt_page_events(one.page), &event, "S4: 1 slow ranks");
    Run({"--events", "--json"});
    EXPECT_EQ(1u, Lines("\"kind\":\"remedy\"").size()) << out;
    EXPECT_EQ(1u, Lines("\"step\":\"S4\",\"text\":\"S4: 1 slow ranks\"}").size()) << out;
    Run({"--events"});
    EXPECT_EQ(1u, Lines("   3 remedy     S4: 1 slow ranks").size()) << out;
}

TEST_F(Stat, FollowPrintsEachEventOnceAndGapsAreSaid)
{
    Process one(folder.dir, 11, "trainer");
    dt_stat_seen seen = {};
    detour_stat_snapshot *snapshot;
    auto follow = [&] {
        ASSERT_EQ(DETOUR_STAT_OK, detour_stat_read(folder.path.c_str(), 0, &snapshot, nullptr));
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        EXPECT_TRUE(dt_stat_print_events(snapshot, false, &seen));
        fflush(stdout);
        out = testing::internal::GetCapturedStdout();
        err = testing::internal::GetCapturedStderr();
        detour_stat_free(snapshot);
    };
    one.Write(DT_EVENT_KIND_PATH, 3000, "first");
    follow();
    EXPECT_EQ(1u, Lines("first").size());
    follow();
    EXPECT_EQ("", out);
    {
        Process two(folder.dir, 12, "other");
        two.Write(DT_EVENT_KIND_PATH, 3000, "of the other");
        one.Write(DT_EVENT_KIND_PATH, 2999, "second");
        follow();
        EXPECT_EQ(0u, Lines("first").size());
        EXPECT_EQ(1u, Lines("of the other").size());
        EXPECT_LT(out.find("second"), out.find("of the other"));
        EXPECT_EQ("", err);
    }
    for (uint64_t i = 0; i < DT_EVENT_SLOTS + 7; i++)
        one.Write(DT_EVENT_KIND_PATH, 4000, "many");
    follow();
    EXPECT_EQ(DT_EVENT_SLOTS, Lines("many").size());
    EXPECT_EQ("detour stat: process 11: 7 events were overwritten before they were read\n", err);
    dt_stat_seen_free(&seen);
    Run({"--events", "--follow", "--for", "0"});
    EXPECT_EQ(DT_EVENT_SLOTS, Lines("many").size());
}

TEST_F(Stat, WatchShowsBytesPerSecond)
{
    Process one(folder.dir, 11, "trainer");
    one.Connect(true, "there:12", 4);
    Run({"--watch", "--for", "1"});
    EXPECT_EQ(2u, Lines("PID").size()) << out;
    EXPECT_EQ(1u, Lines("BYTES/s").size()) << "the first has nothing to compare with";
}

/* Its page is locked for as long as it lives. */
TEST_F(Stat, ACrashedProcessIsCleanedUp)
{
    int ready[2];
    ASSERT_EQ(0, pipe(ready));
    pid_t child = fork();
    if (child == 0) {
        Process gone(folder.dir, 77, "gone");
        (void)!write(ready[1], "x", 1);
        pause();
        _exit(0);
    }
    char byte;
    ASSERT_EQ(1, read(ready[0], &byte, 1));
    Run({});
    EXPECT_EQ(1u, Lines("gone").size());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(folder.Has("77.page"));
    Run({}, DT_EXIT_FAILED);
    EXPECT_EQ("detour stat: no process of yours uses Detour now (looked in " + folder.path + ")\n", err);
    EXPECT_FALSE(folder.Has("77.page"));
    Run({"--pid", "77"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour stat: process 77 does not use Detour, or has ended (looked in " + folder.path + ")\n",
              err);
    close(ready[0]);
    close(ready[1]);
}

TEST_F(Stat, APageOfAnotherVersionIsNamedAndDisturbsNoOther)
{
    Process one(folder.dir, 11, "well");
    Process other(folder.dir, 12, "newer");
    const_cast<dt_page_header *>(dt_page_get_header(other.page))->version = 99;
    Run({"--pid", "12"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour stat: the page of process 12 in " + folder.path +
                  " is of another version of Detour than this program\n",
              err);
    Run({});
    EXPECT_EQ(1u, Lines("well").size());
    EXPECT_EQ(0u, Lines("newer").size());
}

TEST_F(Stat, BadInputIsOneLine)
{
    const struct {
        std::vector<std::string> words;
        const char *text;
    } rows[] = {
        {{"list"}, "unexpected argument 'list'"},
        {{"--pid", "x"}, "--pid x: expected the number of a process"},
        {{"--json", "--prometheus"}, "one of --json, --metrics and --trace"},
        {{"--trace=x", "--metrics"}, "one of --json, --metrics and --trace"},
        {{"--events", "--metrics"}, "combine --events with --json or use it alone"},
        {{"--watch", "--metrics"}, "--watch repeats the table or --metrics=FILE"},
        {{"--job=a"}, "--job needs --redis URL or --host NAME=DIR"},
        {{"--redis=redis://h"}, "--redis needs --job NAME"},
        {{"--job=a", "--host=b=/x", "--redis=redis://h"}, "one of --redis and --host"},
        {{"--job=a", "--host=b=/x", "--watch"}, "goes with --json or alone"},
        {{"--job=a", "--host=b"}, "--host b: expected NAME=DIRECTORY"},
        {{"--listen=9464"}, "--listen belongs to --metrics without a file"},
        {{"--metrics=x", "--listen=9464"}, "--listen belongs to --metrics without a file"},
        {{"--metrics", "--listen=here"}, "--listen here: expected [ADDRESS:]PORT"},
        {{"--follow"}, "--follow belongs to --events"},
        {{"--for", "1"}, "--for belongs to --watch, --follow or --trace"},
        {{"--watch", "--json"}, "--watch repeats the table"},
        {{"--watch=0"}, "--watch"},
        {{"--for", "3"}, "--for belongs to --watch"},
        {{"--bogus"}, "--bogus"},
    };

    for (const auto &row : rows) {
        Run(row.words, DT_EXIT_USAGE);
        EXPECT_NE(std::string::npos, err.find(row.text)) << err;
        EXPECT_EQ(1, std::count(err.begin(), err.end(), '\n')) << err;
        EXPECT_EQ("", out);
    }
    chmod(folder.path.c_str(), 0755);
    Run({}, DT_EXIT_FAILED);
    EXPECT_NE(std::string::npos, err.find("its mode should be 0700")) << err;
    chmod(folder.path.c_str(), 0700);
}
} // namespace
