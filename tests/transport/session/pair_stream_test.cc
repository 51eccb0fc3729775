/* SPDX-License-Identifier: Apache-2.0 */
/* Streams on a carrier: bytes, windows, ends, and records that a peer must not send. */
#include <cstdlib>

#include "tests/harness/harness.h"
#include "tests/transport/session/two_processes.h"
#include "transport/session/pair_state.h"

namespace
{
using detour_test::TwoProcesses;

class Stream : public TwoProcesses
{
  protected:
    void SetUp() override
    {
        far_port = &port; // the listener would read what the tests want to read
        near_end = Open("first");
    }
    void TearDown() override
    {
        Close(&near_end);
        Close(&far_end);
    }
    static void Close(dt_stream **stream)
    {
        if (*stream)
            (*stream)->ops->close(*stream);
        *stream = nullptr;
    }
    void StepWithoutListener()
    {
        now_ns += 10000;
        dt_sim_network_set_now(network, now_ns);
        for (auto &p : process)
            dt_pairs_progress(p->pairs);
    }
    /* Process 0 opens a stream with these bytes; process 1 accepts it as far_end. */
    dt_stream *Open(const std::string &text)
    {
        dt_stream *stream = process[0]->Dial(process[1]->address);
        StepUntil([&] { return stream->ops->state(stream) == DT_OK; });
        EXPECT_EQ(text.size(), Send(stream, text));
        for (int i = 0; i < 1000 && !far_end; i++) {
            StepWithoutListener();
            far_end = TakeOpened(*process[1]);
        }
        EXPECT_NE(nullptr, far_end);
        EXPECT_EQ(text, Read(far_end, text.size()));
        return stream;
    }
    static dt_stream *TakeOpened(detour_test::Process &p)
    {
        dt_list *node = dt_list_pop_front(&p.pairs->opened);
        if (!node)
            return nullptr;
        p.pairs->opened_count--;
        return &dt_container_of(node, dt_pair_stream, opened)->stream;
    }
    /* Bytes that fitted. */
    static size_t Send(dt_stream *stream, const std::string &text)
    {
        size_t all = 0, sent;
        while (all < text.size() &&
               stream->ops->send(stream, text.data() + all, text.size() - all, &sent) == DT_OK)
            all += sent;
        return all;
    }
    std::string Read(dt_stream *stream, size_t bytes)
    {
        std::string all;
        for (int i = 0; i < 10000 && all.size() < bytes; i++) {
            char part[1000];
            size_t received = 0;
            if (stream->ops->receive(stream, part, std::min(sizeof part, bytes - all.size()), &received) ==
                DT_OK)
                all.append(part, received);
            else
                StepWithoutListener();
        }
        return all;
    }
    static dt_status Receive(dt_stream *stream)
    {
        char c;
        size_t received;
        return stream->ops->receive(stream, &c, 1, &received);
    }
    /* The peer of process 1, which is process 0, sends a record that the test makes up. */
    void Inject(const dt_record &record)
    {
        dt_pair *pair = dt_pair_of(process[0]->pairs, 101);
        ASSERT_EQ(DT_OK, dt_record_append(&pair->out, &record));
        for (int i = 0; i < 20; i++)
            StepWithoutListener();
    }
    static uint32_t NumberOf(dt_stream *stream)
    {
        return dt_container_of(stream, dt_pair_stream, stream)->number;
    }

    dt_stream_port *port = nullptr, **far_port = nullptr;
    dt_stream *near_end = nullptr, *far_end = nullptr;
};

TEST_F(Stream, BytesArriveInOrderBothWays)
{
    std::string text;
    for (int i = 0; i < 2000; i++)
        text += std::to_string(i);
    for (dt_stream *from : {near_end, far_end}) {
        dt_stream *to = from == near_end ? far_end : near_end;
        std::string got;
        for (size_t sent = 0; got.size() < text.size();) {
            sent += Send(from, text.substr(sent, 777));
            got += Read(to, std::min<size_t>(sent - got.size(), 500));
        }
        EXPECT_EQ(text, got);
    }
    EXPECT_EQ(DT_AGAIN, Receive(near_end));
    EXPECT_EQ(-1, near_end->ops->fd(near_end));
}

TEST_F(Stream, AReaderThatIsStuckDelaysNoOtherStream)
{
    detour_test::WakeCounter poller;
    dt_stream *stuck_near = near_end, *stuck_far = far_end;
    near_end = far_end = nullptr;
    stuck_near->ops->set_poller(stuck_near, &poller.poller);
    EXPECT_EQ(DT_PAIR_WINDOW_BYTES - 5, Send(stuck_near, std::string(100000, 's'))) << "its window";
    near_end = Open("second");
    for (int i = 0; i < 100; i++) {
        ASSERT_EQ(1000u, Send(near_end, std::string(1000, 'x')));
        ASSERT_EQ(std::string(1000, 'x'), Read(far_end, 1000));
    }
    EXPECT_EQ(0u, Send(stuck_near, "more"));
    EXPECT_EQ(0, poller.wakes);
    EXPECT_EQ(std::string(DT_PAIR_WINDOW_BYTES - 5, 's'), Read(stuck_far, DT_PAIR_WINDOW_BYTES - 5));
    for (int i = 0; i < 20; i++)
        StepWithoutListener();
    EXPECT_EQ(1, poller.wakes) << "there is room again";
    EXPECT_EQ(4u, Send(stuck_near, "more"));
    EXPECT_EQ("more", Read(stuck_far, 4));
    stuck_near->ops->close(stuck_near);
    stuck_far->ops->close(stuck_far);
}

TEST_F(Stream, AnEndComesAfterTheLastByteAndOnlyToItsStream)
{
    EXPECT_EQ(4u, Send(near_end, "last"));
    Close(&near_end);
    EXPECT_EQ("last", Read(far_end, 4));
    for (int i = 0; i < 20; i++)
        StepWithoutListener();
    EXPECT_EQ(DT_CLOSED, Receive(far_end));
    EXPECT_EQ(DT_CLOSED, Receive(far_end)) << "for ever";
    EXPECT_EQ(5u, Send(far_end, "taken")) << "as TCP does";
    EXPECT_EQ(1u, process[1]->Stats().carriers);
}

TEST_F(Stream, NewsWakeThePoller)
{
    detour_test::WakeCounter poller;
    far_end->ops->set_poller(far_end, &poller.poller);
    EXPECT_EQ(1u, Send(near_end, "x"));
    for (int i = 0; i < 20; i++)
        StepWithoutListener();
    EXPECT_EQ(1, poller.wakes);
    far_end->ops->set_poller(far_end, nullptr);
    EXPECT_EQ(1u, Send(near_end, "y"));
    EXPECT_EQ("xy", Read(far_end, 2));
    EXPECT_EQ(1, poller.wakes);
}

TEST_F(Stream, KnowsTheProcessOfThePeer)
{
    dt_address peer = {};
    far_end->ops->peer(far_end, &peer);
    EXPECT_EQ(100u, peer.process);
    near_end->ops->peer(near_end, &peer);
    EXPECT_EQ(101u, peer.process);
    EXPECT_EQ(process[1]->address.port, peer.port);
}

TEST_F(Stream, BytesThatCameBeforeALossCount)
{
    EXPECT_EQ(5u, Send(near_end, "whole"));
    for (int i = 0; i < 20; i++)
        StepWithoutListener();
    ASSERT_TRUE(dt_sim_network_break(network, 0, DT_STREAM_RESET));
    StepWithoutListener();
    EXPECT_EQ("whole", Read(far_end, 5));
    EXPECT_EQ(DT_PEER_ERROR, Receive(far_end));
    EXPECT_EQ(DT_PEER_ERROR, Receive(near_end));
    EXPECT_EQ(DT_OK, near_end->ops->state(near_end)) << "it was established: this is no refusal";
    EXPECT_EQ(0u, Send(near_end, "x"));
    EXPECT_FALSE(dt_pairs_use_carrier(
        near_end, [](int, void *) { ADD_FAILURE(); }, nullptr));
}

/* Each of them is no record of ours: the carrier is lost, and nothing else happens. */
TEST_F(Stream, APeerThatBreaksTheRulesLosesTheCarrier)
{
    const std::string payload(DT_PAIR_WINDOW_BYTES, 'p');
    const auto *bytes = reinterpret_cast<const uint8_t *>(payload.data());
    const dt_record wrong[] = {
        {NumberOf(far_end), DT_RECORD_OPEN, 1, bytes},                    /* it exists */
        {NumberOf(far_end) + 1, DT_RECORD_OPEN, 1, bytes},                /* a number of process 1's */
        {NumberOf(far_end), DT_RECORD_DATA, DT_PAIR_WINDOW_BYTES, bytes}, /* beyond the window */
        {NumberOf(far_end), DT_RECORD_CREDIT, 1, nullptr},                /* for bytes that were not sent */
        {NumberOf(far_end), 99, 0, nullptr},
    };
    for (const dt_record &record : wrong) {
        SCOPED_TRACE(&record - wrong);
        uint64_t lost = process[1]->Stats().lost;
        EXPECT_EQ(1u, Send(near_end, "x")); /* so that the window is not empty */
        dt_record at = record;
        at.stream += NumberOf(far_end) - NumberOf(far_end);
        Inject(at);
        EXPECT_EQ(lost + 1, process[1]->Stats().lost);
        EXPECT_EQ("x", Read(far_end, 1));
        EXPECT_EQ(DT_PEER_ERROR, Receive(far_end));
        Close(&near_end);
        Close(&far_end);
        near_end = Open("again");
        const_cast<dt_record *>(wrong)[&record - wrong + 1 < 5 ? &record - wrong + 1 : 0].stream =
            NumberOf(far_end) + (&record == &wrong[0]);
    }
}

TEST_F(Stream, RecordsOfAStreamThatIsClosedAreIgnored)
{
    const uint8_t byte = 'x';
    uint32_t number = NumberOf(far_end);
    Close(&far_end);
    Inject({number, DT_RECORD_DATA, 1, &byte});
    Inject({number, DT_RECORD_CREDIT, 1, nullptr});
    Inject({number, DT_RECORD_END, 0, nullptr});
    EXPECT_EQ(0u, process[1]->Stats().lost);
}
} // namespace
