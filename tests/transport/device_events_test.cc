/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device: what is logged, and which paths become suspect. */
#include "transport/device_events.h"

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/connection.h"
#include "softrnic/softrnic.h"

namespace
{
class DeviceEvents : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
    }
    bool HasLine(const std::string &part)
    {
        for (const std::string &line : detour_test::LoggedLines()) {
            if (line.find(part) != std::string::npos)
                return true;
        }
        return false;
    }
    uint32_t EventFaults(const dt_connection *c) const
    {
        return dt_load_relaxed(&c->faults) >> DT_FAULT_EVENT & 0xff;
    }
};

TEST_F(DeviceEvents, WithoutAnEventNothingIsMarkedAndTheFlagIsCleared)
{
    sender->nic->service->is_event_ready = true;
    dt_device_events_read(sender->nic, now_ns);
    EXPECT_FALSE(sender->nic->service->is_event_ready);
    EXPECT_EQ(0u, EventFaults(sender));
}

/* Device soft1 serves path 1 alone, at both ends; each process reads its own events. */
TEST_F(DeviceEvents, APortErrorMarksThePathsOverThePortAndAnActivePortHints)
{
    dt_nic *nic = receiver->path[1].nic;
    ASSERT_STREQ("soft1", nic->name);
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_DOWN, 0));
    dt_device_events_read(nic, now_ns);
    EXPECT_EQ(1u << 1, EventFaults(receiver));
    EXPECT_EQ(DT_EVENT_PORT_ERROR, receiver->path[1].device_event.type);
    EXPECT_EQ(0u, EventFaults(sender)) << "the other process has not read its events";
    EXPECT_TRUE(HasLine("soft1: " + std::string(dt_event_type_text(DT_EVENT_PORT_ERROR))));
    EXPECT_FALSE(dt_load_relaxed(&nic->is_dead));
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_UP, 0));
    EXPECT_EQ(0u, dt_load_relaxed(&receiver->hints));
    dt_device_events_read(nic, now_ns);
    EXPECT_EQ(1u << 1, dt_load_relaxed(&receiver->hints));
}

TEST_F(DeviceEvents, AFatalErrorMarksTheDeviceDeadAndEveryPathOverIt)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    detour_test::ExpectWarning("cannot go to ERR"); // at the close
    dt_nic *nic = sender->path[1].nic;
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_FATAL, 0));
    dt_device_events_read(nic, now_ns);
    EXPECT_TRUE(dt_load_relaxed(&nic->is_dead));
    EXPECT_EQ(1u << 1, EventFaults(sender));
    EXPECT_EQ(DT_EVENT_DEVICE_FATAL, sender->path[1].device_event.type);
}

TEST_F(DeviceEvents, ADeviceThatIsNotOpenHasNone)
{
    detour_test::Net third{3};
    dt_device_events_read(&third.net->nic[0], now_ns);
    EXPECT_EQ(nullptr, third.net->nic[0].device);
}

ibv_event_type next_event;
bool has_event;
int event_error = EAGAIN;

int GetEvent(ibv_context *, ibv_async_event *event)
{
    errno = event_error;
    if (!has_event)
        return -1;
    has_event = false;
    event->event_type = next_event;
    event->element.port_num = 1;
    return 0;
}

/* After a port has new GIDs, or the subnet manager has given it another LID, a path that failed is tried
 * again with the addresses of now. */
class OwnEvents : private detour_test::TappedVerbs, public detour_test::TwoNets
{
  protected:
    OwnEvents()
        : TappedVerbs([](dt_verbs_table &table) {
              table.get_async_event = GetEvent;
              table.ack_async_event = [](ibv_async_event *) {};
          }),
          TwoNets([this](dt_params &, dt_net_options &options) { options.verbs = verbs; })
    {
        has_event = false;
    }
};

TEST_F(OwnEvents, NewAddressesOfAPortHint)
{
    Listen();
    Establish();
    dt_nic *nic = receiver->path[1].nic;
    for (ibv_event_type type : {IBV_EVENT_GID_CHANGE, IBV_EVENT_LID_CHANGE, IBV_EVENT_PKEY_CHANGE}) {
        next_event = type;
        has_event = true;
        dt_store_relaxed(&receiver->hints, 0u);
        dt_device_events_read(nic, now_ns);
        EXPECT_EQ(1u << 1, dt_load_relaxed(&receiver->hints)) << type;
        EXPECT_EQ(0u, dt_load_relaxed(&receiver->faults)) << "nothing has failed";
    }
}

/* Without DEVICE_FATAL: the descriptor of a device that was pulled out may be all that tells. */
TEST_F(OwnEvents, ADeviceWhoseEventsHaveEndedIsDead)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    Listen();
    Establish();
    dt_nic *nic = receiver->path[1].nic;
    detour_test::ExpectWarning("soft1: events cannot be read any more: Input/output error");
    detour_test::AllowWarning("cannot go to ERR"); // at the close
    event_error = EIO;
    dt_device_events_read(nic, now_ns);
    event_error = EAGAIN;
    EXPECT_TRUE(dt_load_relaxed(&nic->is_dead));
    EXPECT_EQ(DT_EVENT_DEVICE_FATAL, receiver->path[1].device_event.type);
    EXPECT_EQ(1u << (DT_FAULT_EVENT + 1), dt_load_relaxed(&receiver->faults));
    dt_store_relaxed(&receiver->faults, 0u);
    dt_device_events_read(nic, now_ns);
    EXPECT_EQ(0u, dt_load_relaxed(&receiver->faults)) << "once";
}
} // namespace
