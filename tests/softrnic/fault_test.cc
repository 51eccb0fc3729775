// SPDX-License-Identifier: Apache-2.0
// Fault rules: which PSNs they hit, how they split ranges, and what is held back until when.
#include "softrnic/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "softrnic/psn.h"
#include "tests/harness/harness.h"

namespace
{
struct Out {
    dt_packet packet;
    std::string payload;
    void *link;
    bool is_copied;
};

class Faults : public ::testing::Test
{
  protected:
    dt_faults *faults = nullptr;
    std::string memory;
    std::vector<Out> out;
    int link_a = 0, link_b = 0;

    void SetUp() override
    {
        faults = dt_faults_create(1);
        for (int i = 0; i < 10000; i++)
            memory.push_back(static_cast<char>('a' + i / 256 % 26));
    }
    void TearDown() override
    {
        dt_faults_destroy(faults);
    }

    static void Emit(void *arg, void *link, const dt_packet *packet, bool is_copied)
    {
        Out out;
        out.packet = *packet;
        out.link = link;
        out.is_copied = is_copied;
        for (uint32_t i = 0; i < packet->iov_count; i++)
            out.payload.append(static_cast<char *>(packet->iov[i].iov_base), packet->iov[i].iov_len);
        static_cast<Faults *>(arg)->out.push_back(out);
    }
    void Apply(const dt_packet &packet, uint64_t now_ns = 0)
    {
        dt_faults_apply(faults, &link_a, &packet, now_ns, Emit, this);
    }
    // A WRITE of `bytes` at an MTU of 256, its payload in two pieces that meet inside a packet.
    dt_packet Range(uint32_t psn, uint64_t bytes)
    {
        dt_packet packet = {};
        packet.psn = psn;
        packet.psn_count = dt_psn_count(bytes, 8);
        packet.op = DT_PACKET_WRITE;
        packet.flags = DT_PACKET_FIRST | DT_PACKET_LAST | DT_PACKET_HAS_IMM | DT_PACKET_SOLICITED |
                       DT_PACKET_ACK_REQUEST;
        packet.mtu_shift = 8;
        packet.remote_addr = 0x1000;
        packet.message_bytes = packet.payload_bytes = bytes;
        packet.imm = 7;
        uint64_t half = bytes / 2;
        packet.iov[0] = {memory.data(), half};
        packet.iov[1] = {memory.data() + half, bytes - half};
        packet.iov_count = 2;
        return packet;
    }
    static dt_packet Ack(uint32_t psn, uint8_t syndrome)
    {
        dt_packet packet = {};
        packet.psn = psn;
        packet.psn_count = 1;
        packet.op = DT_PACKET_ACK;
        packet.syndrome = syndrome;
        packet.src_qpn = 5;
        packet.dst_qpn = 6;
        packet.mtu_shift = 8;
        return packet;
    }
    std::vector<uint32_t> Psns() const
    {
        std::vector<uint32_t> psns;
        for (const Out &o : out)
            for (uint32_t i = 0; i < o.packet.psn_count; i++)
                psns.push_back(dt_psn_add(o.packet.psn, i));
        return psns;
    }
    // Each part has the fields that it would have as a packet of its own.
    void ExpectPartsAreRight(const dt_packet &whole, uint64_t bytes)
    {
        uint32_t last = dt_psn_add(whole.psn, whole.psn_count - 1);
        for (const Out &o : out) {
            uint64_t skip = uint64_t(dt_psn_sub(o.packet.psn, whole.psn)) * 256;
            bool has_last = dt_psn_add(o.packet.psn, o.packet.psn_count - 1) == last;
            EXPECT_EQ(whole.remote_addr + skip, o.packet.remote_addr);
            EXPECT_EQ(has_last ? bytes - skip : o.packet.psn_count * 256, o.packet.payload_bytes);
            EXPECT_EQ(memory.substr(skip, o.packet.payload_bytes), o.payload);
            EXPECT_EQ(o.packet.psn == whole.psn, bool(o.packet.flags & DT_PACKET_FIRST));
            for (int flag : {DT_PACKET_LAST, DT_PACKET_HAS_IMM, DT_PACKET_SOLICITED, DT_PACKET_ACK_REQUEST})
                EXPECT_EQ(has_last, bool(o.packet.flags & flag));
            EXPECT_EQ(bytes, o.packet.message_bytes);
        }
    }
};

TEST_F(Faults, WithoutRulesARangePassesWhole)
{
    EXPECT_FALSE(dt_faults_active(faults));
    dt_packet packet = Range(10, 1000);
    Apply(packet);
    ASSERT_EQ(1u, out.size());
    EXPECT_EQ(4u, out[0].packet.psn_count);
    EXPECT_FALSE(out[0].is_copied);
    EXPECT_EQ(&link_a, out[0].link);
    ExpectPartsAreRight(packet, 1000);
}

TEST_F(Faults, ADropInsideSplitsTheRange)
{
    for (uint32_t lost = 0; lost < 8; lost++) {
        out.clear();
        dt_fault_rule rule = {};
        rule.has_psn = true;
        rule.psn_first = rule.psn_last = dt_psn_add(0xfffffc, lost);
        uint32_t id = dt_faults_add(faults, &rule);
        dt_packet packet = Range(0xfffffc, 1999);
        Apply(packet);
        std::vector<uint32_t> expected;
        for (uint32_t i = 0; i < 8; i++)
            if (i != lost)
                expected.push_back(dt_psn_add(0xfffffc, i));
        EXPECT_EQ(expected, Psns());
        EXPECT_EQ(lost == 0 || lost == 7 ? 1u : 2u, out.size());
        ExpectPartsAreRight(packet, 1999);
        EXPECT_EQ(1u, dt_faults_hits(faults, id));
        EXPECT_TRUE(dt_faults_remove(faults, id));
        EXPECT_FALSE(dt_faults_remove(faults, id));
    }
}

/* A switch whose MTU is too small: of a range everything but its short end is lost. */
TEST_F(Faults, OnlyLargePacketsAreLost)
{
    dt_fault_rule rule = {};
    rule.bytes_min = 256;
    uint32_t id = dt_faults_add(faults, &rule);
    dt_packet packet = Range(10, 1000), small = Range(14, 255), empty = Range(15, 0);
    Apply(packet);
    EXPECT_EQ((std::vector<uint32_t>{13}), Psns());
    ExpectPartsAreRight(packet, 1000);
    Apply(small);
    Apply(empty);
    Apply(Ack(20, DT_SYNDROME_ACK));
    EXPECT_EQ((std::vector<uint32_t>{13, 14, 15, 20}), Psns());
    EXPECT_EQ(3u, dt_faults_hits(faults, id));
    out.clear();
    Apply(Range(30, 512));
    EXPECT_EQ(0u, out.size()) << "a last packet may be full, too";
}

TEST_F(Faults, TruncationLosesTheRest)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_TRUNCATE;
    rule.has_psn = true;
    rule.psn_first = rule.psn_last = 13;
    dt_faults_add(faults, &rule);
    dt_packet packet = Range(10, 2000);
    Apply(packet);
    EXPECT_EQ((std::vector<uint32_t>{10, 11, 12}), Psns());
    ExpectPartsAreRight(packet, 2000);
}

TEST_F(Faults, CountingConditions)
{
    const struct {
        uint64_t skip, count;
        uint32_t every, of_every;
        std::vector<uint32_t> lost;
    } cases[] = {
        {0, 0, 0, 0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {2, 0, 0, 0, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {2, 3, 0, 0, {2, 3, 4}},
        {0, 1, 0, 0, {0}},
        {0, 0, 3, 0, {0, 3, 6, 9}},
        {1, 0, 4, 2, {1, 2, 5, 6, 9, 10}},
        {1, 3, 4, 2, {1, 2, 5}},
    };
    for (const auto &c : cases) {
        for (bool one_by_one : {false, true}) { // a rule counts PSNs, however they are packed
            dt_faults_clear(faults);
            out.clear();
            dt_fault_rule rule = {};
            rule.skip = c.skip;
            rule.count = c.count;
            rule.every = c.every;
            rule.of_every = c.of_every;
            dt_faults_add(faults, &rule);
            if (one_by_one) {
                for (uint32_t psn = 0; psn < 12; psn++)
                    Apply(Range(psn, 256));
            } else {
                Apply(Range(0, 12 * 256));
            }
            std::vector<uint32_t> expected;
            for (uint32_t psn = 0; psn < 12; psn++)
                if (std::find(c.lost.begin(), c.lost.end(), psn) == c.lost.end())
                    expected.push_back(psn);
            EXPECT_EQ(expected, Psns());
        }
    }
}

TEST_F(Faults, ChanceIsSeededAndAboutRight)
{
    dt_fault_rule rule = {};
    rule.chance_ppm = 100000;
    dt_faults_add(faults, &rule);
    for (uint32_t i = 0; i < 1000; i++)
        Apply(Range(i * 39, 9984));
    size_t first = Psns().size();
    EXPECT_NEAR(39000 * 0.9, double(first), 400);
    dt_faults *again = dt_faults_create(1);
    std::swap(faults, again);
    dt_faults_add(faults, &rule);
    std::vector<uint32_t> psns = Psns();
    out.clear();
    for (uint32_t i = 0; i < 1000; i++)
        Apply(Range(i * 39, 9984));
    EXPECT_EQ(psns, Psns());
    dt_faults_destroy(again);
}

TEST_F(Faults, WhoIsMeant)
{
    dt_fault_rule rule = {};
    rule.ops = DT_FAULT_OP(DT_PACKET_ACK);
    rule.src_qpn = 5;
    rule.dst_qpn = 6;
    rule.syndrome = DT_SYNDROME_NAK_SEQUENCE;
    uint32_t id = dt_faults_add(faults, &rule);
    Apply(Range(0, 256));
    Apply(Ack(0, DT_SYNDROME_ACK));
    dt_packet other = Ack(0, DT_SYNDROME_NAK_SEQUENCE);
    other.src_qpn = 6;
    Apply(other);
    other = Ack(0, DT_SYNDROME_NAK_SEQUENCE);
    other.dst_qpn = 5;
    Apply(other);
    EXPECT_EQ(4u, out.size());
    EXPECT_EQ(0u, dt_faults_hits(faults, id));
    Apply(Ack(0, DT_SYNDROME_NAK_SEQUENCE));
    EXPECT_EQ(4u, out.size());
    EXPECT_EQ(1u, dt_faults_hits(faults, id));
    EXPECT_EQ(0u, dt_faults_hits(faults, 999));
}

TEST_F(Faults, ExactlyTheAckOfOnePsn)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DROP;
    rule.ops = DT_FAULT_OP(DT_PACKET_ACK);
    rule.src_qpn = 5;
    rule.has_psn = true;
    rule.psn_first = rule.psn_last = 3;
    rule.syndrome = DT_SYNDROME_ACK;
    rule.count = 1;
    dt_faults_add(faults, &rule);
    for (uint32_t psn = 0; psn < 6; psn++)
        Apply(Ack(psn, DT_SYNDROME_ACK));
    Apply(Ack(3, DT_SYNDROME_ACK)); // only once
    EXPECT_EQ((std::vector<uint32_t>{0, 1, 2, 4, 5, 3}), Psns());
}

TEST_F(Faults, TheFirstRuleThatHitsDecides)
{
    dt_fault_rule rule = {};
    rule.has_psn = true;
    rule.psn_first = rule.psn_last = 1;
    rule.action = DT_FAULT_DUPLICATE;
    dt_faults_add(faults, &rule);
    rule.psn_first = 0;
    rule.action = DT_FAULT_DROP;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 3 * 256));
    EXPECT_EQ((std::vector<uint32_t>{1, 1, 2}), Psns());
}

TEST_F(Faults, DelayedPacketsKeepTheBytesOfTheirTime)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    rule.delay_ns = 500;
    rule.count = 3;
    dt_faults_add(faults, &rule);
    std::string old = memory.substr(0, 1000);
    Apply(Range(0, 1000), 100);
    EXPECT_EQ((std::vector<uint32_t>{3}), Psns());
    memory.assign(memory.size(), '?');
    EXPECT_EQ(600u, dt_faults_deadline_ns(faults));
    dt_faults_release(faults, 599, Emit, this);
    EXPECT_EQ(1u, out.size());
    dt_faults_clear(faults);
    EXPECT_TRUE(dt_faults_active(faults));
    dt_faults_release(faults, 600, Emit, this);
    EXPECT_EQ((std::vector<uint32_t>{3, 0, 1, 2}), Psns());
    for (size_t i = 1; i < 4; i++) {
        EXPECT_EQ(old.substr((i - 1) * 256, 256), out[i].payload);
        EXPECT_TRUE(out[i].is_copied);
        EXPECT_EQ(&link_a, out[i].link);
    }
    EXPECT_FALSE(dt_faults_active(faults));
    EXPECT_EQ(UINT64_MAX, dt_faults_deadline_ns(faults));
}

TEST_F(Faults, HeldPacketsLeaveInTheOrderOfTheirTimes)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    rule.has_psn = true;
    for (uint32_t psn = 0; psn < 4; psn++) {
        rule.psn_first = rule.psn_last = psn;
        rule.delay_ns = psn == 3 ? 300 : 400 - psn * 100;
        dt_faults_add(faults, &rule);
    }
    Apply(Range(0, 4 * 256));
    EXPECT_TRUE(out.empty());
    dt_faults_release(faults, 1000, Emit, this);
    EXPECT_EQ((std::vector<uint32_t>{2, 1, 3, 0}), Psns());
}

TEST_F(Faults, ADelayThatNeverEndsIsNoOverflow)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    rule.delay_ns = UINT64_MAX;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 256), 1000);
    dt_faults_release(faults, UINT64_MAX - 1, Emit, this);
    EXPECT_TRUE(out.empty());
}

TEST_F(Faults, DuplicatesNowOrLater)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DUPLICATE;
    rule.count = 1;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 512));
    EXPECT_EQ((std::vector<uint32_t>{0, 0, 1}), Psns());
    out.clear();
    dt_faults_clear(faults);
    rule.delay_ns = 10;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 512));
    dt_faults_release(faults, 10, Emit, this);
    EXPECT_EQ((std::vector<uint32_t>{0, 1, 0}), Psns());
}

TEST_F(Faults, ReorderedPacketsAreOvertakenByThatMany)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_REORDER;
    rule.hold_packets = 2;
    rule.count = 1;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 256));
    EXPECT_TRUE(out.empty());
    dt_packet packet = Range(100, 256);
    dt_faults_apply(faults, &link_b, &packet, 0, Emit, this); // another link does not count
    Apply(Range(1, 256));
    EXPECT_EQ(2u, out.size());
    Apply(Range(2, 256));
    EXPECT_EQ((std::vector<uint32_t>{100, 1, 2, 0}), Psns());

    out.clear();
    dt_faults_clear(faults);
    rule.delay_ns = 50;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 256));
    dt_faults_release(faults, 50, Emit, this); // nothing overtook it in time
    EXPECT_EQ((std::vector<uint32_t>{0}), Psns());
}

TEST_F(Faults, PacketsHeldForALinkCanBeDropped)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    dt_faults_add(faults, &rule);
    Apply(Range(0, 256));
    dt_packet packet = Range(1, 256);
    dt_faults_apply(faults, &link_b, &packet, 0, Emit, this);
    dt_faults_forget_link(faults, &link_a);
    dt_faults_release(faults, 0, Emit, this);
    EXPECT_EQ((std::vector<uint32_t>{1}), Psns());
}

TEST_F(Faults, WithoutMemoryAHeldPacketIsLost)
{
    dt_fault_rule rule = {};
    rule.action = DT_FAULT_DELAY;
    dt_faults_add(faults, &rule);
    detour_test_fail_alloc(0);
    Apply(Range(0, 256));
    EXPECT_TRUE(detour_test_alloc_failed());
    dt_faults_release(faults, UINT64_MAX, Emit, this);
    EXPECT_TRUE(out.empty());
    detour_test_fail_alloc(0);
    EXPECT_EQ(0u, dt_faults_add(faults, &rule));
    detour_test_fail_alloc(0);
    EXPECT_EQ(nullptr, dt_faults_create(0));
}
} // namespace
