/* SPDX-License-Identifier: Apache-2.0 */
/* The readers on mutated examples, with any compiler. (fuzz/run.sh is the guided search, with clang.) */
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/prng.h"
#include "tests/delay/fuzz/text_fuzz.h"

namespace
{
std::string Slurp(const std::string &name)
{
    std::ifstream file(std::string(DETOUR_SOURCE_DIR "/tests/delay/fuzz/seeds/") + name, std::ios::binary);
    std::stringstream text;
    EXPECT_TRUE(file.good()) << name;
    text << file.rdbuf();
    return text.str();
}

/* Cuts, doubles, overwrites: a few places of the text. */
std::string Mutate(std::string text, dt_prng *prng)
{
    static const std::string pieces = "0123456789.,;/()=\" \n#msKMGinf_\xff\x01";

    for (uint64_t n = dt_prng_between(prng, 1, 4); n > 0 && !text.empty(); n--) {
        size_t at = dt_prng_below(prng, text.size());
        size_t length = dt_prng_below(prng, 12);

        switch (dt_prng_below(prng, 3)) {
        case 0:
            text.erase(at, length);
            break;
        case 1:
            text.insert(at, text.substr(dt_prng_below(prng, text.size()), length));
            break;
        default:
            text[at] = pieces[dt_prng_below(prng, pieces.size())];
        }
    }
    return text;
}

void Search(const char *const *seeds, const char *(*check)(const char *, size_t))
{
    dt_prng prng;
    dt_prng_init(&prng, 1);
    for (; *seeds; seeds++) {
        std::string seed = Slurp(*seeds);
        EXPECT_EQ(nullptr, check(seed.data(), seed.size())) << seed;
        for (int round = 0; round < 10000; round++) {
            std::string text = Mutate(seed, &prng);
            const char *problem = check(text.data(), text.size());
            ASSERT_EQ(nullptr, problem) << text;
        }
    }
}

TEST(DelayMutation, Rules)
{
    const char *seeds[] = {"rules.txt", "rules2.txt", nullptr};
    Search(seeds, dt_fuzz_rules);
}

TEST(DelayMutation, Trace)
{
    const char *seeds[] = {"trace.csv", "trace.iterations", nullptr};
    Search(seeds, dt_fuzz_trace);
}

TEST(DelayMutation, Record)
{
    const char *seeds[] = {"record.csv", nullptr};
    Search(seeds, dt_fuzz_record);
}
} // namespace
