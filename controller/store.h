/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a job's control loop: streams of records (observations, decisions, acknowledgements), a table
 * of fields for state, and leases, of which one names the only controller that decides. A store is all that
 * agents and controller share. Two implementations: store_memory.h in one process, without any server, and
 * Redis for a job of several hosts. dt_store_open() chooses by URL.
 *
 * Owner: one thread per store object; calls of different threads need different objects. A call may block for
 * the store's own time limit (a few seconds), never longer. Time is an argument, in the clock of the caller
 * (base/clock.h): the memory store needs it for leases, a server has a clock of its own and ignores it.
 *
 * Errors. Each function returns
 *   DT_OK
 *   DT_CLOSED     no server, or the connection was lost: nothing is known about the call's effect. The next
 *                 call connects again; a caller goes on and repeats what is harmless to repeat
 *   DT_INVALID    an argument beyond the limits below
 *   DT_FULL       the store has no room
 *   DT_PROTOCOL   an answer that the store cannot have sent
 *   DT_NO_MEMORY
 * and leaves one line in `reason` for any but DT_OK (and DT_NOT_FOUND, DT_AGAIN). A store does not log.
 *
 * Content is hostile: whoever reaches a server can write to it. A store checks lengths only; the reader of a
 * record validates its content.
 */
#ifndef DETOUR_CONTROLLER_STORE_H
#define DETOUR_CONTROLLER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "controller/redis_tls.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_STORE_NAME_BYTES   64    /* of a stream, a field, a lease or a holder, with its end */
#define DT_STORE_ID_BYTES     48    /* of a record's id, with its end */
#define DT_STORE_RECORD_BYTES 65536 /* of a record or a value, with its end */
#define DT_STORE_REASON_BYTES 256
#define DT_STORE_STREAM_RECORDS \
    4096 /* a stream keeps at least this many of its newest records, if they fit */

/*
 * One record of a stream, oldest first. `id` and `record` (a text of `bytes` bytes, with a zero after them)
 * are valid during the call. Returns false to end the visit after this record. It must not call the store.
 */
typedef bool dt_store_visit_func(void *arg, const char *id, const char *record, size_t bytes);

struct dt_store;

struct dt_store_ops {
    /* Appends a record. `id`, unless NULL, takes its id, which is greater than all before in the stream. */
    enum dt_status (*append)(struct dt_store *store, const char *stream, const char *record,
                             char id[DT_STORE_ID_BYTES]);

    /*
     * Visits the records after the one with the id `after` ("": from the oldest that is kept), at most
     * `count_max`. A stream that does not exist has no records. Records older than DT_STORE_STREAM_RECORDS
     * may be gone without notice. An id that the store has forgotten, for example after a restart without its
     * data, is no error: the visit begins with the first id that is greater.
     */
    enum dt_status (*read)(struct dt_store *store, const char *stream, const char *after, size_t count_max,
                           dt_store_visit_func *visit, void *arg);

    /* Sets a field of the job's table. */
    enum dt_status (*set)(struct dt_store *store, const char *field, const char *value);

    /* Copies a field's value. DT_NOT_FOUND: it was never set. DT_INVALID: it is longer than `bytes`. */
    enum dt_status (*get)(struct dt_store *store, const char *field, char *value, size_t bytes);

    /*
     * Takes the lease `name` for `holder` (unique to the process) until `ttl_ms` from now. *fence takes its
     * fencing number: greater than that of every earlier holder, from 1 on. A holder that has the lease
     * already keeps its number, and has it for another `ttl_ms`. DT_AGAIN: another holder has it.
     */
    enum dt_status (*lease_acquire)(struct dt_store *store, const char *name, const char *holder,
                                    uint32_t ttl_ms, uint64_t now_ns, uint64_t *fence);

    /* Has the lease for another `ttl_ms`. DT_AGAIN: the lease with this number has passed to another or
     * ended. */
    enum dt_status (*lease_renew)(struct dt_store *store, const char *name, const char *holder,
                                  uint64_t fence, uint32_t ttl_ms, uint64_t now_ns);

    /* Ends the lease at once, if it is still the holder's. */
    enum dt_status (*lease_release)(struct dt_store *store, const char *name, const char *holder,
                                    uint64_t fence);

    /* Closes the store and frees it. What a server keeps is not affected. */
    void (*close)(struct dt_store *store);
};

/* The first member of every implementation. */
struct dt_store {
    const struct dt_store_ops *ops;
    char reason[DT_STORE_REASON_BYTES]; /* of the last call that failed; one line, without secrets */
};

struct dt_store_options {
    const char *url; /* "memory:": new and empty; "redis://..." or "rediss://...": a server */
    const char *job; /* separates the jobs on one server (a prefix of every key): letters, digits, '-', '_'
                      * and '.', at most DT_STORE_NAME_BYTES - 1 */
    /* Since 1970. Ids and fencing numbers of "memory:" begin there, and so are above those of earlier
     * processes, as on a server. */
    uint64_t time_ms;
    struct dt_redis_tls_files tls; /* for "rediss://" */
};

/*
 * DT_INVALID: the URL, the name, or a file for TLS; DT_UNSUPPORTED: this build or machine has no client
 * library for the URL. A server that does not answer is no error here (DT_CLOSED of the first call).
 * `reason`: one line, without the URL's password. The store keeps no pointer of the options.
 */
enum dt_status dt_store_open(const struct dt_store_options *options, struct dt_store **store,
                             char reason[DT_STORE_REASON_BYTES]);

/* True for a name within the limits: letters, digits, '-', '_', '.', ':' and at least one of them. */
bool dt_store_is_name(const char *name);

#ifdef __cplusplus
}
#endif

#endif
