/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of failover/path_table.h, cell by cell, and both ends of it together: every run of a sender's and
 * a receiver's machine that the control messages' loss, repetition and delay allow, up to a few epochs.
 */
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "failover/path_machine.h"

namespace
{
/* ------------------------------------------------------------------------------------------------------------
 * Cells
 */
dt_path_machine Machine(dt_path_end end, uint32_t state, uint32_t epoch = 7)
{
    dt_path_machine machine;
    dt_path_machine_init(&machine, end, true);
    machine.state = state;
    machine.epoch = epoch;
    return machine;
}

uint32_t StateCount(dt_path_end end)
{
    return end == DT_PATH_END_SENDER ? (uint32_t)DT_SENDER_STATE_COUNT : (uint32_t)DT_RECEIVER_STATE_COUNT;
}

const dt_path_end kEnds[] = {DT_PATH_END_SENDER, DT_PATH_END_RECEIVER};

template <typename F>
void ForEachCell(F &&call)
{
    for (dt_path_end end : kEnds) {
        for (uint32_t state = 0; state < StateCount(end); state++) {
            for (uint32_t event = 0; event < DT_PATH_EVENT_COUNT; event++) {
                dt_path_machine machine = Machine(end, state);
                SCOPED_TRACE(std::string(end ? "receiver " : "sender ") +
                             dt_path_state_name((dt_path_end)machine.end, machine.state) + " " +
                             dt_path_event_name((dt_path_event)event));
                dt_path_step step = dt_path_machine_event(&machine, (dt_path_event)event, 1000);
                call(end, state, (dt_path_event)event, machine, step);
            }
        }
    }
}

TEST(PathTable, WithoutARowNothingHappens)
{
    ForEachCell([](dt_path_end, uint32_t state, dt_path_event, const dt_path_machine &m, dt_path_step step) {
        if (step.is_known)
            return;
        EXPECT_EQ(state, m.state);
        EXPECT_EQ(7u, m.epoch);
        EXPECT_EQ(0u, step.actions);
        EXPECT_EQ((uint32_t)DT_PATH_MSG_NONE, step.send);
    });
}

TEST(PathTable, AFaultAlwaysStartsAFence)
{
    ForEachCell([](dt_path_end, uint32_t, dt_path_event event, const dt_path_machine &m, dt_path_step step) {
        if (!step.is_known || event != DT_PATH_FAULT)
            return;
        EXPECT_EQ((uint32_t)DT_PATH_DO_FENCE, step.actions);
        EXPECT_FALSE(dt_path_machine_is_up(&m));
    });
}

TEST(PathTable, UpIsOnlyReachedFromStableProbesAndTheNewsOfThem)
{
    ForEachCell([](dt_path_end end, uint32_t state, dt_path_event event, const dt_path_machine &m,
                   dt_path_step step) {
        if (!step.is_known || !dt_path_machine_is_up(&m) || state == DT_PATH_STATE_UP)
            return;
        EXPECT_EQ(end == DT_PATH_END_SENDER ? DT_PATH_STABLE : DT_PATH_RECV_USED, event);
        EXPECT_EQ((uint32_t)DT_PATH_DO_USE, step.actions);
    });
}

TEST(PathTable, TheReceiverSendsResumeOnlyWithAProof)
{
    ForEachCell([](dt_path_end end, uint32_t state, dt_path_event event, const dt_path_machine &m,
                   dt_path_step step) {
        if (!step.is_known || end != DT_PATH_END_RECEIVER)
            return;
        if (step.send == DT_PATH_MSG_RESUME) {
            bool was_fenced = state == DT_RECEIVER_FENCED || state == DT_RECEIVER_ACKED ||
                              event == DT_PATH_FENCED ||
                              (state == DT_RECEIVER_CREATING && event == DT_PATH_FAILED);
            EXPECT_TRUE(was_fenced);
            EXPECT_TRUE(m.state == DT_RECEIVER_FENCED || m.state == DT_RECEIVER_ACKED);
        }
    });
}

TEST(PathTable, TheSenderSettlesWithTheReceiversWordInHand)
{
    ForEachCell([](dt_path_end end, uint32_t state, dt_path_event event, const dt_path_machine &m,
                   dt_path_step step) {
        if (!(step.actions & DT_PATH_DO_SETTLE))
            return;
        EXPECT_EQ(DT_PATH_END_SENDER, end);
        EXPECT_TRUE(state == DT_SENDER_RESUMED || step.actions & DT_PATH_DO_KEEP);
        /* with its own fence proven it may be opened again, without it not */
        bool is_proven = event == DT_PATH_FENCED || state == DT_SENDER_WAITING;
        EXPECT_EQ(is_proven ? (uint32_t)DT_SENDER_SETTLED : (uint32_t)DT_SENDER_ENDED, m.state);
    });
}

TEST(PathTable, OnlySettledPathsAreOpenedAgain)
{
    ForEachCell(
        [](dt_path_end end, uint32_t state, dt_path_event event, const dt_path_machine &, dt_path_step step) {
            if (!(step.actions & DT_PATH_DO_CREATE))
                return;
            if (end == DT_PATH_END_SENDER) {
                EXPECT_EQ((uint32_t)DT_SENDER_SETTLED, state);
                EXPECT_EQ(DT_PATH_RECOVER, event);
            } else {
                EXPECT_TRUE(state == DT_RECEIVER_FENCED || state == DT_RECEIVER_ACKED);
                EXPECT_EQ(DT_PATH_RECV_OPEN_NEXT, event);
            }
        });
}

TEST(PathTable, EveryStateAndEventHasANameAndAText)
{
    std::set<std::string> names;
    for (dt_path_end end : kEnds) {
        for (uint32_t state = 0; state < StateCount(end); state++) {
            dt_path_machine machine = Machine(end, state);
            EXPECT_TRUE(
                names
                    .insert(std::to_string(end) + dt_path_state_name((dt_path_end)machine.end, machine.state))
                    .second);
            EXPECT_NE('\0', *dt_path_state_text((dt_path_end)machine.end, machine.state));
        }
    }
    EXPECT_STREQ("RECV_OPEN_NEXT", dt_path_event_name(DT_PATH_RECV_OPEN_NEXT));
    EXPECT_STREQ("?", dt_path_event_name(DT_PATH_EVENT_COUNT));
    EXPECT_STREQ("time to open the path again", dt_path_event_text(DT_PATH_RECOVER));
    EXPECT_STREQ("unknown event", dt_path_event_text(DT_PATH_EVENT_COUNT));
    EXPECT_STREQ("OPENED", dt_path_message_name(DT_PATH_MSG_OPENED));
    EXPECT_STREQ("?", dt_path_message_name(DT_PATH_MESSAGE_COUNT));
}

/* ------------------------------------------------------------------------------------------------------------
 * Messages about other epochs, and from the wrong end
 */
TEST(PathHear, AnotherEpochChangesNothing)
{
    for (dt_path_end end : kEnds) {
        for (uint32_t state = 0; state < StateCount(end); state++) {
            for (uint32_t message = 0; message < DT_PATH_MESSAGE_COUNT + 1; message++) {
                for (uint32_t epoch : {0u, 5u, 6u, 9u, 10u, UINT32_MAX}) {
                    dt_path_machine machine = Machine(end, state);
                    EXPECT_FALSE(
                        dt_path_machine_receive(&machine, (dt_path_message)message, epoch, 1).is_known);
                    EXPECT_EQ(state, machine.state);
                    EXPECT_EQ(7u, machine.epoch);
                }
            }
        }
    }
}

TEST(PathHear, TheSenderNeverTakesTheNextEpochFromThePeer)
{
    for (uint32_t state = 0; state < DT_SENDER_STATE_COUNT; state++) {
        for (uint32_t message = 0; message < DT_PATH_MESSAGE_COUNT; message++) {
            dt_path_machine machine = Machine(DT_PATH_END_SENDER, state);
            EXPECT_FALSE(dt_path_machine_receive(&machine, (dt_path_message)message, 8, 1).is_known);
        }
    }
}

TEST(PathHear, OnesOwnKindOfMessageChangesNothing)
{
    dt_path_machine sender = Machine(DT_PATH_END_SENDER, DT_SENDER_UP);
    for (dt_path_message message :
         {DT_PATH_MSG_SWITCH, DT_PATH_MSG_SETTLED, DT_PATH_MSG_OPEN, DT_PATH_MSG_USED})
        EXPECT_FALSE(dt_path_machine_receive(&sender, message, 7, 1).is_known);
    dt_path_machine receiver = Machine(DT_PATH_END_RECEIVER, DT_RECEIVER_UP);
    for (dt_path_message message : {DT_PATH_MSG_RESUME, DT_PATH_MSG_OPENED})
        EXPECT_FALSE(dt_path_machine_receive(&receiver, message, 7, 1).is_known);
}

/* ------------------------------------------------------------------------------------------------------------
 * Repetition
 */
TEST(PathRepeat, SwitchIsRepeatedUntilTheReceiverHasSpoken)
{
    dt_path_machine m;
    dt_path_machine_init(&m, DT_PATH_END_SENDER, true);
    EXPECT_EQ(DT_NEVER_NS, dt_path_machine_retransmit_ns(&m));
    EXPECT_EQ((uint32_t)DT_PATH_MSG_SWITCH, dt_path_machine_event(&m, DT_PATH_FAULT, 1000).send);
    uint64_t next_ns = dt_path_machine_retransmit_ns(&m), gap_ns = 0;
    EXPECT_EQ(DT_PATH_MSG_NONE, dt_path_machine_retransmit(&m, next_ns - 1));
    EXPECT_EQ((uint32_t)DT_PATH_MSG_NONE, dt_path_machine_event(&m, DT_PATH_FENCED, next_ns - 1).send)
        << "sent already";
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(DT_PATH_MSG_SWITCH, dt_path_machine_retransmit(&m, next_ns));
        EXPECT_GE(dt_path_machine_retransmit_ns(&m) - next_ns, gap_ns);
        gap_ns = dt_path_machine_retransmit_ns(&m) - next_ns;
        next_ns = dt_path_machine_retransmit_ns(&m);
    }
    EXPECT_EQ(DT_RETRANSMIT_NS_MAX, gap_ns);
    EXPECT_EQ((uint32_t)DT_PATH_MSG_SETTLED,
              dt_path_machine_receive(&m, DT_PATH_MSG_RESUME, 0, next_ns).send);
    EXPECT_EQ(DT_NEVER_NS, dt_path_machine_retransmit_ns(&m));
    EXPECT_EQ(DT_PATH_MSG_NONE, dt_path_machine_retransmit(&m, DT_NEVER_NS - 1));
}

TEST(PathRepeat, ResumeIsRepeatedUntilTheSenderAnswers)
{
    dt_path_machine m;
    dt_path_machine_init(&m, DT_PATH_END_RECEIVER, true);
    EXPECT_EQ((uint32_t)DT_PATH_MSG_NONE, dt_path_machine_event(&m, DT_PATH_FAULT, 0).send);
    EXPECT_EQ((uint32_t)DT_PATH_MSG_RESUME, dt_path_machine_event(&m, DT_PATH_FENCED, 0).send);
    EXPECT_EQ(DT_PATH_MSG_RESUME, dt_path_machine_retransmit(&m, DT_RETRANSMIT_NS_FIRST));
    EXPECT_EQ((uint32_t)DT_PATH_MSG_RESUME, dt_path_machine_receive(&m, DT_PATH_MSG_SWITCH, 0, 1).send);
    EXPECT_EQ(DT_NEVER_NS, dt_path_machine_retransmit_ns(&m));
    EXPECT_EQ((uint32_t)DT_PATH_MSG_RESUME, dt_path_machine_receive(&m, DT_PATH_MSG_SWITCH, 0, 1).send)
        << "asked again";
}

TEST(PathMachine, AReceiverReceivesUntilTheSenderHasStopped)
{
    dt_path_machine r = Machine(DT_PATH_END_RECEIVER, DT_RECEIVER_UP);
    dt_path_machine s = Machine(DT_PATH_END_SENDER, DT_SENDER_UP);
    dt_path_step step = dt_path_machine_event(&r, DT_PATH_SUSPECT, 0);
    EXPECT_EQ((uint32_t)DT_PATH_DO_STOP, step.actions) << "no fence yet";
    EXPECT_EQ((uint32_t)DT_PATH_MSG_STOP, step.send);
    EXPECT_EQ(DT_PATH_MSG_STOP, dt_path_machine_retransmit(&r, DT_RETRANSMIT_NS_FIRST));
    EXPECT_FALSE(dt_path_machine_event(&r, DT_PATH_SUSPECT, 1).is_known);
    step = dt_path_machine_receive(&s, DT_PATH_MSG_STOP, s.epoch, 1);
    EXPECT_EQ((uint32_t)DT_PATH_DO_FENCE, step.actions);
    EXPECT_EQ((uint32_t)DT_PATH_MSG_SWITCH, step.send);
    EXPECT_FALSE(dt_path_machine_receive(&s, DT_PATH_MSG_STOP, s.epoch, 2).is_known) << "asked again";
    EXPECT_EQ((uint32_t)DT_PATH_DO_FENCE,
              dt_path_machine_receive(&r, DT_PATH_MSG_SWITCH, r.epoch, 2).actions);
    EXPECT_EQ(DT_NEVER_NS, dt_path_machine_retransmit_ns(&r));
}

/* ------------------------------------------------------------------------------------------------------------
 * Both ends together
 */
const uint32_t kEpochs = 3;

struct World {
    uint32_t sender, sender_epoch, receiver, receiver_epoch;
    uint32_t flying; /* bit message * kEpochs + epoch: may arrive at any time, again and again, or never */
    bool operator<(const World &other) const
    {
        return std::tie(sender, sender_epoch, receiver, receiver_epoch, flying) <
               std::tie(other.sender, other.sender_epoch, other.receiver, other.receiver_epoch, other.flying);
    }
};

uint32_t Bit(uint32_t message, uint32_t epoch)
{
    return message == DT_PATH_MSG_NONE ? 0 : 1u << (message * kEpochs + epoch);
}

dt_path_machine SenderOf(const World &world)
{
    return Machine(DT_PATH_END_SENDER, world.sender, world.sender_epoch);
}

dt_path_machine ReceiverOf(const World &world)
{
    return Machine(DT_PATH_END_RECEIVER, world.receiver, world.receiver_epoch);
}

using Cells = std::set<std::tuple<int, uint32_t, uint32_t>>;

void CheckSenderStep(const World &before, const dt_path_step &step)
{
    bool is_fenced = before.receiver == DT_RECEIVER_FENCED || before.receiver == DT_RECEIVER_ACKED;
    if (step.actions & DT_PATH_DO_SETTLE) {
        EXPECT_EQ(before.sender_epoch, before.receiver_epoch);
        EXPECT_TRUE(is_fenced) << "settled while the receiver's queue pairs could still write";
    }
    if (step.actions & DT_PATH_DO_USE) {
        EXPECT_EQ(before.sender_epoch, before.receiver_epoch) << "used before the receiver opened it";
    }
}

void CheckReceiverStep(const World &before, const dt_path_step &step)
{
    if (step.actions & DT_PATH_DO_NEXT_EPOCH) {
        EXPECT_EQ(before.receiver_epoch + 1, before.sender_epoch) << "the sender is not there yet";
        EXPECT_TRUE(before.receiver == DT_RECEIVER_FENCED || before.receiver == DT_RECEIVER_ACKED);
    }
    if (step.actions & DT_PATH_DO_USE) {
        EXPECT_EQ(before.sender_epoch, before.receiver_epoch);
        EXPECT_NE((uint32_t)DT_SENDER_OPENING, before.sender)
            << "it would write to queue pairs that are not connected";
        EXPECT_NE((uint32_t)DT_SENDER_CONNECTING, before.sender);
    }
}

/* A STOP of an epoch that the sender has left has no effect ever again: without it there are fewer worlds. */
uint32_t WithoutOldStops(uint32_t flying, uint32_t sender_epoch)
{
    for (uint32_t epoch = 0; epoch < sender_epoch; epoch++)
        flying &= ~Bit(DT_PATH_MSG_STOP, epoch);
    return flying;
}

World AfterSender(const World &before, const dt_path_machine &m, const dt_path_step &step)
{
    World world = before;
    world.sender = m.state;
    world.sender_epoch = m.epoch;
    world.flying = WithoutOldStops(world.flying | Bit(step.send, m.epoch), m.epoch);
    return world;
}

World AfterReceiver(const World &before, const dt_path_machine &m, const dt_path_step &step)
{
    World world = before;
    world.receiver = m.state;
    world.receiver_epoch = m.epoch;
    world.flying |= Bit(step.send, m.epoch);
    return world;
}

/* What happens at an end by itself. MADE needs room for one more epoch. */
void AddOwnEvents(const World &world, bool with_trouble, std::vector<World> *next, Cells *seen)
{
    for (uint32_t event = DT_PATH_FAULT; event <= DT_PATH_STABLE; event++) {
        bool is_trouble = event == DT_PATH_FAULT || event == DT_PATH_SUSPECT || event == DT_PATH_UNFENCED ||
                          event == DT_PATH_FAILED;
        bool is_last = world.sender_epoch == kEpochs - 1;
        if (is_trouble && (!with_trouble || is_last))
            continue;
        if (event == DT_PATH_RECOVER && is_last)
            continue;
        dt_path_machine m = SenderOf(world);
        dt_path_step step = dt_path_machine_event(&m, (dt_path_event)event, 0);
        if (step.is_known) {
            CheckSenderStep(world, step);
            seen->insert({0, step.from, event});
            next->push_back(AfterSender(world, m, step));
        }
        m = ReceiverOf(world);
        step = dt_path_machine_event(&m, (dt_path_event)event, 0);
        if (step.is_known) {
            CheckReceiverStep(world, step);
            seen->insert({1, step.from, event});
            next->push_back(AfterReceiver(world, m, step));
        }
    }
}

void AddMessages(const World &world, std::vector<World> *next)
{
    for (uint32_t message = 1; message < DT_PATH_MESSAGE_COUNT; message++) {
        for (uint32_t epoch = 0; epoch < kEpochs; epoch++) {
            if (!(world.flying & Bit(message, epoch)))
                continue;
            World lost = world;
            lost.flying &= ~Bit(message, epoch);
            next->push_back(lost);
            dt_path_machine m = SenderOf(world);
            dt_path_step step = dt_path_machine_receive(&m, (dt_path_message)message, epoch, 0);
            if (step.is_known) {
                CheckSenderStep(world, step);
                next->push_back(AfterSender(world, m, step));
                next->push_back(AfterSender(lost, m, step));
            }
            m = ReceiverOf(world);
            step = dt_path_machine_receive(&m, (dt_path_message)message, epoch, 0);
            if (step.is_known) {
                CheckReceiverStep(world, step);
                next->push_back(AfterReceiver(world, m, step));
                next->push_back(AfterReceiver(lost, m, step));
            }
        }
    }
}

/* What a state retransmits may be under way again at any time. */
void AddRepeats(const World &world, std::vector<World> *next)
{
    World again = world;
    switch (world.sender) {
    case DT_SENDER_DOWN:
    case DT_SENDER_UNFENCED:
    case DT_SENDER_WAITING:
        again.flying |= Bit(DT_PATH_MSG_SWITCH, world.sender_epoch);
        break;
    case DT_SENDER_OPENING:
        again.flying |= Bit(DT_PATH_MSG_OPEN, world.sender_epoch);
        break;
    }
    if (world.receiver == DT_RECEIVER_READY)
        again.flying |= Bit(DT_PATH_MSG_OPENED, world.receiver_epoch);
    if (world.receiver == DT_RECEIVER_STOPPING)
        again.flying |= Bit(DT_PATH_MSG_STOP, world.receiver_epoch);
    if (world.receiver == DT_RECEIVER_FENCED)
        again.flying |= Bit(DT_PATH_MSG_RESUME, world.receiver_epoch);
    next->push_back(again);
}

bool IsGood(const World &world)
{
    return world.sender == DT_SENDER_UP && world.receiver == DT_RECEIVER_UP &&
           world.sender_epoch == world.receiver_epoch;
}

TEST(PathBothEnds, AreSafeInEveryRunAndAlwaysComeBack)
{
    const World start = {DT_SENDER_UP, 0, DT_RECEIVER_UP, 0, 0};
    std::set<World> seen = {start};
    std::deque<World> queue = {start};
    std::map<World, std::vector<World>> comes_from; /* by steps without trouble */
    Cells cells;
    while (!queue.empty() && !HasFailure()) {
        World world = queue.front();
        queue.pop_front();
        std::vector<World> all, quiet;
        AddOwnEvents(world, false, &quiet, &cells);
        AddMessages(world, &quiet);
        AddRepeats(world, &quiet);
        for (const World &next : quiet)
            comes_from[next].push_back(world);
        AddOwnEvents(world, true, &all, &cells);
        all.insert(all.end(), quiet.begin(), quiet.end());
        for (const World &next : all) {
            if (seen.insert(next).second)
                queue.push_back(next);
        }
    }
    ASSERT_FALSE(HasFailure());
    EXPECT_GT(seen.size(), 1000u);

    /* Backwards from the good ends: from everywhere there is a way without more trouble. */
    std::set<World> can;
    for (const World &world : seen) {
        if (IsGood(world) && can.insert(world).second)
            queue.push_back(world);
    }
    while (!queue.empty()) {
        World world = queue.front();
        queue.pop_front();
        for (const World &before : comes_from[world]) {
            if (can.insert(before).second)
                queue.push_back(before);
        }
    }
    for (const World &world : seen) {
        if (can.count(world))
            continue;
        dt_path_machine s = SenderOf(world), r = ReceiverOf(world);
        ADD_FAILURE() << "stuck: sender " << dt_path_state_name(DT_PATH_END_SENDER, s.state) << " "
                      << world.sender_epoch << ", receiver "
                      << dt_path_state_name(DT_PATH_END_RECEIVER, r.state) << " " << world.receiver_epoch
                      << ", flying " << world.flying;
        break;
    }

    /* No row of the first group of events is there for nothing. */
    ForEachCell([&](dt_path_end end, uint32_t state, dt_path_event event, const dt_path_machine &,
                    dt_path_step step) {
        if (step.is_known && event <= DT_PATH_STABLE &&
            !(end == DT_PATH_END_RECEIVER && event == DT_PATH_RECOVER)) {
            EXPECT_TRUE(cells.count({(int)end, state, (uint32_t)event})) << "never happens";
        }
    });
}
} // namespace
