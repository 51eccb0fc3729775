// SPDX-License-Identifier: Apache-2.0
#include "controller/findings.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "controller/store_memory.h"

namespace
{
class Findings : public ::testing::Test
{
  protected:
    ~Findings() override
    {
        store->ops->close(store);
    }
    static dt_finding Link(uint32_t rank, uint32_t peer_rank, dt_finding_state state = DT_FINDING_NEW)
    {
        dt_finding finding = {};

        finding.kind = DT_FINDING_LINK;
        finding.state = state;
        finding.rank = rank;
        finding.peer_rank = peer_rank;
        snprintf(finding.host, sizeof finding.host, "h%u", rank);
        snprintf(finding.peer_host, sizeof finding.peer_host, "h%u", peer_rank);
        strcpy(finding.reason, "it is slow");
        return finding;
    }
    void Append(const dt_finding_record &record)
    {
        char *text = dt_finding_write(&record);

        ASSERT_EQ(store->ops->append(store, DT_STREAM_FINDINGS, text, nullptr), DT_OK);
        free(text);
    }
    void Append(const dt_finding &finding)
    {
        Append(dt_findings_record(&finding, 5));
    }
    static void End(void *arg, const dt_finding_record *record)
    {
        EXPECT_EQ(record->ended, 1);
        EXPECT_EQ(record->time_ns, 77);
        static_cast<std::vector<std::string> *>(arg)->push_back(std::string(record->kind) + " " +
                                                                std::to_string(record->from_rank) + ">" +
                                                                std::to_string(record->to_rank));
    }
    std::vector<std::string> Ended(const std::vector<dt_finding> &own)
    {
        std::vector<std::string> ended;

        EXPECT_EQ(dt_findings_end_left(store, own.data(), (uint32_t)own.size(), 77, End, &ended), DT_OK);
        return ended;
    }

    struct dt_store *store = dt_store_memory_create(0);
};

using Lines = std::vector<std::string>;

TEST_F(Findings, OfAnotherControllerEndUnlessTheyHaveEndedOrAreFoundAgain)
{
    Append(Link(0, 1));
    Append(Link(2, 3));
    Append(Link(4, 5));
    Append(Link(2, 3, DT_FINDING_ENDED));
    EXPECT_EQ(Ended({}), (Lines{"link 0>1", "link 4>5"}));
    EXPECT_EQ(Ended({Link(4, 5, DT_FINDING_GOES_ON)}), Lines{"link 0>1"});
    EXPECT_EQ(Ended({Link(0, 1), Link(4, 5, DT_FINDING_ENDED)}), Lines{"link 4>5"});
}

TEST_F(Findings, ALinkIsTheSameInBothDirections)
{
    Append(Link(0, 1));
    EXPECT_EQ(Ended({Link(1, 0)}), Lines());
    Append(Link(1, 0, DT_FINDING_ENDED));
    EXPECT_EQ(Ended({}), Lines());
}

TEST_F(Findings, OtherRecordsOfTheStreamAreLeftAlone)
{
    dt_finding link = Link(0, 1);
    dt_finding_record validation = dt_findings_record(&link, 5);

    strcpy(validation.kind, "validation");
    Append(validation);
    store->ops->append(store, DT_STREAM_FINDINGS, "no record", nullptr);
    EXPECT_EQ(Ended({}), Lines());
}

TEST_F(Findings, MoreThanAControllerHasAreEndedInPart)
{
    for (uint32_t rank = 0; rank < 200; rank += 2)
        Append(Link(rank, rank + 1));
    EXPECT_EQ(Ended({}).size(), (size_t)DT_JUDGE_FINDINGS);
}

TEST_F(Findings, RanksThatAreNoneAreNoneInTheRecord)
{
    dt_finding nic = Link(DT_JUDGE_UNKNOWN, DT_JUDGE_UNKNOWN);

    nic.since_ns = UINT64_MAX;
    nic.factor = 1e300;
    dt_finding_record record = dt_findings_record(&nic, 5);
    EXPECT_EQ(record.from_rank, -1);
    EXPECT_EQ(record.to_rank, -1);
    EXPECT_EQ(record.since_ns, INT64_MAX);
    EXPECT_EQ(record.factor, 1e9);
}
} // namespace
