/* SPDX-License-Identifier: Apache-2.0 */
/* Carriers of two processes: crossing dials, loss, death, and the sessions of a thousand connections on one.
 */
#include "transport/session/pair.h"

#include <cstdlib>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/transport/session/two_processes.h"
#include "transport/session/pair_state.h"

namespace
{
using detour_test::TwoProcesses;

class Pair : public TwoProcesses
{
  protected:
    using TwoProcesses::TwoProcesses;

    uint64_t Dials()
    {
        return process[0]->Stats().dials + process[1]->Stats().dials;
    }
    static void SendNumber(dt_session *session, uint64_t number)
    {
        dt_fact fact = {number, 0, 0};
        ASSERT_NE(nullptr, dt_session_out(session));
        dt_fact_encode(DT_FRAME_QUERY, &fact, dt_session_out(session));
        dt_session_flush(session);
    }
    /* Each session sends its connection's number, and gets the same. */
    void ExchangeNumbers()
    {
        for (auto &p : process)
            for (dt_session *session : p->sessions)
                SendNumber(session, session->endpoint.connection_id);
        for (auto &p : process)
            for (dt_session *session : p->sessions) {
                dt_frame frame;
                dt_fact fact;
                ASSERT_TRUE(StepUntil([&] { return dt_session_receive(session, &frame, now_ns) == DT_OK; }));
                ASSERT_EQ(DT_FRAME_QUERY, frame.type);
                ASSERT_EQ(DT_OK, dt_fact_decode(frame.body, frame.bytes, 1, &fact));
                ASSERT_EQ(session->endpoint.connection_id, fact.sequence);
                ASSERT_EQ(DT_AGAIN, dt_session_receive(session, &frame, now_ns));
            }
    }
    /* The carrier breaks; every session of a living process reads its end, as its device thread would. */
    void ReadEnds()
    {
        for (auto &p : process)
            for (dt_session *session : p ? p->sessions : std::vector<dt_session *>())
                dt_session_discard(session, now_ns);
    }
};

TEST_F(Pair, DialsThatCrossEndInOneCarrier)
{
    dt_stream *a = process[0]->Dial(process[1]->address), *b = process[1]->Dial(process[0]->address);
    EXPECT_EQ(DT_AGAIN, a->ops->state(a));
    EXPECT_EQ(DT_AGAIN, b->ops->state(b));
    StepUntil([&] { return a->ops->state(a) == DT_OK && b->ops->state(b) == DT_OK; });
    for (int i = 0; i < 100; i++)
        Step();
    EXPECT_EQ(2u, Dials()) << "they did cross";
    EXPECT_EQ(1u, process[1]->Stats().parked);
    EXPECT_EQ(1u, process[0]->Stats().accepted) << "process 1 has the larger identity";
    EXPECT_EQ(0u, process[1]->Stats().accepted);
    for (auto &p : process) {
        EXPECT_EQ(1u, p->Stats().carriers);
        EXPECT_EQ(0u, p->Stats().lost);
    }
    a->ops->close(a);
    b->ops->close(b);
}

TEST_F(Pair, AThousandConnectionsHaveOneCarrier)
{
    Connect(0, 500);
    Connect(1, 500);
    EXPECT_EQ(1u, Dials());
    EXPECT_EQ(1000u, process[0]->Stats().streams);
    EXPECT_EQ(1u, process[0]->Stats().carriers);
    ExchangeNumbers();
}

TEST_F(Pair, AThousandConnectionsReturnWithOneDialOfEachProcess)
{
    Connect(0, 500);
    Connect(1, 500);
    for (int fault = 0; fault < DT_STREAM_FAULTS; fault++) {
        uint64_t dials = Dials();
        SCOPED_TRACE(fault);
        ASSERT_TRUE(dt_sim_network_break(network, 0, (dt_stream_fault)fault));
        for (int i = 0; i < 20; i++)
            Step();
        ReadEnds();
        ASSERT_FALSE(AreAllUp());
        StepUntil([&] {
            Step(DT_NS_PER_MS);
            ReadEnds(); // after a stream that ended at one end only, too
            return AreAllUp();
        });
        EXPECT_LE(Dials() - dials, 4u) << "instead of 1000";
        EXPECT_EQ(1u, process[0]->Stats().carriers);
        ExchangeNumbers();
    }
    dt_listener_stats stats;
    dt_listener_query_stats(process[0]->host.listener, &stats);
    EXPECT_GE(stats.rejoined, 500u * DT_STREAM_FAULTS) << "each connection by its own REJOIN";
}

TEST_F(Pair, ADeadProcessIsFoundByTwoDialsForAll)
{
    Connect(0, 500);
    Connect(1, 500);
    uint64_t dials = process[0]->Stats().dials;
    dt_sim_network_kill(network, 1, DT_STREAM_DESTROYED);
    auto dead = std::move(process[1]); // it does nothing any more
    auto are_all_dead = [&] {
        for (dt_session *session : process[0]->sessions)
            if (!session->is_peer_dead)
                return false;
        return true;
    };
    StepUntil([&] {
        ReadEnds();
        return are_all_dead();
    });
    EXPECT_LE(process[0]->Stats().dials - dials, 4u) << "two for the sessions that send, two for the others";
    process[0].reset();
}

/* A firewall that resets looks the same. */
TEST_F(Pair, APeerThatRefusesAndLivesIsDialedAgainOnceASecond)
{
    Connect(0, 10);
    dt_sim_network_kill(network, 1, DT_STREAM_DESTROYED);
    auto silent = std::move(process[1]); // it does nothing any more
    process[0]->is_peer_alive = true;
    for (int i = 0; i < 10000; i++) {
        ReadEnds();
        Step(DT_NS_PER_MS);
    }
    EXPECT_GE(process[0]->Stats().dials, 6u);
    EXPECT_LE(process[0]->Stats().dials, 24u) << "two a second";
    for (dt_session *session : process[0]->sessions)
        EXPECT_FALSE(session->is_peer_dead);
    process[0]->is_peer_alive = false;
    StepUntil([&] {
        ReadEnds();
        return std::all_of(process[0]->sessions.begin(), process[0]->sessions.end(),
                           [](const dt_session *session) { return session->is_peer_dead; });
    });
    process[0].reset();
}

TEST_F(Pair, AnotherProcessAtTheAddressIsARefusal)
{
    dt_address wrong = process[1]->address;
    wrong.process = 4711;
    dt_stream *stream = process[0]->Dial(wrong);
    StepUntil([&] { return stream->ops->state(stream) != DT_AGAIN; });
    EXPECT_EQ(DT_PEER_ERROR, stream->ops->state(stream));
    stream->ops->close(stream);
    Step();
    EXPECT_EQ(0u, process[0]->Stats().pairs) << "forgotten";
}

TEST_F(Pair, AProcessWithoutIdentityAndThisOneAreDialedDirectly)
{
    dt_address plain = process[1]->address;
    plain.process = 0;
    for (const dt_address &to : {plain, process[0]->address}) {
        dt_stream *stream = process[0]->Dial(to);
        EXPECT_EQ(0u, process[0]->Stats().streams) << "no multiplexed one";
        StepUntil([&] { return stream->ops->state(stream) == DT_OK; });
        stream->ops->close(stream);
    }
    EXPECT_EQ(0u, process[0]->Stats().pairs);
}

TEST_F(Pair, AnOfferThatIsNoNewerIsAnsweredStale)
{
    dt_stream *stream = process[0]->Dial(process[1]->address);
    StepUntil([&] { return stream->ops->state(stream) == DT_OK; });
    dt_network *raw = dt_sim_network_of_host(network, 0);
    for (uint32_t round : {1u, 2u}) {
        dt_channel channel = {};
        dt_stream *dialed = nullptr;
        dt_pair_frame frame = {100, 101, round};
        ASSERT_EQ(DT_OK, raw->ops->dial(raw, &process[1]->address, &dialed));
        dt_channel_open(&channel, dialed);
        StepUntil([&] { return dialed->ops->state(dialed) == DT_OK; });
        dt_pair_frame_encode(&frame, &channel.out);
        ASSERT_EQ(DT_OK, dt_channel_flush(&channel));
        dt_frame answer;
        dt_paired paired;
        StepUntil([&] { return dt_channel_receive(&channel, &answer) == DT_OK; });
        ASSERT_EQ(DT_FRAME_PAIRED, answer.type);
        ASSERT_EQ(DT_OK, dt_paired_decode(answer.body, answer.bytes, &paired));
        EXPECT_EQ(round == 2, paired.is_accepted);
        EXPECT_EQ(round == 1 ? 0u : 1u, process[1]->Stats().lost) << "replaced by a newer one only";
        dt_channel_close(&channel);
    }
    stream->ops->close(stream);
}

TEST_F(Pair, SurvivesEveryFailedAllocation)
{
    dt_stream *stream = nullptr;
    dt_network *of_pairs = process[0]->host.network;
    detour_test_fail_alloc(0);
    EXPECT_EQ(nullptr, dt_pairs_create(of_pairs, 1));
    for (int i = 0; i < 2; i++) { // the pair, the stream
        detour_test_fail_alloc(i);
        EXPECT_EQ(DT_NO_MEMORY, of_pairs->ops->dial(of_pairs, &process[1]->address, &stream));
        EXPECT_TRUE(detour_test_alloc_failed());
    }
    Step();
    EXPECT_EQ(0u, process[0]->Stats().streams);
}

/* A few connections both ways, faults at random times, then none: everything is up again, on one carrier. */
class Seeds : public Pair
{
  protected:
    void Fault(dt_prng *prng)
    {
        switch (dt_prng_below(prng, 8)) {
        case 0:
        case 1:
        case 2:
            dt_sim_network_break(network, dt_prng_next(prng),
                                 (dt_stream_fault)dt_prng_below(prng, DT_STREAM_FAULTS));
            break;
        case 3:
            dt_sim_network_hold(network, now_ns + dt_prng_below(prng, 20 * DT_NS_PER_MS));
            break;
        case 4: /* longer than an attempt, which is given up then */
            dt_sim_network_hold(network, now_ns + dt_prng_below(prng, 8 * DT_NS_PER_S));
            break;
        default:
            break;
        }
    }
    void Run(uint64_t seed)
    {
        dt_prng prng;
        dt_prng_init(&prng, seed);
        Begin({seed, 1 + dt_prng_below(&prng, DT_NS_PER_MS), dt_prng_below(&prng, DT_NS_PER_MS),
               (uint32_t)(1 + dt_prng_below(&prng, 3000))});
        Connect(0, 1 + (int)dt_prng_below(&prng, 3));
        Connect(1, 1 + (int)dt_prng_below(&prng, 3));
        for (int i = 0; i < 150; i++) {
            Fault(&prng);
            Step(1 + dt_prng_below(&prng, dt_prng_chance(&prng, 1, 20) ? DT_NS_PER_S : 10 * DT_NS_PER_MS));
            ReadEnds();
            for (auto &p : process)
                ASSERT_LE(p->Stats().carriers, 1u);
        }
        for (int i = 0; i < 4000 && !(AreAllUp() && i > 2000); i++) {
            Step(10 * DT_NS_PER_MS);
            ReadEnds();
        }
        ASSERT_TRUE(AreAllUp());
        for (auto &p : process)
            ASSERT_EQ(1u, p->Stats().carriers);
        ExchangeNumbers();
        End();
    }
};

TEST_F(Seeds, EverythingIsUpAgainOnOneCarrierAfterAnyFaults)
{
    End();
    for (uint64_t seed = 1; seed <= 300 && !HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Run(seed);
    }
}
} // namespace
