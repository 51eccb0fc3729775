// SPDX-License-Identifier: Apache-2.0
// The place of a rank before any exchange; exchanges need a job (process.pipeline).
#include "cli/pipeline/place.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/exit.h"

namespace
{
TEST(Place, BeginsAtTheRanksPositionWithItsParameters)
{
    static struct dt_pipeline_options options;
    static struct dt_pipeline_place place;
    struct detour_stage stages[2] = {};
    struct detour_profile profile = {};
    struct dt_job_error error = {};
    options.devices = options.replicas = 2;
    options.microbatches = 4;
    options.gradient_bytes = 80;
    stages[1].device = 1;
    profile.stage_count = profile.device_count = 2;
    profile.stages = stages;
    dt_pipeline_place_init(&place, &options, 3);
    EXPECT_EQ(place.home.device, 1);
    EXPECT_EQ(place.home.replica, 1);
    EXPECT_EQ(place.ranks[3], 3u);
    ASSERT_TRUE(dt_pipeline_place_create_parameters(&place, &profile));
    EXPECT_EQ(place.parameters.elements, nullptr); /* nothing is exchanged */
    ASSERT_TRUE(dt_pipeline_exchanges_add(&options.exchanges, "1-2@3"));
    ASSERT_TRUE(dt_pipeline_place_create_parameters(&place, &profile));
    EXPECT_EQ(place.parameters.count, 10u);
    EXPECT_TRUE(dt_pipeline_place_check(&place, 0, &error));
    place.parameters.elements[9]--;
    EXPECT_FALSE(dt_pipeline_place_check(&place, 0, &error));
    EXPECT_NE(std::string(error.text).find("rank 3: parameter 9 of device 1"), std::string::npos)
        << error.text;
    dt_pipeline_place_free(&place);
}

TEST(Place, OnlyRanksThatAnExchangeNamesNeedItsFolder)
{
    namespace fs = std::filesystem;
    static struct dt_pipeline_options options;
    static struct dt_pipeline_place place;
    std::string folder = (fs::temp_directory_path() / "detour-place-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    std::ofstream(folder + "/file");
    options.devices = options.replicas = 2;
    dt_pipeline_place_init(&place, &options, 1);
    const auto reason_of = [&](unsigned rank, const std::string &option) {
        struct dt_job_error error = {};
        options.exchanges = {};
        EXPECT_TRUE(dt_pipeline_exchanges_add(&options.exchanges, option.c_str()));
        const bool is_good = dt_pipeline_place_check_folder(&place, rank, &error);
        EXPECT_EQ(is_good, error.exit_code == 0);
        EXPECT_TRUE(error.exit_code == 0 || error.exit_code == DT_EXIT_USAGE);
        return std::string(error.text);
    };
    const std::string none = "1-2@1,through=" + folder + "/none";
    for (unsigned rank : {1u, 2u})
        EXPECT_EQ(reason_of(rank, none), "rank " + std::to_string(rank) + ": --exchange through=" + folder +
                                             "/none: detour-parameters-" + std::to_string(rank) +
                                             " could not be created: No such file or directory; expected a "
                                             "folder that this rank can write to");
    EXPECT_EQ(reason_of(0, none), "") << "it may be on another host";
    EXPECT_EQ(reason_of(1, "1-2@1"), "") << "no files";
    EXPECT_NE(reason_of(1, "1-2@1,through=" + folder + "/file").find("Not a directory"), std::string::npos);
    EXPECT_NE(reason_of(1, "1-2@1,through=/proc"), "") << "it takes no file, whoever asks";
    EXPECT_EQ(reason_of(1, "1-2@1,through=" + folder), "");
    fs::remove(folder + "/file");
    EXPECT_TRUE(fs::is_empty(folder));
    fs::remove(folder);
}
} // namespace
