/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/process/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

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

Outcome Command::Wait(int timeout_s)
{
    Outcome outcome;
    struct timespec begin, now;
    bool out_open = true, err_open = true;

    waited_ = true;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (out_open || err_open) {
        struct pollfd fds[2] = {{out_open ? out_ : -1, POLLIN, 0}, {err_open ? err_ : -1, POLLIN, 0}};
        poll(fds, 2, 100);
        if (fds[0].revents)
            out_open = Drain(out_, &outcome.out);
        if (fds[1].revents)
            err_open = Drain(err_, &outcome.err);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begin.tv_sec >= timeout_s && !outcome.timed_out && (out_open || err_open)) {
            outcome.timed_out = true;
            kill(-pid_, SIGKILL);
        }
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    outcome.signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    close(out_);
    close(err_);
    return outcome;
}

Outcome RunDetour(std::vector<std::string> arguments,
                  std::vector<std::pair<std::string, std::string>> environment)
{
    return Command(std::move(arguments), std::move(environment)).Wait();
}

size_t LineCount(const std::string &text)
{
    return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}
} // namespace detour_test
