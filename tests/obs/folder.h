/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime folder of a test's own, removed at its end. */
#ifndef DETOUR_TESTS_OBS_FOLDER_H
#define DETOUR_TESTS_OBS_FOLDER_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "obs/runtime_dir.h"

class Folder
{
  public:
    Folder()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-obs-XXXXXX").string();
        char reason[300] = "";

        path = mkdtemp(pattern.data());
        EXPECT_EQ(DT_OK, dt_runtime_dir_open(path.c_str(), 0, &dir, reason, sizeof reason)) << reason;
    }
    ~Folder()
    {
        dt_runtime_dir_close(&dir);
        std::filesystem::remove_all(path);
    }
    Folder(const Folder &) = delete;

    bool Has(const std::string &name) const
    {
        return std::filesystem::exists(path + "/" + name);
    }
    size_t Count() const
    {
        size_t count = 0;
        for (const auto &entry : std::filesystem::directory_iterator(path))
            count += entry.exists() || true;
        return count;
    }

    std::string path;
    dt_runtime_dir dir;
};

#endif
