// SPDX-License-Identifier: Apache-2.0
// Test processes: every rank is forked before anything of the software RNIC is used, talks to the others over
// socket pairs, and reports the first thing that went wrong to the test.
#ifndef DETOUR_TESTS_SOFTRNIC_RANKS_H
#define DETOUR_TESTS_SOFTRNIC_RANKS_H

#include <sys/types.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace detour_test
{
// Ends a rank with a message: `Require(rc == 0, "modify to RTS: %d", rc)`.
void Require(bool condition, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Inside a rank: it must log a warning that contains `part`; any other fails it.
void ExpectRankWarning(const std::string &part);

class Rank
{
  public:
    Rank(int number, int count, std::vector<int> sockets) : number_(number), count_(count), sockets_(sockets)
    {
    }
    int number() const
    {
        return number_;
    }
    int count() const
    {
        return count_;
    }

    // Plain data to and from another rank; blocks. Throws when the other is gone.
    void Send(int to, const void *data, size_t bytes) const;
    void Receive(int from, void *data, size_t bytes) const;

    // Has the other sent something that is not received yet, or gone?
    bool HasMessage(int from) const;

    template <typename T>
    T Exchange(int peer, const T &mine) const
    {
        T theirs;

        Send(peer, &mine, sizeof mine);
        Receive(peer, &theirs, sizeof theirs);
        return theirs;
    }
    void Barrier(int peer) const
    {
        Exchange(peer, char{1});
    }

  private:
    int number_, count_;
    std::vector<int> sockets_; // to each rank; -1 to itself
};

// The processes of a test; the destructor kills what still runs.
class Ranks
{
  public:
    explicit Ranks(int count) : count_(count) {}
    ~Ranks();

    void Start(const std::function<void(const Rank &)> &body);
    // Kills one rank, which then need not report.
    void Kill(int number);
    pid_t pid(int number) const
    {
        return pids_.at(number);
    }
    // Waits for all; adds a test failure for each rank that reported one, or died unasked.
    void Join();

  private:
    int count_;
    std::vector<pid_t> pids_;
    std::vector<int> reports_;
    std::vector<bool> killed_;
};

// Start and Join.
void RunRanks(int count, const std::function<void(const Rank &)> &body);
} // namespace detour_test

#endif
