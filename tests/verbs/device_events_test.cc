/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events: copied, acknowledged and named. */
#include "tests/verbs/device_fixture.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "verbs/device.h"
#include "verbs/fault.h"
#include "verbs/object.h"

namespace
{
class DeviceEvents : public DeviceFixture
{
};

TEST_F(DeviceEvents, EventsAreCopiedAndAcknowledgedAtOnce)
{
    int user_qp, user_cq;
    ibv_qp qp = {};
    ibv_cq cq = {};
    const struct {
        ibv_event_type from;
        dt_event_type to;
    } events[] = {
        {IBV_EVENT_PORT_ERR, DT_EVENT_PORT_ERROR},       {IBV_EVENT_PORT_ACTIVE, DT_EVENT_PORT_ACTIVE},
        {IBV_EVENT_GID_CHANGE, DT_EVENT_GID_CHANGE},     {IBV_EVENT_LID_CHANGE, DT_EVENT_GID_CHANGE},
        {IBV_EVENT_DEVICE_FATAL, DT_EVENT_DEVICE_FATAL}, {IBV_EVENT_CQ_ERR, DT_EVENT_CQ_ERROR},
        {IBV_EVENT_QP_FATAL, DT_EVENT_QP_FATAL},         {IBV_EVENT_QP_ACCESS_ERR, DT_EVENT_QP_FATAL},
        {IBV_EVENT_QP_REQ_ERR, DT_EVENT_QP_FATAL},       {IBV_EVENT_COMM_EST, DT_EVENT_OTHER},
        {IBV_EVENT_SM_CHANGE, DT_EVENT_OTHER},
    };
    dt_device_event event;

    qp.qp_num = 1234;
    qp.qp_context = &user_qp;
    cq.cq_context = &user_cq;
    Open();
    EXPECT_EQ(DT_AGAIN, dt_device_next_event(device, &event));
    for (const auto &row : events) {
        ibv_async_event raw = {};
        raw.event_type = row.from;
        if (row.to == DT_EVENT_CQ_ERROR)
            raw.element.cq = &cq;
        else if (row.to == DT_EVENT_QP_FATAL)
            raw.element.qp = &qp;
        else
            raw.element.port_num = 1;
        fake::TheWorld().events.push_back(raw);
        ASSERT_EQ(DT_OK, dt_device_next_event(device, &event));
        EXPECT_EQ(0, fake::TheWorld().events_unacknowledged);
        EXPECT_EQ(row.to, event.type) << row.from;
        EXPECT_STREQ("an event", event.name);
        if (row.to == DT_EVENT_CQ_ERROR) {
            EXPECT_EQ(&user_cq, event.user);
        }
        if (row.to == DT_EVENT_QP_FATAL) {
            EXPECT_EQ(&user_qp, event.user);
            EXPECT_EQ(1234u, event.qpn);
        }
        if (row.to == DT_EVENT_PORT_ERROR) {
            EXPECT_EQ(1u, event.port);
        }
    }
    EXPECT_GE(dt_device_event_fd(device), 0);
    fake::Fail("get_async_event", EIO);
    detour_test::ExpectWarning("fake0: events cannot be read any more");
    EXPECT_EQ(DT_SYSTEM, dt_device_next_event(device, &event));
    dt_device_close(device);
}

/*
 * The kernel keeps the descriptor of a removed device ready for ever, and reading it finds nothing. A thread
 * that waits for it would never sleep again.
 */
TEST_F(DeviceEvents, OfARemovedDeviceEndAndWakeNoThreadAgain)
{
    detour_test::ExpectWarning("fake0: events cannot be read any more");
    for (int error : {EAGAIN, EIO}) {
        Open();
        pollfd ready = {dt_device_event_fd(device), POLLIN, 0};
        dt_device_event event;
        EXPECT_EQ(0, poll(&ready, 1, 0));
        auto *context = reinterpret_cast<fake::Context *>(reinterpret_cast<char *>(device->context) -
                                                          offsetof(verbs_context, context));
        close(context->hang_up_fd);
        context->hang_up_fd = -1;
        EXPECT_EQ(1, poll(&ready, 1, 0));
        fake::Fail("get_async_event", error);
        EXPECT_EQ(DT_SYSTEM, dt_device_next_event(device, &event));
        EXPECT_EQ(0, poll(&ready, 1, 0)) << "nothing can come any more";
        EXPECT_EQ(DT_AGAIN, dt_device_next_event(device, &event)) << "it was reported";
        dt_device_fault fatal = {};
        fatal.kind = DT_DEVICE_FAULT_EVENT;
        fatal.event = DT_EVENT_PORT_ERROR;
        uint64_t fired = 0;
        fatal.fired = &fired;
        dt_device_set_faults(device, &fatal, 1);
        EXPECT_EQ(1, poll(&ready, 1, 0)) << "an event of injection does";
        EXPECT_EQ(DT_OK, dt_device_next_event(device, &event));
        EXPECT_EQ(0, poll(&ready, 1, 0));
        dt_device_close(device);
    }
}

TEST_F(DeviceEvents, EveryEventTypeHasAText)
{
    for (int type = DT_EVENT_PORT_ACTIVE; type <= DT_EVENT_QP_FATAL; type++)
        EXPECT_STRNE("OTHER", dt_event_type_text(static_cast<dt_event_type>(type))) << type;
    EXPECT_STREQ("OTHER", dt_event_type_text(DT_EVENT_OTHER));
}
} // namespace
