/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "transport/protocol/frames.h"

namespace
{
const dt_terms kTerms = {2, 3, 64, 65536};

struct Frame {
    uint8_t bytes[DT_FRAME_BYTES_MAX];
    dt_writer w = {bytes, sizeof bytes, 0, false};
    const uint8_t *body() const
    {
        return bytes + DT_FRAME_HEADER_BYTES;
    }
    size_t body_bytes() const
    {
        return w.used - DT_FRAME_HEADER_BYTES;
    }
    dt_frame_header header() const
    {
        dt_frame_header h = {};
        EXPECT_EQ(DT_OK, dt_frame_header_decode(bytes, &h));
        return h;
    }
};

dt_hello Hello()
{
    dt_hello hello = {};
    hello.version_min = 1;
    hello.version_max = DT_PROTOCOL_VERSION_MAX + 1;
    hello.listen_id = 0x0123456789abcdef;
    hello.nonce = 0xfedcba9876543210;
    hello.connection_id = 42;
    hello.wanted = kTerms;
    hello.pid = 4711;
    strcpy(hello.host, "node-17");
    strcpy(hello.device, "mlx5_0");
    hello.listener.family = DT_ADDRESS_IPV4;
    hello.listener.ip[0] = 10;
    hello.listener.port = 17785;
    hello.devices.count = DT_BACKUPS_MAX;
    hello.devices.is_chosen = true;
    for (uint32_t i = 0; i < DT_BACKUPS_MAX; i++) {
        hello.devices.device[i].rail = 65535 - i;
        hello.devices.device[i].is_near = i % 3 == 0;
    }
    hello.spread = DT_SPREAD_TURNS;
    return hello;
}

dt_answer Answer()
{
    dt_answer answer = {};
    answer.version = 1;
    answer.agreed = kTerms;
    answer.pid = 9;
    strcpy(answer.host, "h");
    strcpy(answer.device, "d");
    answer.path[1] = {1, DT_BACKUPS_MAX - 1, DT_BACKUP_DISTANT};
    return answer;
}

dt_paths_offer Offer()
{
    dt_paths_offer offer = {};
    offer.path[0].is_usable = true;
    strcpy(offer.path[0].device, "soft0");
    dt_qp_address &probe = offer.path[0].probe;
    for (int i = 0; i < 16; i++)
        probe.gid[i] = (uint8_t)(i * 17);
    probe.qpn = 0xabcdef;
    probe.psn = 0xffffff;
    probe.lid = 0xffff;
    probe.mtu_bytes = 4096;
    probe.link_layer = DT_LINK_ETHERNET;
    for (uint32_t q = 0; q < kTerms.qps; q++) {
        offer.path[0].qp[q].qpn = 100 + q;
        offer.path[0].qp[q].psn = 200 + q;
    }
    offer.path[0].control_addr = 0x7fff12345678;
    offer.path[0].control_rkey = 0xdeadbeef;
    offer.path[0].generation = 7;
    offer.path[0].keys_since = UINT64_MAX - 1;
    return offer;
}

TEST(Handle, ComesBackAsItWas)
{
    uint8_t bytes[DT_HANDLE_BYTES];
    dt_handle in = {}, out;
    in.version_min = 1;
    in.version_max = 2;
    in.address.family = DT_ADDRESS_IPV6;
    in.address.port = 65535;
    in.address.ip[15] = 1;
    in.listen_id = 3;
    in.nonce = UINT64_MAX;
    in.address.process = 0x8877665544332211;
    dt_handle_encode(&in, bytes);
    EXPECT_EQ(0u, dt_handle_cookie(bytes));
    ASSERT_EQ(DT_OK, dt_handle_decode(bytes, &out));
    EXPECT_EQ(0, memcmp(&in, &out, sizeof in));
    dt_handle_set_cookie(bytes, 0x1122334455667788);
    EXPECT_EQ(0x1122334455667788u, dt_handle_cookie(bytes));
    ASSERT_EQ(DT_OK, dt_handle_decode(bytes, &out)) << "the cookie is not part of the handle";
    EXPECT_EQ(0, memcmp(&in, &out, sizeof in));
}

TEST(Handle, OfAnotherPluginIsRefused)
{
    uint8_t bytes[DT_HANDLE_BYTES];
    dt_handle out;
    memset(bytes, 0, sizeof bytes);
    EXPECT_EQ(DT_PROTOCOL, dt_handle_decode(bytes, &out));
    memset(bytes, 0xff, sizeof bytes);
    EXPECT_EQ(DT_PROTOCOL, dt_handle_decode(bytes, &out));
}

TEST(Terms, AreTheSmallerOfBothEnds)
{
    dt_terms a = {4, 1, 64, 1 << 20}, b = {2, 8, 32, 1 << 26};
    dt_terms agreed = dt_terms_agree(&a, &b);
    EXPECT_EQ(2u, agreed.paths);
    EXPECT_EQ(1u, agreed.qps);
    EXPECT_EQ(32u, agreed.slots);
    EXPECT_EQ(1u << 20, agreed.chunk_bytes);
}

TEST(Messages, HelloComesBackAsItWas)
{
    Frame frame;
    dt_hello in = Hello(), out;
    dt_hello_encode(&in, &frame.w);
    EXPECT_EQ(DT_FRAME_HELLO, frame.header().type);
    EXPECT_EQ(frame.body_bytes(), frame.header().body_bytes);
    ASSERT_EQ(DT_OK, dt_hello_decode(frame.body(), frame.body_bytes(), &out));
    EXPECT_EQ(0, memcmp(&in.wanted, &out.wanted, sizeof in.wanted));
    EXPECT_EQ(in.version_min, out.version_min);
    EXPECT_EQ(in.version_max, out.version_max);
    EXPECT_EQ(in.listen_id, out.listen_id);
    EXPECT_EQ(in.nonce, out.nonce);
    EXPECT_EQ(in.connection_id, out.connection_id);
    EXPECT_EQ(in.pid, out.pid);
    EXPECT_STREQ(in.host, out.host);
    EXPECT_STREQ(in.device, out.device);
    EXPECT_EQ(0, memcmp(&in.listener, &out.listener, sizeof in.listener));
    EXPECT_EQ(in.devices.count, out.devices.count);
    EXPECT_EQ(in.devices.is_chosen, out.devices.is_chosen);
    for (uint32_t i = 0; i < DT_BACKUPS_MAX; i++) {
        EXPECT_EQ(in.devices.device[i].rail, out.devices.device[i].rail);
        EXPECT_EQ(in.devices.device[i].is_near, out.devices.device[i].is_near);
    }
    EXPECT_EQ(DT_SPREAD_TURNS, out.spread);
    frame.bytes[frame.w.used - 1] = DT_SPREAD_SPLIT;
    ASSERT_EQ(DT_OK, dt_hello_decode(frame.body(), frame.body_bytes(), &out));
    EXPECT_EQ(DT_SPREAD_SPLIT, out.spread);
    for (uint8_t bad : {DT_SPREAD_COUNT + 0, 128, 255}) {
        frame.bytes[frame.w.used - 1] = bad;
        EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(frame.body(), frame.body_bytes(), &out)) << (int)bad;
    }
}

TEST(Messages, HelloWithoutACommonVersionIsReadUpToItsDevices)
{
    const std::pair<uint16_t, uint16_t> ranges[] = {
        {1, DT_PROTOCOL_VERSION_MIN - 1},
        {DT_PROTOCOL_VERSION_MAX + 1, UINT16_MAX},
        {DT_PROTOCOL_VERSION_MAX + 2, DT_PROTOCOL_VERSION_MAX + 1},
    };
    for (auto [min, max] : ranges) {
        Frame frame;
        dt_hello in = Hello(), out;
        in.version_min = min;
        in.version_max = max;
        dt_hello_encode(&in, &frame.w);
        size_t devices_end = frame.body_bytes() - 1;
        for (size_t bytes : {devices_end, devices_end + 1, devices_end + 9}) {
            ASSERT_EQ(min <= max ? DT_OK : DT_PROTOCOL, dt_hello_decode(frame.body(), bytes, &out)) << bytes;
            EXPECT_EQ(in.nonce, out.nonce);
            EXPECT_EQ(DT_SPREAD_SPLIT, out.spread);
        }
        EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(frame.body(), devices_end - 1, &out));
    }
}

TEST(Messages, DevicesAndPathsOutOfRangeAreRefused)
{
    for (uint32_t count : {0u, DT_BACKUPS_MAX + 1u}) {
        Frame frame;
        dt_hello hello = Hello(), out;
        hello.devices.count = count ? DT_BACKUPS_MAX : 0;
        dt_hello_encode(&hello, &frame.w);
        if (count)
            frame.bytes[frame.w.used - 1 - 3 * DT_BACKUPS_MAX - 1] = (uint8_t)count;
        EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(frame.body(), frame.body_bytes(), &out)) << count;
    }
    for (dt_backup_pair pair : {dt_backup_pair{DT_BACKUPS_MAX, 0, 0}, dt_backup_pair{0, DT_BACKUPS_MAX, 0},
                                dt_backup_pair{0, 0, DT_BACKUP_KIND_COUNT}}) {
        Frame frame;
        dt_answer answer = Answer(), out;
        answer.path[1] = pair;
        dt_answer_encode(&answer, &frame.w);
        EXPECT_EQ(DT_PROTOCOL, dt_answer_decode(frame.body(), frame.body_bytes(), &out));
    }
}

TEST(Messages, RejoinComesBackAndItsAddressCanBeDialled)
{
    Frame frame, nowhere;
    dt_rejoin in = {}, out = {};
    in.connection_id = 0x1122334455667788ull;
    in.nonce = 0x99aabbccddeeff00ull;
    in.round = 77;
    in.is_sender = true;
    dt_rejoin_encode(&in, &frame.w);
    EXPECT_EQ(DT_FRAME_REJOIN, frame.header().type);
    ASSERT_EQ(DT_OK, dt_rejoin_decode(frame.body(), frame.body_bytes(), &out));
    EXPECT_EQ(in.connection_id, out.connection_id);
    EXPECT_EQ(in.nonce, out.nonce);
    EXPECT_EQ(in.round, out.round);
    EXPECT_TRUE(out.is_sender);
    EXPECT_EQ(DT_PROTOCOL, dt_rejoin_decode(frame.body(), frame.body_bytes() - 1, &out));
    frame.bytes[frame.w.used - 1] = 2;
    EXPECT_EQ(DT_PROTOCOL, dt_rejoin_decode(frame.body(), frame.body_bytes(), &out));
    dt_hello hello = Hello(), got;
    hello.listener.port = 0; // an address that cannot be dialed
    dt_hello_encode(&hello, &nowhere.w);
    EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(nowhere.body(), nowhere.body_bytes(), &got));
}

TEST(Messages, TheFirstFramesOfACarrierComeBackAndZerosAreRefused)
{
    Frame frame;
    dt_pair_frame in = {0x1122334455667788ull, 0x99aabbccddeeff00ull, 77}, out = {};
    dt_pair_frame_encode(&in, &frame.w);
    EXPECT_EQ(DT_FRAME_PAIR, frame.header().type);
    ASSERT_EQ(DT_OK, dt_pair_frame_decode(frame.body(), frame.body_bytes(), &out));
    EXPECT_EQ(in.from, out.from);
    EXPECT_EQ(in.to, out.to);
    EXPECT_EQ(in.round, out.round);
    EXPECT_EQ(DT_PROTOCOL, dt_pair_frame_decode(frame.body(), frame.body_bytes() - 1, &out));
    for (const dt_pair_frame &wrong : {dt_pair_frame{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
        Frame bad;
        dt_pair_frame_encode(&wrong, &bad.w);
        EXPECT_EQ(DT_PROTOCOL, dt_pair_frame_decode(bad.body(), bad.body_bytes(), &out));
    }
    for (bool is_accepted : {false, true}) {
        Frame answer;
        dt_paired given = {is_accepted, 5}, got = {};
        dt_paired_encode(&given, &answer.w);
        EXPECT_EQ(DT_FRAME_PAIRED, answer.header().type);
        ASSERT_EQ(DT_OK, dt_paired_decode(answer.body(), answer.body_bytes(), &got));
        EXPECT_EQ(is_accepted, got.is_accepted);
        EXPECT_EQ(5u, got.round);
        EXPECT_EQ(DT_PROTOCOL, dt_paired_decode(answer.body(), answer.body_bytes() + 1, &got));
        answer.bytes[DT_FRAME_HEADER_BYTES] = 2;
        EXPECT_EQ(DT_PROTOCOL, dt_paired_decode(answer.body(), answer.body_bytes(), &got));
    }
}

TEST(Messages, PathsComeBackAsTheyWereAndMissingOnesStayMissing)
{
    Frame frame;
    dt_paths_offer in = Offer(), out;
    dt_paths_encode(&in, &kTerms, &frame.w);
    ASSERT_EQ(DT_OK, dt_paths_decode(frame.body(), frame.body_bytes(), &kTerms, &out));
    EXPECT_TRUE(out.path[0].is_usable);
    EXPECT_FALSE(out.path[1].is_usable);
    EXPECT_STREQ("soft0", out.path[0].device);
    EXPECT_EQ(0, memcmp(&in.path[0].probe, &out.path[0].probe, sizeof(dt_qp_address)));
    for (uint32_t q = 0; q < kTerms.qps; q++) {
        dt_qp_address address = dt_offer_address(&out.path[0], q);
        EXPECT_EQ(100 + q, address.qpn);
        EXPECT_EQ(200 + q, address.psn);
        EXPECT_EQ(0, memcmp(in.path[0].probe.gid, address.gid, sizeof address.gid));
        EXPECT_EQ(4096u, address.mtu_bytes);
    }
    EXPECT_EQ(in.path[0].control_addr, out.path[0].control_addr);
    EXPECT_EQ(in.path[0].control_rkey, out.path[0].control_rkey);
    EXPECT_EQ(in.path[0].generation, out.path[0].generation);
    EXPECT_EQ(in.path[0].keys_since, out.path[0].keys_since);
    EXPECT_EQ(0u, out.path[0].ece.options);
}

TEST(Messages, OptionsOfTheVendorComeBackAndTakeNoRoomWithoutThem)
{
    Frame without, with;
    dt_paths_offer in = Offer(), out;
    dt_paths_encode(&in, &kTerms, &without.w);
    in.path[0].ece = {0x15b3, 0x80000001};
    dt_paths_encode(&in, &kTerms, &with.w);
    EXPECT_EQ(without.w.used + 8, with.w.used) << "version 4 knows the frame without them";
    ASSERT_EQ(DT_OK, dt_paths_decode(with.body(), with.body_bytes(), &kTerms, &out));
    EXPECT_TRUE(out.path[0].is_usable);
    EXPECT_EQ(0x15b3u, out.path[0].ece.vendor_id);
    EXPECT_EQ(0x80000001u, out.path[0].ece.options);
    EXPECT_EQ(in.path[0].keys_since, out.path[0].keys_since);
    with.bytes[DT_FRAME_HEADER_BYTES] = 3;
    EXPECT_EQ(DT_PROTOCOL, dt_paths_decode(with.body(), with.body_bytes(), &kTerms, &out)) << "neither";
}

TEST(Messages, TheLargestOfferFitsAFrame)
{
    Frame frame;
    dt_terms most = {DT_PATHS_MAX, DT_QPS_MAX, DT_SLOTS_MAX, DT_CHUNK_BYTES_DEFAULT};
    dt_paths_offer offer = Offer();
    memset(offer.path[0].device, 'x', DT_NAME_BYTES - 1);
    offer.path[0].ece = {0x15b3, 1};
    for (uint32_t p = 1; p < DT_PATHS_MAX; p++)
        offer.path[p] = offer.path[0];
    dt_paths_encode(&offer, &most, &frame.w);
    EXPECT_FALSE(frame.w.is_full);

    uint8_t bytes[DT_PATH_FRAME_BYTES_MAX];
    dt_writer w = {bytes, sizeof bytes, 0, false};
    dt_path_frame open = {};
    open.message = DT_PATH_MSG_OPEN;
    open.offer = offer.path[0];
    dt_path_frame_encode(&open, DT_QPS_MAX, &w);
    EXPECT_FALSE(w.is_full);
}

TEST(Messages, ShortOnesComeBack)
{
    Frame frame;
    dt_ready ready = {3}, ready_out;
    dt_ready_encode(&ready, &frame.w);
    ASSERT_EQ(DT_OK, dt_ready_decode(frame.body(), frame.body_bytes(), &kTerms, &ready_out));
    EXPECT_EQ(3u, ready_out.path_mask);

    Frame closing;
    dt_close close = {0x8000000000000001}, close_out;
    dt_close_encode(&close, &closing.w);
    ASSERT_EQ(DT_OK, dt_close_decode(closing.body(), closing.body_bytes(), &close_out));
    EXPECT_EQ(close.sequence, close_out.sequence);

    for (dt_frame_type type : {DT_FRAME_QUERY, DT_FRAME_COMPLETE}) {
        Frame asking;
        dt_fact fact = {0x8000000000000001, 1, 0x80000001}, fact_out;
        dt_fact_encode(type, &fact, &asking.w);
        ASSERT_EQ(DT_OK, dt_fact_decode(asking.body(), asking.body_bytes(), 2, &fact_out));
        EXPECT_EQ(fact.sequence, fact_out.sequence);
        EXPECT_EQ(fact.path, fact_out.path);
        EXPECT_EQ(fact.epoch, fact_out.epoch);
        EXPECT_EQ(DT_PROTOCOL, dt_fact_decode(asking.body(), asking.body_bytes(), 1, &fact_out))
            << "a path that was not agreed";
    }

    Frame granting;
    dt_grant grant = {0x7fff00001000, DT_EAGER_BYTES_MAX, 2, {0, 0x80000001}}, grant_out;
    dt_grant_encode(&grant, 2, &granting.w);
    ASSERT_EQ(DT_OK, dt_grant_decode(granting.body(), granting.body_bytes(), 2, &grant_out));
    EXPECT_EQ(0, memcmp(&grant, &grant_out, sizeof grant));

    Frame rejecting;
    dt_reject reject = {}, reject_out;
    memset(reject.reason, 'r', sizeof reject.reason - 1);
    dt_reject_encode(&reject, &rejecting.w);
    ASSERT_EQ(DT_OK, dt_reject_decode(rejecting.body(), rejecting.body_bytes(), &reject_out));
    EXPECT_STREQ(reject.reason, reject_out.reason);

    Frame answering;
    dt_answer answer = Answer(), answer_out;
    dt_answer_encode(&answer, &answering.w);
    ASSERT_EQ(DT_OK, dt_answer_decode(answering.body(), answering.body_bytes(), &answer_out));
    EXPECT_EQ(0, memcmp(&answer, &answer_out, sizeof answer));
}

TEST(Messages, AGrantOfNothingOrOfTooMuchIsRefused)
{
    for (dt_grant grant : {dt_grant{4096, 0, 1, {7}}, dt_grant{4096, DT_EAGER_BYTES_MAX + 1, 1, {7}},
                           dt_grant{4096, 4096, 0, {7}}, dt_grant{4096, 4096, 4, {7}},
                           dt_grant{UINT64_MAX - 100, 4096, 1, {7}}}) {
        Frame frame;
        dt_grant out;
        dt_grant_encode(&grant, 2, &frame.w);
        EXPECT_EQ(DT_PROTOCOL, dt_grant_decode(frame.body(), frame.body_bytes(), 2, &out))
            << grant.bytes << " bytes, paths " << grant.path_mask;
    }
}

TEST(Messages, ResumeCarriesCompleteMessagesAndEagerGenerations)
{
    dt_path_frame frame = {};
    frame.message = DT_PATH_MSG_RESUME;
    frame.resume = {1000, 6, {1, 2, 3, 4, 5, 6, 7, 255}};
    Frame resuming;
    dt_path_frame out;
    dt_path_frame_encode(&frame, 1, &resuming.w);
    ASSERT_EQ(DT_OK, dt_path_frame_decode(resuming.body(), resuming.body_bytes(), 2, 1, &out));
    EXPECT_EQ(1000u, out.resume.first);
    EXPECT_EQ(6u, out.resume.later);
    EXPECT_EQ(0, memcmp(frame.resume.eager, out.resume.eager, sizeof out.resume.eager));
    EXPECT_EQ(DT_PROTOCOL, dt_path_frame_decode(resuming.body(), resuming.body_bytes() - 8, 2, 1, &out))
        << "without the generations";
}

TEST(Messages, SwitchSaysWhetherTheSenderHasItsProof)
{
    for (bool is_stopped : {false, true}) {
        dt_path_frame frame = {};
        frame.message = DT_PATH_MSG_SWITCH;
        frame.is_stopped = is_stopped;
        Frame switching;
        dt_path_frame out;
        dt_path_frame_encode(&frame, 1, &switching.w);
        ASSERT_EQ(DT_OK, dt_path_frame_decode(switching.body(), switching.body_bytes(), 2, 1, &out));
        EXPECT_EQ(is_stopped, out.is_stopped);
        EXPECT_EQ(DT_PROTOCOL,
                  dt_path_frame_decode(switching.body(), switching.body_bytes() - 1, 2, 1, &out));
    }
}

TEST(Messages, ResumeWhoseFirstIncompleteMessageIsCompleteIsRefused)
{
    dt_path_frame frame = {};
    frame.message = DT_PATH_MSG_RESUME;
    frame.resume = {1000, 7, {}};
    Frame resuming;
    dt_path_frame out;
    dt_path_frame_encode(&frame, 1, &resuming.w);
    EXPECT_EQ(DT_PROTOCOL, dt_path_frame_decode(resuming.body(), resuming.body_bytes(), 2, 1, &out));
}

TEST(Messages, ReadyNamesPathsThatWereAgreedAndAtLeastOne)
{
    for (uint32_t mask : {0u, 4u, 0x80000001u}) {
        Frame frame;
        dt_ready ready = {mask}, out;
        dt_ready_encode(&ready, &frame.w);
        EXPECT_EQ(DT_PROTOCOL, dt_ready_decode(frame.body(), frame.body_bytes(), &kTerms, &out)) << mask;
    }
}

TEST(Messages, TermsOutOfRangeAreRefused)
{
    dt_terms bad[] = {{0, 1, 64, 65536},      {5, 1, 64, 65536}, {1, 0, 64, 65536},     {1, 129, 64, 65536},
                      {1, 1, 63, 65536},      {1, 1, 4, 65536},  {1, 1, 128, 65536},    {1, 1, 64, 0},
                      {1, 1, 64, 65536 + 64}, {1, 1, 64, 1024},  {1, 1, 64, 0x80000000}};
    for (const dt_terms &terms : bad) {
        Frame frame;
        dt_hello hello = Hello(), out;
        hello.wanted = terms;
        dt_hello_encode(&hello, &frame.w);
        EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(frame.body(), frame.body_bytes(), &out))
            << terms.paths << " " << terms.qps << " " << terms.slots << " " << terms.chunk_bytes;
    }
}

TEST(Messages, TextThatIsNotPrintableIsRefused)
{
    Frame frame;
    dt_hello hello = Hello(), out;
    strcpy(hello.host, "a\nb");
    dt_hello_encode(&hello, &frame.w);
    EXPECT_EQ(DT_PROTOCOL, dt_hello_decode(frame.body(), frame.body_bytes(), &out));
}

TEST(Messages, AFrameThatDoesNotFitLeavesNothingBehind)
{
    uint8_t bytes[40];
    dt_writer w = {bytes, sizeof bytes, 0, false};
    dt_close close = {1};
    dt_close_encode(&close, &w);
    ASSERT_EQ(16u, w.used);
    dt_hello hello = Hello();
    dt_hello_encode(&hello, &w);
    EXPECT_TRUE(w.is_full);
    EXPECT_EQ(16u, w.used);
}

using Decoder = std::function<dt_status(const uint8_t *, size_t)>;

std::vector<std::pair<std::vector<uint8_t>, Decoder>> Bodies()
{
    std::vector<std::pair<std::vector<uint8_t>, Decoder>> all;
    auto add = [&](const Frame &frame, Decoder decode) {
        all.emplace_back(std::vector<uint8_t>(frame.body(), frame.body() + frame.body_bytes()), decode);
    };
    Frame hello_frame, answer_frame, reject_frame, paths_frame, ready_frame, close_frame, fact_frame;
    dt_hello hello = Hello();
    dt_hello_encode(&hello, &hello_frame.w);
    add(hello_frame, [](const uint8_t *b, size_t n) {
        dt_hello out;
        return dt_hello_decode(b, n, &out);
    });
    dt_answer answer = Answer();
    dt_answer_encode(&answer, &answer_frame.w);
    add(answer_frame, [](const uint8_t *b, size_t n) {
        dt_answer out;
        return dt_answer_decode(b, n, &out);
    });
    dt_reject reject = {"no such listener"};
    dt_reject_encode(&reject, &reject_frame.w);
    add(reject_frame, [](const uint8_t *b, size_t n) {
        dt_reject out;
        return dt_reject_decode(b, n, &out);
    });
    dt_paths_offer offer = Offer();
    dt_paths_encode(&offer, &kTerms, &paths_frame.w);
    add(paths_frame, [](const uint8_t *b, size_t n) {
        dt_paths_offer out;
        return dt_paths_decode(b, n, &kTerms, &out);
    });
    dt_ready ready = {1};
    dt_ready_encode(&ready, &ready_frame.w);
    add(ready_frame, [](const uint8_t *b, size_t n) {
        dt_ready out;
        return dt_ready_decode(b, n, &kTerms, &out);
    });
    dt_close close = {5};
    dt_close_encode(&close, &close_frame.w);
    add(close_frame, [](const uint8_t *b, size_t n) {
        dt_close out;
        return dt_close_decode(b, n, &out);
    });
    dt_fact fact = {5, 1, 2};
    dt_fact_encode(DT_FRAME_QUERY, &fact, &fact_frame.w);
    add(fact_frame, [](const uint8_t *b, size_t n) {
        dt_fact out;
        return dt_fact_decode(b, n, DT_PATHS_MAX, &out);
    });
    Frame grant_frame;
    dt_grant grant = {4096, 4096, 1, {7}};
    dt_grant_encode(&grant, DT_PATHS_MAX, &grant_frame.w);
    add(grant_frame, [](const uint8_t *b, size_t n) {
        dt_grant out;
        return dt_grant_decode(b, n, DT_PATHS_MAX, &out);
    });
    return all;
}

TEST(Messages, EveryPrefixAndAnyExtraByteIsRefused)
{
    for (auto &[body, decode] : Bodies()) {
        EXPECT_EQ(DT_OK, decode(body.data(), body.size()));
        for (size_t bytes = 0; bytes < body.size(); bytes++) {
            std::vector<uint8_t> cut(body.begin(),
                                     body.begin() + bytes); // its own block: ASan sees overreads
            ASSERT_EQ(DT_PROTOCOL, decode(cut.data(), cut.size())) << bytes << " of " << body.size();
        }
        std::vector<uint8_t> longer = body;
        longer.push_back(0);
        EXPECT_EQ(DT_PROTOCOL, decode(longer.data(), longer.size()));
    }
}

TEST(Messages, MutatedBodiesAreDecodedOrRefusedAndNeverHurt)
{
    dt_prng prng;
    dt_prng_init(&prng, 20261120);
    unsigned refused = 0, accepted = 0;
    for (auto &[body, decode] : Bodies()) {
        for (int round = 0; round < 20000; round++) {
            std::vector<uint8_t> mutated = body;
            for (uint64_t n = dt_prng_between(&prng, 1, 4); n; n--)
                mutated[dt_prng_below(&prng, mutated.size())] = (uint8_t)dt_prng_next(&prng);
            dt_status status = decode(mutated.data(), mutated.size());
            ASSERT_TRUE(status == DT_OK || status == DT_PROTOCOL);
            (status == DT_OK ? accepted : refused)++;
        }
    }
    EXPECT_GT(refused, 1000u);
    EXPECT_GT(accepted, 1000u);
}

TEST(Messages, ForeignFrameHeadersAreRefused)
{
    dt_frame_header header;
    const uint8_t http[] = "GET / HT";
    EXPECT_EQ(DT_PROTOCOL, dt_frame_header_decode(http, &header));
    uint8_t too_long[8] = {'D', 'T', 'R', 'C', 1, 0, 0x71, 0x12}; // 4721
    EXPECT_EQ(DT_PROTOCOL, dt_frame_header_decode(too_long, &header));
    too_long[6] = 0x70;
    EXPECT_EQ(DT_OK, dt_frame_header_decode(too_long, &header));
    EXPECT_EQ(DT_FRAME_BODY_MAX, header.body_bytes);
}
} // namespace
