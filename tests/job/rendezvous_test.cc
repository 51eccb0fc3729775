/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of ranks by TCP, with peers that are not ranks. Loopback only. */
#include "job/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/exit.h"
#include "job/link.h"

namespace
{
class JobRendezvous : public testing::Test
{
  protected:
    JobRendezvous()
    {
        options_.command = "test job";
        options_.ranks = 2;
        options_.timeout_s = 120;
        options_.digest = 42;
        stop_fd_ = eventfd(0, EFD_CLOEXEC);
        Listen();
    }

    ~JobRendezvous() override
    {
        for (int fd : open_)
            close(fd);
        close(stop_fd_);
    }

    /* At a port that the kernel chooses. */
    void Listen()
    {
        struct sockaddr_in address = {};
        socklen_t length = sizeof address;
        root_ = "127.0.0.1:0";
        options_.rendezvous = root_.c_str();
        listen_fd_ = dt_job_rendezvous_listen(&options_, &error_);
        ASSERT_GE(listen_fd_, 0) << error_.text;
        open_.push_back(listen_fd_);
        ASSERT_EQ(getsockname(listen_fd_, reinterpret_cast<struct sockaddr *>(&address), &length), 0);
        port_ = ntohs(address.sin_port);
        root_ = "127.0.0.1:" + std::to_string(port_);
        options_.rendezvous = root_.c_str();
    }

    int Connect()
    {
        struct sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port_);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address), 0);
        open_.push_back(fd);
        return fd;
    }

    bool Accept()
    {
        for (int &fd : fds_)
            fd = -1;
        bool ok = dt_job_rendezvous_accept(listen_fd_, &options_, stop_fd_, fds_, &error_);
        for (int fd : fds_) {
            if (fd >= 0)
                open_.push_back(fd);
        }
        return ok;
    }

    /* Rank `rank` connects on a thread of its own, with these options. */
    std::thread Rank(int rank, struct dt_job_options options, struct dt_job_error *error)
    {
        options.rank = rank;
        return std::thread([options, error] {
            int fd = dt_job_rendezvous_connect(&options, error);
            if (fd >= 0)
                close(fd);
        });
    }

    /* What rank 1 sends first, taken from a rank that gets no answer. */
    std::string Hello()
    {
        std::string hello(64, '\0');
        std::thread rank = Rank(1, options_, &rank_error_);
        int fd = accept(listen_fd_, nullptr, nullptr);
        ssize_t bytes = 0;
        while (bytes < 32)
            bytes += recv(fd, &hello[bytes], hello.size() - bytes, 0);
        EXPECT_EQ(bytes, 32);
        close(fd);
        rank.join();
        EXPECT_EQ(rank_error_.text, "--rendezvous " + root_ + ": no rank 0 of test job answers there");
        rank_error_ = {};
        return hello.substr(0, bytes);
    }

    struct dt_job_options options_ = {};
    struct dt_job_error error_ = {};
    struct dt_job_error rank_error_ = {};
    std::string root_;
    uint16_t port_ = 0;
    int listen_fd_ = -1;
    int stop_fd_;
    int fds_[DT_JOB_RANKS_MAX];
    std::vector<int> open_;
};

TEST_F(JobRendezvous, RanksMeetInAnyOrder)
{
    options_.ranks = 3;
    struct dt_job_error errors[2] = {};
    std::thread second = Rank(2, options_, &errors[1]), first = Rank(1, options_, &errors[0]);
    EXPECT_TRUE(Accept()) << error_.text;
    first.join();
    second.join();
    EXPECT_EQ(errors[0].exit_code, 0) << errors[0].text;
    EXPECT_EQ(errors[1].exit_code, 0) << errors[1].text;
    EXPECT_GE(fds_[1], 0);
    EXPECT_GE(fds_[2], 0);
    EXPECT_EQ(fds_[0], -1);
}

/* More peers than the rendezvous keeps at a time: some silent, some that send a byte now and then, some
 * garbage. */
TEST_F(JobRendezvous, OtherPeersDoNotKeepRanksOut)
{
    std::vector<int> slow;
    for (int i = 0; i < 10; i++) {
        Connect(); // silent
        slow.push_back(Connect());
        int loud = Connect();
        std::string garbage(i * 10, static_cast<char>(i));
        EXPECT_EQ(send(loud, garbage.data(), garbage.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(garbage.size()));
        close(Connect());
        open_.pop_back();
    }
    bool stop = false;
    std::thread dribble([&] {
        while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
            for (int fd : slow)
                send(fd, "x", 1, MSG_NOSIGNAL);
            usleep(20000);
        }
    });
    std::thread rank = Rank(1, options_, &rank_error_);
    EXPECT_TRUE(Accept()) << error_.text;
    rank.join();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    dribble.join();
    EXPECT_EQ(rank_error_.exit_code, 0) << rank_error_.text;
}

/* Again, where a busy machine has sent the pieces later than a HELLO may arrive. */
TEST_F(JobRendezvous, AHelloInPiecesIsAccepted)
{
    const std::string hello = Hello();
    bool is_answered = false;
    std::thread pieces([&] {
        while (!is_answered) {
            int peer = Connect();
            struct dt_job_frame frame;
            void *payload = nullptr;
            for (char byte : hello) {
                send(peer, &byte, 1, MSG_NOSIGNAL);
                usleep(1000);
            }
            is_answered = dt_job_frame_receive(peer, &frame, &payload);
            free(payload);
        }
    });
    std::vector<int> accepted(options_.ranks, -1);
    EXPECT_TRUE(dt_job_rendezvous_accept(listen_fd_, &options_, stop_fd_, accepted.data(), &error_))
        << error_.text;
    pieces.join();
    EXPECT_GE(accepted[1], 0);
    open_.push_back(accepted[1]);
}

TEST_F(JobRendezvous, ADigestThatDiffersEndsTheRunForBoth)
{
    struct dt_job_options other = options_;
    other.digest = 43;
    std::thread rank = Rank(1, other, &rank_error_);
    EXPECT_FALSE(Accept());
    rank.join();
    EXPECT_STREQ(error_.text, "rank 1 was started with other options than rank 0");
    EXPECT_EQ(error_.exit_code, DT_EXIT_USAGE);
    EXPECT_STREQ(rank_error_.text, error_.text);
}

/* In the place of the version there was a size of 512 before jobs had more than 64 ranks. */
TEST_F(JobRendezvous, ARankOfAnotherVersionEndsTheRunForBoth)
{
    const size_t kVersionAt = 28;
    std::string hello = Hello();
    for (uint32_t version : {512u, 0u}) {
        struct dt_job_frame frame;
        void *payload;
        int peer = Connect();
        error_ = {};
        hello.replace(kVersionAt, sizeof version, reinterpret_cast<const char *>(&version), sizeof version);
        EXPECT_EQ(send(peer, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
        EXPECT_FALSE(Accept());
        EXPECT_STREQ(error_.text, "rank 1 runs another version of test job");
        EXPECT_EQ(error_.exit_code, DT_EXIT_USAGE);
        ASSERT_TRUE(dt_job_frame_receive(peer, &frame, &payload));
        EXPECT_EQ(frame.kind, uint32_t(DT_JOB_FRAME_ERROR));
        EXPECT_STREQ(static_cast<struct dt_job_error *>(payload)->text, error_.text);
        free(payload);
    }
}

/* All ranks connect before rank 0 accepts one. */
TEST_F(JobRendezvous, TheLargestJobMeets)
{
    const rlim_t needed = 2 * DT_JOB_RANKS_MAX + 100;
    struct rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::max(limit.rlim_cur, needed);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0) << "both ends of all connections are here";
    options_.ranks = DT_JOB_RANKS_MAX;
    std::string hello = Hello();
    const size_t kRankAt = 24;
    for (uint32_t rank = 1; rank < DT_JOB_RANKS_MAX; rank++) {
        hello.replace(kRankAt, sizeof rank, reinterpret_cast<const char *>(&rank), sizeof rank);
        EXPECT_EQ(send(Connect(), hello.data(), hello.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(hello.size()));
    }
    EXPECT_TRUE(Accept()) << error_.text;
    EXPECT_GE(fds_[DT_JOB_RANKS_MAX - 1], 0);
}

TEST_F(JobRendezvous, ARankOutOfRangeEndsTheRun)
{
    std::thread rank = Rank(2, options_, &rank_error_);
    EXPECT_FALSE(Accept());
    rank.join();
    EXPECT_STREQ(error_.text, "rank 2 connected; expected ranks 1 to 1");
}

TEST_F(JobRendezvous, ARankStartedTwiceEndsTheRun)
{
    options_.ranks = 3;
    std::thread one = Rank(1, options_, &rank_error_);
    struct dt_job_error error = {};
    std::thread again = Rank(1, options_, &error);
    EXPECT_FALSE(Accept());
    one.join();
    again.join();
    EXPECT_STREQ(error_.text, "rank 1 was started twice");
}

TEST_F(JobRendezvous, AMissingRankIsNamed)
{
    options_.ranks = 3;
    options_.timeout_s = 1;
    for (;; options_.timeout_s *= 2) { // more, where rank 1 did not have the time to connect either
        error_ = rank_error_ = {};
        std::thread rank = Rank(1, options_, &rank_error_);
        EXPECT_FALSE(Accept());
        rank.join();
        if (fds_[1] >= 0 || options_.timeout_s >= 120)
            break;
    }
    EXPECT_EQ(error_.text, "rank 2 of 3 is missing: it did not connect to " + root_ + " within " +
                               std::to_string(options_.timeout_s) + " s");
}

TEST_F(JobRendezvous, TheWaitEndsAtOnceWhenTheLauncherIsInterrupted)
{
    eventfd_write(stop_fd_, 1);
    EXPECT_FALSE(Accept());
    EXPECT_STREQ(error_.text, "interrupted while waiting for rank 1");
}

TEST_F(JobRendezvous, ARankWithoutALauncherGivesUp)
{
    close(listen_fd_);
    open_.erase(open_.begin());
    options_.timeout_s = 1;
    options_.rank = 1;
    EXPECT_EQ(dt_job_rendezvous_connect(&options_, &error_), -1);
    EXPECT_EQ(error_.text,
              "rank 0 is missing: no connection to " + root_ + " within 1 s: Connection refused");
}

TEST_F(JobRendezvous, AServerThatIsNoLauncherIsRefused)
{
    std::thread server([&] {
        int fd = accept(listen_fd_, nullptr, nullptr);
        EXPECT_TRUE(dt_job_frame_send(fd, DT_JOB_FRAME_DONE, "?", 1));
        close(fd);
    });
    options_.rank = 1;
    EXPECT_EQ(dt_job_rendezvous_connect(&options_, &error_), -1);
    server.join();
    EXPECT_EQ(error_.text, "--rendezvous " + root_ + ": a program other than test job answers there");
}

TEST_F(JobRendezvous, ABadAddressIsRefused)
{
    for (const char *bad : {"localhost", ":5000", "", "127.0.0.1:no-such-service"}) {
        struct dt_job_error error = {};
        options_.rendezvous = bad;
        EXPECT_EQ(dt_job_rendezvous_listen(&options_, &error), -1) << bad;
        EXPECT_EQ(error.exit_code, DT_EXIT_USAGE);
        EXPECT_EQ(std::string(error.text).rfind(std::string("--rendezvous ") + bad + ": ", 0), 0u)
            << error.text;
    }
    options_.rendezvous = root_.c_str();
    EXPECT_EQ(dt_job_rendezvous_listen(&options_, &error_), -1);
    EXPECT_EQ(error_.text, "--rendezvous " + root_ + ": cannot listen there: Address already in use");
}
} // namespace
