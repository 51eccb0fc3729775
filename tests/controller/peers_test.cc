// SPDX-License-Identifier: Apache-2.0
#include "controller/peers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "obs/runtime_dir.h"

namespace
{
const int64_t kS = 1000000000;

class Peers : public ::testing::Test
{
  protected:
    ~Peers() override
    {
        dt_peers_destroy(peers);
    }
    /* A report about the process with this number on the page host `box` of the agent `host`. */
    void Take(const char *host, const char *box, int32_t pid, int32_t rank, int64_t time_ns)
    {
        *observation = {};
        strcpy(observation->host, host);
        strcpy(observation->page_host, box);
        observation->pid = pid;
        observation->rank = rank;
        dt_peers_take(peers, observation.get(), time_ns);
    }
    /* "HOST RANK"; "": not known. */
    std::string Find(const char *name, int64_t time_ns)
    {
        const dt_peer *peer = dt_peers_find(peers, name, time_ns);

        return peer ? std::string(peer->host) + " " + std::to_string(peer->rank) : "";
    }

    std::unique_ptr<dt_observation> observation = std::make_unique<dt_observation>();
    dt_peers *peers = dt_peers_create();
};

TEST_F(Peers, AProcessIsFoundByTheNameThatItsPeersHaveForIt)
{
    EXPECT_EQ(Find("box:11", kS), "");
    Take("a", "box", 11, 6, kS);
    Take("b", "box", 12, 7, kS);
    EXPECT_EQ(Find("box:11", kS), "a 6");
    EXPECT_EQ(Find("a:11", kS), "");
    EXPECT_EQ(Find("box:1", kS), "");
    EXPECT_EQ(Find("", kS), "");
    Take("old", "", 11, 5, kS);
    EXPECT_EQ(Find("old:11", kS), "old 5") << "by an agent of an earlier version";
}

TEST_F(Peers, TheNumberOfAPageIsNotThatOfItsProcess)
{
    Take("a", "box", 11 + 2 * DT_RUNTIME_NUMBER_STEP, 6, kS);
    EXPECT_EQ(Find("box:11", kS), "a 6");
}

TEST_F(Peers, AProcessThatStartsUnderTheNameOfAnotherReplacesIt)
{
    Take("a", "box", 7, -1, kS);
    Take("a", "box", 7, 3, 2 * kS); /* its rank was not known at first */
    Take("b", "box", 7, 4, 3 * kS);
    EXPECT_EQ(Find("box:7", 3 * kS), "b 4");
    Take("b", "box", 7, 4, 200 * kS);
    Take("a", "box", 7, 4, 201 * kS);
    EXPECT_EQ(Find("box:7", 201 * kS), "a 4");
}

TEST_F(Peers, ANameOfTwoProcessesIsNoneUntilOneHasEnded)
{
    int64_t time_ns = kS;

    for (int i = 0; i < 10; i++, time_ns += kS) {
        Take("a", "box", 7, 0, time_ns);
        Take("b", "box", 7, 1, time_ns);
    }
    EXPECT_EQ(Find("box:7", time_ns), "");
    Take("a", "box", 7, 0, time_ns);
    EXPECT_EQ(Find("box:7", time_ns), "");
    EXPECT_EQ(Find("box:7", time_ns + DT_PEERS_UNCLEAR_NS), "a 0");
}

TEST_F(Peers, TheTableIsBoundedAndForgets)
{
    for (int32_t pid = 1; pid <= 2 * DT_PEERS_MAX; pid++) {
        Take("a", "box", pid, pid, kS);
        ASSERT_EQ(Find(("box:" + std::to_string(pid)).c_str(), kS), "a " + std::to_string(pid));
    }
    EXPECT_EQ(Find("box:1", kS), "");
}
} // namespace
