/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the receiver: the memory that it grants. */
#include "hostpath/staged/eager_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/node_memory.h"
#include "base/util.h"
#include "hostpath/staged/stage.h"
#include "transport/path/nic.h"
#include "transport/session/session.h"

/* A connection takes no more than this part of what is left. */
#define SHARE 4

/* Reserves memory of the process's budget, in *bytes; returns the size of each place, or 0: too little is
 * left. */
static uint32_t reserve(struct dt_environment *environment, uint64_t *bytes)
{
    uint64_t used = dt_load_acquire(&environment->hostpath->granted_bytes);
    uint64_t left, each;

    do {
        left = environment->params.hostpath_bytes > used ? environment->params.hostpath_bytes - used : 0;
        each = dt_min_u64(left / SHARE / DT_EAGER_PLACES, DT_EAGER_BYTES_MAX) & ~(uint64_t)4095;
        *bytes = DT_EAGER_HEADERS_BYTES + each * DT_EAGER_PLACES;
    } while (each > 0 && !dt_compare_swap(&environment->hostpath->granted_bytes, &used, used + *bytes));
    return (uint32_t)each;
}

static void unreserve(struct dt_environment *environment, uint64_t bytes)
{
    uint64_t before = dt_fetch_sub_acq_rel(&environment->hostpath->granted_bytes, bytes);

    DT_CHECK(before >= bytes);
}

/* A store with memory of this size; NULL: out of memory, or no delegates. */
static struct dt_eager_store *create_store(struct dt_connection *c, size_t memory_bytes)
{
    struct dt_eager_store *store = calloc(1, sizeof *store);

    if (!store)
        return NULL;
    store->memory = dt_node_memory_alloc(memory_bytes, c->nic->info.numa_node);
    if (store->memory && dt_stage_open_delegates(c->nic) == DT_OK)
        return store;
    dt_node_memory_free(store->memory, memory_bytes);
    free(store);
    return NULL;
}

void dt_eager_open(struct dt_connection *c)
{
    struct dt_eager_store *store;
    uint64_t memory_bytes;
    uint32_t bytes;

    bytes = reserve(c->environment, &memory_bytes);
    if (bytes == 0)
        return;
    store = create_store(c, memory_bytes);
    if (!store) {
        unreserve(c->environment, memory_bytes);
        return;
    }
    DT_CHECK(!dt_receiver_of(c)->eager && c->group.staged.bytes == 0); /* one store, offered once */
    store->memory_bytes = memory_bytes;
    store->bytes = bytes;
    dt_receiver_of(c)->eager = store;
    c->group.staged = (struct dt_region){
        .base = store->memory,
        .bytes = store->memory_bytes,
        .access = DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE,
    };
}

void dt_eager_close(struct dt_receiver *r)
{
    struct dt_eager_store *store = r->eager;

    if (!store)
        return;
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++)
        DT_CHECK(dt_load_acquire(&store->arrival[i].copies_left) == 0);
    dt_node_memory_free(store->memory, store->memory_bytes);
    unreserve(r->connection.environment, store->memory_bytes);
    free(store);
    r->eager = NULL;
}

void dt_eager_grant(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;
    struct dt_writer *out = dt_session_out(c->session);
    struct dt_grant grant = {0};

    if (!r->eager)
        return;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!c->path[p].staged_mr)
            continue;
        grant.rkey[p] = c->path[p].staged_mr->rkey;
        grant.path_mask |= 1u << p;
    }
    if (!grant.path_mask || !out)
        return;
    grant.addr = (uintptr_t)r->eager->memory;
    grant.bytes = r->eager->bytes;
    dt_grant_encode(&grant, c->path_count, out);
    dt_session_flush(c->session);
}

void dt_eager_snapshot(const struct dt_receiver *r, struct dt_resume *resume)
{
    if (r->eager)
        memcpy(resume->eager, r->eager->arrived, sizeof resume->eager);
}
