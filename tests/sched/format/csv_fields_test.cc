// SPDX-License-Identifier: Apache-2.0
#include "sched/format/csv_fields.h"

#include "tests/sched/sched_test.h"

using namespace sched_test;

namespace
{
/* "row/column stage kind microbatch; ..." of a text, or the error. */
std::string Parsed(const std::string &text, bool *has_comms = nullptr)
{
    Arena arena;
    struct detour_error error = {};
    struct dt_csv_reader reader = {arena, &error, "f.csv"};
    struct dt_csv_table table = {};
    if (dt_csv_parse(&reader, text.data(), text.size(), &table))
        return error.text;
    std::string out;
    for (size_t i = 0; i < table.action_count; i++) {
        const struct dt_csv_action &action = table.actions[i];
        out += std::to_string(action.row) + "/" + std::to_string(action.column) + " " +
               std::to_string(action.stage) + dt_csv_names[action.kind] + std::to_string(action.microbatch) +
               ";";
    }
    if (has_comms)
        *has_comms = table.has_comms;
    return out;
}

TEST(CsvFields, ActionsKeepTheirPlace)
{
    bool has_comms = true;
    EXPECT_EQ(Parsed("0F0,,0I1\n1B2,1W3\n", &has_comms), "0/0 0F0;0/2 0I1;1/0 1B2;1/1 1W3;");
    EXPECT_FALSE(has_comms);
    EXPECT_EQ(Parsed("0SEND_F7\n", &has_comms), "0/0 0SEND_F7;");
    EXPECT_TRUE(has_comms);
}

TEST(CsvFields, AGroupIsItsPartsInOrder)
{
    EXPECT_EQ(Parsed("(0F7;7B3)OVERLAP_F_B\n"), "0/0 0F7;0/0 7B3;");
}

TEST(CsvFields, AnInvalidActionHasItsRowAndColumn)
{
    for (const char *bad : {"F0", "0F", "0", "0X1", "0F1x", "(0F1", "(0F1)OVERLAP", "0f0", "-1F0", "0F-1"}) {
        std::string error = Parsed(std::string("0F0\n0F0,") + bad + "\n");
        EXPECT_EQ(error.rfind("f.csv: row 2, column 2: ", 0), 0u) << bad << ": " << error;
    }
}

TEST(CsvFields, NumbersHaveLimits)
{
    EXPECT_EQ(Parsed("4095F65535\n"), "0/0 4095F65535;");
    EXPECT_EQ(Parsed("4096F0\n").rfind("f.csv: row 1, column 1: ", 0), 0u);
    EXPECT_EQ(Parsed("0F65536\n").rfind("f.csv: row 1, column 1: ", 0), 0u);
    EXPECT_EQ(Parsed("0F99999999999999999999\n").rfind("f.csv: row 1, column 1: ", 0), 0u);
}

TEST(CsvFields, ErrorsOfMeaningNameTheAction)
{
    struct detour_error error = {};
    struct dt_csv_reader reader = {nullptr, &error, "f.csv"};
    struct dt_csv_action action = {2, 4, 7, 3, DT_CSV_I};
    EXPECT_EQ(dt_csv_fail(&reader, &action, DETOUR_DUPLICATE_OP, "is %s", "here twice"), DETOUR_DUPLICATE_OP);
    EXPECT_STREQ(error.text, "f.csv: row 3, column 5: 3I7 is here twice");
}
} // namespace
