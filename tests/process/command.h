/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the detour program as a user would, in a process group of its own. */
#ifndef DETOUR_TESTS_PROCESS_COMMAND_H
#define DETOUR_TESTS_PROCESS_COMMAND_H

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace detour_test
{
struct Outcome {
    int exit_code = -1;     // -1: did not exit
    int signal_number = 0;  // what it died of, or 0
    bool timed_out = false; // had to be killed
    std::string out;
    std::string err;
};

constexpr int kHangS = 240; // no command of a test takes as long, on whichever machine

/* Calls `is_so` every 20 ms until it returns true or kHangS seconds have passed. Returns what it returned
 * last. */
bool Await(const std::function<bool()> &is_so);

class Command
{
  public:
    /* `detour` of the build under test, with these arguments and additional environment. */
    explicit Command(std::vector<std::string> arguments,
                     std::vector<std::pair<std::string, std::string>> environment = {});
    ~Command();
    Command(const Command &) = delete;

    pid_t Pid() const
    {
        return pid_;
    }
    /* Processes that it has started and that still run. */
    std::vector<pid_t> Children() const;
    /* What it has written so far, standard output first. Reads what is there and does not wait. */
    std::string Written();
    /* Standard output so far, where a place in the text counts: warnings would be behind all of it. */
    std::string Output();
    /* Its standard output and error are open: it, or a process that it started, still runs. */
    bool IsRunning();
    /* Waits up to `timeout_s`, then kills the whole group. By default only a hang takes as long. */
    Outcome Wait(int timeout_s = kHangS);

  private:
    /* Waits for output, and keeps it. */
    void Read(int timeout_ms);

    pid_t pid_;
    int out_; // -1: at its end
    int err_;
    Outcome outcome_;
    bool waited_ = false;
};

Outcome RunDetour(std::vector<std::string> arguments,
                  std::vector<std::pair<std::string, std::string>> environment = {});

/* How often a part is in a text. */
size_t Count(const std::string &text, const std::string &part);

/* The number of lines of a text. */
size_t LineCount(const std::string &text);
} // namespace detour_test

#endif
