/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry points of the data path, and of registration: here it is decided whether a call takes the direct
 * way of transport/message/ or the staged one of hostpath/staged/. Neither of them knows of the decision.
 */
#include <stdlib.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/log.h"
#include "hostpath/staged/staged.h"
#include "transport/net.h"
#include "transport/message/memory.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"

/* Notices after which isend and irecv take another way than the usual one. */
#define IS_UNUSUAL   ((uint32_t)(DT_NOTICE_PEER_CLOSED | DT_NOTICE_PEER_LOST | DT_NOTICE_STAGED))
#define IS_PEER_GONE (IS_UNUSUAL & ~(uint32_t)DT_NOTICE_STAGED)

/* ------------------------------------------------------------------------------------------------------------
 * A peer that has closed, or is dead. As in NCCL's own transports isend and irecv succeed: a tear-down hands
 * over its last messages, deregisters and closes without an error. An error is the answer of test.
 */
static enum dt_status test_orphan(struct dt_request *request, int *done, int *bytes)
{
    enum dt_status status = dt_connection_check(request->connection);

    (void)done;
    (void)bytes;
    DT_CHECK(status != DT_OK); /* the connection failed before the request was given out */
    return status == DT_AGAIN ? DT_OK : status;
}

static void give_orphan(struct dt_connection *c, struct dt_request **request)
{
    DT_CHECK(dt_load_relaxed(&c->failing) != DT_OK);
    c->orphan = (struct dt_request){.connection = c, .test = test_orphan, .is_open = true};
    *request = &c->orphan;
}

static void fail_peer_gone(struct dt_connection *c, const char *call, uint64_t message)
{
    if (c->attended & DT_NOTICE_PEER_CLOSED)
        dt_connection_fail(c, DT_PEER_ERROR, "%s of message %llu, but the %s has closed", call,
                           (unsigned long long)message, c->is_sender ? "receiver" : "sender");
    else
        dt_connection_fail(c, DT_PEER_ERROR, "%s of message %llu, but " DT_PEER_DEAD_TEXT, call,
                           (unsigned long long)message);
}

/* The connection is failing or has failed; `status` as dt_connection_check() returned it. */
static __attribute__((cold, noinline)) enum dt_status
answer_failing(struct dt_connection *c, enum dt_status status, struct dt_request **request)
{
    uint32_t notices = dt_load_acquire(&c->notices);

    if (notices & DT_NOTICE_FAILING && notices & IS_PEER_GONE && !(notices & DT_NOTICE_ABANDONED))
        give_orphan(c, request);
    else if (status != DT_AGAIN)
        return status;
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * isend, irecv and test
 */
static __attribute__((noinline)) enum dt_status isend_unusual(struct dt_sender *s, void *data, uint32_t bytes,
                                                              int tag, struct dt_memory *memory,
                                                              struct dt_request **request)
{
    if (!(s->connection.attended & IS_PEER_GONE))
        return dt_staged_isend(s, data, bytes, tag, memory, request);
    fail_peer_gone(&s->connection, "isend", s->next);
    give_orphan(&s->connection, request);
    return DT_OK;
}

static inline __attribute__((always_inline)) enum dt_status isend_owned(struct dt_sender *s, void *data,
                                                                        uint32_t bytes, int tag,
                                                                        struct dt_memory *memory,
                                                                        struct dt_request **request)
{
    enum dt_status status = dt_connection_check(&s->connection);

    if (status != DT_OK)
        return answer_failing(&s->connection, status, request);
    if (__builtin_expect(s->connection.attended & IS_UNUSUAL, 0))
        return isend_unusual(s, data, bytes, tag, memory, request);
    return dt_sender_isend(s, data, bytes, tag, memory, request);
}

enum dt_status dt_isend(struct dt_connection *c, void *data, uint32_t bytes, int tag,
                        struct dt_memory *memory, struct dt_request **request)
{
    enum dt_status status;

    *request = NULL;
    if (!c->is_sender)
        return DT_INVALID;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    status = isend_owned(dt_sender_of(c), data, bytes, tag, memory, request);
    dt_owner_leave(&c->owner);
    return status;
}

static __attribute__((noinline)) bool irecv_unusual(struct dt_receiver *r, unsigned n, void *const *data,
                                                    const uint32_t *bytes, const int *tags,
                                                    struct dt_memory *const *memories,
                                                    struct dt_request **request)
{
    if (!(r->connection.attended & IS_PEER_GONE))
        return dt_staged_irecv(r, n, data, bytes, tags, memories, request);
    fail_peer_gone(&r->connection, "irecv", r->next);
    give_orphan(&r->connection, request);
    return true;
}

static inline __attribute__((always_inline)) enum dt_status
irecv_owned(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes, const int *tags,
            struct dt_memory *const *memories, struct dt_request **request)
{
    enum dt_status status = dt_connection_check(&r->connection);
    bool is_answered;

    if (status != DT_OK)
        return answer_failing(&r->connection, status, request);
    if (__builtin_expect(r->connection.attended & IS_UNUSUAL, 0))
        is_answered = irecv_unusual(r, n, data, bytes, tags, memories, request);
    else
        is_answered = dt_receiver_irecv(r, n, data, bytes, tags, memories, request);
    if (!is_answered)
        dt_meter_refused(&r->connection.meter);
    return DT_OK;
}

enum dt_status dt_irecv(struct dt_connection *c, unsigned n, void *const *data, const uint32_t *bytes,
                        const int *tags, struct dt_memory *const *memories, struct dt_request **request)
{
    enum dt_status status;

    *request = NULL;
    if (c->is_sender)
        return DT_INVALID;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    status = irecv_owned(dt_receiver_of(c), n, data, bytes, tags, memories, request);
    dt_owner_leave(&c->owner);
    return status;
}

/* To NCCL a NULL request means that no flush is needed, so this call waits until the device thread gives the
 * connection back, which takes microseconds. */
enum dt_status dt_iflush(struct dt_connection *c, unsigned n, void *const *data, const uint32_t *bytes,
                         struct dt_memory *const *memories, struct dt_request **request)
{
    enum dt_status status;

    *request = NULL;
    if (c->is_sender)
        return DT_INVALID;
    if (c->environment->params.flush_disable)
        return DT_OK;
    while (!dt_owner_enter(&c->owner))
        dt_cpu_relax();
    status = dt_receiver_iflush(dt_receiver_of(c), n, data, bytes, memories, request);
    dt_owner_leave(&c->owner);
    return status;
}

enum dt_status dt_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_connection *c = request->connection;
    enum dt_status status;

    *done = 0;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    status = request->test(request, done, bytes);
    dt_owner_leave(&c->owner);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Registration
 */
static void report_missing(const struct dt_connection *c, const struct dt_memory *memory, uint32_t path_mask)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (path_mask & 1u << p)
            dt_info("memory-path",
                    "%s cannot register %llu bytes at %p: path %u of connection %016llx cannot carry them",
                    dt_path_name(&c->path[p]), (unsigned long long)memory->bytes,
                    (void *)(uintptr_t)memory->addr, p, (unsigned long long)c->id);
    }
}

static enum dt_status add(struct dt_connection *c, const struct dt_memory_source *from,
                          struct dt_memory **out)
{
    struct dt_memory *memory = dt_memory_create(from);
    enum dt_status status;
    uint32_t missing;

    if (!memory)
        return DT_NO_MEMORY;
    status = dt_memory_register_all(c, from, memory, &missing);
    if (!from->is_host)
        dt_staged_add_gpu_memory(c, memory, missing);
    report_missing(c, memory, missing & ~memory->path_mask);
    if (!dt_memory_is_usable(memory)) {
        dt_memory_deregister_all(c, memory);
        free(memory);
        return status;
    }
    dt_memory_add(c, memory);
    *out = memory;
    return DT_OK;
}

/* Both directions: the target of writes, and of the loopback reads of a flush. */
static uint32_t data_access(const struct dt_connection *c)
{
    return DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE | DT_MR_REMOTE_READ |
           (c->environment->params.relaxed_ordering ? DT_MR_RELAXED_ORDERING : 0);
}

enum dt_status dt_net_register(struct dt_connection *c, void *addr, size_t bytes, bool is_host,
                               struct dt_memory **memory)
{
    struct dt_memory_source from = {addr, bytes, 0, -1, data_access(c), is_host};

    return add(c, &from, memory);
}

enum dt_status dt_net_register_dmabuf(struct dt_connection *c, void *addr, size_t bytes, uint64_t offset,
                                      int fd, struct dt_memory **memory)
{
    struct dt_memory_source from = {addr, bytes, offset, fd, data_access(c), false};

    return fd < 0 ? DT_INVALID : add(c, &from, memory);
}

void dt_net_deregister(struct dt_connection *c, struct dt_memory *memory)
{
    bool is_open;

    if (!memory)
        return;
    is_open = dt_load_acquire(&memory->open) > 0;
    if (is_open)
        dt_connection_abandon(c, memory);
    dt_memory_deregister_all(c, memory);
    if (is_open)
        return;
    dt_memory_remove(c, memory);
    free(memory);
}
