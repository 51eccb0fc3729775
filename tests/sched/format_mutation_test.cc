// SPDX-License-Identifier: Apache-2.0
// The readers on mutated examples, with any compiler. DETOUR_FUZZ_ROUNDS=10000000 makes it a long run,
// DETOUR_FUZZ_SEED another one. (tests/sched/fuzz/run.sh is the guided search, with clang.)
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/sched/fuzz/format_fuzz.h"

namespace
{
uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

std::string Slurp(const std::string &name)
{
    std::ifstream file(std::string(DETOUR_SOURCE_DIR "/tests/sched/golden/") + name, std::ios::binary);
    std::stringstream text;
    EXPECT_TRUE(file.good()) << name;
    text << file.rdbuf();
    return text.str();
}

// Numbers, words and characters that readers trip over.
const char *const kPieces[] = {"-1",
                               "0",
                               "1e400",
                               "1e300",
                               "9223372036854775807",
                               "9223372036854775808",
                               "0.0000001",
                               "65535",
                               "65536",
                               "4096",
                               "null",
                               "true",
                               "[]",
                               "{}",
                               "\"\"",
                               ",",
                               "\n",
                               "\r",
                               "\"",
                               "{",
                               "}",
                               "[",
                               "]",
                               ":",
                               "(",
                               ")",
                               ";",
                               "\\u0000",
                               "\xff",
                               "0F0",
                               "1W1",
                               "SEND_F",
                               "OVERLAP_F_B",
                               "REDUCE_GRAD",
                               "\"mb\":",
                               "\"slot\": 3",
                               "\"offloaded\": true",
                               "BW"};

struct Mutator {
    struct dt_prng *prng;
    const std::vector<std::string> &seeds;

    size_t Below(size_t bound) const
    {
        return bound ? dt_prng_below(prng, bound) : 0;
    }

    // Of the text or its neighbourhood: short pieces break grammar, long ones structure.
    size_t Length(size_t most) const
    {
        return Below(1 + std::min<size_t>(most, Below(4) ? 8 : 400));
    }

    void Once(std::string *text) const
    {
        size_t at = Below(text->size() + 1), length = Length(text->size() - at);
        const std::string &other = seeds[Below(seeds.size())];
        size_t from = Below(other.size());
        switch (Below(6)) {
        case 0:
            text->erase(at, length);
            break;
        case 1:
            text->insert(at, text->substr(at, length));
            break;
        case 2:
            text->insert(at, kPieces[Below(sizeof(kPieces) / sizeof(kPieces[0]))]);
            break;
        case 3: { // a whole number becomes another
            size_t digit = text->find_first_of("0123456789", at);
            if (digit == std::string::npos)
                break;
            size_t end = text->find_first_not_of("0123456789.", digit);
            text->replace(digit, std::min(end, text->size()) - digit,
                          Below(2) ? std::to_string(Below(16)) : kPieces[Below(11)]);
            break;
        }
        case 4:
            text->replace(at, length, other.substr(from, Length(other.size() - from)));
            break;
        default:
            if (at < text->size())
                (*text)[at] = static_cast<char>((*text)[at] ^ (1 << Below(8)));
        }
    }
};

void Mutate(const char *what, const char *check(const char *data, size_t bytes),
            const std::vector<std::string> &seeds, uint64_t rounds, uint64_t stream)
{
    uint64_t seed = FromEnvironment("DETOUR_FUZZ_SEED", 1);
    rounds = FromEnvironment("DETOUR_FUZZ_ROUNDS", rounds);
    printf("%s: seed %llu, %llu rounds\n", what, static_cast<unsigned long long>(seed),
           static_cast<unsigned long long>(rounds));

    for (uint64_t round = 0; round < rounds; round++) {
        struct dt_prng prng;
        dt_prng_init_stream(&prng, seed, stream << 48 | round);
        Mutator mutator = {&prng, seeds};
        std::string text = seeds[mutator.Below(seeds.size())];
        for (size_t i = mutator.Below(4); i < 4; i++)
            mutator.Once(&text);
        const char *problem = check(text.data(), text.size());
        ASSERT_EQ(problem, nullptr) << what << ", round " << round << ": " << problem << "\n" << text;
    }
}

TEST(Mutations, OfProfilesAreReadOrRefusedInOneLine)
{
    Mutate("profiles", dt_fuzz_profile, {Slurp("pair.profile.json"), Slurp("v.profile.json")}, 20000, 1);
}

TEST(Mutations, OfSchedulesAreReadOrRefusedInOneLine)
{
    Mutate("schedules", dt_fuzz_json, {Slurp("pair.json"), Slurp("pair.report.json")}, 8000, 2);
}

TEST(Mutations, OfCsvFilesAreReadOrRefusedInOneLine)
{
    Mutate("CSV files", dt_fuzz_csv,
           {Slurp("pair.csv"), Slurp("pair.comms.csv"), Slurp("v.csv"), Slurp("v.comms.csv")}, 8000, 3);
}

TEST(Mutations, OfDelaysAreReadOrRefusedInOneLine)
{
    Mutate("delays", dt_fuzz_delays, {Slurp("delays.json")}, 10000, 4);
}

TEST(Mutations, TheExamplesThemselvesAreAccepted)
{
    EXPECT_EQ(dt_fuzz_delays(Slurp("delays.json").data(), Slurp("delays.json").size()), nullptr);
    for (const char *name : {"pair.profile.json", "v.profile.json"})
        EXPECT_EQ(dt_fuzz_profile(Slurp(name).data(), Slurp(name).size()), nullptr);
    for (const char *name : {"pair.json", "v.json"})
        EXPECT_EQ(dt_fuzz_json(Slurp(name).data(), Slurp(name).size()), nullptr) << name;
    for (const char *name : {"pair.csv", "v.csv", "pair.comms.csv", "v.comms.csv"})
        EXPECT_EQ(dt_fuzz_csv(Slurp(name).data(), Slurp(name).size()), nullptr) << name;
}
} // namespace
