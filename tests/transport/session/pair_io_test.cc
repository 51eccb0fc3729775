/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a carrier: how many calls they take, and that pieces of any size make no difference. */
#include "tests/harness/harness.h"
#include "tests/transport/session/two_processes.h"
#include "transport/session/pair_state.h"

namespace
{
using detour_test::TwoProcesses;

class Io : public TwoProcesses
{
};

TEST_F(Io, FramesThatFiveHundredConnectionsAppendAreOneWrite)
{
    Connect(0, 500);
    for (int i = 0; i < 100; i++)
        Step();
    uint64_t writes = process[0]->Stats().writes, records = process[0]->Stats().records;
    process[0]->pairs->is_progressing = true; /* as the thread is while it is in another call */
    for (dt_session *session : process[0]->sessions)
        dt_session_send_close(session, 5, now_ns);
    EXPECT_EQ(500u, process[0]->Stats().records - records);
    EXPECT_EQ(writes, process[0]->Stats().writes);
    process[0]->pairs->is_progressing = false;
    dt_pairs_progress(process[0]->pairs);
    EXPECT_EQ(writes + 1, process[0]->Stats().writes);
    StepUntil([&] {
        for (auto &p : process)
            for (dt_session *session : p->sessions)
                dt_session_discard(session, now_ns);
        bool is_complete = true;
        for (dt_session *session : process[0]->sessions)
            is_complete &= session->is_close_acknowledged;
        return is_complete;
    });
}

TEST_F(Io, PiecesOfAnySizeMakeNoDifference)
{
    for (uint32_t piece : {1u, 3u, 7u, 64u, 4097u}) {
        End();
        Begin({piece, 100, 100, piece});
        Connect(0, 3);
        Connect(1, 3);
        EXPECT_TRUE(AreAllUp());
        EXPECT_EQ(0u, process[0]->Stats().lost);
    }
}

/* Without memory for a record the other end would miss it: the carrier is replaced, and the sessions return.
 */
TEST_F(Io, WithoutMemoryForARecordTheCarrierIsReplaced)
{
    Connect(0, 2);
    dt_pair *pair = dt_pair_of(process[0]->pairs, 101);
    pair->is_broken = true;
    StepUntil([&] {
        for (auto &p : process)
            for (dt_session *session : p->sessions)
                dt_session_discard(session, now_ns);
        return process[0]->Stats().lost == 1 && AreAllUp();
    });
    EXPECT_EQ(1u, process[0]->Stats().carriers);
}
} // namespace
