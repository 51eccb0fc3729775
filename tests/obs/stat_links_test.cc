/* SPDX-License-Identifier: Apache-2.0 */
/* detour_stat_links() on a page of this process. */
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "detour/stat.h"
#include "obs/page.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
class StatLinks : public ::testing::Test
{
  protected:
    StatLinks()
    {
        dt_page_options options = {&folder.dir, getpid(), "trainer",           5000000000,
                                   1000000,     "",       DT_PAGE_RANK_UNKNOWN};
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page));
        Claim(false, "h:7", 1, 0, 0); /* the process at h:7 is rank 1 */
        Claim(false, "h:8", 2, 0, 0);
    }

    ~StatLinks() override
    {
        free(links);
        detour_stat_free(snapshot);
        dt_page_close(page);
    }

    void Claim(bool is_send, const char *peer, int32_t from_rank, int32_t verdict, uint64_t delay_ns)
    {
        dt_page_connection content = {};
        content.id = ++id;
        content.is_send = is_send;
        content.from_rank = from_rank;
        snprintf(content.peer, sizeof content.peer, "%s", peer);
        dt_page_connection *row = dt_page_claim_connection(page, &content);
        ASSERT_NE(row, nullptr);
        dt_page_health health = {};
        health.verdict = static_cast<uint32_t>(verdict);
        health.delay_ns = delay_ns;
        health.factor_permille = 3000;
        dt_page_set_health(row, &health);
    }

    void Find()
    {
        char error[DETOUR_STAT_ERROR_BYTES];
        ASSERT_EQ(detour_stat_read(folder.path.c_str(), 0, &snapshot, error), DETOUR_STAT_OK) << error;
        links = detour_stat_links(snapshot, &count);
        ASSERT_NE(links, nullptr);
    }

    Folder folder;
    dt_page *page = nullptr;
    uint64_t id = 0;
    detour_stat_snapshot *snapshot = nullptr;
    detour_stat_link *links = nullptr;
    size_t count = 0;
};
} // namespace

TEST_F(StatLinks, ALinkIsItsWorstConnection)
{
    Claim(true, "h:8", 0, DETOUR_STAT_HEALTHY, 0);
    Claim(true, "h:7", 0, DETOUR_STAT_HEALTHY, 900);
    Claim(true, "h:7", 0, DETOUR_STAT_SLOW, 500);
    Claim(true, "h:7", 0, DETOUR_STAT_SLOW, 700);
    Claim(true, "h:7", 0, DETOUR_STAT_SLOW, 600);
    Find();
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(links[0].from_rank, 0);
    EXPECT_EQ(links[0].to_rank, 1);
    EXPECT_TRUE(links[0].is_slow);
    EXPECT_EQ(links[0].delay_ns, 700u);
    EXPECT_EQ(links[0].factor, 3);
    EXPECT_EQ(links[1].to_rank, 2);
    EXPECT_FALSE(links[1].is_slow);
    EXPECT_EQ(links[1].factor, 1);
}

TEST_F(StatLinks, WaitingForThePeerIsNotSlow)
{
    Claim(true, "h:7", 0, DETOUR_STAT_WAITING, 800);
    Find();
    ASSERT_EQ(count, 1u);
    EXPECT_FALSE(links[0].is_slow);
    EXPECT_EQ(links[0].delay_ns, 0u);
}

TEST_F(StatLinks, WithoutAVerdictOrARankThereIsNoLink)
{
    Claim(true, "h:7", 0, DETOUR_STAT_LEARNING, 0);
    Claim(true, "h:9", 0, DETOUR_STAT_SLOW, 800); /* of unknown rank */
    Find();
    EXPECT_EQ(count, 0u);
}
