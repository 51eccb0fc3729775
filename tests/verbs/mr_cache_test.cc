/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "verbs/mr_cache.h"

namespace
{
constexpr uint64_t kPage = 4096;

/* A device that remembers what is registered. Its own lock finds calls that are not serialised. */
struct FakeDevice {
    std::mutex mutex;
    std::map<uint64_t, dt_mr_request> regions; /* by handle */
    uint64_t next = 1;
    int fail_register = 0;
    int fail_deregister = 0;
    int fail_after = -1; /* regions; -1: never */
    bool is_gone = false;
};

ibv_mr *Register(void *arg, const dt_mr_request *request, uint32_t *lkey, uint32_t *rkey)
{
    auto *device = static_cast<FakeDevice *>(arg);
    std::lock_guard<std::mutex> lock(device->mutex);

    if (device->fail_register || device->fail_after == 0) {
        errno = device->fail_register ? device->fail_register : EIO;
        return nullptr;
    }
    device->fail_after -= device->fail_after > 0;
    uint64_t handle = device->next++;
    device->regions[handle] = *request;
    *lkey = static_cast<uint32_t>(handle);
    *rkey = static_cast<uint32_t>(handle + 1000000);
    return reinterpret_cast<ibv_mr *>(handle);
}

int Deregister(void *arg, ibv_mr *ibv)
{
    auto *device = static_cast<FakeDevice *>(arg);
    std::lock_guard<std::mutex> lock(device->mutex);

    EXPECT_EQ(1u, device->regions.erase(reinterpret_cast<uint64_t>(ibv)));
    return device->fail_deregister;
}

bool IsGone(void *arg)
{
    return static_cast<FakeDevice *>(arg)->is_gone;
}

const dt_mr_cache_ops kOps = {Register, Deregister, IsGone};

class MrCache : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_mr_cache_init(&cache, &kOps, &device, kPage);
    }

    void TearDown() override
    {
        EXPECT_EQ(0u, dt_mr_cache_close(&cache));
        EXPECT_TRUE(device.regions.empty());
    }

    dt_mr *Get(uint64_t addr, uint64_t bytes, uint32_t access = DT_MR_REMOTE_WRITE, int fd = -1)
    {
        dt_mr_request request = {addr, bytes, access, fd, 0, 0};
        dt_mr *mr = nullptr;
        EXPECT_EQ(DT_OK, dt_mr_cache_get(&cache, &request, &mr));
        return mr;
    }

    void Put(dt_mr *mr)
    {
        EXPECT_EQ(DT_OK, dt_mr_cache_put(&cache, mr));
    }

    FakeDevice device;
    dt_mr_cache cache;
};

TEST_F(MrCache, RoundsOutwardsToPages)
{
    dt_mr *mr = Get(0x10001, 1);
    EXPECT_EQ(0x10000u, mr->addr);
    EXPECT_EQ(kPage, mr->bytes);
    dt_mr *two = Get(0x21fff, 2);
    EXPECT_EQ(0x21000u, two->addr);
    EXPECT_EQ(2 * kPage, two->bytes);
    Put(mr);
    Put(two);
}

TEST_F(MrCache, ACoveringRegionIsSharedUntilTheLastReference)
{
    dt_mr *big = Get(0x100000, 16 * kPage);
    dt_mr *inside = Get(0x100000 + 5 * kPage + 7, 100);
    dt_mr *edge = Get(0x100000 + 15 * kPage, kPage);
    EXPECT_EQ(big, inside);
    EXPECT_EQ(big, edge);
    dt_mr *beyond = Get(0x100000 + 15 * kPage, kPage + 1);
    EXPECT_NE(big, beyond);
    Put(big);
    Put(edge);
    EXPECT_EQ(2u, device.regions.size());
    Put(inside);
    EXPECT_EQ(1u, device.regions.size()) << "deregistered before put returned";
    Put(beyond);
    EXPECT_EQ(3u, device.next) << "registered twice";
}

// The covering one begins first of all, with many small ones between it and the range that is looked up.
TEST_F(MrCache, ACoveringRegionIsFoundBehindManyOthers)
{
    std::vector<dt_mr *> small;
    for (uint64_t i = 1; i < 200; i++)
        small.push_back(Get(0x1000000 + 2 * i * kPage, kPage));
    dt_mr *big = Get(0x1000000, 1000 * kPage);
    EXPECT_EQ(big, Get(0x1000000 + 801 * kPage, kPage));
    EXPECT_EQ(big, Get(0x1000000 + 3 * kPage, kPage)); // not one of the small ones
    Put(big), Put(big), Put(big);
    EXPECT_NE(big, small[0]);
    for (dt_mr *mr : small)
        Put(mr);
}

TEST_F(MrCache, MoreAccessAnswersForLessButNotTheOtherWayRound)
{
    dt_mr *write = Get(0x10000, kPage, DT_MR_REMOTE_WRITE | DT_MR_LOCAL_WRITE);
    EXPECT_EQ(write, Get(0x10000, kPage, DT_MR_LOCAL_WRITE));
    dt_mr *read = Get(0x10000, kPage, DT_MR_REMOTE_READ);
    EXPECT_NE(write, read);
    Put(write), Put(write), Put(read);
}

TEST_F(MrCache, StrictOrderIsNeverAnsweredByRelaxedOrderNorTheOtherWayRound)
{
    dt_mr *payload = Get(0x100000, 4 * kPage, DT_MR_REMOTE_WRITE | DT_MR_RELAXED_ORDERING);
    dt_mr *control = Get(0x100000, kPage, DT_MR_REMOTE_WRITE);
    EXPECT_NE(payload, control);
    dt_mr *more_payload = Get(0x100000, kPage, DT_MR_REMOTE_WRITE | DT_MR_RELAXED_ORDERING);
    EXPECT_NE(control, more_payload);
    Put(payload);
    Put(control);
    Put(more_payload);
}

TEST_F(MrCache, DmaBufsAreNotMixedWithOrdinaryMemoryNorRounded)
{
    dt_mr *host = Get(0x10000, 4 * kPage);
    dt_mr *dmabuf = Get(0x10010, 100, DT_MR_REMOTE_WRITE, 5);
    EXPECT_NE(host, dmabuf);
    EXPECT_EQ(0x10010u, dmabuf->addr);
    EXPECT_EQ(100u, dmabuf->bytes);
    EXPECT_EQ(dmabuf, Get(0x10020, 10, DT_MR_REMOTE_WRITE, 6));
    EXPECT_EQ(host, Get(0x10020, 10));
    Put(host), Put(host), Put(dmabuf), Put(dmabuf);
}

TEST_F(MrCache, RangesThatCannotBeAreInvalid)
{
    const struct {
        uint64_t addr, bytes;
    } ranges[] = {{0x1000, 0},
                  {0x1000, UINT64_MAX},
                  {UINT64_MAX, 1},
                  {UINT64_MAX - 100, 100},
                  {UINT64_MAX - 4095, 1},
                  {1ull << 63, 1ull << 63}};

    for (const auto &range : ranges) {
        dt_mr_request request = {range.addr, range.bytes, 0, -1, 0, 0};
        dt_mr *mr;
        EXPECT_EQ(DT_INVALID, dt_mr_cache_get(&cache, &request, &mr)) << range.addr << " " << range.bytes;
    }
}

TEST_F(MrCache, ARefusalLeavesNothingAndKeepsErrno)
{
    dt_mr_request request = {0x10000, kPage, 0, -1, 0, 0};
    dt_mr *mr;

    device.fail_register = ENOMEM;
    EXPECT_EQ(DT_SYSTEM, dt_mr_cache_get(&cache, &request, &mr));
    EXPECT_EQ(ENOMEM, errno);
    device.fail_register = 0;
    mr = Get(0x10000, kPage);
    device.fail_deregister = EBUSY;
    EXPECT_EQ(DT_SYSTEM, dt_mr_cache_put(&cache, mr));
    EXPECT_EQ(EBUSY, errno);
    device.fail_deregister = 0;
}

TEST_F(MrCache, ARefusalOfADeviceThatIsGoneIsNoError)
{
    dt_mr_request request = {0x10000, kPage, 0, -1, 0, 0};
    dt_mr *mr;

    device.fail_register = EIO;
    device.is_gone = true;
    EXPECT_EQ(DT_NOT_FOUND, dt_mr_cache_get(&cache, &request, &mr));
}

/* What users hold is the same; the device behind it, and its keys, are others. */
TEST_F(MrCache, RenewsEveryRegionInPlaceOnAnotherDevice)
{
    int file = dup(STDERR_FILENO);
    FakeDevice next;
    next.next = 500;
    dt_mr *high = Get(0x900000, kPage, DT_MR_LOCAL_WRITE), *low = Get(0x10000, 4 * kPage);
    dt_mr *dmabuf = Get(0x50010, 100, DT_MR_REMOTE_WRITE, file);
    close(file); // as NCCL does
    next.fail_register = ENOMEM;
    EXPECT_EQ(DT_SYSTEM, dt_mr_cache_renew(&cache, &next));
    EXPECT_EQ(ENOMEM, errno);
    EXPECT_EQ(1u, high->lkey);
    next.fail_register = 0;
    next.fail_after = 2;
    EXPECT_EQ(DT_SYSTEM, dt_mr_cache_renew(&cache, &next)) << "the last one";
    EXPECT_TRUE(next.regions.empty()) << "all or none";
    EXPECT_EQ(3u, device.regions.size());
    next.fail_after = -1;
    device.fail_deregister = EIO; // it is gone
    ASSERT_EQ(DT_OK, dt_mr_cache_renew(&cache, &next));
    EXPECT_TRUE(device.regions.empty());
    ASSERT_EQ(3u, next.regions.size());
    for (dt_mr *mr : {high, low, dmabuf}) {
        const dt_mr_request &request = next.regions.at(mr->lkey);
        EXPECT_EQ(mr->addr, request.addr);
        EXPECT_EQ(mr->bytes, request.bytes);
        EXPECT_EQ(mr->lkey + 1000000, mr->rkey);
        EXPECT_EQ(mr == high ? DT_MR_LOCAL_WRITE : DT_MR_REMOTE_WRITE, (int)request.access);
        EXPECT_EQ(mr == dmabuf, request.fd >= 0);
    }
    EXPECT_EQ(low, Get(0x11000, kPage));
    dt_mr *fresh = Get(0x700000, kPage);
    EXPECT_EQ(1u, next.regions.count(fresh->lkey));
    Put(low), Put(low), Put(high), Put(dmabuf), Put(fresh);
    EXPECT_TRUE(next.regions.empty());
}

TEST_F(MrCache, ADmaBufWithoutADescriptorCannotBeRenewed)
{
    FakeDevice next;
    dt_mr *dmabuf = Get(0x50010, 100, DT_MR_REMOTE_WRITE, 1 << 20); // none that exists
    EXPECT_EQ(DT_SYSTEM, dt_mr_cache_renew(&cache, &next));
    EXPECT_EQ(EBADF, errno);
    Put(dmabuf);
}

TEST_F(MrCache, SurvivesEveryFailedAllocation)
{
    dt_mr_request request = {0x10000, kPage, 0, -1, 0, 0};
    dt_mr *mr;

    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = dt_mr_cache_get(&cache, &request, &mr);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
        EXPECT_TRUE(device.regions.empty());
    }
    Put(mr);
}

TEST_F(MrCache, RemainingRegionsAreDeregisteredAtClose)
{
    FakeDevice other;
    dt_mr_cache left;
    dt_mr_request request = {0x10000, kPage, 0, -1, 0, 0};
    dt_mr *mr;

    dt_mr_cache_init(&left, &kOps, &other, kPage);
    EXPECT_EQ(DT_OK, dt_mr_cache_get(&left, &request, &mr));
    EXPECT_EQ(DT_OK, dt_mr_cache_get(&left, &request, &mr));
    EXPECT_EQ(1u, dt_mr_cache_close(&left));
    EXPECT_TRUE(other.regions.empty());
}

// While a reference is held, the device must have a region with that key that covers the range.
TEST_F(MrCache, ManyThreadsNeverHoldARegionThatIsGone)
{
    constexpr int kThreads = 8, kRounds = 4000;
    std::vector<std::thread> threads;

    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([this, t] {
            dt_prng prng;
            dt_prng_init_stream(&prng, 7, static_cast<uint64_t>(t));
            dt_mr *before =
                nullptr; // held for one more round, so that regions are shared whatever the threads' timing
            for (int i = 0; i < kRounds; i++) {
                uint64_t addr = 0x100000 + dt_prng_below(&prng, 16) * kPage;
                uint64_t bytes = dt_prng_between(&prng, 1, 4 * kPage);
                dt_mr *mr = Get(addr, bytes);
                {
                    std::lock_guard<std::mutex> lock(device.mutex);
                    auto it = device.regions.find(mr->lkey);
                    ASSERT_TRUE(it != device.regions.end());
                    ASSERT_LE(it->second.addr, addr);
                    ASSERT_GE(it->second.addr + it->second.bytes, addr + bytes);
                }
                if (before)
                    Put(before);
                before = mr;
            }
            Put(before);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LT(device.next - 1, uint64_t{kThreads} * kRounds) << "nothing was shared";
}
} // namespace
