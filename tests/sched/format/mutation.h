/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of files on mutated examples, with any compiler. DETOUR_FUZZ_ROUNDS=10000000 makes it a long run,
 * DETOUR_FUZZ_SEED another one. (tests/sched/fuzz/run.sh is the guided search, with clang.)
 */
#ifndef DETOUR_TESTS_SCHED_FORMAT_MUTATION_H
#define DETOUR_TESTS_SCHED_FORMAT_MUTATION_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/prng.h"

namespace sched_test
{
inline uint64_t FromEnvironment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
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

inline void Mutate(const char *what, const char *check(const char *data, size_t bytes),
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
} // namespace sched_test

#endif
