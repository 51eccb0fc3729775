/* SPDX-License-Identifier: Apache-2.0 */
/* A redis-server of the test's own on a loopback port, with TLS or without, and in a folder of its own;
 * killed at the end. */
#ifndef DETOUR_TESTS_CONTROLLER_REDIS_SERVER_H
#define DETOUR_TESTS_CONTROLLER_REDIS_SERVER_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "controller/redis_library.h"
#include "controller/store.h"
#include "tests/harness/free_address.h"

class RedisServer
{
  public:
    static bool IsInstalled()
    {
        return access("/usr/bin/redis-server", X_OK) == 0;
    }
    /* With the library of a client. */
    static bool IsUsable()
    {
        char reason[DT_STORE_REASON_BYTES];
        struct dt_redis_library library;

        return IsInstalled() && dt_redis_library_load(&library, reason, sizeof reason) == DT_OK;
    }

    explicit RedisServer(std::vector<std::string> more = {}, bool with_tls = false)
        : options(std::move(more)), has_tls(with_tls)
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-redis-XXXXXX").string();

        folder = mkdtemp(pattern.data());
        address = detour_test::FreeAddress();
        Start();
    }

    ~RedisServer()
    {
        Kill();
        std::filesystem::remove_all(folder);
    }

    RedisServer(const RedisServer &) = delete;

    void Start()
    {
        const std::string port = address.substr(address.find(':') + 1);
        std::vector<std::string> words = {
            "redis-server", "--bind", "127.0.0.1", "--port", has_tls ? "0" : port,
            "--dir",        folder,   "--save",    ""};
        std::vector<char *> argv;

        if (has_tls)
            words.insert(words.end(), {"--tls-port", port});
        words.insert(words.end(), options.begin(), options.end());
        for (std::string &word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        pid = fork();
        if (pid == 0) {
            int log = open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(log, 1);
            dup2(log, 2);
            execv("/usr/bin/redis-server", argv.data());
            _exit(127);
        }
        ASSERT_GT(pid, 0);
        while (!Answers())
            usleep(5000);
    }

    void Kill()
    {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        pid = -1;
    }

    std::string Url(const std::string &credentials = "", std::string scheme = "") const
    {
        if (scheme.empty())
            scheme = has_tls ? "rediss" : "redis";
        return scheme + "://" + credentials + address;
    }

    std::string address, folder;

  private:
    /* It listens, or has ended. */
    bool Answers() const
    {
        struct sockaddr_in to = {};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        siginfo_t ended = {};
        bool is_there;

        to.sin_family = AF_INET;
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(':') + 1))));
        is_there = connect(fd, reinterpret_cast<struct sockaddr *>(&to), sizeof to) == 0;
        close(fd);
        waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT);
        return is_there || ended.si_pid == pid;
    }

    std::vector<std::string> options;
    bool has_tls;
    pid_t pid = -1;
};

#endif
