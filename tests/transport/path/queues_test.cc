/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots a device's queues allow, by the back end that fills them. */
#include <gtest/gtest.h>

#include <algorithm>

#include "transport/message/connection.h"
#include "transport/path/queues.h"

namespace
{
/* What the larger of a sender's and a receiver's queue asks the device for. */
uint32_t Needed(dt_posting_kind posting, uint32_t slots)
{
    uint32_t sends = std::min(slots * DT_PARTS_MAX + DT_WRITES_PER_MESSAGE_MAX, 511u);
    return std::max(dt_qp_wr_count(posting, sends, DT_SEND_INLINE_BYTES),
                    slots * DT_PARTS_MAX + DT_EMPTY_RECV_BATCH + 2 * DT_EAGER_PLACES);
}

TEST(PathSlots, AreAsManyAsTheQueuesHoldWithThatBackEnd)
{
    dt_device_info info = {};
    dt_params params = {};
    info.cqe_max = UINT32_MAX;
    params.qps_per_path = 1;
    auto slots_max = [&](dt_posting_kind posting) {
        strcpy(params.posting, posting == DT_POSTING_DV ? "dv" : "std");
        return dt_path_slots_max(&params, &info);
    };
    ASSERT_GT(Needed(DT_POSTING_DV, DT_SLOTS_MAX), Needed(DT_POSTING_STD, DT_SLOTS_MAX));
    for (dt_posting_kind posting : {DT_POSTING_STD, DT_POSTING_DV}) {
        info.qp_wr_max = Needed(posting, DT_SLOTS_MAX);
        EXPECT_EQ(DT_SLOTS_MAX, slots_max(posting));
        info.qp_wr_max--;
        EXPECT_EQ(DT_SLOTS_MAX / 2u, slots_max(posting));
    }
    info.qp_wr_max = Needed(DT_POSTING_STD, DT_SLOTS_MAX);
    EXPECT_GT(DT_SLOTS_MAX, slots_max(DT_POSTING_DV)) << "elements of dv need several blocks";
    info.qp_wr_max = 16;
    EXPECT_EQ(0u, slots_max(DT_POSTING_STD));
    EXPECT_EQ(0u, slots_max(DT_POSTING_DV));
}

/* One completion queue takes the receives of all queue pairs of the path. */
TEST(PathSlots, AreFewerWhereTheCompletionQueueIsTooSmallForTheQueuePairsThatAreAskedFor)
{
    dt_device_info info = {};
    dt_params params = {};
    strcpy(params.posting, "std");
    info.qp_wr_max = UINT32_MAX;
    info.cqe_max = 32767; // as Linux soft-RoCE
    for (params.qps_per_path = 1; params.qps_per_path <= 32; params.qps_per_path *= 32)
        EXPECT_EQ(DT_SLOTS_MAX, dt_path_slots_max(&params, &info));
    info.cqe_max = 592;
    params.qps_per_path = 1;
    EXPECT_EQ(DT_SLOTS_MAX, dt_path_slots_max(&params, &info));
    params.qps_per_path = 2;
    EXPECT_EQ(DT_SLOTS_MAX / 4u, dt_path_slots_max(&params, &info)) << "208 each";
}

/* One path of one queue pair, as dt_path_bytes() needs it. */
uint64_t PathBytes(bool is_sender, const char *posting)
{
    static dt_environment environment;
    dt_nic nic = {};
    dt_path_group group = {};
    dt_path path = {};
    snprintf(environment.params.posting, sizeof environment.params.posting, "%s", posting);
    group.environment = &environment;
    group.is_sender = is_sender;
    group.slots = DT_SLOTS_MAX;
    path.group = &group;
    path.nic = &nic;
    path.qp_count = 1;
    path.control_bytes = 36 << 10;
    return dt_path_bytes(&path) >> 10;
}

/* Calculated by hand from rdma-core; probe: 8 KiB for 16 sends and receives, 4 KiB for 32 completions. */
TEST(PathBytes, AreWhatConnectXAllocates)
{
    EXPECT_EQ(36u + (128 + 4) + 32 + 4 + 8 + 4, PathBytes(true, "std")) << "511 sends";
    EXPECT_EQ(36u + (32 + 16) + 8 + 64 + 8 + 4, PathBytes(false, "std")) << "96 sends, 592 receives";
    EXPECT_EQ(36u + (256 + 4) + 32 + 4 + 8 + 4, PathBytes(true, "dv")) << "1,022 elements";
}
} // namespace
