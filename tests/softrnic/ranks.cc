// SPDX-License-Identifier: Apache-2.0
#include "tests/softrnic/ranks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "base/log.h"

// Of the leak sanitizer, where it is linked: a rank ends without running exit handlers.
extern "C" int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

namespace detour_test
{
namespace
{
std::mutex warning_mutex;
std::string first_warning, expected_warning;
bool is_expected_seen;

void note_warning(void *, enum dt_log_level level, const char *, int, const char *text)
{
    std::lock_guard<std::mutex> lock(warning_mutex);

    if (level != DT_LOG_WARN)
        return;
    if (!expected_warning.empty() && std::string(text).find(expected_warning) != std::string::npos)
        is_expected_seen = true;
    else if (first_warning.empty())
        first_warning = text;
}

// Empty, or what is wrong with the warnings of this rank.
std::string judge_warnings()
{
    std::lock_guard<std::mutex> lock(warning_mutex);

    if (!first_warning.empty())
        return "unexpected warning: " + first_warning;
    if (!expected_warning.empty() && !is_expected_seen)
        return "expected a warning containing: " + expected_warning;
    return "";
}

void send_all(int fd, const void *data, size_t bytes)
{
    const char *at = static_cast<const char *>(data);

    while (bytes > 0) {
        ssize_t done = send(fd, at, bytes, MSG_NOSIGNAL);
        if (done <= 0)
            throw std::runtime_error("the other rank is gone");
        at += done;
        bytes -= static_cast<size_t>(done);
    }
}

[[noreturn]] void run_rank(const Rank &rank, const std::function<void(const Rank &)> &body, int report)
{
    std::string failure;

    // Nothing outlives the test program, whatever becomes of it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dt_log_set_sink(note_warning, nullptr, DT_LOG_WARN);
    try {
        body(rank);
    } catch (const std::exception &error) {
        failure = error.what();
    }
    if (failure.empty())
        failure = judge_warnings();
    if (failure.empty() && __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
        failure = "memory leaked";
    if (failure.empty())
        failure = "ok";
    ssize_t ignored = write(report, failure.data(), failure.size());
    (void)ignored;
    _exit(0);
}
} // namespace

void Require(bool condition, const char *format, ...)
{
    char text[512];
    va_list args;

    if (condition)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw std::runtime_error(text);
}

void ExpectRankWarning(const std::string &part)
{
    std::lock_guard<std::mutex> lock(warning_mutex);
    expected_warning = part;
}

void Rank::Send(int to, const void *data, size_t bytes) const
{
    send_all(sockets_.at(to), data, bytes);
}

void Rank::Receive(int from, void *data, size_t bytes) const
{
    char *at = static_cast<char *>(data);

    while (bytes > 0) {
        ssize_t done = recv(sockets_.at(from), at, bytes, 0);
        if (done <= 0)
            throw std::runtime_error("the other rank is gone");
        at += done;
        bytes -= static_cast<size_t>(done);
    }
}

bool Rank::HasMessage(int from) const
{
    pollfd polled = {sockets_.at(from), POLLIN, 0};

    return poll(&polled, 1, 0) == 1;
}

void Ranks::Start(const std::function<void(const Rank &)> &body)
{
    std::vector<std::vector<int>> sockets(count_, std::vector<int>(count_, -1));

    for (int i = 0; i < count_; i++) {
        for (int k = i + 1; k < count_; k++) {
            int pair[2];
            ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            sockets[i][k] = pair[0];
            sockets[k][i] = pair[1];
        }
    }
    fflush(nullptr);
    for (int i = 0; i < count_; i++) {
        int report[2];
        ASSERT_EQ(pipe2(report, O_CLOEXEC), 0);
        pid_t pid = fork();
        ASSERT_GE(pid, 0);
        if (pid == 0) {
            for (int k = 0; k < count_; k++)
                for (int fd : k == i ? std::vector<int>{} : sockets[k])
                    if (fd >= 0)
                        close(fd);
            run_rank(Rank(i, count_, sockets[i]), body, report[1]);
        }
        close(report[1]);
        reports_.push_back(report[0]);
        pids_.push_back(pid);
        killed_.push_back(false);
    }
    for (const std::vector<int> &row : sockets)
        for (int fd : row)
            if (fd >= 0)
                close(fd);
}

void Ranks::Kill(int number)
{
    kill(pids_.at(number), SIGKILL);
    killed_.at(number) = true;
}

void Ranks::Join()
{
    for (size_t i = 0; i < pids_.size(); i++) {
        std::string text;
        char buffer[512];
        ssize_t got;
        int status;

        while ((got = read(reports_[i], buffer, sizeof buffer)) > 0)
            text.append(buffer, static_cast<size_t>(got));
        close(reports_[i]);
        waitpid(pids_[i], &status, 0);
        if (killed_[i])
            continue;
        EXPECT_EQ(text, "ok") << "rank " << i;
        EXPECT_EQ(status, 0) << "rank " << i << " ended on its own";
    }
    pids_.clear();
    reports_.clear();
    killed_.clear();
}

Ranks::~Ranks()
{
    for (size_t i = 0; i < pids_.size(); i++) {
        kill(pids_[i], SIGKILL);
        waitpid(pids_[i], nullptr, 0);
        close(reports_[i]);
    }
}

void RunRanks(int count, const std::function<void(const Rank &)> &body)
{
    Ranks ranks(count);

    ranks.Start(body);
    if (!::testing::Test::HasFatalFailure())
        ranks.Join();
}
} // namespace detour_test
