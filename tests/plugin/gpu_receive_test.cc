// SPDX-License-Identifier: Apache-2.0
// Receives into GPU memory that one device of two, or none, takes: what comes over the others is copied to
// the GPU from the host's memory. The double of the CUDA driver shows the two apart: what a RNIC writes to
// GPU memory by itself is seen at its address, what was copied there in its alias. A program run per test,
// since devices fail in them.
#include <gtest/gtest.h>

#include <cerrno>
#include <initializer_list>
#include <string>
#include <thread>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"
#include "tests/plugin/pair.h"
#include "transport/net_state.h"
#include "verbs/fault.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;
using detour_test::Until;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;
const char *const kCopy = "cuMemcpy2DAsync_v2";

// The receiver's devices are soft2, of path 0, and soft3, of path 1.
constexpr int kReceiver = 2;

void Order(const char *device, const char *action)
{
    char answer[256];
    ASSERT_EQ(DT_OK,
              dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
        << answer;
}

bool WasLogged(const std::string &part)
{
    for (const std::string &line : detour_test::LoggedLines()) {
        if (line.find(part) != std::string::npos)
            return true;
    }
    return false;
}

// GPU memory, registered for receives; the devices of `refusing` do not take it.
class GpuBuffer
{
  public:
    GpuBuffer(void *comm, size_t bytes, std::initializer_list<int> refusing, bool is_for_rnic = true)
        : comm_(comm), bytes_(bytes),
          memory_(is_for_rnic ? fake_cuda_alloc_for_rnic(0, bytes) : fake_cuda_alloc(0, bytes)),
          alias_(static_cast<uint8_t *>(fake_cuda_alias(memory_)))
    {
        for (int path : refusing) {
            detour_test::ExpectWarning("soft" + std::to_string(kReceiver + path) + ": cannot register " +
                                       std::to_string(bytes) + " bytes");
            Refuse(path, true);
        }
        result_ = net->regMr(comm, memory_, bytes, NCCL_PTR_CUDA, &mhandle_);
        for (int path : refusing)
            Refuse(path, false);
    }
    GpuBuffer(const GpuBuffer &) = delete;
    ~GpuBuffer()
    {
        if (mhandle_)
            Deregister();
        fake_cuda_free(memory_);
    }

    void Deregister()
    {
        EXPECT_EQ(ncclSuccess, net->deregMr(comm_, mhandle_));
        mhandle_ = nullptr;
    }

    // One registration, and no other.
    static void Refuse(int path, bool is_on)
    {
        static uint64_t fired;
        dt_device_fault fault = {};

        fault.id = 1;
        fault.kind = DT_DEVICE_FAULT_FAIL;
        fault.call = DT_DEVICE_CALL_REG_MR;
        fault.error = EFAULT;
        fault.limit = 1;
        fault.fired = &fired;
        dt_device_set_faults(dt_plugin_current()->net->nic[kReceiver + path].device, &fault, is_on ? 1 : 0);
    }

    void *at(size_t offset = 0)
    {
        return static_cast<uint8_t *>(memory_) + offset;
    }

    void Clear(size_t offset, size_t bytes)
    {
        memset(alias_ + offset, 0xdd, bytes);
        memset(at(offset), 0xdd, bytes);
    }

    // By way of the host's memory; straight from the RNIC.
    bool WasCopied(size_t offset, size_t bytes, uint64_t sequence)
    {
        return CountWrong(alias_ + offset, bytes, sequence) == 0;
    }
    bool WasWritten(size_t offset, size_t bytes, uint64_t sequence)
    {
        return CountWrong(static_cast<uint8_t *>(at(offset)), bytes, sequence) == 0;
    }

    void *comm_;
    size_t bytes_;
    void *memory_;
    uint8_t *alias_;
    void *mhandle_ = nullptr;
    ncclResult_t result_;
};

class GpuReceive : public ::testing::Test
{
  public:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, net->init(nullptr));
        pair_.Connect(0, kReceiver);
        from_ = &pair_.Register(pair_.send, 8 << 20, 0);
    }

    void TearDown() override
    {
        pair_.Close();
        fake_cuda_mend();
        fake_cuda_set_speed(0, 0);
        auto faults = fake_cuda_count_faults();
        EXPECT_EQ(faults.unpinned_copies, 0u);
        EXPECT_EQ(faults.forbidden_calls, 0u);
        EXPECT_EQ(faults.no_context_calls, 0u);
        EXPECT_EQ(faults.unsafe_calls, 0u);
    }

    void *Receive(GpuBuffer &to, size_t offset, size_t bytes, int tag = 0)
    {
        return pair_.Receive(to.at(offset), static_cast<int>(bytes), tag, to.mhandle_);
    }

    void *Send(size_t offset, size_t bytes, uint64_t sequence, int tag = 0)
    {
        Fill(from_->data() + offset, bytes, sequence);
        return pair_.Send(from_->data() + offset, static_cast<int>(bytes), tag, from_->mhandle);
    }

    // As NCCL does after each receive. True when there was something to wait for.
    bool Flush(std::initializer_list<GpuBuffer *> buffers, int bytes)
    {
        void *data[8], *mhandles[8], *request = nullptr;
        int sizes[8], n = 0;

        for (GpuBuffer *buffer : buffers) {
            data[n] = buffer->at();
            mhandles[n] = buffer->mhandle_;
            sizes[n++] = bytes;
        }
        EXPECT_EQ(ncclSuccess, net->iflush(pair_.recv, n, data, sizes, mhandles, &request));
        if (request)
            pair_.Wait(request);
        return request != nullptr;
    }

    void MoveOne(GpuBuffer &to, size_t bytes, uint64_t sequence)
    {
        int received = -1;
        void *receive = Receive(to, 0, bytes);
        void *send = Send(0, bytes, sequence);

        pair_.Wait(receive, &received);
        pair_.Wait(send);
        EXPECT_EQ(static_cast<int>(bytes), received);
    }

    // Messages of all sizes, each to memory that was used before.
    void MoveAllSizes(GpuBuffer &to, bool is_copied)
    {
        uint64_t sequence = 1;

        for (size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{129}, size_t{4096}, size_t{65537},
                             size_t{614400}, (size_t{1} << 20) + 77}) {
            for (int i = 0; i < 2; i++, sequence++) {
                to.Clear(0, bytes + 1);
                MoveOne(to, bytes, sequence);
                ASSERT_TRUE(is_copied ? to.WasCopied(0, bytes, sequence) : to.WasWritten(0, bytes, sequence))
                    << bytes;
                ASSERT_EQ(0xdd, to.alias_[bytes]);
                ASSERT_EQ(!is_copied && bytes > 0, Flush({&to}, static_cast<int>(bytes)));
            }
        }
    }

    Pair pair_{net};
    Buffer *from_ = nullptr;
};

// Messages of both ends, eight at a time, each of which is looked at when it is done.
class Stream
{
  public:
    static constexpr int kOpen = 8, kBytes = 40000;

    Stream(GpuReceive *test, GpuBuffer *to) : test_(test), to_(to) {}
    ~Stream()
    {
        while (done_ < posted_ && !::testing::Test::HasFailure())
            Finish();
    }

    // Until this many in a row were copied (or not).
    void MoveUntil(bool is_copied, int in_a_row = 2 * kOpen)
    {
        in_a_row_ = 0;
        Until(
            [&] {
                while (posted_ < done_ + kOpen)
                    Post();
                in_a_row_ = Finish() == is_copied ? in_a_row_ + 1 : 0;
                return in_a_row_ >= in_a_row || ::testing::Test::HasFailure();
            },
            600);
    }

  private:
    void Post();
    bool Finish();

    GpuReceive *test_;
    GpuBuffer *to_;
    int posted_ = 0, done_ = 0, in_a_row_ = 0;
    void *receive_[kOpen], *send_[kOpen];
};

void Stream::Post()
{
    int at = posted_ % kOpen;

    to_->Clear(at * kBytes, kBytes);
    receive_[at] = test_->Receive(*to_, at * kBytes, kBytes);
    send_[at] = test_->Send(at * kBytes, kBytes, posted_++);
}

// Was it copied?
bool Stream::Finish()
{
    int at = done_ % kOpen, received = -1;
    bool is_copied, is_written;

    test_->pair_.Wait(receive_[at], &received);
    EXPECT_EQ(kBytes, received);
    is_copied = to_->WasCopied(at * kBytes, kBytes, done_);
    is_written = to_->WasWritten(at * kBytes, kBytes, done_);
    EXPECT_TRUE(is_copied || is_written) << "message " << done_;
    test_->Flush({to_}, kBytes);
    test_->pair_.Wait(send_[at]);
    done_++;
    return is_copied;
}

void MoveAllSizesAndThroughFailover(GpuReceive *test, GpuBuffer *to, bool is_copied_first)
{
    std::thread([&] {
        fake_cuda_forbid_thread(); // this is NCCL's progress thread
        fake_cuda_set_speed(20000, 4000000000);
        test->MoveAllSizes(*to, is_copied_first);
        {
            Stream stream(test, to);

            stream.MoveUntil(is_copied_first);
            Order("soft2", "down");
            stream.MoveUntil(!is_copied_first);
            Order("soft2", "up");
            stream.MoveUntil(is_copied_first);
        }
    }).join();
    fake_cuda_set_speed(0, 0);
}

TEST_F(GpuReceive, WhereTheFirstDeviceDoesNotTakeIt)
{
    GpuBuffer to(pair_.recv, 2 << 20, {0});

    ASSERT_EQ(ncclSuccess, to.result_);
    EXPECT_TRUE(WasLogged("path 0 receives 2097152 bytes"));
    MoveAllSizesAndThroughFailover(this, &to, true);
}

TEST_F(GpuReceive, WhereTheBackupDoesNotTakeIt)
{
    GpuBuffer to(pair_.recv, 2 << 20, {1});

    ASSERT_EQ(ncclSuccess, to.result_);
    EXPECT_TRUE(WasLogged("path 1 receives 2097152 bytes"));
    MoveAllSizesAndThroughFailover(this, &to, false);
}

// As no software RNIC takes memory that the processor cannot touch.
TEST_F(GpuReceive, WhereNoDeviceTakesIt)
{
    detour_test::ExpectWarning("soft2: cannot register 2097152 bytes");
    detour_test::ExpectWarning("soft3: cannot register 2097152 bytes");
    GpuBuffer to(pair_.recv, 2 << 20, {}, false);

    ASSERT_EQ(ncclSuccess, to.result_);
    for (uint64_t i = 0; i < 20; i++) {
        MoveOne(to, 100000, i);
        ASSERT_TRUE(to.WasCopied(0, 100000, i));
        ASSERT_FALSE(Flush({&to}, 100000));
    }
}

// Memory of the host's, of the GPU's that both devices take, and of the GPU's that one of them takes.
TEST_F(GpuReceive, OfGroupsEachPartIsAlike)
{
    constexpr int kParts = 5, kBytes = 30000;
    GpuBuffer first(pair_.recv, kBytes, {0}), second(pair_.recv, kBytes, {1}), both(pair_.recv, kBytes, {});
    Buffer &host = pair_.Register(pair_.recv, 2 * kBytes, 0);
    void *data[kParts] = {host.data(), first.at(), both.at(), second.at(), host.data() + kBytes};
    void *mhandles[kParts] = {host.mhandle, first.mhandle_, both.mhandle_, second.mhandle_, host.mhandle};

    for (int round = 0; round < 40; round++) {
        bool is_back_up = round >= 20;
        int sizes[kParts], tags[kParts], received[kParts];
        void *sends[kParts];

        if (round == 20)
            Order("soft2", "down");
        for (GpuBuffer *buffer : {&first, &second, &both})
            buffer->Clear(0, kBytes);
        for (int i = 0; i < kParts; i++) {
            sizes[i] = kBytes;
            tags[i] = i;
        }
        void *receive = pair_.Receive(kParts, data, sizes, tags, mhandles);
        for (int i = kParts; i-- > 0;)
            sends[i] = Send(i * kBytes, kBytes - i, round * kParts + i, i);
        pair_.Wait(receive, received);
        for (int i = 0; i < kParts; i++) {
            pair_.Wait(sends[i]);
            ASSERT_EQ(kBytes - i, received[i]);
        }
        ASSERT_EQ(0u, CountWrong(host.data(), kBytes, round * kParts));
        ASSERT_TRUE(first.WasCopied(0, kBytes - 1, round * kParts + 1) ||
                    (is_back_up && first.WasWritten(0, kBytes - 1, round * kParts + 1)));
        ASSERT_TRUE(both.WasWritten(0, kBytes - 2, round * kParts + 2));
        ASSERT_TRUE(second.WasWritten(0, kBytes - 3, round * kParts + 3) ||
                    (is_back_up && second.WasCopied(0, kBytes - 3, round * kParts + 3)));
        ASSERT_EQ(0u, CountWrong(host.data() + kBytes, kBytes - 4, round * kParts + 4));
        ASSERT_TRUE(Flush({&first, &both, &second}, kBytes));
    }
}

// DETOUR_HOSTPATH_BYTES is 1 MiB here.
TEST_F(GpuReceive, WithRoomForOneBufferTheOthersGoWhereTheyCan)
{
    GpuBuffer held(pair_.recv, 1 << 20, {0}), other(pair_.recv, 4096, {0});

    ASSERT_EQ(ncclSuccess, held.result_);
    ASSERT_EQ(ncclSuccess, other.result_);
    EXPECT_TRUE(WasLogged("no room for a bounce buffer of 4096 bytes"));
    EXPECT_TRUE(WasLogged("soft2 cannot register 4096 bytes"));
    for (int i = 0; i < 20; i++) {
        MoveOne(held, 1 << 20, 2 * i);
        ASSERT_TRUE(held.WasCopied(0, 1 << 20, 2 * i));
        MoveOne(other, 4096, 2 * i + 1); // over the backup
        ASSERT_TRUE(other.WasWritten(0, 4096, 2 * i + 1));
        ASSERT_TRUE(Flush({&other}, 4096));
    }
    detour_test::ExpectWarning("soft2: cannot register 8192 bytes");
    detour_test::ExpectWarning("soft3: cannot register 8192 bytes");
    GpuBuffer nowhere(pair_.recv, 8192, {}, false);
    EXPECT_EQ(ncclSystemError, nowhere.result_);
    held.Deregister(); // and there is room
    detour_test::ExpectWarning("soft2: cannot register 16384 bytes");
    detour_test::ExpectWarning("soft3: cannot register 16384 bytes");
    GpuBuffer again(pair_.recv, 16384, {}, false);
    EXPECT_EQ(ncclSuccess, again.result_);
    MoveOne(again, 4096, 99);
    EXPECT_TRUE(again.WasCopied(0, 4096, 99));
}

TEST_F(GpuReceive, IsNotDoneBeforeItIsCopied)
{
    GpuBuffer to(pair_.recv, 4096, {0});
    bool is_done = false;
    unsigned copies = fake_cuda_calls(kCopy);

    fake_cuda_set_speed(20000000, 0); // 20 ms
    void *receive = Receive(to, 0, 1000);
    void *send = Send(0, 1000, 1);
    Until([&] {
        EXPECT_FALSE(pair_.TestOnce(receive));
        return fake_cuda_calls(kCopy) > copies || HasFailure();
    });
    Until([&] {
        bool was_on_way = fake_cuda_on_way() > 1; // the copy, and behind it what tells of it

        is_done = pair_.TestOnce(receive);
        EXPECT_FALSE(is_done && was_on_way && fake_cuda_on_way() > 1);
        return is_done || HasFailure();
    });
    EXPECT_TRUE(to.WasCopied(0, 1000, 1));
    pair_.Wait(send);
}

TEST_F(GpuReceive, ThatCannotBeCopiedIsAnErrorAndNeverAMessage)
{
    GpuBuffer to(pair_.recv, 4096, {0});
    int done = 0;
    ncclResult_t result = ncclSuccess;

    fake_cuda_fail(kCopy, 0, 700);
    detour_test::ExpectWarning("copying to GPU 0: the driver refused: fake error 700");
    detour_test::ExpectWarning("message 0 has arrived, but could not be copied into the GPU's memory");
    void *receive = Receive(to, 0, 1000);
    pair_.Wait(Send(0, 1000, 1));
    Until([&] {
        result = net->test(receive, &done, nullptr);
        EXPECT_EQ(0, done);
        return result != ncclSuccess || HasFailure();
    });
    EXPECT_EQ(ncclSystemError, result);
}

// A copy of 20 ms was begun, and NCCL gives up.
class GpuReceiveAborted : public GpuReceive
{
  protected:
    void Begin(GpuBuffer &to)
    {
        unsigned copies = fake_cuda_calls(kCopy);

        fake_cuda_set_speed(20000000, 0);
        receive_ = Receive(to, 0, 1000);
        pair_.Wait(Send(0, 1000, 1));
        Until([&] { return pair_.TestOnce(receive_) || fake_cuda_calls(kCopy) > copies || HasFailure(); });
    }

    void *receive_ = nullptr;
};

TEST_F(GpuReceiveAborted, DoesNotWriteToMemoryThatIsDeregistered)
{
    GpuBuffer to(pair_.recv, 4096, {0});

    Begin(to);
    to.Deregister();
    EXPECT_EQ(0u, fake_cuda_on_way());
}

TEST_F(GpuReceiveAborted, DoesNotWriteToMemoryOfAConnectionThatIsClosed)
{
    GpuBuffer to(pair_.recv, 4096, {0});

    Begin(to);
    to.mhandle_ = nullptr; // it goes with the connection
    EXPECT_EQ(ncclSuccess, net->closeRecv(pair_.recv));
    pair_.recv = nullptr;
    EXPECT_EQ(0u, fake_cuda_on_way());
}

// What has arrived counts.
TEST_F(GpuReceiveAborted, OrItsSenderIsGone)
{
    GpuBuffer to(pair_.recv, 4096, {0});

    Begin(to);
    pair_.Deregister(*from_);
    EXPECT_EQ(ncclSuccess, net->closeSend(pair_.send));
    pair_.send = nullptr;
    pair_.Wait(receive_);
    EXPECT_TRUE(to.WasCopied(0, 1000, 1));
}

TEST_F(GpuReceiveAborted, OrItsDeviceIsGone)
{
    GpuBuffer to(pair_.recv, 4096, {0});

    Begin(to);
    detour_test::AllowWarning("DEVICE_FATAL");
    Order("soft2", "fatal");
    pair_.Wait(receive_);
    EXPECT_TRUE(to.WasCopied(0, 1000, 1));
    EXPECT_FALSE(Flush({&to}, 1000)); // no query is needed
    EXPECT_EQ(0u, fake_cuda_calls("cuFlushGPUDirectRDMAWrites"));
    fake_cuda_set_speed(0, 0);
    for (uint64_t i = 2; i < 20; i++) { // and it goes on
        MoveOne(to, 1000, i);
        Flush({&to}, 1000);
    }
    EXPECT_TRUE(to.WasWritten(0, 1000, 19));
}
} // namespace
