/* SPDX-License-Identifier: Apache-2.0 */
#include "job/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/exit.h"

namespace
{
class JobLink : public testing::Test
{
  protected:
    JobLink()
    {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_), 0);
        link_ = {fds_[0], 1, 3, nullptr, nullptr};
    }

    ~JobLink() override
    {
        close(fds_[0]);
        HangUp();
    }

    /* The launcher's end is closed. */
    void HangUp()
    {
        if (fds_[1] >= 0)
            close(fds_[1]);
        fds_[1] = -1;
    }

    void SendRaw(const std::string &bytes)
    {
        ASSERT_EQ(write(fds_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }

    static std::string Header(uint32_t kind, uint32_t bytes)
    {
        struct dt_job_frame frame = {kind, bytes};
        return std::string(reinterpret_cast<const char *>(&frame), sizeof frame);
    }

    bool Exchange(const std::string &mine, std::string *all)
    {
        all->assign(mine.size() * link_.ranks, '?');
        return dt_job_exchange(&link_, mine.data(), mine.size(), &(*all)[0], &error_);
    }

    static void Take(void *context, const struct dt_job_frame *frame, const void *payload)
    {
        static_cast<std::vector<std::string> *>(context)->push_back(std::to_string(frame->kind) + ":" +
                                                                    static_cast<const char *>(payload));
    }

    int fds_[2];
    struct dt_job_link link_;
    struct dt_job_error error_ = {};
    std::vector<std::string> taken_;
};

TEST_F(JobLink, AFrameArrivesAsItWasSent)
{
    for (size_t bytes : {size_t(0), size_t(1), size_t(100000), size_t(DT_JOB_FRAME_BYTES_MAX)}) {
        std::string sent(bytes, 'a');
        std::thread sender([&] { EXPECT_TRUE(dt_job_frame_send(fds_[1], 77, sent.data(), bytes)); });
        struct dt_job_frame frame;
        void *payload;
        ASSERT_TRUE(dt_job_frame_receive(fds_[0], &frame, &payload));
        sender.join();
        EXPECT_EQ(frame.kind, 77u);
        EXPECT_EQ(std::string(static_cast<char *>(payload), frame.bytes), sent);
        EXPECT_EQ(static_cast<char *>(payload)[bytes], '\0');
        free(payload);
    }
}

TEST_F(JobLink, AnOversizedFrameIsRefusedBeforeItsPayload)
{
    struct dt_job_frame frame;
    void *payload = nullptr;
    SendRaw(Header(DT_JOB_FRAME_EXCHANGE, DT_JOB_FRAME_BYTES_MAX + 1));
    EXPECT_FALSE(dt_job_frame_receive(fds_[0], &frame, &payload));
    EXPECT_EQ(payload, nullptr);
}

TEST_F(JobLink, ATruncatedFrameIsRefused)
{
    std::string whole = Header(DT_JOB_FRAME_EXCHANGE, 4) + "abcd";
    for (size_t bytes = 0; bytes < whole.size(); bytes++) {
        int pair[2];
        struct dt_job_frame frame;
        void *payload = nullptr;
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ASSERT_EQ(write(pair[1], whole.data(), bytes), static_cast<ssize_t>(bytes));
        close(pair[1]);
        EXPECT_FALSE(dt_job_frame_receive(pair[0], &frame, &payload)) << bytes;
        EXPECT_EQ(payload, nullptr);
        close(pair[0]);
    }
}

TEST_F(JobLink, AnEndThatStallsInsideAFrameIsGivenUp)
{
    struct dt_job_frame frame;
    void *payload = nullptr;
    dt_job_socket_limit(fds_[0], 1);
    SendRaw(Header(DT_JOB_FRAME_EXCHANGE, 4) + "ab");
    EXPECT_FALSE(dt_job_frame_receive(fds_[0], &frame, &payload));
}

TEST_F(JobLink, SendingToAClosedEndFailsWithoutASignal)
{
    HangUp();
    EXPECT_FALSE(dt_job_frame_send(fds_[0], DT_JOB_FRAME_DONE, nullptr, 0));
}

TEST_F(JobLink, SendingToAnEndThatDoesNotReadIsGivenUp)
{
    std::string much(DT_JOB_FRAME_BYTES_MAX, 'x');
    dt_job_socket_limit(fds_[0], 1);
    EXPECT_FALSE(dt_job_frame_send(fds_[0], DT_JOB_FRAME_EXCHANGE, much.data(), much.size()));
}

TEST_F(JobLink, AnExchangeReturnsAllParts)
{
    std::string all;
    SendRaw(Header(DT_JOB_FRAME_EXCHANGE, 6) + "aabbcc");
    ASSERT_TRUE(Exchange("bb", &all)) << error_.text;
    EXPECT_EQ(all, "aabbcc");
    struct dt_job_frame frame;
    void *payload;
    ASSERT_TRUE(dt_job_frame_receive(fds_[1], &frame, &payload));
    EXPECT_EQ(frame.kind, static_cast<uint32_t>(DT_JOB_FRAME_EXCHANGE));
    EXPECT_STREQ(static_cast<char *>(payload), "bb");
    free(payload);
}

TEST_F(JobLink, FramesOfTheCommandAreTakenDuringAnExchange)
{
    std::string all;
    link_.take = Take;
    link_.context = &taken_;
    SendRaw(Header(64, 3) + "one" + Header(70, 0) + Header(DT_JOB_FRAME_EXCHANGE, 3) + "abc");
    ASSERT_TRUE(Exchange("b", &all)) << error_.text;
    EXPECT_EQ(all, "abc");
    EXPECT_EQ(taken_, (std::vector<std::string>{"64:one", "70:"}));
}

TEST_F(JobLink, FramesOfTheCommandAreTakenOneByOneOutsideAnExchange)
{
    link_.take = Take;
    link_.context = &taken_;
    SendRaw(Header(64, 3) + "one" + Header(64, 3) + "two");
    EXPECT_TRUE(dt_job_link_read(&link_, &error_));
    EXPECT_EQ(taken_.size(), 1u);
    EXPECT_TRUE(dt_job_link_read(&link_, &error_));
    EXPECT_EQ(taken_.size(), 2u);
}

TEST_F(JobLink, TheLaunchersReasonBecomesTheRanksError)
{
    struct dt_job_error reason = {};
    std::string all;
    dt_job_fail(&reason, DT_EXIT_USAGE, "the reason");
    memset(reason.text + 11, 'x', sizeof reason.text - 11); // no NUL at the end
    ASSERT_TRUE(dt_job_frame_send(fds_[1], DT_JOB_FRAME_ERROR, &reason, sizeof reason));
    ASSERT_TRUE(dt_job_frame_send(fds_[1], DT_JOB_FRAME_ERROR, &reason, sizeof reason));
    EXPECT_FALSE(Exchange("b", &all));
    EXPECT_EQ(error_.exit_code, DT_EXIT_USAGE);
    EXPECT_STREQ(error_.text, "the reason");
    EXPECT_EQ(error_.text[sizeof error_.text - 1], '\0');
    EXPECT_FALSE(dt_job_link_read(&link_, &error_));
}

TEST_F(JobLink, AFrameThatDoesNotFitIsAnError)
{
    for (const std::string &bytes :
         {Header(DT_JOB_FRAME_EXCHANGE, 4) + "abcd", Header(DT_JOB_FRAME_ERROR, 3) + "abc",
          Header(DT_JOB_FRAME_HELLO, 0), Header(64, 1) + "x"}) {
        std::string all;
        error_ = {};
        SendRaw(bytes);
        EXPECT_FALSE(Exchange("b", &all));
        EXPECT_NE(std::string(error_.text).find("rank 1: unexpected frame of the launcher (kind "),
                  std::string::npos)
            << error_.text;
    }
}

TEST_F(JobLink, ALostLauncherIsAnError)
{
    std::string all;
    HangUp();
    EXPECT_FALSE(Exchange("b", &all));
    EXPECT_STREQ(error_.text, "rank 1 lost its launcher");
    EXPECT_FALSE(dt_job_link_read(&link_, &error_));
}

TEST_F(JobLink, OnlyRank0GetsAnAnswerFromAGather)
{
    std::string all(6, '?');
    SendRaw(Header(DT_JOB_FRAME_GATHER, 0));
    EXPECT_TRUE(dt_job_gather(&link_, "bb", 2, nullptr, &error_)) << error_.text;
    link_.rank = 0;
    SendRaw(Header(DT_JOB_FRAME_GATHER, 6) + "aabbcc" + Header(DT_JOB_FRAME_GATHER, 0));
    EXPECT_TRUE(dt_job_gather(&link_, "aa", 2, &all[0], &error_)) << error_.text;
    EXPECT_EQ(all, "aabbcc");
    EXPECT_FALSE(dt_job_gather(&link_, "aa", 2, &all[0], &error_));
    EXPECT_STREQ(error_.text, "rank 0: unexpected frame of the launcher (kind 5, 0 bytes)");
}

/* The launcher's end of a delivery: reads and keeps what the rank gives. */
class JobDelivery : public JobLink
{
  protected:
    static constexpr size_t kRecordBytes = 40000; /* eight in a round of three ranks */

    static std::string Words(const std::vector<uint32_t> &words)
    {
        return std::string(reinterpret_cast<const char *>(words.data()), words.size() * sizeof words[0]);
    }

    static std::string Record(uint32_t rank, char filler)
    {
        return Words({rank}) + std::string(kRecordBytes - sizeof rank, filler);
    }

    /* The rank gives `mine`; the launcher answers its frames with `answers`. */
    bool Deliver(const std::string &mine, const std::vector<std::string> &answers)
    {
        void *payload = nullptr;
        size_t count = 0;
        std::thread launcher([&] {
            for (const std::string &answer : answers) {
                struct dt_job_frame frame;
                void *part;
                ASSERT_TRUE(dt_job_frame_receive(fds_[1], &frame, &part));
                given_.emplace_back(static_cast<char *>(part), frame.bytes);
                free(part);
                ASSERT_TRUE(dt_job_frame_send(fds_[1], frame.kind, answer.data(), answer.size()));
            }
        });
        bool ok = dt_job_deliver(&link_, mine.data(), mine.size() / kRecordBytes, kRecordBytes, &payload,
                                 &count, &error_);
        launcher.join();
        EXPECT_EQ(ok && count > 0, payload != nullptr);
        arrived_.assign(static_cast<char *>(payload), ok ? count * kRecordBytes : 0);
        free(payload);
        return ok;
    }

    std::vector<std::string> given_;
    std::string arrived_;
};

TEST_F(JobDelivery, ManyRecordsGoInRoundsThatFitInAFrame)
{
    std::string mine;
    for (char filler = 'a'; filler < 'j'; filler++)
        mine += Record(2, filler);
    ASSERT_TRUE(Deliver(mine, {Words({0, 9, 17}), Record(0, 'x') + Record(2, 'y'), Record(2, 'z'), ""}))
        << error_.text;
    EXPECT_EQ(arrived_, Record(0, 'x') + Record(2, 'y') + Record(2, 'z'));
    ASSERT_EQ(given_.size(), 4u);
    EXPECT_EQ(given_[0], Words({9}));
    EXPECT_EQ(given_[1], Words({kRecordBytes}) + mine.substr(0, 8 * kRecordBytes));
    EXPECT_EQ(given_[2], Words({kRecordBytes}) + mine.substr(8 * kRecordBytes));
    EXPECT_EQ(given_[3], Words({kRecordBytes})) << "another rank has more";
}

TEST_F(JobDelivery, WithoutRecordsThereIsNoRound)
{
    EXPECT_TRUE(Deliver("", {Words({0, 0, 0})})) << error_.text;
    EXPECT_EQ(arrived_, "");
}

TEST_F(JobDelivery, PartsOfRecordsAreAnError)
{
    EXPECT_FALSE(Deliver(Record(0, 'a'), {Words({0, 1, 0}), Record(0, 'x') + "y"}));
    EXPECT_STREQ(error_.text, "rank 1: unexpected frame of the launcher (kind 6, 40001 bytes)");
}

TEST_F(JobLink, AnExchangeBeyondAFrameIsRefused)
{
    std::string mine(DT_JOB_FRAME_BYTES_MAX / 3 + 1, 'x'), all;
    EXPECT_FALSE(Exchange(mine, &all));
    EXPECT_STREQ(error_.text,
                 "rank 1: 3 ranks cannot exchange 349526 bytes each; at most 1048576 bytes in all");
}
} // namespace
