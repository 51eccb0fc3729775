// SPDX-License-Identifier: Apache-2.0
#include "pipeline/payload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

namespace
{
struct dt_pipeline_identity Identity()
{
    struct dt_pipeline_identity identity = {};
    identity.iteration = 7;
    identity.microbatch = 3;
    identity.stage = 1;
    identity.slice = 2;
    return identity;
}
} // namespace

TEST(Payload, IsWhatItsIdentitySays)
{
    for (size_t bytes : {size_t{16}, size_t{17}, size_t{4096}, size_t{4097}, size_t{4111}, size_t{20000}}) {
        std::vector<char> data(bytes + 1, 'x');
        struct dt_pipeline_identity identity = Identity(), found;
        dt_pipeline_payload_fill(data.data(), bytes, &identity);
        EXPECT_EQ(data[bytes], 'x');
        EXPECT_EQ(dt_pipeline_payload_check(data.data(), bytes, &identity), bytes);
        found = dt_pipeline_payload_identity(data.data());
        EXPECT_TRUE(dt_pipeline_identity_equal(&found, &identity));
    }
}

TEST(Payload, EveryFieldChangesEveryBlock)
{
    const std::vector<std::function<void(struct dt_pipeline_identity *)>> changes = {
        [](struct dt_pipeline_identity *i) { i->iteration++; },
        [](struct dt_pipeline_identity *i) { i->microbatch++; },
        [](struct dt_pipeline_identity *i) { i->stage++; },
        [](struct dt_pipeline_identity *i) { i->backward = 1; },
        [](struct dt_pipeline_identity *i) { i->slice++; },
    };
    const size_t bytes = 3 * DT_PIPELINE_BLOCK_BYTES;
    std::vector<char> data(bytes), other(bytes);
    struct dt_pipeline_identity identity = Identity();
    dt_pipeline_payload_fill(data.data(), bytes, &identity);
    for (const auto &change : changes) {
        struct dt_pipeline_identity changed = identity;
        change(&changed);
        EXPECT_FALSE(dt_pipeline_identity_equal(&changed, &identity));
        dt_pipeline_payload_fill(other.data(), bytes, &changed);
        for (size_t block = 0; block < 3; block++)
            EXPECT_NE(memcmp(&data[block * DT_PIPELINE_BLOCK_BYTES], &other[block * DT_PIPELINE_BLOCK_BYTES],
                             DT_PIPELINE_BLOCK_BYTES),
                      0);
        EXPECT_LT(dt_pipeline_payload_check(data.data(), bytes, &changed), bytes);
    }
}

TEST(Payload, NamesTheFirstWrongByte)
{
    const size_t bytes = 10000;
    std::vector<char> data(bytes);
    struct dt_pipeline_identity identity = Identity();
    for (size_t at : {size_t{0}, size_t{15}, size_t{16}, size_t{4095}, size_t{4096}, size_t{9999}}) {
        dt_pipeline_payload_fill(data.data(), bytes, &identity);
        data[at] = static_cast<char>(data[at] ^ 4);
        EXPECT_EQ(dt_pipeline_payload_check(data.data(), bytes, &identity), at);
    }
}

TEST(Payload, BlocksCannotBeExchanged)
{
    const size_t bytes = 2 * DT_PIPELINE_BLOCK_BYTES;
    std::vector<char> data(bytes), swapped(bytes);
    struct dt_pipeline_identity identity = Identity();
    dt_pipeline_payload_fill(data.data(), bytes, &identity);
    memcpy(swapped.data(), data.data() + DT_PIPELINE_BLOCK_BYTES, DT_PIPELINE_BLOCK_BYTES);
    memcpy(swapped.data() + DT_PIPELINE_BLOCK_BYTES, data.data(), DT_PIPELINE_BLOCK_BYTES);
    EXPECT_LT(dt_pipeline_payload_check(swapped.data(), bytes, &identity), bytes);
}

TEST(Payload, TextNamesTheMessage)
{
    char text[DT_PIPELINE_IDENTITY_TEXT_BYTES];
    struct dt_pipeline_identity identity = Identity();
    EXPECT_STREQ(dt_pipeline_identity_text(text, &identity),
                 "activation of microbatch 3 from stage 1, iteration 7, slice 2");
    identity.backward = 1;
    EXPECT_STREQ(dt_pipeline_identity_text(text, &identity),
                 "gradient of microbatch 3 from stage 1, iteration 7, slice 2");
}
