/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of up to 1,024 ranks, and what each rank gets for them; parts that are none. */
#include "job/exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/exit.h"
#include "job/job.h"
#include "job/link.h"

namespace
{
class JobExchange : public testing::Test
{
  protected:
    ~JobExchange() override
    {
        dt_job_parts_free(&parts_);
    }

    void Begin(unsigned ranks)
    {
        dt_job_parts_free(&parts_);
        error_ = {};
        ASSERT_TRUE(dt_job_parts_init(&parts_, ranks));
    }

    bool Take(unsigned rank, unsigned kind, const std::string &part)
    {
        void *payload = malloc(part.size() + 1);
        memcpy(payload, part.data(), part.size());
        return dt_job_parts_take(&parts_, rank, kind, payload, part.size(), &error_);
    }

    bool Answer()
    {
        EXPECT_EQ(parts_.missing, 0u);
        return dt_job_parts_answer(&parts_, &error_);
    }

    std::string For(unsigned rank)
    {
        size_t bytes;
        const void *answer = dt_job_parts_for(&parts_, rank, &bytes);
        return std::string(static_cast<const char *>(answer), bytes);
    }

    static std::string Word(uint32_t value)
    {
        return std::string(reinterpret_cast<const char *>(&value), sizeof value);
    }

    /* A delivery of records with one word beside their rank. */
    static std::string Delivery(const std::vector<std::pair<uint32_t, uint32_t>> &records)
    {
        std::string part = Word(8);
        for (auto &record : records)
            part += Word(record.first) + Word(record.second);
        return part;
    }

    /* Of three ranks the last gives this part, the others deliver nothing. */
    void ExpectRefused(unsigned kind, const std::string &part, const std::string &reason)
    {
        Begin(3);
        EXPECT_TRUE(Take(0, DT_JOB_FRAME_DELIVER, Delivery({})));
        EXPECT_TRUE(Take(1, DT_JOB_FRAME_DELIVER, Delivery({})));
        EXPECT_TRUE(Take(2, kind, part));
        EXPECT_FALSE(Answer());
        EXPECT_EQ(error_.text, reason);
        EXPECT_EQ(error_.exit_code, DT_EXIT_FAILED);
    }

    struct dt_job_parts parts_ = {};
    struct dt_job_error error_ = {};
};

TEST_F(JobExchange, EveryRankGetsAllPartsInRankOrder)
{
    Begin(3);
    for (const char *round : {"abc", "xyz"}) {
        for (unsigned rank : {2u, 0u, 1u})
            EXPECT_TRUE(Take(rank, DT_JOB_FRAME_EXCHANGE, std::string(2, round[rank])));
        ASSERT_TRUE(Answer());
        for (unsigned rank = 0; rank < 3; rank++)
            EXPECT_EQ(For(rank), round[0] == 'a' ? "aabbcc" : "xxyyzz");
        dt_job_parts_clear(&parts_);
        EXPECT_EQ(parts_.missing, 3u);
    }
}

TEST_F(JobExchange, OnlyRank0GetsWhatIsGathered)
{
    Begin(3);
    for (unsigned rank = 0; rank < 3; rank++)
        EXPECT_TRUE(Take(rank, DT_JOB_FRAME_GATHER, Word(rank)));
    ASSERT_TRUE(Answer());
    EXPECT_EQ(For(0), Word(0) + Word(1) + Word(2));
    EXPECT_EQ(For(1), "");
    EXPECT_EQ(For(2), "");
}

TEST_F(JobExchange, RecordsGoToTheirRanksAndNameThoseTheyAreFrom)
{
    Begin(4);
    EXPECT_TRUE(Take(3, DT_JOB_FRAME_DELIVER, Delivery({{0, 30}, {1, 31}, {3, 33}})));
    EXPECT_TRUE(Take(0, DT_JOB_FRAME_DELIVER, Delivery({{1, 1}, {1, 2}})));
    EXPECT_TRUE(Take(1, DT_JOB_FRAME_DELIVER, Delivery({{0, 10}})));
    EXPECT_TRUE(Take(2, DT_JOB_FRAME_DELIVER, Delivery({})));
    ASSERT_TRUE(Answer()) << error_.text;
    EXPECT_EQ(For(0), Word(1) + Word(10) + Word(3) + Word(30));
    EXPECT_EQ(For(1), Word(0) + Word(1) + Word(0) + Word(2) + Word(3) + Word(31));
    EXPECT_EQ(For(2), "");
    EXPECT_EQ(For(3), Word(3) + Word(33));
}

TEST_F(JobExchange, APartWithoutBytesIsABarrier)
{
    Begin(DT_JOB_RANKS_MAX);
    for (unsigned rank = 0; rank < DT_JOB_RANKS_MAX; rank++)
        EXPECT_TRUE(Take(rank, DT_JOB_FRAME_EXCHANGE, ""));
    ASSERT_TRUE(Answer());
    EXPECT_EQ(For(0), "");
    EXPECT_EQ(For(DT_JOB_RANKS_MAX - 1), "");
}

/* The largest parts of the largest job, and all of its records for one rank. */
TEST_F(JobExchange, EveryAnswerFitsInAFrame)
{
    const size_t most = dt_job_part_bytes_max(DT_JOB_RANKS_MAX), records = (most - 4) / 8;
    const unsigned last = DT_JOB_RANKS_MAX - 1;

    Begin(DT_JOB_RANKS_MAX);
    for (unsigned rank = 0; rank <= last; rank++)
        EXPECT_TRUE(Take(rank, DT_JOB_FRAME_EXCHANGE, std::string(most, 'x')));
    ASSERT_TRUE(Answer());
    EXPECT_EQ(For(last).size(), most * DT_JOB_RANKS_MAX);
    EXPECT_LE(For(last).size(), size_t{DT_JOB_FRAME_BYTES_MAX});
    dt_job_parts_clear(&parts_);

    for (unsigned rank = 0; rank <= last; rank++)
        EXPECT_TRUE(Take(rank, DT_JOB_FRAME_DELIVER,
                         Delivery(std::vector<std::pair<uint32_t, uint32_t>>(records, {last, rank}))));
    ASSERT_TRUE(Answer()) << error_.text;
    EXPECT_EQ(For(0), "");
    const std::string all = For(last);
    EXPECT_LE(all.size(), size_t{DT_JOB_FRAME_BYTES_MAX});
    ASSERT_EQ(all.size(), 8 * records * DT_JOB_RANKS_MAX);
    for (size_t i = 0; i < all.size(); i += 8) {
        const std::string from = Word(static_cast<uint32_t>(i / 8 / records));
        ASSERT_EQ(all.substr(i, 8), from + from) << i;
    }
}

TEST_F(JobExchange, APartThatIsTooLargeIsRefused)
{
    Begin(3);
    EXPECT_FALSE(Take(1, DT_JOB_FRAME_EXCHANGE, std::string(DT_JOB_FRAME_BYTES_MAX / 3 + 1, 'x')));
    EXPECT_STREQ(error_.text, "rank 1 gave too large a part to an exchange (349526 bytes)");
    EXPECT_EQ(parts_.missing, 3u);
}

TEST_F(JobExchange, ASecondPartIsRefused)
{
    Begin(3);
    EXPECT_TRUE(Take(1, DT_JOB_FRAME_EXCHANGE, ""));
    EXPECT_FALSE(Take(1, DT_JOB_FRAME_EXCHANGE, "x"));
    EXPECT_STREQ(error_.text, "rank 1 gave a second part to an exchange (1 bytes)");
    EXPECT_EQ(parts_.missing, 2u);
}

TEST_F(JobExchange, PartsThatDifferAreRefused)
{
    ExpectRefused(DT_JOB_FRAME_EXCHANGE, Delivery({}),
                  "ranks 0 and 2 disagree on an exchange: kinds 6 and 2");
    ExpectRefused(DT_JOB_FRAME_DELIVER, Word(12),
                  "ranks 0 and 2 disagree on an exchange: records of 8 and 12 bytes");
    ExpectRefused(DT_JOB_FRAME_DELIVER, "",
                  "ranks 0 and 2 disagree on an exchange: records of 8 and 0 bytes");
    ExpectRefused(DT_JOB_FRAME_DELIVER, "abc",
                  "ranks 0 and 2 disagree on an exchange: records of 8 and 0 bytes");
    Begin(2);
    EXPECT_TRUE(Take(0, DT_JOB_FRAME_GATHER, "ab"));
    EXPECT_TRUE(Take(1, DT_JOB_FRAME_GATHER, "abc"));
    EXPECT_FALSE(Answer());
    EXPECT_STREQ(error_.text, "ranks 0 and 1 disagree on an exchange: 2 and 3 bytes");
}

TEST_F(JobExchange, MalformedRecordsAreRefused)
{
    const std::string good = Delivery({{1, 7}});

    for (size_t bytes = 5; bytes < good.size(); bytes++)
        ExpectRefused(DT_JOB_FRAME_DELIVER, good.substr(0, bytes),
                      "rank 2 gave a malformed part to an exchange (" + std::to_string(bytes) + " bytes)");
    for (uint32_t rank : {3u, 4u, 0xFFFFFFFFu})
        ExpectRefused(DT_JOB_FRAME_DELIVER, Delivery({{0, 1}, {rank, 7}}),
                      "rank 2 gave a malformed part to an exchange (20 bytes)");
}

/* All ranks agree on a size that no record can have. */
TEST_F(JobExchange, RecordsWithoutRoomForARankAreRefused)
{
    for (uint32_t bytes : {0u, 1u, 3u, 0xFFFFFFFFu}) {
        Begin(2);
        EXPECT_TRUE(Take(0, DT_JOB_FRAME_DELIVER, Word(bytes) + "abcdef"));
        EXPECT_TRUE(Take(1, DT_JOB_FRAME_DELIVER, Word(bytes) + "abcdef"));
        EXPECT_FALSE(Answer()) << bytes;
        EXPECT_STREQ(error_.text, "rank 0 gave a malformed part to an exchange (10 bytes)");
    }
}
} // namespace
