/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <gtest/gtest.h>

/* Published values (draft-eastlake-fnv, appendix C). */
TEST(Digest, IsFnv1a)
{
    EXPECT_EQ(dt_digest_add(DT_DIGEST_EMPTY, "", 0), 0xcbf29ce484222325ull);
    EXPECT_EQ(dt_digest_add(DT_DIGEST_EMPTY, "a", 1), 0xaf63dc4c8601ec8cull);
    EXPECT_EQ(dt_digest_add(DT_DIGEST_EMPTY, "foobar", 6), 0x85944171f73967e8ull);
}

TEST(Digest, OfPartsIsThatOfTheWhole)
{
    uint64_t digest = dt_digest_add(DT_DIGEST_EMPTY, "foo", 3);
    EXPECT_EQ(dt_digest_add(digest, "bar", 3), dt_digest_add(DT_DIGEST_EMPTY, "foobar", 6));
}
