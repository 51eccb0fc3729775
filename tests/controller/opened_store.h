// SPDX-License-Identifier: Apache-2.0
/* A store of a test, with calls that are short to write. */
#ifndef DETOUR_TESTS_CONTROLLER_OPENED_STORE_H
#define DETOUR_TESTS_CONTROLLER_OPENED_STORE_H

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "controller/store.h"

namespace detour_test
{
using Records = std::vector<std::string>;

const uint32_t kLongMs = 600000;

class OpenedStore
{
  public:
    explicit OpenedStore(const std::string &url, const char *job = "job-1",
                         struct dt_redis_tls_files tls = {})
    {
        char reason[DT_STORE_REASON_BYTES] = "";

        const struct dt_store_options options = {url.c_str(), job, 0, tls};

        EXPECT_EQ(dt_store_open(&options, &store, reason), DT_OK) << reason;
    }
    ~OpenedStore()
    {
        store->ops->close(store);
    }
    OpenedStore(const OpenedStore &) = delete;

    /* Repeats a call while there is no server: as agents and controllers do. */
    template <typename Call>
    dt_status Until(Call call)
    {
        for (;;) {
            dt_status status = call();

            if (status != DT_CLOSED)
                return status;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    dt_status Append(const std::string &record, std::string *id = nullptr, const char *stream = "s")
    {
        char text[DT_STORE_ID_BYTES] = "";
        dt_status status = store->ops->append(store, stream, record.c_str(), text);

        if (id)
            *id = text;
        return status;
    }

    Records Read(const std::string &after = "", size_t count = 100000, const char *stream = "s")
    {
        Visit visit;

        visit.last = after;
        EXPECT_EQ(store->ops->read(store, stream, after.c_str(), count, Take, &visit), DT_OK)
            << store->reason;
        return visit.records;
    }

    std::string Get(const char *field)
    {
        char value[100] = "";
        dt_status status = store->ops->get(store, field, value, sizeof value);

        return status == DT_OK ? value : dt_status_text(status);
    }

    uint64_t Acquire(const char *holder, uint32_t ttl_ms = kLongMs)
    {
        uint64_t fence = 0;
        dt_status status =
            Until([&] { return store->ops->lease_acquire(store, "decider", holder, ttl_ms, 0, &fence); });

        EXPECT_TRUE(status == DT_OK || status == DT_AGAIN) << store->reason;
        return status == DT_OK ? fence : 0;
    }

    dt_status Renew(const char *holder, uint64_t fence)
    {
        return store->ops->lease_renew(store, "decider", holder, fence, kLongMs, 0);
    }

    dt_status Release(const char *holder, uint64_t fence)
    {
        return store->ops->lease_release(store, "decider", holder, fence);
    }

    struct dt_store *store = nullptr;

  private:
    struct Visit {
        Records records;
        std::string last;
    };

    static bool Take(void *arg, const char *id, const char *record, size_t bytes)
    {
        Visit *visit = static_cast<Visit *>(arg);

        EXPECT_LT(visit->last, id) << "ids are in the order of time, as text too";
        EXPECT_EQ(strlen(record), bytes);
        visit->last = id;
        visit->records.emplace_back(record, bytes);
        return true;
    }
};
} // namespace detour_test

#endif
