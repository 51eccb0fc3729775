/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <pthread.h>
#include <semaphore.h>

#include <csignal>
#include <string>

#include "base/thread.h"

namespace
{
struct Seen {
    sem_t go;
    sigset_t blocked;
};

void *Look(void *arg)
{
    Seen *seen = static_cast<Seen *>(arg);

    pthread_sigmask(SIG_SETMASK, nullptr, &seen->blocked);
    while (sem_wait(&seen->go) != 0)
        continue;
    return nullptr;
}

class Thread : public testing::Test
{
  protected:
    void SetUp() override
    {
        sem_init(&seen_.go, 0, 0);
    }
    void TearDown() override
    {
        sem_destroy(&seen_.go);
    }
    /* The name under which a thread that was started as `name` is seen. */
    std::string NameOf(const char *name)
    {
        pthread_t thread;
        char text[64] = "";

        EXPECT_EQ(0, dt_thread_start(&thread, name, Look, &seen_));
        EXPECT_EQ(0, pthread_getname_np(thread, text, sizeof text));
        sem_post(&seen_.go);
        pthread_join(thread, nullptr);
        return text;
    }
    Seen seen_;
};

TEST_F(Thread, TakesNoSignalOfTheApplicationAndLeavesItsMaskAlone)
{
    sigset_t before, after;

    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    EXPECT_EQ("detour-test", NameOf("detour-test"));
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    for (int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE}) {
        EXPECT_EQ(1, sigismember(&seen_.blocked, signal)) << signal;
        EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal)) << signal;
    }
}

TEST_F(Thread, ALongNameIsCut)
{
    EXPECT_EQ("detour-mlx5_ban", NameOf("detour-mlx5_bank_17"));
}
} // namespace
