/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/perf_options.h"

namespace
{
struct dt_perf_options Parsed(std::vector<std::string> words, int expected_code = DT_EXIT_OK)
{
    struct dt_perf_options options;
    std::vector<char *> argv;
    words.insert(words.begin(), "detour perf");
    for (std::string &word : words)
        argv.push_back(&word[0]);
    argv.push_back(nullptr);
    EXPECT_EQ(dt_perf_options_parse(static_cast<int>(words.size()), argv.data(), &options), expected_code);
    return options;
}

std::vector<uint64_t> Sizes(const struct dt_perf_options &options)
{
    std::vector<uint64_t> sizes;
    for (uint64_t size = options.bytes_min;; size = dt_perf_next_size(&options, size)) {
        sizes.push_back(size);
        if (!dt_perf_next_size(&options, size) || sizes.size() > 100)
            return sizes;
    }
}

TEST(PerfOptions, DefaultsAreThoseOfNcclTests)
{
    struct dt_perf_options options = Parsed({"all_reduce"});
    EXPECT_EQ(options.op, &dt_perf_op_all_reduce);
    EXPECT_STREQ(options.type->name, "float");
    EXPECT_EQ(options.bytes_min, 32u << 20);
    EXPECT_EQ(options.iterations, 20u);
    EXPECT_EQ(options.warmup_iterations, 1u);
    EXPECT_EQ(options.check, DT_PERF_CHECK_AFTER);
    EXPECT_EQ(options.ranks, 2u);
    EXPECT_EQ(Sizes(options), (std::vector<uint64_t>{32u << 20}));
}

TEST(PerfOptions, SizesGoByFactorOrByStep)
{
    EXPECT_EQ(Sizes(Parsed({"all_reduce", "-b", "8", "-e", "64"})), (std::vector<uint64_t>{8, 16, 32, 64}));
    EXPECT_EQ(Sizes(Parsed({"all_reduce", "-b", "1K", "-e", "5K", "-f", "4"})),
              (std::vector<uint64_t>{1024, 4096}));
    EXPECT_EQ(Sizes(Parsed({"all_reduce", "-b", "1M", "-e", "3M", "-i", "1M"})),
              (std::vector<uint64_t>{1 << 20, 2 << 20, 3 << 20}));
    EXPECT_EQ(Sizes(Parsed({"sendrecv", "-b", "0", "-e", "16"})), (std::vector<uint64_t>{0, 4, 8, 16}));
    EXPECT_EQ(Sizes(Parsed({"sendrecv", "-b", "8", "-e", "16", "-f", "1"})), (std::vector<uint64_t>{8}));
}

TEST(PerfOptions, DigestDiffersWhereRanksMustAgreeOnly)
{
    uint64_t digest = [](struct dt_perf_options o) {
        return dt_perf_options_digest(&o);
    }(Parsed({"all_reduce"}));
    auto digest_of = [](std::vector<std::string> words) {
        struct dt_perf_options options = Parsed(words);
        return dt_perf_options_digest(&options);
    };
    for (const std::vector<std::string> &more : std::vector<std::vector<std::string>>{{"-b", "8"},
                                                                                      {"-n", "3"},
                                                                                      {"-w", "3"},
                                                                                      {"-c", "0"},
                                                                                      {"-d", "int8"},
                                                                                      {"-o", "max"},
                                                                                      {"--ranks", "3"},
                                                                                      {"--channels", "3"},
                                                                                      {"--flush"},
                                                                                      {"-f", "3"},
                                                                                      {"-i", "4"}}) {
        std::vector<std::string> words = more;
        words.push_back("all_reduce");
        EXPECT_NE(digest_of(words), digest) << more[0];
    }
    EXPECT_EQ(digest_of({"all_reduce", "--rank", "1", "--root", "h:1", "-J", "f", "--timeout", "3"}), digest);
}

TEST(PerfOptions, RawTakesAWindow)
{
    EXPECT_EQ(Parsed({"sendrecv", "--raw", "-b", "4M"}).window, 8u);
    EXPECT_EQ(Parsed({"sendrecv", "--raw", "-b", "4M", "--window", "16"}).window, 16u);
}
} // namespace
