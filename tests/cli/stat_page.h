/* SPDX-License-Identifier: Apache-2.0 */
/* A page of a process with one sender, and snapshots of it, for the formats of `detour stat`. */
#ifndef DETOUR_TESTS_CLI_STAT_PAGE_H
#define DETOUR_TESTS_CLI_STAT_PAGE_H

#include <gtest/gtest.h>
#include <time.h>

#include <cstdint>
#include <string>

#include "detour/stat.h"
#include "obs/page.h"
#include "tests/obs/folder.h"

class StatPage
{
  public:
    explicit StatPage(const Folder &folder, const char *name = "trainer", int pid = 11,
                      const char *peer = "there:12")
    {
        dt_page_options options = {&folder.dir, pid, name, RealtimeNs(), kStartNs, "nodea", 3};
        dt_page_connection content = {};

        start_realtime_ns = options.start_realtime_ns;
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page));
        content.is_send = true;
        content.id = 0xabc;
        content.opened_ns = kStartNs;
        content.from_rank = 4;
        content.path_count = 1;
        snprintf(content.peer, sizeof content.peer, "%s", peer);
        snprintf(content.path[0].own, sizeof content.path[0].own, "mlx5_0");
        snprintf(content.path[0].peer, sizeof content.path[0].peer, "mlx5_3");
        send = dt_page_claim_connection(page, &content);
    }
    ~StatPage()
    {
        dt_page_close(page);
    }
    StatPage(const StatPage &) = delete;

    void Judge(dt_page_verdict verdict, uint64_t factor_permille)
    {
        dt_page_health health = {};

        health.verdict = verdict;
        health.since_ns = kStartNs;
        health.factor_permille = factor_permille;
        health.delay_ns = 2500000;
        health.cause = DETOUR_STAT_CAUSE_LINK;
        dt_page_set_health(send, &health);
    }

    /* An event of the connection that happens now. */
    dt_event_record EventNow(dt_event_kind kind) const
    {
        dt_event_record event = dt_event_of(kind, kStartNs + (RealtimeNs() - start_realtime_ns));

        event.connection = 0xabc;
        event.is_send = 1;
        return event;
    }

    static detour_stat_snapshot *Read(const Folder &folder)
    {
        detour_stat_snapshot *snapshot = nullptr;
        char error[DETOUR_STAT_ERROR_BYTES] = "";

        EXPECT_EQ(DETOUR_STAT_OK, detour_stat_read(folder.path.c_str(), 0, &snapshot, error)) << error;
        return snapshot;
    }

    static uint64_t RealtimeNs()
    {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
    }

    static constexpr uint64_t kStartNs = 1000000000;
    dt_page *page = nullptr;
    dt_page_connection *send = nullptr;
    uint64_t start_realtime_ns;
};

#endif
