// SPDX-License-Identifier: Apache-2.0
#include "controller/backup.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace
{
class Backup : public ::testing::Test
{
  protected:
    void Link(uint64_t connection, const char *nic, uint64_t service_ns, uint64_t bytes,
              const char *host = "a")
    {
        dt_known_link link = {0, 1, connection, "", "", service_ns, bytes};

        strcpy(link.host, host);
        strcpy(link.nic, nic);
        links.push_back(link);
    }
    double Gain(uint64_t connection = 0) const
    {
        return dt_backup_gain(links.data(), links.size(), "a", "n0", connection);
    }
    std::vector<dt_known_link> links;
};

TEST_F(Backup, BothHaveToBeMeasured)
{
    EXPECT_EQ(Gain(), 0);
    Link(1, "n0", 600, 1000);
    EXPECT_EQ(Gain(), 0);
    Link(2, "n1", 0, 1000);
    Link(3, "n1", 100, 0);
    Link(4, "", 100, 1000);
    EXPECT_EQ(Gain(), 0);
    Link(5, "n1", 100, 1000);
    EXPECT_DOUBLE_EQ(Gain(), 6);
    EXPECT_EQ(Gain(5), 0) << "it is not over n0";
}

TEST_F(Backup, AConnectionIsComparedByItself)
{
    Link(1, "n0", 600, 1000);
    Link(2, "n0", 100, 1000);
    Link(3, "n1", 100, 1000);
    EXPECT_DOUBLE_EQ(Gain(), 3.5);
    EXPECT_DOUBLE_EQ(Gain(1), 6);
    EXPECT_DOUBLE_EQ(Gain(2), 1);
}

TEST_F(Backup, OtherHostsAndOtherSizesDoNotCount)
{
    Link(1, "n0", 600, 1000);
    Link(2, "n1", 100, 499);
    Link(3, "n1", 100, 2001);
    Link(4, "n1", 100, 1000, "b");
    EXPECT_EQ(Gain(), 0);
    Link(5, "n1", 100, 500);
    EXPECT_DOUBLE_EQ(Gain(), 3);
    Link(6, "n1", 5000, 2000);
    EXPECT_DOUBLE_EQ(Gain(), 0.6 / (5100.0 / 2500.0)) << "it is slower";
}

TEST_F(Backup, ExtremeNumbersDoNotOverflow)
{
    Link(1, "n0", UINT64_MAX, UINT64_MAX);
    Link(2, "n0", UINT64_MAX, UINT64_MAX);
    Link(3, "n1", UINT64_MAX, UINT64_MAX);
    EXPECT_DOUBLE_EQ(Gain(), 1);
}
} // namespace
