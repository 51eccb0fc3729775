/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/param.h"
#include "tests/harness/harness.h"

namespace
{
using Environment = std::map<std::string, std::string>;

const char *Lookup(void *arg, const char *name)
{
    auto *environment = static_cast<Environment *>(arg);
    auto found = environment->find(name);
    return found == environment->end() ? nullptr : found->second.c_str();
}

dt_status Load(Environment environment, dt_params *params, std::string *error = nullptr)
{
    char text[256] = "";
    dt_status status = dt_params_load(params, Lookup, &environment, text, sizeof text);
    if (error)
        *error = text;
    return status;
}

TEST(Param, DefaultsComeFromTheTable)
{
    dt_params params;
    ASSERT_EQ(DT_OK, Load({}, &params));
    EXPECT_EQ(2u, params.soft_devices);
    EXPECT_STREQ("auto", params.verbs);
}

TEST(Param, EveryDefaultIsWithinItsRangeAndHasAHelpText)
{
    size_t count;
    const dt_param_info *table = dt_param_table(&count);
    for (size_t i = 0; i < count; i++) {
        EXPECT_GT(strlen(table[i].help), 10u) << table[i].name;
        EXPECT_EQ(0u, std::string(table[i].name).find("DETOUR_")) << table[i].name;
        if (table[i].unit) {
            EXPECT_LE(table[i].number_min, table[i].number_default) << table[i].name;
            EXPECT_GE(table[i].number_max, table[i].number_default) << table[i].name;
        }
    }
}

TEST(Param, OwnNameWinsOverTheNcclName)
{
    dt_params params;
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_TIMEOUT", "20"}}, &params));
    EXPECT_EQ(20u, params.timeout_exponent);
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_TIMEOUT", "20"}, {"DETOUR_TIMEOUT", "16"}}, &params));
    EXPECT_EQ(16u, params.timeout_exponent);
}

TEST(Param, OnlyUnderNcclsNameMayTheVerbsLibraryBeReplacedByTheDefaultOne)
{
    dt_params params;
    ASSERT_EQ(DT_OK, Load({{"NCCL_IBVERBS_LIB", "/opt/libibverbs.so"}}, &params));
    EXPECT_STREQ("/opt/libibverbs.so", params.verbs_library);
    EXPECT_TRUE(params.verbs_library_or_default);
    ASSERT_EQ(DT_OK, Load({{"NCCL_IBVERBS_LIB", "/a.so"}, {"DETOUR_IBV_LIB", "/b.so"}}, &params));
    EXPECT_STREQ("/b.so", params.verbs_library);
    EXPECT_FALSE(params.verbs_library_or_default);
}

TEST(Param, UnderNcclsNameAValueIsReadAsNcclReadsIt)
{
    dt_params params;
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_TC", "0x6a"}, {"NCCL_IB_SL", "-1"}, {"NCCL_IB_TIMEOUT", ""}}, &params));
    EXPECT_EQ(106u, params.traffic_class);
    EXPECT_EQ(0u, params.service_level);
    EXPECT_EQ(16u, params.timeout_exponent);
    EXPECT_EQ(DT_INVALID, Load({{"DETOUR_TC", "0x6a"}}, &params));
    for (const char *bad : {"x", "256", "1 x", "99999999999999999999"})
        EXPECT_EQ(DT_INVALID, Load({{"NCCL_IB_TC", bad}}, &params)) << bad;
}

TEST(Param, NcclsFlagsAndBlanksAreReadAsNcclReadsThem)
{
    dt_params params;
    ASSERT_EQ(
        DT_OK,
        Load({{"NCCL_IB_SPLIT_DATA_ON_QPS", "2"}, {"NCCL_IB_TIMEOUT", " 22 "}, {"NCCL_IB_ECE_ENABLE", "0"}},
             &params));
    EXPECT_EQ(1u, params.split_data);
    EXPECT_EQ(22u, params.timeout_exponent);
    EXPECT_EQ(0u, params.ece);
    EXPECT_EQ(DT_INVALID, Load({{"DETOUR_SPLIT_DATA", "2"}}, &params)) << "under Detour's own name";
    EXPECT_EQ(DT_INVALID, Load({{"NCCL_IB_AR_THRESHOLD", "8K"}}, &params)) << "8 in NCCL";
    uint32_t index = 0;
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_GID_INDEX", "0x3"}}, &params));
    EXPECT_TRUE(dt_params_gid_index(&params, &index));
    EXPECT_EQ(3u, index);
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_GID_INDEX", "-2"}}, &params));
    EXPECT_FALSE(dt_params_gid_index(&params, &index));
}

TEST(Param, APartitionKeyIsWrittenInHexadecimalUnderBothNames)
{
    dt_params params;
    for (const char *name : {"DETOUR_PKEY_VALUE", "NCCL_IB_PKEY_VALUE"}) {
        ASSERT_EQ(DT_OK, Load({{name, "0x8111"}}, &params)) << name;
        EXPECT_EQ(0x8111u, params.pkey_value);
        ASSERT_EQ(DT_OK, Load({{name, "-1"}}, &params)) << name; // NCCL's default
        EXPECT_EQ(0u, params.pkey_value);
        EXPECT_EQ(DT_INVALID, Load({{name, "0x10000"}}, &params)) << name;
    }
}

TEST(Param, MoreQueuePairsThanThereAreForAConnectionAreCutWithOneWarningUnderNcclsName)
{
    dt_params params;
    std::string error;
    detour_test::ExpectWarning("NCCL_IB_QPS_PER_CONNECTION=200: the maximum of Detour is 128; using 128");
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_QPS_PER_CONNECTION", "200"}}, &params));
    EXPECT_EQ(128u, params.qps_per_path);
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_QPS_PER_CONNECTION", "128"}}, &params)) << "without a warning";
    EXPECT_EQ(DT_INVALID, Load({{"NCCL_IB_QPS_PER_CONNECTION", "0"}}, &params));
    EXPECT_EQ(DT_INVALID, Load({{"DETOUR_QPS_PER_PATH", "129"}}, &params, &error));
    EXPECT_EQ("DETOUR_QPS_PER_PATH=129: expected a number from 1 to 128 (count)", error);
}

TEST(Param, ASettingKnowsWhereItsValueComesFrom)
{
    Environment environment = {
        {"NCCL_IB_TC", "1"}, {"DETOUR_SL", "1"}, {"NCCL_IB_SL", "2"}, {"NCCL_IB_HCA", ""}};
    std::map<std::string, const char *> sources;
    size_t count;
    const dt_param_info *table = dt_param_table(&count);
    for (size_t i = 0; i < count; i++)
        sources[table[i].name] = dt_param_source(&table[i], Lookup, &environment);
    EXPECT_STREQ("NCCL_IB_TC", sources["DETOUR_TC"]);
    EXPECT_STREQ("DETOUR_SL", sources["DETOUR_SL"]);
    EXPECT_EQ(nullptr, sources["DETOUR_HCA"]) << "empty is unset";
    EXPECT_EQ(nullptr, sources["DETOUR_PATHS"]);
}

TEST(Param, RatesTakeSuffixesAndCountsDoNot)
{
    dt_params params;
    ASSERT_EQ(DT_OK, Load({{"DETOUR_SOFT_RATE", "500M"}}, &params));
    EXPECT_EQ(500u << 20, params.soft_rate_bytes_per_s);
    EXPECT_EQ(DT_INVALID, Load({{"DETOUR_SOFT_DEVICES", "1K"}}, &params));
}

TEST(Param, ABadValueNamesVariableValueAndRange)
{
    dt_params params;
    std::string error;
    for (const char *bad : {"", "x", "-1", "17", "0", " 2", "2 ", "99999999999999999999"}) {
        EXPECT_EQ(DT_INVALID, Load({{"DETOUR_SOFT_DEVICES", bad}}, &params, &error)) << bad;
        EXPECT_NE(std::string::npos, error.find("DETOUR_SOFT_DEVICES=" + std::string(bad))) << error;
        EXPECT_NE(std::string::npos, error.find("from 1 to 16")) << error;
    }
    EXPECT_EQ(DT_INVALID, Load({{"DETOUR_HCA", std::string(3000, 'x')}}, &params, &error));
    EXPECT_NE(std::string::npos, error.find("DETOUR_HCA")) << error;
}

TEST(Param, AGidIndexIsANumberOrAuto)
{
    dt_params params;
    std::string error;
    uint32_t index = 99;
    ASSERT_EQ(DT_OK, Load({}, &params));
    EXPECT_FALSE(dt_params_gid_index(&params, &index));
    for (const char *word : {"auto", "-1"}) {
        ASSERT_EQ(DT_OK, Load({{"NCCL_IB_GID_INDEX", word}}, &params)) << word;
        EXPECT_FALSE(dt_params_gid_index(&params, &index)) << word;
    }
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_GID_INDEX", "3"}}, &params));
    EXPECT_TRUE(dt_params_gid_index(&params, &index));
    EXPECT_EQ(3u, index);
    ASSERT_EQ(DT_OK, Load({{"NCCL_IB_GID_INDEX", "3"}, {"DETOUR_GID_INDEX", "0"}}, &params));
    EXPECT_TRUE(dt_params_gid_index(&params, &index));
    EXPECT_EQ(0u, index);
    for (const char *bad : {"", "256", "0x100", "AUTO", "3x"}) {
        EXPECT_EQ(DT_INVALID, Load({{"DETOUR_GID_INDEX", bad}}, &params, &error)) << bad;
        EXPECT_NE(std::string::npos, error.find("from 0 to 255, or auto")) << error;
    }
}

TEST(Param, NumbersThatOverflowAreRefused)
{
    uint64_t value;
    EXPECT_EQ(DT_OK, dt_parse_number("18446744073709551615", false, &value));
    EXPECT_EQ(UINT64_MAX, value);
    EXPECT_EQ(DT_INVALID, dt_parse_number("18446744073709551616", false, &value));
    EXPECT_EQ(DT_INVALID, dt_parse_number("17179869184G", true, &value));
    EXPECT_EQ(DT_INVALID, dt_parse_number("1KB", true, &value));
}

TEST(Param, EveryVariableIsInTheDocumentWithItsDefault)
{
    std::ifstream file(DETOUR_SOURCE_DIR "/docs/environment.md");
    std::stringstream text;
    text << file.rdbuf();
    ASSERT_TRUE(file) << "docs/environment.md is missing";
    size_t count;
    const dt_param_info *table = dt_param_table(&count);
    for (size_t i = 0; i < count; i++) {
        std::string value = table[i].unit ? std::to_string(table[i].number_default) : table[i].text_default;
        std::string row = std::string("| `") + table[i].name + "` | `" + value + "` |";
        EXPECT_NE(std::string::npos, text.str().find(row)) << "no row begins with: " << row;
    }
}
} // namespace
