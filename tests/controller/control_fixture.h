// SPDX-License-Identifier: Apache-2.0
// Controllers, agents' records and a memory store in virtual time, for the tests of the controller.
#ifndef DETOUR_TESTS_CONTROLLER_CONTROL_FIXTURE_H
#define DETOUR_TESTS_CONTROLLER_CONTROL_FIXTURE_H

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/agent.h"
#include "controller/control.h"
#include "controller/store_memory.h"
#include "tests/obs/folder.h"

namespace detour_test
{
using Lines = std::vector<std::string>;

/* A store that can be cut off: passes the calls on to a memory store. */
struct CutStore {
    struct dt_store store = {&ops, ""};
    struct dt_store *inner = dt_store_memory_create(0);
    bool is_cut = false;
    bool loses_answers = false; /* the record is appended and the caller does not get the answer */

    ~CutStore()
    {
        inner->ops->close(inner);
    }
    /* As the store of the next process at this time. */
    void Restart(uint64_t time_ms)
    {
        inner->ops->close(inner);
        inner = dt_store_memory_create(time_ms);
    }
    static CutStore *Of(struct dt_store *store)
    {
        return reinterpret_cast<CutStore *>(store);
    }
    static enum dt_status Append(struct dt_store *store, const char *stream, const char *record, char *id)
    {
        CutStore *self = Of(store);
        if (self->is_cut)
            return DT_CLOSED;
        enum dt_status status = self->inner->ops->append(self->inner, stream, record, id);
        return self->loses_answers ? DT_CLOSED : status;
    }
    static enum dt_status Read(struct dt_store *store, const char *stream, const char *after, size_t count,
                               dt_store_visit_func *visit, void *arg)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED
                            : self->inner->ops->read(self->inner, stream, after, count, visit, arg);
    }
    static enum dt_status Set(struct dt_store *store, const char *field, const char *value)
    {
        return Of(store)->inner->ops->set(Of(store)->inner, field, value);
    }
    static enum dt_status Get(struct dt_store *store, const char *field, char *value, size_t bytes)
    {
        return Of(store)->inner->ops->get(Of(store)->inner, field, value, bytes);
    }
    static enum dt_status Acquire(struct dt_store *store, const char *name, const char *holder,
                                  uint32_t ttl_ms, uint64_t now_ns, uint64_t *fence)
    {
        CutStore *self = Of(store);
        return self->is_cut
                   ? DT_CLOSED
                   : self->inner->ops->lease_acquire(self->inner, name, holder, ttl_ms, now_ns, fence);
    }
    static enum dt_status Renew(struct dt_store *store, const char *name, const char *holder, uint64_t fence,
                                uint32_t ttl_ms, uint64_t now_ns)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED
                            : self->inner->ops->lease_renew(self->inner, name, holder, fence, ttl_ms, now_ns);
    }
    static enum dt_status Release(struct dt_store *store, const char *name, const char *holder,
                                  uint64_t fence)
    {
        CutStore *self = Of(store);
        return self->is_cut ? DT_CLOSED : self->inner->ops->lease_release(self->inner, name, holder, fence);
    }
    static void Close(struct dt_store *) {}
    static const struct dt_store_ops ops;
};

inline const struct dt_store_ops CutStore::ops = {Append, Read, Set, Get, Acquire, Renew, Release, Close};

class Control : public ::testing::Test
{
  protected:
    ~Control() override
    {
        for (dt_control *control : controls)
            dt_control_destroy(control);
    }
    dt_control *Make(const char *holder, bool dry_run = false)
    {
        dt_control_options options = {};

        options.store = &store.store;
        options.holder = holder;
        options.lease_ms = 3000;
        options.dry_run = dry_run;
        options.decide = measures;
        options.cluster = cluster;
        options.funcs = {Note, Finding, Decision, Acknowledged};
        options.funcs_arg = this;
        controls.push_back(dt_control_create(&options));
        return controls.back();
    }
    static void Note(void *arg, bool, const char *text)
    {
        static_cast<Control *>(arg)->notes.push_back(text);
    }
    static void Finding(void *arg, const dt_finding_record *finding)
    {
        auto *self = static_cast<Control *>(arg);
        self->findings.push_back(std::string(finding->ended ? "ended " : "new ") + finding->kind + " " +
                                 finding->from_host + ">" + finding->to_host);
    }
    static void Decision(void *arg, const dt_decision *decision)
    {
        static_cast<Control *>(arg)->decided.push_back(
            std::to_string(decision->number) + " " + dt_decision_kind_text((dt_decision_kind)decision->kind) +
            " " + std::to_string(decision->link_count));
    }
    static void Acknowledged(void *arg, const dt_acknowledgement *acknowledgement)
    {
        static_cast<Control *>(arg)->acknowledged.push_back(std::to_string(acknowledgement->number) + " " +
                                                            acknowledgement->host);
    }
    void Request(dt_decision_kind kind, int64_t age_ns = 0)
    {
        dt_request request = {};

        request.time_ns = TimeNs() - age_ns;
        request.kind = kind;
        request.hold_ns = kind == DT_DECISION_HOLD ? 30000000000 : 0;
        strcpy(request.reason, "a test");
        char *text = dt_request_write(&request);
        store.inner->ops->append(store.inner, DT_STREAM_REQUESTS, text, nullptr);
        free(text);
    }
    /* A report of the agent of host a or b about its link to the other. */
    void Report(const char *host, int64_t service_ns)
    {
        auto observation = std::make_unique<dt_observation>();
        dt_observed_link *link = &observation->links[0];
        int32_t rank = host[0] - 'a';

        *observation = {};
        strcpy(observation->host, host);
        strcpy(observation->page_host, rank ? "box1" : "box0");
        observation->pid = pid;
        observation->rank = rank;
        observation->time_ns = TimeNs();
        observation->number = agent_number;
        observation->iteration_ns = iteration_ns;
        observation->compute_ns = compute_ns[rank];
        observation->iterations = iteration_ns > 0;
        observation->link_count = 1;
        link->connection = 100 + (uint64_t)rank;
        link->from_rank = rank;
        link->to_rank = 1 - rank;
        snprintf(link->peer, sizeof link->peer, "box%d:%d", 1 - rank, (int)pid);
        link->messages = 10;
        link->bytes = 40960;
        link->service_ns = 10 * service_ns;
        char *text = dt_observation_write(observation.get());
        store.inner->ops->append(store.inner, DT_STREAM_OBSERVATIONS, text, nullptr);
        free(text);
    }
    /* Rounds of 200 ms: reports, then each controller. The link from a to b is slow or not. */
    void Rounds(int count, bool is_slow)
    {
        for (int i = 0; i < count; i++, now_ns += 200 * DT_NS_PER_MS) {
            if (!store.is_cut && !is_silent) {
                Report("a", is_slow ? 20000000 : 1000000);
                Report("b", 1000000);
            }
            for (dt_control *control : controls)
                status = Round(control);
        }
    }
    enum dt_status Round(dt_control *control)
    {
        enum dt_status result = dt_control_step(control, now_ns, TimeNs());

        now_ns += planning_ns;
        return result == DT_OK ? dt_control_append(control, now_ns) : result;
    }
    int64_t TimeNs() const
    {
        return 1700000000000000000 + (int64_t)now_ns;
    }
    static bool Keep(void *arg, const char *, const char *record, size_t bytes)
    {
        dt_decision decision;
        char reason[DT_RECORD_REASON_BYTES] = "";
        EXPECT_EQ(dt_decision_read(record, bytes, &decision, reason), DT_OK) << reason;
        static_cast<Lines *>(arg)->push_back(std::to_string(decision.number) + " fence " +
                                             std::to_string(decision.fence));
        return true;
    }
    static std::string File(const std::string &path)
    {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    Lines Stream()
    {
        Lines lines;
        store.inner->ops->read(store.inner, DT_STREAM_DECISIONS, "", 1000, Keep, &lines);
        return lines;
    }
    bool HasNote(const char *part) const
    {
        for (const std::string &note : notes) {
            if (note.find(part) != std::string::npos)
                return true;
        }
        return false;
    }

    CutStore store;
    std::vector<dt_control *> controls;
    Lines notes, findings, decided, acknowledged;
    uint64_t now_ns = 1000 * DT_NS_PER_S;
    uint64_t planning_ns = 0; /* passes between the two parts of a round */
    int64_t agent_number = 0;
    int64_t iteration_ns = 0;
    int64_t compute_ns[2] = {}; /* of a rank, in an iteration */
    int32_t pid = 1;            /* of each rank on its host */
    bool is_silent = false;     /* there is no process */
    dt_decide_options measures = dt_decide_defaults();
    const detour_cluster *cluster = nullptr;
    enum dt_status status = DT_OK;
};
} // namespace detour_test

#endif
