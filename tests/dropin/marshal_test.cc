// SPDX-License-Identifier: Apache-2.0
// Between the kernel's structs and the library's.
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <gtest/gtest.h>

#include <cstring>

extern "C" {
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from);
}

namespace
{
// Bytes that differ from field to field.
template <typename T>
T Numbered()
{
    T value;
    auto *bytes = reinterpret_cast<uint8_t *>(&value);
    for (size_t i = 0; i < sizeof value; i++)
        bytes[i] = static_cast<uint8_t>(i + 1);
    return value;
}

TEST(Marshal, APathRecordSurvivesTheWayThereAndBack)
{
    auto kernel = Numbered<ib_user_path_rec>();
    kernel.mtu = 5; // the library has 8 bits for these three
    kernel.rate = 16;
    kernel.packet_life_time = 18;
    ib_user_path_rec back = {};
    ibv_sa_path_rec library;
    memset(&library, 0, sizeof library);

    ibv_copy_path_rec_from_kern(&library, &kernel);
    ibv_copy_path_rec_to_kern(&back, &library);
    EXPECT_EQ(0, memcmp(kernel.dgid, back.dgid, sizeof back.dgid));
    EXPECT_EQ(0, memcmp(kernel.sgid, back.sgid, sizeof back.sgid));
    EXPECT_EQ(kernel.dlid, back.dlid);
    EXPECT_EQ(kernel.slid, back.slid);
    EXPECT_EQ(kernel.flow_label, back.flow_label);
    EXPECT_EQ(kernel.pkey, back.pkey);
    EXPECT_EQ(kernel.hop_limit, back.hop_limit);
    EXPECT_EQ(kernel.mtu, back.mtu);
    EXPECT_EQ(kernel.rate, back.rate);
    EXPECT_EQ(kernel.packet_life_time, back.packet_life_time);
}

TEST(Marshal, QueuePairAttributesKeepTheirFields)
{
    auto kernel = Numbered<ib_uverbs_qp_attr>();
    kernel.qp_state = IBV_QPS_RTS; // the library's members of these three are enumerations
    kernel.cur_qp_state = IBV_QPS_RTR;
    kernel.path_mtu = IBV_MTU_4096;
    kernel.path_mig_state = IBV_MIG_ARMED;
    ibv_qp_attr library = {};

    ibv_copy_qp_attr_from_kern(&library, &kernel);
    EXPECT_EQ(kernel.qp_state, static_cast<uint32_t>(library.qp_state));
    EXPECT_EQ(kernel.dest_qp_num, library.dest_qp_num);
    EXPECT_EQ(kernel.rq_psn, library.rq_psn);
    EXPECT_EQ(kernel.sq_psn, library.sq_psn);
    EXPECT_EQ(kernel.max_send_wr, library.cap.max_send_wr);
    EXPECT_EQ(kernel.timeout, library.timeout);
    EXPECT_EQ(kernel.alt_timeout, library.alt_timeout);
    EXPECT_EQ(0, memcmp(kernel.ah_attr.grh.dgid, library.ah_attr.grh.dgid.raw, 16));
    EXPECT_EQ(0, memcmp(kernel.alt_ah_attr.grh.dgid, library.alt_ah_attr.grh.dgid.raw, 16));
    EXPECT_EQ(kernel.ah_attr.dlid, library.ah_attr.dlid);
}
} // namespace
