// SPDX-License-Identifier: Apache-2.0
#include "controller/redis_url.h"

#include <gtest/gtest.h>

#include <string>

namespace
{

struct dt_redis_url Parsed(const std::string &url)
{
    struct dt_redis_url parsed;
    char reason[256] = "";

    EXPECT_TRUE(dt_redis_url_parse(url.c_str(), &parsed, reason, sizeof reason)) << url << ": " << reason;
    return parsed;
}

TEST(RedisUrl, HasItsPartsAndDefaults)
{
    struct dt_redis_url url = Parsed("redis://node1");

    EXPECT_FALSE(url.is_tls);
    EXPECT_STREQ(url.host, "node1");
    EXPECT_STREQ(url.port, "6379");
    EXPECT_STREQ(url.user, "");
    EXPECT_STREQ(url.password, "");
    EXPECT_STREQ(url.database, "");
    url = Parsed("rediss://agent:p%40ss%3Aw%2Ford%25@[fe80::1]:7000/12");
    EXPECT_TRUE(url.is_tls);
    EXPECT_STREQ(url.host, "fe80::1");
    EXPECT_STREQ(url.port, "7000");
    EXPECT_STREQ(url.user, "agent");
    EXPECT_STREQ(url.password, "p@ss:w/ord%");
    EXPECT_STREQ(url.database, "12");
    EXPECT_STREQ(Parsed("redis://:secret@h/").user, "");
    EXPECT_STREQ(Parsed("redis://:secret@h/").password, "secret");
}

TEST(RedisUrl, RefusesAnythingElseWithoutRepeatingIt)
{
    const std::string long_host(300, 'h'), long_password(600, 'p');

    for (const std::string &url : std::initializer_list<std::string>{"",
                                                                     "redis:",
                                                                     "redis://",
                                                                     "http://h",
                                                                     "redis://h:0",
                                                                     "redis://h:65536",
                                                                     "redis://h:x",
                                                                     "redis://h:",
                                                                     "redis://secret@h",
                                                                     "redis://u:@h",
                                                                     "redis://u:secret%4@h",
                                                                     "redis://u:secret%zz@h",
                                                                     "redis://u:secret%00@h",
                                                                     "redis://u:secret%0a@h",
                                                                     "redis://[::1",
                                                                     "redis://[]",
                                                                     "redis://h/x",
                                                                     "redis://h/65536",
                                                                     "redis://h/1/2",
                                                                     "redis://u:secret@a@b",
                                                                     "redis://a b",
                                                                     "redis://" + long_host,
                                                                     "redis://u:" + long_password + "@h",
                                                                     "xredis://h",
                                                                     "redis://h:123456"}) {
        struct dt_redis_url parsed;
        char reason[256] = "";

        EXPECT_FALSE(dt_redis_url_parse(url.c_str(), &parsed, reason, sizeof reason)) << url;
        EXPECT_NE(std::string(reason).find("redis[s]://[USER:PASSWORD@]HOST"), std::string::npos) << url;
        EXPECT_EQ(std::string(reason).find("secret"), std::string::npos) << url;
    }
}

} // namespace
