/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/mr_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"

struct dt_mr_entry {
    struct dt_mr mr; /* what users hold */
    struct ibv_mr *ibv;
    uint64_t end_max; /* largest end of this entry and all before it */
    struct dt_mr_request
        request; /* its descriptor is the entry's own; -1: ordinary memory, or none was left */
    bool is_dmabuf;
    uint64_t ref_count;
};

/* The same regions as another device has them. */
struct renewed {
    struct ibv_mr *ibv;
    uint32_t lkey;
    uint32_t rkey;
};

void dt_mr_cache_init(struct dt_mr_cache *cache, const struct dt_mr_cache_ops *ops, void *ops_arg,
                      uint64_t page_bytes)
{
    DT_CHECK(dt_is_power_of_two(page_bytes));
    memset(cache, 0, sizeof *cache);
    cache->ops = ops;
    cache->ops_arg = ops_arg;
    cache->page_bytes = page_bytes;
    pthread_mutex_init(&cache->lock, NULL);
}

static void free_entry(struct dt_mr_entry *entry)
{
    if (entry->request.fd >= 0)
        close(entry->request.fd);
    free(entry);
}

size_t dt_mr_cache_close(struct dt_mr_cache *cache)
{
    size_t left = cache->count;

    for (size_t i = 0; i < left; i++) {
        cache->ops->deregister_region(cache->ops_arg, cache->entries[i]->ibv);
        free_entry(cache->entries[i]);
    }
    free(cache->entries);
    pthread_mutex_destroy(&cache->lock);
    return left;
}

static uint64_t entry_end(const struct dt_mr_entry *entry)
{
    return entry->mr.addr + entry->mr.bytes;
}

/* Entries are sorted by address, and end_max of each is the largest end so far. */
static bool is_ordered(const struct dt_mr_cache *cache, size_t at)
{
    const struct dt_mr_entry *entry = cache->entries[at];
    const struct dt_mr_entry *before = at ? cache->entries[at - 1] : NULL;

    return entry->end_max >= entry_end(entry) &&
           (!before || (before->mr.addr <= entry->mr.addr && before->end_max <= entry->end_max));
}

/* Index of the first entry that begins after `addr`. */
static size_t upper_bound(const struct dt_mr_cache *cache, uint64_t addr)
{
    size_t low = 0;
    size_t high = cache->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (cache->entries[middle]->mr.addr <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Up to the first entry that is as it was: those behind depend on it alone. */
static void update_end_max(struct dt_mr_cache *cache, size_t from)
{
    uint64_t end_max = from ? cache->entries[from - 1]->end_max : 0;

    for (size_t i = from; i < cache->count; i++) {
        end_max = dt_max_u64(end_max, entry_end(cache->entries[i]));
        if (cache->entries[i]->end_max == end_max)
            break;
        cache->entries[i]->end_max = end_max;
    }
}

/*
 * As many rights, and the same promise about order: control memory that lies in a region with relaxed
 * ordering must not be written in any order.
 */
static bool allows(uint32_t have, uint32_t want)
{
    return (have & want) == want && !((have ^ want) & DT_MR_RELAXED_ORDERING);
}

static struct dt_mr_entry *find_covering(const struct dt_mr_cache *cache, const struct dt_mr_request *request)
{
    uint64_t end = request->addr + request->bytes;

    for (size_t i = upper_bound(cache, request->addr); i > 0; i--) {
        struct dt_mr_entry *entry = cache->entries[i - 1];

        if (entry->end_max < end)
            return NULL;
        if (entry_end(entry) >= end && allows(entry->request.access, request->access) &&
            entry->is_dmabuf == (request->fd >= 0) && entry->request.displacement == request->displacement)
            return entry;
    }
    return NULL;
}

static enum dt_status make_room(struct dt_mr_cache *cache)
{
    size_t room = cache->room ? cache->room * 2 : 64;
    struct dt_mr_entry **entries;

    if (cache->count < cache->room)
        return DT_OK;
    entries = realloc(cache->entries, room * sizeof *entries);
    if (!entries)
        return DT_NO_MEMORY;
    cache->entries = entries;
    cache->room = room;
    return DT_OK;
}

static void insert(struct dt_mr_cache *cache, struct dt_mr_entry *entry)
{
    size_t at = upper_bound(cache, entry->mr.addr);

    DT_CHECK(cache->count < cache->room);
    memmove(&cache->entries[at + 1], &cache->entries[at], (cache->count - at) * sizeof(struct dt_mr_entry *));
    cache->entries[at] = entry;
    cache->count++;
    update_end_max(cache, at);
    DT_CHECK(is_ordered(cache, at) && (at + 1 == cache->count || is_ordered(cache, at + 1)));
}

static void remove_entry(struct dt_mr_cache *cache, struct dt_mr_entry *entry)
{
    size_t at = upper_bound(cache, entry->mr.addr) - 1;

    DT_CHECK(entry->ref_count == 0);
    while (cache->entries[at] != entry) {
        DT_CHECK(at > 0); /* it is in the table */
        at--;
    }
    cache->count--;
    memmove(&cache->entries[at], &cache->entries[at + 1], (cache->count - at) * sizeof(struct dt_mr_entry *));
    update_end_max(cache, at);
    DT_CHECK(at == cache->count || is_ordered(cache, at));
}

static enum dt_status add_region(struct dt_mr_cache *cache, const struct dt_mr_request *request,
                                 struct dt_mr_entry **added)
{
    struct dt_mr_entry *entry;

    if (make_room(cache) != DT_OK)
        return DT_NO_MEMORY;
    entry = calloc(1, sizeof *entry);
    if (!entry)
        return DT_NO_MEMORY;
    entry->ibv = cache->ops->register_region(cache->ops_arg, request, &entry->mr.lkey, &entry->mr.rkey);
    if (!entry->ibv) {
        int errno_kept = errno;

        free(entry);
        if (cache->ops->is_gone(cache->ops_arg))
            return DT_NOT_FOUND;
        errno = errno_kept;
        return DT_SYSTEM;
    }
    entry->mr.addr = request->addr;
    entry->mr.bytes = request->bytes;
    entry->request = *request;
    entry->is_dmabuf = request->fd >= 0;
    if (entry->is_dmabuf) /* the caller may close its own */
        entry->request.fd = fcntl(request->fd, F_DUPFD_CLOEXEC, 0);
    insert(cache, entry);
    *added = entry;
    return DT_OK;
}

/* Rounds ordinary memory outwards to pages. */
static enum dt_status round_request(const struct dt_mr_cache *cache, const struct dt_mr_request *request,
                                    struct dt_mr_request *rounded)
{
    uint64_t mask = cache->page_bytes - 1;

    if (!request->bytes || request->bytes > UINT64_MAX - cache->page_bytes - request->addr ||
        request->addr > UINT64_MAX - cache->page_bytes)
        return DT_INVALID;
    *rounded = *request;
    if (request->fd < 0) {
        rounded->addr = request->addr & ~mask;
        rounded->bytes = dt_align_up(request->addr + request->bytes, cache->page_bytes) - rounded->addr;
    }
    return DT_OK;
}

enum dt_status dt_mr_cache_get(struct dt_mr_cache *cache, const struct dt_mr_request *request,
                               struct dt_mr **mr)
{
    struct dt_mr_request rounded;
    struct dt_mr_entry *entry;
    enum dt_status status = round_request(cache, request, &rounded);

    if (status != DT_OK)
        return status;
    pthread_mutex_lock(&cache->lock);
    entry = find_covering(cache, &rounded);
    if (!entry)
        status = add_region(cache, &rounded, &entry);
    if (status == DT_OK) {
        entry->ref_count++;
        DT_CHECK(entry->mr.addr <= rounded.addr && entry_end(entry) >= rounded.addr + rounded.bytes);
        *mr = &entry->mr;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

enum dt_status dt_mr_cache_put(struct dt_mr_cache *cache, struct dt_mr *mr)
{
    struct dt_mr_entry *entry = dt_container_of(mr, struct dt_mr_entry, mr);
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    DT_CHECK(entry->ref_count > 0);
    if (--entry->ref_count == 0) {
        remove_entry(cache, entry);
        error = cache->ops->deregister_region(cache->ops_arg, entry->ibv);
        free_entry(entry);
    }
    pthread_mutex_unlock(&cache->lock);
    if (!error)
        return DT_OK;
    errno = error;
    return DT_SYSTEM;
}

static bool renew_entry(const struct dt_mr_cache *cache, void *ops_arg, const struct dt_mr_entry *entry,
                        struct renewed *renewed)
{
    errno = EBADF;
    if (entry->is_dmabuf && entry->request.fd < 0)
        return false;
    renewed->ibv = cache->ops->register_region(ops_arg, &entry->request, &renewed->lkey, &renewed->rkey);
    return renewed->ibv;
}

/* With the lock. */
static void take_renewed(struct dt_mr_cache *cache, void *ops_arg, const struct renewed *renewed)
{
    for (size_t i = 0; i < cache->count; i++) {
        struct dt_mr_entry *entry = cache->entries[i];

        cache->ops->deregister_region(cache->ops_arg, entry->ibv);
        entry->ibv = renewed[i].ibv;
        dt_store_relaxed(&entry->mr.lkey, renewed[i].lkey);
        dt_store_relaxed(&entry->mr.rkey, renewed[i].rkey);
    }
    cache->ops_arg = ops_arg;
}

enum dt_status dt_mr_cache_renew(struct dt_mr_cache *cache, void *ops_arg)
{
    struct renewed *renewed;
    enum dt_status status = DT_OK;
    size_t done = 0;
    int error = 0;

    pthread_mutex_lock(&cache->lock);
    renewed = calloc(cache->count + 1, sizeof *renewed);
    if (!renewed)
        status = DT_NO_MEMORY;
    while (status == DT_OK && done < cache->count) {
        if (renew_entry(cache, ops_arg, cache->entries[done], &renewed[done])) {
            done++;
        } else {
            status = DT_SYSTEM;
            error = errno;
        }
    }
    if (status == DT_OK)
        take_renewed(cache, ops_arg, renewed);
    while (status != DT_OK && done > 0)
        cache->ops->deregister_region(ops_arg, renewed[--done].ibv);
    pthread_mutex_unlock(&cache->lock);
    free(renewed);
    errno = error;
    return status;
}
