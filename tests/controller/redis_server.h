/* SPDX-License-Identifier: Apache-2.0 */
/* A redis-server of the test's own on a loopback port and in a folder of its own; killed at the end. */
#ifndef DETOUR_TESTS_CONTROLLER_REDIS_SERVER_H
#define DETOUR_TESTS_CONTROLLER_REDIS_SERVER_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/free_address.h"

class RedisServer
{
  public:
    static bool IsInstalled()
    {
        return access("/usr/bin/redis-server", X_OK) == 0;
    }

    explicit RedisServer(std::vector<std::string> more = {}) : options(std::move(more))
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
        std::vector<std::string> words = {
            "redis-server", "--bind", "127.0.0.1", "--port", address.substr(address.find(':') + 1),
            "--dir",        folder,   "--save",    ""};
        std::vector<char *> argv;

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
    }

    void Kill()
    {
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
        pid = -1;
    }

    std::string Url(const std::string &credentials = "", const std::string &scheme = "redis") const
    {
        return scheme + "://" + credentials + address;
    }

    std::string address, folder;

  private:
    std::vector<std::string> options;
    pid_t pid = -1;
};

#endif
