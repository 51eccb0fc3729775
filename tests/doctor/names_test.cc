// SPDX-License-Identifier: Apache-2.0
// Which names of settings are known, and which one was meant.
#include "doctor/names.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace
{
std::string Nearest(const std::string &name)
{
    const char *nearest = dt_name_nearest(name.c_str(), name.size());
    return nearest ? nearest : "";
}

std::string Owner(const std::string &name)
{
    const char *owner = dt_name_owner(name.c_str(), name.size());
    return owner ? owner : "";
}

std::set<std::string> KnownNames()
{
    std::set<std::string> names;
    for (size_t i = 0; dt_name_at(i); i++)
        EXPECT_TRUE(names.insert(dt_name_at(i)).second) << dt_name_at(i) << " is there twice";
    return names;
}

TEST(Names, OfMistypedSettingsTheNearestIsFound)
{
    const char *const rows[][2] = {
        {"NCCL_IB_HCAS", "NCCL_IB_HCA"},
        {"NCCL_IB_HAC", "NCCL_IB_HCA"},
        {"NCCL_IB_hca", "NCCL_IB_HCA"},
        {"NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME"},
        {"NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"},
        {"NCCL_IB_GID_IDX", "NCCL_IB_GID_INDEX"},
        {"NCCL_IB_TIME_OUT", "NCCL_IB_TIMEOUT"},
        {"NCCL_IB_ADAPTATIVE_ROUTING", "NCCL_IB_ADAPTIVE_ROUTING"},
        {"NCCL_IB_RETRY_COUNT", "NCCL_IB_RETRY_CNT"},
        {"NCCL_IB_ROCE_VERSION_NUMBER", "NCCL_IB_ROCE_VERSION_NUM"},
        {"NCCL_OOB_NET_ENABLED", "NCCL_OOB_NET_ENABLE"},
        {"DETOUR_STAL_MS", "DETOUR_STALL_MS"},
        {"DETOUR_REDIS_CERTS", "DETOUR_REDIS_CERT"},
    };
    for (const auto &row : rows) {
        EXPECT_FALSE(dt_name_is_known(row[0], strlen(row[0]))) << row[0];
        EXPECT_EQ(row[1], Nearest(row[0])) << row[0];
    }
}

TEST(Names, WithoutASimilarOneNoneIsProposed)
{
    for (const std::string &name :
         {std::string("NCCL_IB_"), std::string("NCCL_IB_FOO"), std::string("NCCL_SOCKET_COLOUR"),
          std::string("DETOUR_X"), std::string("PATH"), "NCCL_IB_HCA" + std::string(300, 'X')})
        EXPECT_EQ("", Nearest(name)) << name;
    EXPECT_EQ("NCCL_IB_HCA", Nearest("NCCL_IB_HCA"));
}

TEST(Names, OnlyAreasThatAreCompleteAreChecked)
{
    EXPECT_EQ("Detour", Owner("DETOUR_STAL_MS"));
    EXPECT_EQ("NCCL 2.20 to 2.32", Owner("NCCL_IB_HCAS"));
    EXPECT_EQ("NCCL 2.20 to 2.32", Owner("NCCL_SOCKET_IFNAM"));
    EXPECT_EQ("NCCL 2.20 to 2.32", Owner("NCCL_OOB_NET_ENABLED"));
    for (const char *name : {"NCCL_DEBUG", "NCCL_P2P_LEVEL", "NCCL_NET", "NCCL_NET_PLUGIN",
                             "NCCL_NET_GDR_LEVEL", "NCCL_IBEXT_DISABLE", "NCCL_GDR_FLUSH_DISABLE",
                             "NCCL_NSOCKS_PERTHREAD", "nccl_ib_hca", "NCCL_IB", "DETOUR", "PATH", ""})
        EXPECT_EQ("", Owner(name)) << name;
}

// docs/environment.md is where people look a name up: it has the same ones.
TEST(Names, AreThoseOfTheDocument)
{
    std::ifstream file(DETOUR_SOURCE_DIR "/docs/environment.md");
    std::stringstream text;
    text << file.rdbuf();
    const std::string document = text.str();
    const size_t begin = document.find("\n## NCCL's settings\n");
    ASSERT_NE(std::string::npos, begin);
    const std::regex name("`(NCCL_(IB|OOB|SOCKET)_[A-Z0-9_]*[A-Z0-9])`");
    std::set<std::string> documented;
    for (std::sregex_iterator at(document.begin() + begin, document.end(), name), end; at != end; ++at)
        documented.insert((*at)[1]);
    EXPECT_LT(60u, documented.size());
    std::set<std::string> known;
    for (const std::string &one : KnownNames()) {
        EXPECT_TRUE(dt_name_is_known(one.c_str(), one.size())) << one;
        if (one.compare(0, 5, "NCCL_") == 0 && !Owner(one).empty())
            known.insert(one);
        else
            EXPECT_NE(std::string::npos, document.find('`' + one + '`')) << one;
    }
    EXPECT_EQ(documented, known);
    EXPECT_FALSE(dt_name_is_known("NCCL_IB_HCAS", 12));
    EXPECT_TRUE(dt_name_is_known("NCCL_IB_HCAS", 11)) << "the name ends where its bytes end";
}
} // namespace
