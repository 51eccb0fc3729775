/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of receive buffers that both engines share. The engines themselves run in
 * tests/process/perf_test.cc. */
#include "cli/perf/engine.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cli/perf/pattern.h"

namespace
{
class PerfEngine : public ::testing::Test
{
  protected:
    PerfEngine()
    {
        net.rank = 1;
        ring.net = &net;
        ring.distances = 2;
        connection.channel = 5; // channel 2 of the ring
        connection.peer = 3;
        engine.ring = &ring;
        engine.tally = &tally;
        engine.bytes_received = &received;
        dt_perf_poison(buffer, sizeof buffer);
    }

    dt_job_net net = {};
    dt_perf_ring ring = {};
    dt_job_connection connection = {};
    dt_perf_tally tally = {};
    dt_perf_engine engine = {};
    uint64_t received = 0;
    char buffer[64];
};

TEST_F(PerfEngine, AByteInAnIdleBufferIsWrittenTooLate)
{
    dt_perf_check_idle(&engine, &connection, 9, buffer, sizeof buffer);
    EXPECT_EQ(0u, dt_perf_tally_total(&tally));
    buffer[10] ^= 1;
    buffer[11] ^= 1;
    dt_perf_check_idle(&engine, &connection, 9, buffer, sizeof buffer);
    EXPECT_EQ(2u, tally.count[DT_PERF_WRONG_LATE]);
    EXPECT_STREQ(
        "rank 1, channel 2, from rank 3: 2 bytes written into the idle receive buffer before message 9, "
        "first at offset 10",
        tally.first);
}

TEST_F(PerfEngine, AMessageHasItsSizeAndNoByteBeyondIt)
{
    memset(buffer, 0, 40);
    dt_perf_check_received(&engine, &connection, 9, buffer, 40, 40, sizeof buffer);
    EXPECT_EQ(0u, dt_perf_tally_total(&tally));
    buffer[41] ^= 1;
    dt_perf_check_received(&engine, &connection, 9, buffer, 40, 40, sizeof buffer);
    EXPECT_EQ(1u, tally.count[DT_PERF_WRONG_BEYOND]);
    EXPECT_EQ(0u, tally.count[DT_PERF_WRONG_SIZE]);
    EXPECT_STREQ(
        "rank 1, channel 2, from rank 3: message 9 wrote 1 bytes beyond its end, first at offset 41 of 40",
        tally.first);
    dt_perf_check_received(&engine, &connection, 10, buffer, 39, 42, sizeof buffer);
    EXPECT_EQ(1u, tally.count[DT_PERF_WRONG_SIZE]);
    EXPECT_EQ(1u, tally.count[DT_PERF_WRONG_BEYOND]) << "the byte at 41 belongs to the message of 42 bytes";
}

TEST_F(PerfEngine, ProgressIsCounted)
{
    dt_perf_engine_beat(&engine);
    dt_perf_engine_beat(&engine);
    EXPECT_EQ(2u, net.heartbeat);
    dt_perf_engine_received(&engine, 100);
    dt_perf_engine_received(&engine, 1);
    EXPECT_EQ(101u, received);
}
} // namespace
