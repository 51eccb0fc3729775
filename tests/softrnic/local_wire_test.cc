// SPDX-License-Identifier: Apache-2.0
// The `local` wire without engines and threads: two hosts of one process that know each other only by socket,
// as processes do, and two wires of one host. This test is the helper thread and both engines.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "softrnic/gid.h"
#include "softrnic/wire_local.h"
#include "tests/harness/harness.h"

namespace
{
const uint64_t kLarge = DT_LOCAL_BOUNCE_BYTES_MAX + 1; // stays with its sender

struct Arrived {
    dt_packet packet;
    std::vector<uint8_t> payload;
    int error;
};

// An instance's socket is known to the whole machine, and several of these tests may run at once.
uint64_t Instance(uint32_t number)
{
    return static_cast<uint64_t>(getpid()) << 16 | number;
}

// A host with one wire on it; time is the test's.
class Host
{
  public:
    explicit Host(uint32_t number, bool no_process_vm = false)
    {
        dt_local_host_options options = {};

        epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        options.instance = Instance(number);
        options.epoll_fd = epoll_fd;
        options.no_process_vm = no_process_vm;
        options.kick = [](void *arg) { static_cast<Host *>(arg)->kicks++; };
        options.kick_arg = this;
        EXPECT_EQ(dt_local_host_create(&options, &host), 0);
        faults = dt_faults_create(1);
        AddWire();
    }
    ~Host()
    {
        for (dt_local_wire *wire : wires)
            if (wire)
                dt_local_wire_destroy(wire);
        dt_local_host_destroy(host);
        dt_faults_destroy(faults);
        close(epoll_fd);
    }
    void AddWire()
    {
        wires.push_back(dt_local_wire_create(host, static_cast<uint32_t>(wires.size()), faults));
    }

    // As the helper thread does it.
    int ServeSources(uint64_t now_ns = 0)
    {
        epoll_event event;
        int count = 0;

        for (; epoll_wait(epoll_fd, &event, 1, 0) == 1; count++) {
            auto *source = static_cast<dt_source *>(event.data.ptr);
            source->ready(source, event.events, now_ns);
        }
        dt_local_host_progress(host, now_ns);
        return count;
    }

    dt_wire_link *LinkTo(const Host &other, size_t device = 0, size_t from = 0)
    {
        uint8_t gid[16];
        dt_local_wire_gid(other.wires[device], gid);
        return Ops()->link(dt_local_wire_base(wires[from]), gid);
    }
    const dt_wire_ops *Ops() const
    {
        return dt_local_wire_base(wires[0])->ops;
    }

    void Transmit(dt_wire_link *link, const std::vector<uint8_t> &payload, uint32_t psn, uint64_t now_ns = 0)
    {
        dt_packet packet = {};

        packet.src_qpn = 77;
        packet.psn = psn;
        packet.psn_count = 1;
        packet.op = DT_PACKET_SEND;
        packet.payload_bytes = payload.size();
        packet.iov_count = payload.empty() ? 0 : 1;
        packet.iov[0] = {const_cast<uint8_t *>(payload.data()), payload.size()};
        ASSERT_TRUE(Ops()->can_transmit(link));
        Ops()->transmit(link, &packet, now_ns);
    }

    std::vector<Arrived> Receive(size_t device = 0)
    {
        struct Arg {
            Host *host;
            std::vector<Arrived> arrived;
        } arg = {this, {}};

        while (dt_local_wire_receive(
            wires[device],
            [](void *opaque, const dt_packet *packet, dt_received *received, uint64_t) {
                auto *to = static_cast<Arg *>(opaque);
                Arrived one = {*packet, std::vector<uint8_t>(packet->payload_bytes), 0};
                if (to->host->before_landing)
                    to->host->before_landing();
                one.error = to->host->Ops()->land(received, 0, one.payload.data(), one.payload.size());
                to->arrived.push_back(std::move(one));
            },
            &arg, 0))
            ;
        return arg.arrived;
    }

    int epoll_fd;
    int kicks = 0;
    dt_local_host *host = nullptr;
    dt_faults *faults = nullptr;
    std::vector<dt_local_wire *> wires;
    std::function<void()> before_landing;
};

std::vector<uint8_t> bytes_of(size_t count, uint8_t seed)
{
    std::vector<uint8_t> bytes(count);

    for (size_t i = 0; i < count; i++)
        bytes[i] = static_cast<uint8_t>(i * 13 + seed);
    return bytes;
}

TEST(LocalWire, PacketsOfAllSizesCross)
{
    for (bool no_process_vm : {false, true}) {
        Host a(1001), b(1002, no_process_vm);
        dt_wire_link *link = a.LinkTo(b);
        b.ServeSources();
        uint32_t psn = 0;
        std::vector<std::vector<uint8_t>> sent;
        for (size_t size : {0ul, 1ul, 256ul, 257ul, kLarge - 1, kLarge, 524288ul}) {
            sent.push_back(bytes_of(size, static_cast<uint8_t>(psn)));
            a.Transmit(link, sent.back(), psn++);
        }
        std::vector<Arrived> arrived = b.Receive();
        ASSERT_EQ(arrived.size(), sent.size());
        for (size_t i = 0; i < sent.size(); i++) {
            EXPECT_EQ(arrived[i].error, 0);
            EXPECT_EQ(arrived[i].packet.psn, i);
            EXPECT_EQ(arrived[i].payload, sent[i]);
        }
        dt_local_counters counters;
        dt_local_wire_query_counters(b.wires[0], &counters);
        EXPECT_EQ(counters.fetches, no_process_vm ? 0u : 2u) << "the two largest ones, where that is allowed";
    }
}

TEST(LocalWire, TwoWiresOfOneHost)
{
    Host a(1003);
    a.AddWire();
    dt_wire_link *link = a.LinkTo(a, 1), *self = a.LinkTo(a, 0);
    EXPECT_EQ(a.LinkTo(a, 1), link) << "one link for one address";
    EXPECT_GT(a.kicks, 0) << "the other RNIC's server has to look";
    std::vector<uint8_t> large = bytes_of(100000, 3);
    a.Transmit(link, large, 1);
    a.Transmit(self, large, 2);
    std::vector<Arrived> there = a.Receive(1), here = a.Receive(0);
    ASSERT_EQ(there.size(), 1u);
    ASSERT_EQ(here.size(), 1u);
    EXPECT_EQ(there[0].payload, large);
    EXPECT_EQ(here[0].payload, large);
    // The receiver goes: what is sent is lost, and nothing else happens.
    dt_local_wire_destroy(a.wires[1]);
    a.wires[1] = nullptr;
    a.Transmit(link, large, 3, 0);
    dt_local_counters counters;
    dt_local_wire_query_counters(a.wires[0], &counters);
    EXPECT_EQ(counters.lost_absent, 1u);
}

// What was transmitted is unread until the other end has taken it, or is not there to take it.
TEST(LocalWire, DetectsUnreadRecords)
{
    Host a(1020);
    a.AddWire();
    const dt_wire_ops *ops = a.Ops();
    dt_wire_link *link = a.LinkTo(a, 1);

    a.Transmit(link, {}, 1);
    uint32_t first = ops->mark(link);
    a.Transmit(link, {}, 2);
    uint32_t second = ops->mark(link);
    EXPECT_TRUE(ops->is_unread(link, first));
    EXPECT_TRUE(ops->is_unread(link, second));
    EXPECT_EQ(a.Receive(1).size(), 2u);
    EXPECT_FALSE(ops->is_unread(link, second));
    a.Transmit(link, {}, 3);
    EXPECT_FALSE(ops->is_unread(link, second)) << "the newer one is no reason to wait for the older";
    EXPECT_TRUE(ops->is_unread(link, ops->mark(link)));
    dt_local_wire_destroy(a.wires[1]);
    a.wires[1] = nullptr;
    EXPECT_FALSE(ops->is_unread(link, ops->mark(link))) << "no process will read it";
}

// No process there: lost, tried again after a while, found when it comes.
TEST(LocalWire, AbsentPeerIsFoundLater)
{
    Host a(1004);
    uint8_t gid[16];
    dt_gid_make(Instance(1005), 0, gid);
    dt_wire_link *link = a.Ops()->link(dt_local_wire_base(a.wires[0]), gid);
    ASSERT_NE(link, nullptr);
    a.Transmit(link, {}, 1, 0);
    Host b(1005);
    a.Transmit(link, {}, 2, DT_LOCAL_RETRY_NS / 2);
    b.ServeSources();
    EXPECT_TRUE(b.Receive().empty()) << "it was not tried again so soon";
    a.Transmit(link, {}, 3, 2 * DT_LOCAL_RETRY_NS);
    b.ServeSources();
    std::vector<Arrived> arrived = b.Receive();
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(arrived[0].packet.psn, 3u);
    // An address that is none.
    memset(gid, 0, sizeof gid);
    ASSERT_NE(a.Ops()->link(dt_local_wire_base(a.wires[0]), gid), nullptr);
}

// What a sender left in the ring is received after its death, but for what lay in its memory.
TEST(LocalWire, SenderGoes)
{
    Host b(1006);
    std::vector<uint8_t> small = bytes_of(100, 1), middle = bytes_of(10000, 2), large = bytes_of(kLarge, 3);
    {
        Host a(1007);
        dt_wire_link *link = a.LinkTo(b);
        b.ServeSources();
        a.Transmit(link, small, 1);
        a.Transmit(link, middle, 2);
        b.Receive(); // taken in; now some more
        a.Transmit(link, small, 3);
        a.Transmit(link, middle, 4);
        a.Transmit(link, large, 5);
    }
    b.ServeSources();
    std::vector<Arrived> arrived = b.Receive();
    ASSERT_EQ(arrived.size(), 3u);
    EXPECT_EQ(arrived[0].payload, small);
    EXPECT_EQ(arrived[1].payload, middle);
    EXPECT_EQ(arrived[2].error, ESRCH);
    dt_local_wire_reap(b.wires[0]);
    EXPECT_TRUE(dt_local_wire_sleep(b.wires[0])) << "nothing of it is left";
}

// A process may outlive thousands of peers. Nothing of one that is gone is kept but its address.
TEST(LocalWire, ReceiverGoes)
{
    Host a(1023);
    size_t before = 0;
    for (int i = 0; i < 5; i++) {
        {
            Host b(1024 + static_cast<uint32_t>(i));
            dt_wire_link *link = a.LinkTo(b);
            b.ServeSources();
            a.Transmit(link, {}, 1);
            EXPECT_EQ(b.Receive().size(), 1u);
        }
        a.ServeSources();
        dt_local_wire_reap(a.wires[0]);
        std::filesystem::directory_iterator open("/proc/self/fd"), end;
        size_t count = static_cast<size_t>(std::distance(open, end));
        if (i > 0) {
            EXPECT_EQ(count, before) << "descriptors, after " << i + 1 << " receivers";
        }
        before = count;
    }
    // And the address of one may be another process's later.
    Host b(1024);
    a.Transmit(a.LinkTo(b), {}, 2, 2 * DT_LOCAL_RETRY_NS);
    b.ServeSources();
    EXPECT_EQ(b.Receive().size(), 1u);
}

// A process that has no descriptor left: who calls waits until there is one, and it does not spin meanwhile.
TEST(LocalWire, APeerWaitsForADescriptor)
{
    detour_test::ExpectWarning("a connection cannot be accepted: Too many open files");
    Host a(1030), b(1031);
    dt_wire_link *link = a.LinkTo(b);
    rlimit limit, none;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = {0, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_EQ(b.ServeSources(0), 1);
    EXPECT_EQ(b.ServeSources(1), 0) << "it fires again at once";
    EXPECT_EQ(dt_local_host_deadline_ns(b.host), DT_LOCAL_LISTEN_NS);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    b.ServeSources(DT_LOCAL_LISTEN_NS);
    EXPECT_GT(b.ServeSources(DT_LOCAL_LISTEN_NS), 0);
    a.Transmit(link, {}, 1);
    EXPECT_EQ(b.Receive().size(), 1u);
}

TEST(LocalWire, SleepersAreWoken)
{
    Host a(1008), b(1009);
    dt_wire_link *link = a.LinkTo(b);
    b.ServeSources();
    EXPECT_FALSE(dt_local_wire_sleep(b.wires[0])) << "a newcomer waits";
    b.Receive();
    EXPECT_TRUE(dt_local_wire_sleep(b.wires[0]));
    EXPECT_EQ(b.ServeSources(), 0);
    a.Transmit(link, {}, 1);
    EXPECT_EQ(b.ServeSources(), 1) << "woken";
    a.Transmit(link, {}, 2);
    EXPECT_EQ(b.ServeSources(), 0) << "once is enough";
    EXPECT_FALSE(dt_local_wire_sleep(b.wires[0])) << "there is something";
    EXPECT_EQ(b.Receive().size(), 2u);
    dt_local_wire_awake(b.wires[0]);
    a.Transmit(link, {}, 3);
    EXPECT_EQ(b.ServeSources(), 0) << "who is awake is not woken";
    b.Receive();

    // A sender that waits for room.
    uint32_t psn = 10;
    while (a.Ops()->can_transmit(link))
        a.Transmit(link, {}, psn++);
    EXPECT_TRUE(dt_local_wire_sleep(a.wires[0]));
    EXPECT_EQ(a.ServeSources(), 0);
    EXPECT_EQ(b.Receive().size(), psn - 10);
    EXPECT_EQ(a.ServeSources(), 1) << "there is room";
    EXPECT_TRUE(a.Ops()->can_transmit(link));
}

// What was to be sent there is wanted no more (its queue pair failed): room, or the end of the other one, is
// news once and not for ever.
TEST(LocalWire, SleepsAgainWhenNoLinkNeedsRoom)
{
    for (bool dies : {false, true}) {
        Host a(1021);
        auto b = std::make_unique<Host>(1022);
        dt_wire_link *link = a.LinkTo(*b);
        b->ServeSources();
        while (a.Ops()->can_transmit(link))
            a.Transmit(link, {}, 1);
        EXPECT_TRUE(dt_local_wire_sleep(a.wires[0]));
        if (dies)
            b.reset();
        else
            b->Receive();
        EXPECT_GT(a.ServeSources(), 0) << "woken";
        EXPECT_FALSE(dt_local_wire_sleep(a.wires[0])) << "the engine has to look";
        EXPECT_TRUE(dt_local_wire_sleep(a.wires[0])) << "it has looked, and wants nothing";
    }
}

// Who was awake, and then takes nothing: it is woken once for that, and only when it had its time.
TEST(LocalWire, APeerThatReadsNothingIsNudgedOnce)
{
    Host a(1012), b(1013);
    dt_wire_link *link = a.LinkTo(b);
    b.ServeSources();
    b.Receive();
    EXPECT_FALSE(dt_local_wire_has_unread(b.wires[0]));
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 0) << "nothing waits for it";

    a.Transmit(link, {}, 1);
    EXPECT_TRUE(dt_local_wire_has_unread(b.wires[0]));
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 0) << "this is new";
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 1) << "woken";
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 0) << "once is enough";

    a.Transmit(link, {}, 2);
    dt_local_wire_nudge(a.wires[0]);
    b.Receive();
    a.Transmit(link, {}, 3);
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 0) << "it took something meanwhile";
    dt_local_wire_nudge(a.wires[0]);
    EXPECT_EQ(b.ServeSources(), 1);
}

// Payload that its sender has taken back is lost, not landed with whatever is there now; other payload is
// not.
TEST(LocalWire, TakenBackIsLost)
{
    Host a(1010), b(1011);
    dt_wire_link *link = a.LinkTo(b);
    std::vector<uint8_t> one = bytes_of(kLarge, 1), two = bytes_of(kLarge, 2), small = bytes_of(1000, 3);
    b.ServeSources();

    auto errors = [&](const std::function<void()> &revoke) {
        a.Transmit(link, one, 1);
        a.Transmit(link, small, 2);
        revoke();
        a.Transmit(link, two, 3);
        std::vector<int> result;
        for (const Arrived &arrived : b.Receive())
            result.push_back(arrived.error);
        return result;
    };
    using Errors = std::vector<int>;
    EXPECT_EQ(errors([] {}), (Errors{0, 0, 0}));
    EXPECT_EQ(errors([&] { a.Ops()->revoke_qp(link, 77); }), (Errors{ESTALE, 0, 0}));
    EXPECT_EQ(errors([&] { a.Ops()->revoke_qp(link, 78); }), (Errors{0, 0, 0})) << "another queue pair";
    dt_wire *base = dt_local_wire_base(a.wires[0]);
    EXPECT_EQ(errors([&] { a.Ops()->revoke_memory(base, &one[500], 1); }), (Errors{ESTALE, 0, 0}));
    EXPECT_EQ(errors([&] { a.Ops()->revoke_memory(base, &one[0] + one.size(), 100); }), (Errors{0, 0, 0}));
    EXPECT_EQ(errors([&] { a.Ops()->revoke_memory(base, small.data(), 1000); }), (Errors{0, 0, 0}))
        << "it was copied at once";
    EXPECT_EQ(errors([&] {
                  for (uint32_t i = 0; i < DT_LOCAL_REVOCATIONS; i++)
                      a.Ops()->revoke_qp(link, 1000 + i);
              }),
              (Errors{ESTALE, 0, 0}))
        << "more than can be remembered";
    // While it is being landed.
    a.Transmit(link, one, 1);
    b.before_landing = [&] { a.Ops()->revoke_qp(link, 77); };
    std::vector<Arrived> arrived = b.Receive();
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(arrived[0].error, ESTALE);
}

TEST(LocalWire, FaultsApply)
{
    Host a(1012), b(1013);
    dt_wire_link *link = a.LinkTo(b);
    dt_fault_rule rule = {};
    std::vector<uint8_t> large = bytes_of(kLarge, 1);
    b.ServeSources();

    rule.action = DT_FAULT_DELAY;
    rule.count = 1;
    rule.delay_ns = 1000;
    dt_faults_add(a.faults, &rule);
    a.Transmit(link, large, 1, 0);
    a.Transmit(link, {}, 2, 0);
    std::vector<uint8_t> as_sent = large;
    std::fill(large.begin(), large.end(), 0); // a delayed packet has a copy of its own
    EXPECT_EQ(dt_local_wire_deadline_ns(a.wires[0]), 1000u);
    dt_local_wire_progress(a.wires[0], 999);
    dt_local_wire_progress(a.wires[0], 1000);
    EXPECT_EQ(dt_local_wire_deadline_ns(a.wires[0]), DT_NEVER_NS);
    std::vector<Arrived> arrived = b.Receive();
    ASSERT_EQ(arrived.size(), 2u);
    EXPECT_EQ(arrived[0].packet.psn, 2u);
    EXPECT_EQ(arrived[1].packet.psn, 1u);
    EXPECT_EQ(arrived[1].payload, as_sent);
}

TEST(LocalWire, ShortOfMemory)
{
    Host b(1015);
    for (int index = 0; index < 6; index++) {
        Host a(1014);
        uint8_t gid[16];
        dt_local_wire_gid(b.wires[0], gid);
        detour_test_fail_alloc(index);
        dt_wire_link *link = a.Ops()->link(dt_local_wire_base(a.wires[0]), gid);
        b.ServeSources();
        bool failed = detour_test_alloc_failed();
        detour_test_fail_alloc(-1);
        EXPECT_TRUE(link || index == 0);
        if (link) {
            a.ServeSources(); // learns that it was refused
            a.Transmit(link, {}, 1, 0);
            a.Transmit(link, {}, 2, 2 * DT_LOCAL_RETRY_NS); // made again when it was not there
            b.ServeSources();
            std::vector<Arrived> arrived = b.Receive();
            ASSERT_FALSE(arrived.empty()) << "allocation " << index << " failed: " << failed;
            EXPECT_EQ(arrived.back().packet.psn, 2u);
        }
    }
}
} // namespace
