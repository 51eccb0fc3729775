/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/store_redis.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "controller/redis_link.h"

#define KEY_BYTES   192
#define PAGE        64 /* records per XREAD: 4 MiB of the largest */
#define TEXT_OF(x)  #x
#define NUMBER(x)   TEXT_OF(x)
#define KEEP_S_TEXT "2592000"

_Static_assert(DT_STORE_REDIS_KEEP_S == 2592000, "KEEP_S_TEXT");

struct redis {
    struct dt_store store;
    struct dt_redis_library library;
    struct dt_redis_link *link;
    char job[DT_STORE_NAME_BYTES];
};

static struct redis *redis_of(struct dt_store *store)
{
    return dt_container_of(store, struct redis, store);
}

static enum dt_status fail(struct redis *redis, enum dt_status status, const char *text)
{
    snprintf(redis->store.reason, sizeof redis->store.reason, "%s", text);
    return status;
}

static enum dt_status check_name(struct redis *redis, const char *name)
{
    return dt_store_is_name(name)
               ? DT_OK
               : fail(redis, DT_INVALID,
                      "a name: expected letters, digits, '-', '_', '.' and ':', at most 63");
}

static enum dt_status check_text(struct redis *redis, const char *text)
{
    return strnlen(text, DT_STORE_RECORD_BYTES) < DT_STORE_RECORD_BYTES
               ? DT_OK
               : fail(redis, DT_INVALID, "a record or value of more than 65535 bytes");
}

static const char *key_of(const struct redis *redis, const char *kind, const char *name, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "detour:{%s}:%s%s%s", redis->job, kind, *name ? ":" : "", name);
    return key;
}

/* ---- One command. ---- */

/* Answers that say "not now": loading after a start, a full disk, a replica, a cluster that moves. */
static const char *const later_words[] = {"LOADING",    "BUSY",        "MISCONF",  "MASTERDOWN", "READONLY",
                                          "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN", "NOAUTH",     "NOPERM"};

static enum dt_status refused(struct redis *redis, const redisReply *reply)
{
    char word[32];
    enum dt_status status = DT_PROTOCOL;

    snprintf(word, sizeof word, "%.*s", (int)dt_min_u64(strcspn(reply->str, " "), sizeof word - 1),
             reply->str);
    for (size_t i = 0; i < DT_COUNT_OF(later_words); i++) {
        if (!strcmp(word, later_words[i]))
            status = DT_CLOSED;
    }
    if (!strcmp(word, "OOM"))
        status = DT_FULL;
    snprintf(redis->store.reason, sizeof redis->store.reason, "Redis refused a command: %.200s", reply->str);
    for (char *at = redis->store.reason; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    return status;
}

/* DT_OK: *reply is an answer of one of the two types, to be freed. REDIS_REPLY_NIL: DT_NOT_FOUND. */
static enum dt_status call(struct redis *redis, int type, int argc, const char **argv, redisReply **reply)
{
    enum dt_status status =
        dt_redis_link_call(redis->link, argc, argv, reply, redis->store.reason, sizeof redis->store.reason);

    if (status != DT_OK)
        return status;
    if ((*reply)->type == REDIS_REPLY_ERROR)
        status = refused(redis, *reply);
    else if ((*reply)->type == REDIS_REPLY_NIL)
        status = DT_NOT_FOUND;
    else if ((*reply)->type != type)
        status = fail(redis, DT_PROTOCOL, "Redis answered with another type than the command has");
    if (status != DT_OK) {
        redis->library.reply_free(*reply);
        *reply = NULL;
    }
    return status;
}

/* ---- Streams. ---- */

/* An id as text whose order is that of time: Redis writes MS-NUMBER without leading zeros. */
static bool id_text(const char *redis_id, char id[DT_STORE_ID_BYTES])
{
    uint64_t ms, number;
    int end = 0;

    if (sscanf(redis_id, "%20" SCNu64 "-%20" SCNu64 "%n", &ms, &number, &end) != 2 || redis_id[end])
        return false;
    snprintf(id, DT_STORE_ID_BYTES, "%020" PRIu64 "-%020" PRIu64, ms, number);
    return true;
}

static bool redis_id_of(const char *id, char redis_id[DT_STORE_ID_BYTES])
{
    uint64_t ms, number;
    int end = 0;

    if (sscanf(id, "%20" SCNu64 "-%20" SCNu64 "%n", &ms, &number, &end) != 2 || id[end])
        return false;
    snprintf(redis_id, DT_STORE_ID_BYTES, "%" PRIu64 "-%" PRIu64, ms, number);
    return true;
}

static enum dt_status append(struct dt_store *store, const char *stream, const char *record,
                             char id[DT_STORE_ID_BYTES])
{
    static const char script[] =
        "local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'r', ARGV[2]) "
        "redis.call('EXPIRE', KEYS[1], ARGV[3]) return id";
    struct redis *redis = redis_of(store);
    char key[KEY_BYTES], found[DT_STORE_ID_BYTES];
    const char *argv[] = {
        "EVAL", script,     "1", key_of(redis, "stream", stream, key), NUMBER(DT_STORE_STREAM_RECORDS),
        record, KEEP_S_TEXT};
    redisReply *reply;
    enum dt_status status = check_name(redis, stream);

    if (status == DT_OK)
        status = check_text(redis, record);
    if (status == DT_OK)
        status = call(redis, REDIS_REPLY_STRING, DT_COUNT_OF(argv), argv, &reply);
    if (status != DT_OK)
        return status == DT_NOT_FOUND ? fail(redis, DT_PROTOCOL, "Redis gave no id") : status;
    if (!id_text(reply->str, found))
        status = fail(redis, DT_PROTOCOL, "Redis gave an id of another form");
    else if (id)
        memcpy(id, found, DT_STORE_ID_BYTES);
    redis->library.reply_free(reply);
    return status;
}

struct page {
    dt_store_visit_func *visit;
    void *arg;
    char last[DT_STORE_ID_BYTES]; /* of Redis */
    size_t left;
    bool is_ended;
};

static bool is_array(const redisReply *reply, size_t elements)
{
    return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= elements;
}

/* One entry: [id, [field, value, ...]]. An entry that Detour did not write has no record, and is passed over.
 */
static bool visit_entry(struct page *page, const redisReply *entry)
{
    const redisReply *content;
    char id[DT_STORE_ID_BYTES];

    if (!is_array(entry, 2) || entry->element[0]->type != REDIS_REPLY_STRING ||
        !id_text(entry->element[0]->str, id) || !redis_id_of(id, page->last))
        return false;
    content = entry->element[1];
    if (!is_array(content, 2) || content->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(content->element[0]->str, "r") != 0 || content->element[1]->type != REDIS_REPLY_STRING)
        return true;
    content = content->element[1];
    if ((size_t)content->len >= DT_STORE_RECORD_BYTES || strlen(content->str) != (size_t)content->len)
        return true;
    page->left--;
    page->is_ended = !page->visit(page->arg, id, content->str, (size_t)content->len) || !page->left;
    return true;
}

/* [[key, [entry, ...]]]: XREAD of one stream. */
static enum dt_status visit_page(struct redis *redis, struct page *page, const redisReply *reply,
                                 size_t *count)
{
    const redisReply *entries =
        is_array(reply, 1) && is_array(reply->element[0], 2) ? reply->element[0]->element[1] : NULL;

    if (!is_array(entries, 0))
        return fail(redis, DT_PROTOCOL, "Redis answered XREAD in another form");
    *count = entries->elements;
    for (size_t i = 0; i < entries->elements && !page->is_ended; i++) {
        if (!visit_entry(page, entries->element[i]))
            return fail(redis, DT_PROTOCOL, "Redis answered XREAD with an entry of another form");
    }
    return DT_OK;
}

static enum dt_status read_stream(struct dt_store *store, const char *stream, const char *after,
                                  size_t count_max, dt_store_visit_func *visit, void *arg)
{
    struct redis *redis = redis_of(store);
    struct page page = {.visit = visit, .arg = arg, .last = "0-0", .left = count_max};
    char key[KEY_BYTES];
    const char *argv[] = {"XREAD",  "COUNT", NUMBER(PAGE), "STREAMS", key_of(redis, "stream", stream, key),
                          page.last};
    enum dt_status status = check_name(redis, stream);
    size_t count = PAGE;

    if (status == DT_OK && *after && !redis_id_of(after, page.last))
        status = fail(redis, DT_INVALID, "the id of a record: not one of this store");
    page.is_ended = count_max == 0;
    while (status == DT_OK && !page.is_ended && count == PAGE) {
        redisReply *reply;

        status = call(redis, REDIS_REPLY_ARRAY, DT_COUNT_OF(argv), argv, &reply);
        if (status == DT_NOT_FOUND) /* nothing after that id */
            return DT_OK;
        if (status != DT_OK)
            break;
        status = visit_page(redis, &page, reply, &count);
        redis->library.reply_free(reply);
    }
    return status;
}

/* ---- Fields. ---- */

static enum dt_status set(struct dt_store *store, const char *field, const char *value)
{
    static const char script[] = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) "
                                 "redis.call('EXPIRE', KEYS[1], ARGV[3]) return 1";
    struct redis *redis = redis_of(store);
    char key[KEY_BYTES];
    const char *argv[] = {"EVAL", script, "1", key_of(redis, "state", "", key), field, value, KEEP_S_TEXT};
    redisReply *reply;
    enum dt_status status = check_name(redis, field);

    if (status == DT_OK)
        status = check_text(redis, value);
    if (status == DT_OK)
        status = call(redis, REDIS_REPLY_INTEGER, DT_COUNT_OF(argv), argv, &reply);
    if (status == DT_OK)
        redis->library.reply_free(reply);
    return status == DT_NOT_FOUND ? fail(redis, DT_PROTOCOL, "Redis gave no answer to HSET") : status;
}

static enum dt_status get(struct dt_store *store, const char *field, char *value, size_t bytes)
{
    struct redis *redis = redis_of(store);
    char key[KEY_BYTES];
    const char *argv[] = {"HGET", key_of(redis, "state", "", key), field};
    redisReply *reply;
    enum dt_status status = check_name(redis, field);

    if (status == DT_OK)
        status = call(redis, REDIS_REPLY_STRING, DT_COUNT_OF(argv), argv, &reply);
    if (status != DT_OK)
        return status;
    if ((size_t)reply->len >= bytes)
        status = fail(redis, DT_INVALID, "the value is longer than expected");
    else if (strlen(reply->str) != (size_t)reply->len)
        status = fail(redis, DT_PROTOCOL, "the value is no text");
    else
        memcpy(value, reply->str, (size_t)reply->len + 1);
    redis->library.reply_free(reply);
    return status;
}

/* ---- Leases. Their values are "FENCE HOLDER". ---- */

/* Runs a script on the keys of a lease. DT_OK: *answer is its number. */
static enum dt_status lease_script(struct redis *redis, const char *script, const char *name,
                                   const char *holder, uint64_t fence, uint32_t ttl_ms, int64_t *answer)
{
    char lease[KEY_BYTES], counter[KEY_BYTES], fence_text[24], ttl_text[16];
    const char *argv[] = {"EVAL",
                          script,
                          "2",
                          key_of(redis, "lease", name, lease),
                          key_of(redis, "fence", name, counter),
                          holder,
                          fence_text,
                          ttl_text,
                          KEEP_S_TEXT};
    redisReply *reply;
    enum dt_status status = check_name(redis, name);

    snprintf(fence_text, sizeof fence_text, "%" PRIu64, fence);
    snprintf(ttl_text, sizeof ttl_text, "%" PRIu32, ttl_ms ? ttl_ms : 1);
    if (status == DT_OK)
        status = check_name(redis, holder);
    if (status == DT_OK)
        status = call(redis, REDIS_REPLY_INTEGER, DT_COUNT_OF(argv), argv, &reply);
    if (status != DT_OK)
        return status == DT_NOT_FOUND ? fail(redis, DT_PROTOCOL, "Redis gave no fencing number") : status;
    *answer = reply->integer;
    redis->library.reply_free(reply);
    return DT_OK;
}

static enum dt_status lease_acquire(struct dt_store *store, const char *name, const char *holder,
                                    uint32_t ttl_ms, uint64_t now_ns, uint64_t *fence)
{
    /* A holder that is named again keeps its number. A counter that the server lost goes on from its clock.
     */
    static const char script[] =
        "local value = redis.call('GET', KEYS[1]) "
        "if value then "
        "  local fence, holder = string.match(value, '^(%d+) (.*)$') "
        "  if holder == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[3]) return tonumber(fence) end "
        "  if holder then return 0 end "
        "end "
        "local time = redis.call('TIME') "
        "local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0 "
        "local fence = math.max(last + 1, time[1] * 1000 + math.floor(time[2] / 1000)) "
        "local text = string.format('%.0f', fence) "
        "redis.call('SET', KEYS[2], text, 'EX', ARGV[4]) "
        "redis.call('SET', KEYS[1], text .. ' ' .. ARGV[1], 'PX', ARGV[3]) "
        "return fence";
    int64_t answer;
    enum dt_status status = lease_script(redis_of(store), script, name, holder, 0, ttl_ms, &answer);

    (void)now_ns; /* the server's clock ends leases */
    if (status != DT_OK)
        return status;
    if (answer < 0)
        return fail(redis_of(store), DT_PROTOCOL, "Redis gave a negative fencing number");
    if (answer == 0)
        return DT_AGAIN;
    *fence = (uint64_t)answer;
    return DT_OK;
}

static enum dt_status lease_renew(struct dt_store *store, const char *name, const char *holder,
                                  uint64_t fence, uint32_t ttl_ms, uint64_t now_ns)
{
    static const char script[] =
        "if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end "
        "return redis.call('PEXPIRE', KEYS[1], ARGV[3])";
    int64_t answer;
    enum dt_status status = lease_script(redis_of(store), script, name, holder, fence, ttl_ms, &answer);

    (void)now_ns;
    return status == DT_OK && answer != 1 ? DT_AGAIN : status;
}

static enum dt_status lease_release(struct dt_store *store, const char *name, const char *holder,
                                    uint64_t fence)
{
    static const char script[] =
        "if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ' ' .. ARGV[1] then return 0 end "
        "return redis.call('DEL', KEYS[1])";
    int64_t answer;

    return lease_script(redis_of(store), script, name, holder, fence, 1, &answer);
}

/* ---- Life. ---- */

static void close_store(struct dt_store *store)
{
    struct redis *redis = redis_of(store);

    dt_redis_link_destroy(redis->link);
    free(redis);
}

static const struct dt_store_ops ops = {
    .append = append,
    .read = read_stream,
    .set = set,
    .get = get,
    .lease_acquire = lease_acquire,
    .lease_renew = lease_renew,
    .lease_release = lease_release,
    .close = close_store,
};

static enum dt_status make_link(struct redis *redis, const struct dt_redis_url *url,
                                const struct dt_redis_tls_files *files, char reason[DT_STORE_REASON_BYTES])
{
    struct dt_redis_tls *tls = NULL;
    enum dt_status status = dt_redis_library_load(&redis->library, reason, DT_STORE_REASON_BYTES);

    if (status == DT_OK && url->is_tls)
        status = dt_redis_tls_create(url->host, files, &tls, reason, DT_STORE_REASON_BYTES);
    if (status != DT_OK)
        return status;
    redis->link = dt_redis_link_create(url, &redis->library, tls);
    if (redis->link)
        return DT_OK;
    if (tls)
        tls->ops->destroy(tls);
    snprintf(reason, DT_STORE_REASON_BYTES, "out of memory");
    return DT_NO_MEMORY;
}

enum dt_status dt_store_redis_open(const struct dt_store_options *options, struct dt_store **store,
                                   char reason[DT_STORE_REASON_BYTES])
{
    struct dt_redis_url parsed;
    struct redis *redis;
    enum dt_status status;

    if (!dt_redis_url_parse(options->url, &parsed, reason, DT_STORE_REASON_BYTES))
        return DT_INVALID;
    if (!(redis = calloc(1, sizeof *redis))) {
        snprintf(reason, DT_STORE_REASON_BYTES, "out of memory");
        return DT_NO_MEMORY;
    }
    redis->store.ops = &ops;
    snprintf(redis->job, sizeof redis->job, "%s", options->job);
    status = make_link(redis, &parsed, &options->tls, reason);
    explicit_bzero(&parsed, sizeof parsed);
    if (status == DT_OK)
        *store = &redis->store;
    else
        free(redis);
    return status;
}
