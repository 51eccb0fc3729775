/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between arbitrary pairs of ranks, over Detour's plugin and software RNICs. */
#include "job/net.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/job/job_test.h"

namespace
{
using detour_test::Job;

/* One direction of a program's communication, as both ranks list it. */
struct Edge {
    unsigned from, to, channel;
    size_t bytes;
};

const std::vector<Edge> kProgram = {
    {0, 3, 0, 1 << 20}, {3, 0, 0, 64},   {0, 3, 1, 4096}, // two channels of one pair, and back
    {1, 2, 7, 100000},  {2, 1, 7, 1},                     // a number of the command's choice
    {3, 1, 5, 3 << 16}, {3, 1, 4, 8192},
};

unsigned char ByteOf(const Edge &edge, size_t at)
{
    return static_cast<unsigned char>(edge.from * 64 + edge.to * 16 + edge.channel * 5 + at * 7 + at / 256);
}

struct dt_job_connection ConnectionOf(const Edge &edge, unsigned rank)
{
    struct dt_job_connection connection = {};
    connection.sends = edge.from == rank;
    connection.peer = connection.sends ? edge.to : edge.from;
    connection.channel = edge.channel;
    connection.dev = static_cast<int>(edge.channel % 2);
    connection.buffer_bytes = edge.bytes;
    return connection;
}

/* A rank's part of a program: its connections and the edge that each belongs to. */
struct Part {
    std::vector<Edge> edges;
    std::vector<struct dt_job_connection> connections;
    std::vector<void *> requests;

    Part(const std::vector<Edge> &program, unsigned rank)
    {
        for (const Edge &edge : program) {
            if (edge.from != rank && edge.to != rank)
                continue;
            edges.push_back(edge);
            connections.push_back(ConnectionOf(edge, rank));
        }
        requests.resize(edges.size());
    }
};

struct Work {
    struct dt_job_rank *rank;
    Part *part;
};

bool Post(struct dt_job_rank *rank, Part *part, size_t i)
{
    const struct dt_job_plugin *plugin = &rank->net.plugin;
    const struct dt_job_connection &connection = part->connections[i];
    if (!connection.sends)
        return dt_job_irecv(plugin, connection.comm, connection.buffer, connection.buffer_bytes,
                            static_cast<int>(connection.peer), connection.mhandle, &part->requests[i],
                            &rank->work_error);
    for (size_t at = 0; at < connection.buffer_bytes; at++)
        connection.buffer[at] = static_cast<char>(ByteOf(part->edges[i], at));
    return dt_job_isend(plugin, connection.comm, connection.buffer, connection.buffer_bytes,
                        connection.mhandle, &part->requests[i], &rank->work_error);
}

/* True when the connection's one message is through. */
bool IsThrough(struct dt_job_rank *rank, Part *part, size_t i, bool *through)
{
    bool done = false;
    size_t bytes = 0;
    *through = false;
    if (!part->requests[i])
        return Post(rank, part, i);
    if (!dt_job_test(&rank->net.plugin, part->requests[i], &done, &bytes, &rank->work_error))
        return false;
    if (done && !part->connections[i].sends && bytes != part->edges[i].bytes)
        return dt_job_fail(&rank->work_error, DT_EXIT_FAILED, "received %zu bytes", bytes);
    *through = done;
    return true;
}

/* Sends and receives one message per connection, each of its own size. */
void SendAndReceive(void *arg)
{
    Work *work = static_cast<Work *>(arg);
    std::vector<bool> through(work->part->edges.size());
    for (size_t done = 0; done < through.size();) {
        for (size_t i = 0; i < through.size(); i++) {
            bool now = false;
            if (!through[i] && !IsThrough(work->rank, work->part, i, &now))
                return;
            through[i] = through[i] || now;
            done += now;
            __atomic_fetch_add(&work->rank->net.heartbeat, now, __ATOMIC_RELAXED);
        }
    }
}

bool CheckReceived(const Part &part, struct dt_job_error *error)
{
    for (size_t i = 0; i < part.edges.size(); i++) {
        const struct dt_job_connection &connection = part.connections[i];
        for (size_t at = 0; at < connection.buffer_bytes; at++) {
            if (static_cast<unsigned char>(connection.buffer[at]) != ByteOf(part.edges[i], at))
                return dt_job_fail(error, DT_EXIT_FAILED, "from %u to %u, channel %u: wrong byte %zu",
                                   part.edges[i].from, part.edges[i].to, part.edges[i].channel, at);
        }
    }
    return true;
}

bool RunPart(const Job &job, Part part, struct dt_job_link *link, struct dt_job_error *error)
{
    struct dt_job_rank rank = {};
    Work work = {&rank, &part};
    rank.options = &job.options;
    rank.link = link;
    rank.error = error;
    return dt_job_rank_load(&rank) &&
           dt_job_rank_connect(&rank, part.connections.data(), part.edges.size()) &&
           dt_job_rank_do_work(&rank, SendAndReceive, &work) && CheckReceived(part, error) &&
           dt_job_exchange(link, nullptr, 0, nullptr, error) && dt_job_rank_close(&rank);
}

TEST(JobNet, ArbitraryPairsExchangeMessagesOfDifferentSizes)
{
    Job job(4);
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        return RunPart(job, Part(kProgram, link->rank), link, error);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
}

TEST(JobNet, ARankWithoutConnectionsTakesPart)
{
    Job job(3);
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        return RunPart(job, Part({{0, 2, 0, 512}}, link->rank), link, error);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
}

/* More handles than one round of their exchange holds. */
TEST(JobNet, ManyConnectionsOfOnePairAreOpened)
{
    std::vector<Edge> program;
    for (unsigned channel = 0; channel < 70; channel++)
        program.push_back({channel % 2, 1 - channel % 2, channel / 2, 64 + channel});
    for (unsigned channel = 100; channel < 140; channel++)
        program.push_back({0, 1, channel, 64});
    Job job(2);
    job.run_rank = [&](struct dt_job_link *link, struct dt_job_error *error) {
        return RunPart(job, Part(program, link->rank), link, error);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
}

TEST(JobNet, AConnectionWithoutCounterpartIsNamed)
{
    Job job(2);
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        Part part({{0, 1, 3, 512}}, link->rank);
        if (link->rank == 1) {
            part.edges.clear();
            part.connections.clear();
        }
        return RunPart(job, part, link, error);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 0 sends over channel 3 to rank 1, which does not listen for it");
}

TEST(JobNet, AListenerWithoutCounterpartIsNamed)
{
    Job job(2);
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        Part part({{0, 1, 3, 512}}, link->rank);
        if (link->rank == 0)
            part.connections[0].channel = 4;
        return RunPart(job, part, link, error);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 0 does not send over channel 3 to rank 1, which listens for it");
}
} // namespace
