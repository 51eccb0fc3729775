/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of ranks by TCP, with peers that are not ranks. Loopback only. */
#include "job/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

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

TEST_F(JobRendezvous, AHelloInPiecesIsAccepted)
{
    /* What a rank sends, taken from a rank. */
    char hello[64];
    std::thread rank = Rank(1, options_, &rank_error_);
    int fd = accept(listen_fd_, nullptr, nullptr);
    ssize_t bytes = 0;
    while (bytes < 32)
        bytes += recv(fd, hello + bytes, sizeof hello - bytes, 0);
    ASSERT_EQ(bytes, 32);
    close(fd);
    rank.join();
    EXPECT_STREQ(rank_error_.text,
                 ("--rendezvous " + root_ + ": no rank 0 of test job answers there").c_str());

    int peer = Connect();
    std::thread pieces([&] {
        for (ssize_t i = 0; i < bytes; i++) {
            EXPECT_EQ(send(peer, hello + i, 1, MSG_NOSIGNAL), 1);
            usleep(1000);
        }
    });
    EXPECT_TRUE(Accept()) << error_.text;
    pieces.join();
    EXPECT_GE(fds_[1], 0);
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
