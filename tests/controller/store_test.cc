// SPDX-License-Identifier: Apache-2.0
#include "controller/store.h"

#include <gtest/gtest.h>

#include <string>

namespace
{

struct Opened {
    enum dt_status status;
    char reason[DT_STORE_REASON_BYTES] = "";

    Opened(const char *url, const char *job)
    {
        struct dt_store *store = nullptr;

        const struct dt_store_options options = {url, job, 0, {}};
        status = dt_store_open(&options, &store, reason);
        if (status == DT_OK)
            store->ops->close(store);
    }
};

TEST(Store, OpensTheMemoryStore)
{
    EXPECT_EQ(Opened("memory:", "job-1").status, DT_OK);
}

TEST(Store, RefusesAnUnknownUrlInOneLine)
{
    Opened opened("http://host", "job");

    EXPECT_EQ(opened.status, DT_INVALID);
    EXPECT_NE(std::string(opened.reason).find("redis[s]://"), std::string::npos);
    EXPECT_EQ(std::string(opened.reason).find('\n'), std::string::npos);
}

TEST(Store, RefusesAJobNameThatWouldChangeKeys)
{
    for (const char *job : {"", "a b", "a:b", "a*", "a\nb"})
        EXPECT_EQ(Opened("memory:", job).status, DT_INVALID) << job;
    EXPECT_EQ(Opened("memory:", std::string(DT_STORE_NAME_BYTES, 'a').c_str()).status, DT_INVALID);
    EXPECT_EQ(Opened("memory:", std::string(DT_STORE_NAME_BYTES - 1, 'a').c_str()).status, DT_OK);
}

TEST(Store, NamesAreCheckedToTheirLastCharacter)
{
    EXPECT_TRUE(dt_store_is_name("observations:host-1.x_y"));
    EXPECT_FALSE(dt_store_is_name(""));
    EXPECT_FALSE(dt_store_is_name("host 1"));
    EXPECT_FALSE(dt_store_is_name("host\r"));
}

} // namespace
