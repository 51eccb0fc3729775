/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/process/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

namespace detour_test
{
namespace
{
[[noreturn]] void Exec(std::vector<std::string> &arguments,
                       const std::vector<std::pair<std::string, std::string>> &environment, int out, int err)
{
    std::vector<char *> argv;

    setpgid(0, 0);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out, 1);
    dup2(err, 2);
    for (const auto &variable : environment)
        setenv(variable.first.c_str(), variable.second.c_str(), 1);
    for (std::string &argument : arguments)
        argv.push_back(&argument[0]);
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
}

/* Appends what is there; false at the end of the pipe. */
bool Drain(int fd, std::string *text)
{
    char bytes[4096];
    ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0)
        text->append(bytes, static_cast<size_t>(got));
    return got > 0;
}
} // namespace

bool Await(const std::function<bool()> &is_so)
{
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kHangS);
    bool result;

    while (!(result = is_so()) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return result;
}

Command::Command(std::vector<std::string> arguments,
                 std::vector<std::pair<std::string, std::string>> environment)
{
    int out[2], err[2];

    arguments.insert(arguments.begin(), DETOUR_BINARY_DIR "/bin/detour");
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
        abort();
    pid_ = fork();
    if (pid_ == 0)
        Exec(arguments, environment, out[1], err[1]);
    setpgid(pid_, pid_);
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
}

Command::~Command()
{
    if (!waited_)
        Wait(0);
}

std::vector<pid_t> Command::Children() const
{
    std::ifstream file("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children");
    std::vector<pid_t> children;
    pid_t child;
    while (file >> child)
        children.push_back(child);
    return children;
}

void Command::Read(int timeout_ms)
{
    struct pollfd fds[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};

    poll(fds, 2, timeout_ms);
    if (fds[0].revents && !Drain(out_, &outcome_.out)) {
        close(out_);
        out_ = -1;
    }
    if (fds[1].revents && !Drain(err_, &outcome_.err)) {
        close(err_);
        err_ = -1;
    }
}

bool Command::IsRunning()
{
    size_t before;

    do {
        before = outcome_.out.size() + outcome_.err.size();
        Read(0);
    } while (outcome_.out.size() + outcome_.err.size() > before);
    return out_ >= 0 || err_ >= 0;
}

std::string Command::Written()
{
    IsRunning();
    return outcome_.out + outcome_.err;
}

std::string Command::Output()
{
    IsRunning();
    return outcome_.out;
}

Outcome Command::Wait(int timeout_s)
{
    struct timespec begin, now;

    waited_ = true;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (out_ >= 0 || err_ >= 0) {
        Read(100);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begin.tv_sec >= timeout_s && !outcome_.timed_out && (out_ >= 0 || err_ >= 0)) {
            outcome_.timed_out = true;
            kill(-pid_, SIGKILL);
        }
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    outcome_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome_.signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return outcome_;
}

Outcome RunDetour(std::vector<std::string> arguments,
                  std::vector<std::pair<std::string, std::string>> environment)
{
    return Command(std::move(arguments), std::move(environment)).Wait();
}

size_t Count(const std::string &text, const std::string &part)
{
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
        count++;
    return count;
}

size_t LineCount(const std::string &text)
{
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}
} // namespace detour_test
