/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "obs/page.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
class Page : public ::testing::Test
{
  protected:
    static dt_page_connection *Claim(dt_page *page, uint64_t id, bool is_send, const char *peer)
    {
        dt_page_connection content = {};
        content.id = id;
        content.is_send = is_send;
        snprintf(content.peer, sizeof content.peer, "%s", peer);
        return dt_page_claim_connection(page, &content);
    }

    dt_page *Open(const dt_runtime_dir *dir, int pid = 4711)
    {
        dt_page_options options = {dir, pid, "trainer", 1700000000000000000, 5000, "nodea", 6};
        dt_page *page = nullptr;
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page));
        return page;
    }

    Folder folder;
};

TEST_F(Page, AnotherProcessReadsTheCounters)
{
    dt_page *page = Open(&folder.dir);
    dt_page_copy copy;

    ASSERT_TRUE(folder.Has("4711.page"));
    dt_page_connection *connection = Claim(page, 8, true, "10.0.0.7:1234");
    dt_page_add(&connection->payload_bytes, 1000);
    dt_page_add(&connection->payload_bytes, 24);
    dt_page_add(&connection->message_count, 3);
    dt_event_record event = dt_event_of(DT_EVENT_KIND_PATH, 77);
    event.value = -5;
    dt_event_write(dt_page_events(page), &event, "path %d down", 1);

    ASSERT_EQ(DT_OK, dt_page_read(&folder.dir, 4711, &copy));
    EXPECT_EQ(4711, copy.header->pid);
    EXPECT_STREQ("trainer", copy.header->process_name);
    EXPECT_STREQ("nodea", copy.header->host);
    EXPECT_EQ(6, copy.header->rank);
    EXPECT_EQ(1700000000000000000u, copy.header->start_realtime_ns);
    EXPECT_EQ(5000u, copy.header->start_ns);
    const dt_page_connection *connection_copy = dt_page_copy_connection(&copy, 0);
    ASSERT_NE(nullptr, connection_copy);
    EXPECT_STREQ("10.0.0.7:1234", connection_copy->peer);
    EXPECT_EQ(1u, connection_copy->is_send);
    EXPECT_EQ(8u, connection_copy->id);
    EXPECT_EQ(3u, connection_copy->message_count);
    EXPECT_EQ(1024u, connection_copy->payload_bytes);
    EXPECT_EQ(nullptr, dt_page_copy_connection(&copy, 1));
    EXPECT_EQ(nullptr, dt_page_copy_connection(&copy, 0xffffffff));
    dt_event_record record;
    ASSERT_TRUE(dt_event_read(dt_page_copy_events(&copy), 0, &record));
    EXPECT_STREQ("path 1 down", record.text);
    EXPECT_EQ(77u, record.time_ns);
    EXPECT_EQ(-5, record.value);
    EXPECT_FALSE(dt_event_read(dt_page_copy_events(&copy), 1, &record));
    dt_page_copy_free(&copy);
    dt_page_close(page);
    EXPECT_EQ(DT_NOT_FOUND, dt_page_read(&folder.dir, 4711, &copy));
    EXPECT_EQ(0u, folder.Count());
}

// Containers that share the folder have PID namespaces of their own.
TEST_F(Page, ProcessesWithTheSamePidHavePagesOfTheirOwn)
{
    const int second_number = 4711 + DT_RUNTIME_NUMBER_STEP;
    dt_page *first = Open(&folder.dir), *second = Open(&folder.dir);
    dt_page_copy copy;

    dt_page_add(&Claim(first, 1, true, "a")->message_count, 5);
    dt_page_add(&Claim(second, 2, true, "b")->message_count, 6);
    for (auto [number, id] : {std::pair{4711, 1u}, std::pair{second_number, 2u}}) {
        ASSERT_EQ(DT_OK, dt_page_read(&folder.dir, number, &copy));
        EXPECT_EQ(number, copy.header->pid);
        EXPECT_EQ(id, dt_page_copy_connection(&copy, 0)->id);
        dt_page_copy_free(&copy);
    }
    dt_page_close(first);
    EXPECT_FALSE(folder.Has("4711.page"));
    EXPECT_EQ(DT_OK, dt_page_read(&folder.dir, second_number, &copy)) << "the other one's stays";
    dt_page_copy_free(&copy);
    first = Open(&folder.dir);
    EXPECT_EQ(4711, dt_page_get_header(first)->pid) << "the number is free again";
    dt_page_close(first);
    dt_page_close(second);
    EXPECT_EQ(0u, folder.Count());
}

std::function<void()> before_the_file; // what happens between the look at the name and the file
bool is_armed;                         // before_the_file is set
} // namespace

extern "C" int __real_getrlimit(int resource, struct rlimit *limit);
// Clang's AddressSanitizer calls it while it starts, before instrumented code may run.
extern "C" __attribute__((no_sanitize("address"))) int __wrap_getrlimit(int resource, struct rlimit *limit)
{
    if (is_armed) {
        is_armed = false;
        std::exchange(before_the_file, nullptr)();
    }
    return __real_getrlimit(resource, limit);
}

namespace
{
TEST_F(Page, OfAProcessWithTheSamePidThatStartsAtTheSameTimeStays)
{
    for (bool is_left_over : {false, true}) {
        if (is_left_over) // by a process that is dead
            std::ofstream(folder.dir.path + std::string("/4711.page")) << "old";
        dt_page *first = nullptr;
        before_the_file = [&] { first = Open(&folder.dir); };
        is_armed = true;
        dt_page *second = Open(&folder.dir);
        ASSERT_NE(nullptr, first);
        EXPECT_EQ(4711, dt_page_get_header(first)->pid);
        EXPECT_EQ(4711 + DT_RUNTIME_NUMBER_STEP, dt_page_get_header(second)->pid);
        dt_page_add(&Claim(first, 1, true, "a")->message_count, 7);
        dt_page_copy copy;
        ASSERT_EQ(DT_OK, dt_page_read(&folder.dir, 4711, &copy));
        EXPECT_EQ(7u, dt_page_copy_connection(&copy, 0)->message_count);
        dt_page_copy_free(&copy);
        dt_page_close(second);
        dt_page_close(first);
    }
}

TEST_F(Page, AConnectionGivesItsRowBack)
{
    dt_page *page = Open(nullptr);

    EXPECT_EQ(0u, folder.Count());
    dt_page_connection *first = Claim(page, 1, false, "a");
    dt_page_connection *second = Claim(page, 1, false, "b");
    dt_page_add(&first->message_count, 9);
    dt_page_release_connection(page, first);
    EXPECT_EQ(first, Claim(page, 0, true, "c")) << "the row is used again";
    EXPECT_EQ(0u, first->message_count);
    EXPECT_STREQ("c", first->peer);
    EXPECT_EQ(1u, dt_page_connection_row(page, second));
    dt_page_close(page);
}

TEST_F(Page, AFullTableSharesItsLastRow)
{
    dt_page *page = Open(nullptr);
    dt_page_connection *connection = nullptr;

    for (uint32_t i = 0; i < DT_PAGE_CONNECTIONS + 5; i++)
        connection = Claim(page, 0, false, "peer");
    EXPECT_EQ(DT_PAGE_CONNECTIONS - 1, dt_page_connection_row(page, connection));
    dt_page_release_connection(page, connection);
    EXPECT_EQ(connection, Claim(page, 0, false, "peer"));
    dt_page_close(page);
}

TEST_F(Page, WithoutAFileTheProcessRunsOn)
{
    rlimit limit, small = {4096, RLIM_INFINITY};
    dt_runtime_dir closed = folder.dir;

    closed.fd = -1;
    dt_page *page = Open(&closed);
    EXPECT_EQ(0u, folder.Count());
    EXPECT_NE(std::string::npos, detour_test::LoggedLines().back().find("no counter page in " + folder.path));
    dt_page_add(&Claim(page, 1, true, "a")->error_count, 1);
    dt_page_close(page);

    getrlimit(RLIMIT_FSIZE, &limit); // a file size limit must not raise SIGXFSZ
    small.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    page = Open(&folder.dir);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_EQ(0u, folder.Count());
    dt_page_close(page);
    EXPECT_EQ(0u, folder.Count());
}

TEST_F(Page, SurvivesEveryFailedAllocation)
{
    dt_page_options options = {nullptr, 1, "x", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
    dt_page *page;

    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = dt_page_open(&options, &page);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
    }
    dt_page_close(page);
}

TEST_F(Page, AForkedChildLeavesTheFileAlone)
{
    dt_page *page = Open(&folder.dir);
    pid_t child = fork();

    if (child == 0) {
        dt_page_close(page);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT_TRUE(folder.Has("4711.page"));
    dt_page_close(page);
    EXPECT_FALSE(folder.Has("4711.page"));
}

/* A file of `bytes` bytes under the name of process 99. */
void WriteFile(const Folder &folder, const std::string &bytes)
{
    std::ofstream(folder.path + "/99.page", std::ios::binary) << bytes;
}

TEST_F(Page, AFileThatIsNoPageIsRefused)
{
    dt_page *page = Open(&folder.dir);
    std::ifstream file(folder.path + "/4711.page", std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    dt_page_copy copy;

    dt_page_close(page);
    WriteFile(folder, good);
    ASSERT_EQ(DT_OK, dt_page_read(&folder.dir, 99, &copy));
    dt_page_copy_free(&copy);
    for (size_t bytes :
         {size_t{0}, size_t{1}, sizeof(dt_page_header) - 1, sizeof(dt_page_header), good.size() - 1}) {
        WriteFile(folder, good.substr(0, bytes));
        EXPECT_EQ(DT_PROTOCOL, dt_page_read(&folder.dir, 99, &copy)) << bytes;
    }
    // Every 32-bit word of the header with values that point outside.
    for (size_t at = 0; at < sizeof(dt_page_header); at += 4) {
        for (uint32_t value : {0u, 1u, 7u, 0x7fffffffu, 0xffffffffu, 0xfffffff8u, 65536u}) {
            std::string bad = good;
            memcpy(&bad[at], &value, sizeof value);
            WriteFile(folder, bad);
            if (dt_page_read(&folder.dir, 99, &copy) == DT_OK) { // a field that describes no place
                dt_page_copy_connection(&copy, 1023);
                dt_page_copy_free(&copy);
            }
        }
    }
    std::string newer = good;
    newer[offsetof(dt_page_header, version)] = DT_PAGE_VERSION + 1;
    WriteFile(folder, newer);
    EXPECT_EQ(DT_PROTOCOL, dt_page_read(&folder.dir, 99, &copy));
    ASSERT_EQ(0, symlink("/etc/passwd", (folder.path + "/98.page").c_str()));
    EXPECT_EQ(DT_SYSTEM, dt_page_read(&folder.dir, 98, &copy)) << "links are not followed";
    ASSERT_EQ(0, mkfifo((folder.path + "/97.page").c_str(), 0600));
    EXPECT_EQ(DT_PROTOCOL, dt_page_read(&folder.dir, 97, &copy)) << "and this does not wait for a writer";
}

// Rows that come and go while another thread copies the page: a row is whole or not there.
TEST_F(Page, ACopyNeverHasAMixedRow)
{
    dt_page *page = Open(&folder.dir);
    std::thread writer([&] {
        for (int i = 0; i < 3000; i++) {
            std::string peer(60, static_cast<char>('a' + i % 26));
            dt_page_connection *connection = Claim(page, static_cast<uint64_t>(i % 26), true, peer.c_str());
            dt_page_add(&connection->message_count, 1);
            dt_page_release_connection(page, connection);
        }
    });
    for (int i = 0; i < 40; i++) {
        dt_page_copy copy;
        ASSERT_EQ(DT_OK, dt_page_read(&folder.dir, 4711, &copy));
        if (const dt_page_connection *row = dt_page_copy_connection(&copy, 0)) {
            EXPECT_EQ(std::string(60, static_cast<char>('a' + row->id)), row->peer);
        }
        dt_page_copy_free(&copy);
    }
    writer.join();
    dt_page_close(page);
}
} // namespace
