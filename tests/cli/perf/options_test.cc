/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/perf/options.h"

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
    EXPECT_EQ(options.job.ranks, 2u);
    EXPECT_EQ(Sizes(options), (std::vector<uint64_t>{32u << 20}));
}

TEST(PerfOptions, ConnectingHasLongerThanThePluginsOwnLimitUnlessATimeoutIsSet)
{
    EXPECT_EQ(Parsed({"all_reduce"}).job.timeout_s, 30u);
    EXPECT_EQ(Parsed({"all_reduce"}).job.connect_timeout_s, 90u);
    EXPECT_EQ(Parsed({"all_reduce", "--timeout", "5"}).job.timeout_s, 5u);
    EXPECT_EQ(Parsed({"all_reduce", "--timeout", "5"}).job.connect_timeout_s, 0u) << "the same";
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

TEST(PerfOptions, SecondsRepeatTheIterations)
{
    EXPECT_EQ(Parsed({"all_reduce"}).seconds, 0u);
    EXPECT_EQ(Parsed({"all_reduce", "--seconds", "60"}).seconds, 60u);
    Parsed({"all_reduce", "--seconds", "0"}, DT_EXIT_USAGE);
    struct dt_perf_options once = Parsed({"all_reduce"}), longer = Parsed({"all_reduce", "--seconds", "2"});
    EXPECT_NE(dt_perf_options_digest(&once), dt_perf_options_digest(&longer)) << "ranks must agree on it";
}

// A variable for the time of a test.
class Variable
{
  public:
    Variable(const char *name, const char *value) : name_(name)
    {
        setenv(name, value, 1);
    }
    ~Variable()
    {
        unsetenv(name_);
    }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

  private:
    const char *name_;
};

TEST(PerfOptions, RankIsReadFromTheLaunchersVariables)
{
    const char *const kVariables[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                         {"PMI_RANK", "PMI_SIZE"},
                                         {"RANK", "WORLD_SIZE"},
                                         {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (const auto &names : kVariables) {
        Variable rank(names[0], "3"), ranks(names[1], "8");
        struct dt_perf_options options = Parsed({"all_reduce", "--rendezvous", "h:1"});
        EXPECT_EQ(options.job.rank, 3) << names[0];
        EXPECT_EQ(options.job.ranks, 8u);
        EXPECT_EQ(Parsed({"all_reduce"}).job.ranks, 2u) << "without --rendezvous all ranks are started here";
        EXPECT_EQ(Parsed({"all_reduce", "--rendezvous", "h:1", "--ranks", "4", "--rank", "1"}).job.ranks, 4u)
            << "the explicit value counts";
        Parsed({"all_reduce", "--rendezvous", "h:1", "--ranks", "4"}, DT_EXIT_USAGE);
    }
    Parsed({"all_reduce", "--rendezvous", "h:1"}, DT_EXIT_USAGE);
    Variable outer("SLURM_PROCID", "0"), outer_ranks("SLURM_NTASKS", "2"), rank("PMI_RANK", "5"),
        ranks("PMI_SIZE", "6");
    EXPECT_EQ(Parsed({"all_reduce", "--rendezvous", "h:1"}).job.rank, 5) << "the innermost launcher";
    Variable odd("PMI_RANK", "5x");
    EXPECT_EQ(Parsed({"all_reduce", "--rendezvous", "h:1"}).job.rank, 0) << "what is no number is not set";
    Variable beyond("SLURM_PROCID", "2");
    Parsed({"all_reduce", "--rendezvous", "h:1"}, DT_EXIT_USAGE);
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
                                                                                      {"--protocol", "ll"},
                                                                                      {"-f", "3"},
                                                                                      {"-i", "4"}}) {
        std::vector<std::string> words = more;
        words.push_back("all_reduce");
        EXPECT_NE(digest_of(words), digest) << more[0];
    }
    EXPECT_EQ(digest_of({"all_reduce", "--rank", "1", "--rendezvous", "h:1", "-J", "f", "--timeout", "3"}),
              digest);
}

TEST(PerfOptions, RawTakesAWindow)
{
    EXPECT_EQ(Parsed({"sendrecv", "--raw", "-b", "4M"}).window, 8u);
    EXPECT_EQ(Parsed({"sendrecv", "--raw", "-b", "4M", "--window", "16"}).window, 16u);
}
} // namespace
