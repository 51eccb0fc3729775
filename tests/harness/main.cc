/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/harness/harness.h"

namespace
{
struct Recorder {
    std::mutex mutex;
    std::vector<std::string> lines;
    std::vector<std::string> warnings;
    std::vector<std::string> expected;
    std::vector<std::string> allowed;
};

/* Removes the warnings that contain `part`; false: there is none. */
bool take_warnings(Recorder *r, const std::string &part)
{
    size_t before = r->warnings.size();

    r->warnings.erase(
        std::remove_if(r->warnings.begin(), r->warnings.end(),
                       [&](const std::string &text) { return text.find(part) != std::string::npos; }),
        r->warnings.end());
    return r->warnings.size() < before;
}

Recorder &recorder()
{
    static Recorder *instance = new Recorder; // never destroyed: threads may log at exit
    return *instance;
}

void record(void *, enum dt_log_level level, const char *file, int line, const char *text)
{
    Recorder &r = recorder();
    std::lock_guard<std::mutex> lock(r.mutex);

    static const bool is_shown = getenv("DETOUR_TEST_LOG") != nullptr; // to examine a failing test
    if (is_shown)
        fprintf(stderr, "%s\n", text);
    r.lines.push_back(text);
    if (level == DT_LOG_WARN)
        r.warnings.push_back(std::string(text) + " (" + file + ":" + std::to_string(line) + ")");
}

class Listener : public ::testing::EmptyTestEventListener
{
    void OnTestStart(const ::testing::TestInfo &) override
    {
        Recorder &r = recorder();
        std::lock_guard<std::mutex> lock(r.mutex);
        r.lines.clear();
        r.warnings.clear();
        r.expected.clear();
        r.allowed.clear();
    }

    void OnTestEnd(const ::testing::TestInfo &) override
    {
        detour_test_fail_alloc(-1);
        Recorder &r = recorder();
        std::lock_guard<std::mutex> lock(r.mutex);
        for (const std::string &part : r.expected) {
            if (!take_warnings(&r, part))
                ADD_FAILURE() << "expected a warning containing: " << part;
        }
        for (const std::string &part : r.allowed)
            take_warnings(&r, part);
        for (const std::string &text : r.warnings)
            ADD_FAILURE() << "unexpected warning: " << text;
    }
};
} // namespace

namespace detour_test
{
void ExpectWarning(const std::string &part)
{
    std::lock_guard<std::mutex> lock(recorder().mutex);
    recorder().expected.push_back(part);
}

void AllowWarning(const std::string &part)
{
    std::lock_guard<std::mutex> lock(recorder().mutex);
    recorder().allowed.push_back(part);
}

std::vector<std::string> LoggedLines()
{
    std::lock_guard<std::mutex> lock(recorder().mutex);
    return recorder().lines;
}

size_t WarningCount()
{
    std::lock_guard<std::mutex> lock(recorder().mutex);
    return recorder().warnings.size();
}
} // namespace detour_test

int main(int argc, char **argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    // Before the printers, so that a failure added at the end of a test is still counted as its own.
    ::testing::UnitTest::GetInstance()->listeners().Append(new Listener);
    dt_log_set_sink(record, nullptr, DT_LOG_TRACE);
    return RUN_ALL_TESTS();
}
