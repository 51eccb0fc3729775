/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter page: what a process has done, in a file that other processes read while it works
 * (runtime_dir.h). Fixed tables: one row per device and one per connection, and a ring of event records.
 *
 * Counting is a plain store: each counter has one writer (the connection's owner, the device's control
 * thread), no lock, no system call, and nothing that can fail. When the file cannot be made the process runs
 * on with private memory; when a table is full, further objects share its last row, whose numbers are then
 * only a hint.
 *
 * Layout: everything is in host byte order and naturally aligned. A reader checks magic and version and takes
 * offsets, counts and row sizes from the header, so that a newer writer may append fields to rows. A change
 * that an old reader would misunderstand changes the version.
 */
#ifndef DETOUR_OBS_PAGE_H
#define DETOUR_OBS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/status.h"
#include "obs/event.h"
#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PAGE_MAGIC       0x65676150746f4444ull /* "DDotPage" in little endian */
#define DT_PAGE_VERSION     2u
#define DT_PAGE_DEVICES     32u
#define DT_PAGE_CONNECTIONS 1024u
#define DT_PAGE_PATHS       4u

/* Counters only grow. X(field, unit, help) */
#define DT_PAGE_DEVICE_COUNTERS(X)                                                  \
    X(write_count, "count", "RDMA writes posted")                                   \
    X(write_bytes, "bytes", "payload of RDMA writes posted")                        \
    X(read_count, "count", "RDMA reads posted")                                     \
    X(error_count, "count", "completions with an error")                            \
    X(event_count, "count", "asynchronous events")                                  \
    X(port_down_count, "count", "times the port went down")                         \
    X(mr_hit_count, "count", "registrations answered by an existing memory region") \
    X(mr_miss_count, "count", "registrations that went to the device")

#define DT_PAGE_CONNECTION_COUNTERS(X)                                                           \
    X(message_count, "count", "messages completed")                                              \
    X(payload_bytes, "bytes", "payload of messages completed")                                   \
    X(service_ns, "ns", "sender: time of the messages from hand-over to completion, added up")   \
    X(refused_count, "count", "calls told to come again: no clear-to-send yet, or no free slot") \
    X(staged_count, "count", "sender: sends that went through host memory")                   \
    X(staged_bytes, "bytes", "sender: payload that went through host memory")                    \
    X(flush_count, "count", "receiver: flushes of received data")                                \
    X(takeover_count, "count", "times Detour's own thread progressed the connection")            \
    X(error_count, "count", "completions with an error")                                         \
    X(path_down_count, "count", "times a path was declared bad")                                 \
    X(path_up_count, "count", "times a path came back")                                          \
    X(rewound_count, "count", "sender: messages posted again over another path")                 \
    X(failover_ns, "ns", "time spent between declaring a path bad and carrying on")

/*
 * Service times, by powers of two: bucket 0 counts messages below 1024 ns, bucket k those below 2^(10+k) ns,
 * the last one all that took longer.
 */
#define DT_PAGE_SERVICE_BUCKETS 28u

static inline uint32_t dt_page_service_bucket(uint64_t ns)
{
    uint32_t bucket = 64u - 10u - (uint32_t)__builtin_clzll(ns | 1023u);

    return bucket < DT_PAGE_SERVICE_BUCKETS ? bucket : DT_PAGE_SERVICE_BUCKETS - 1;
}

/* Whose rank the tags of a connection's messages name; NCCL tags them with the sender's. */
#define DT_PAGE_RANK_UNKNOWN (-1)
#define DT_PAGE_RANK_SEVERAL (-2) /* ranks share the connection */

enum dt_page_row_state { DT_PAGE_ROW_FREE = 0, DT_PAGE_ROW_USED = 1 };

/* Head of every row. `changes` is odd while the words of the row are being written: read again. */
struct dt_page_row {
    uint32_t state; /* enum dt_page_row_state */
    uint32_t changes;
};

struct dt_page_device {
    struct dt_page_row row;
    char name[64];
#define DT_PAGE_FIELD(field, unit, help) uint64_t field;
    DT_PAGE_DEVICE_COUNTERS(DT_PAGE_FIELD)
};

enum dt_page_verdict {
    DT_PAGE_VERDICT_LEARNING, /* not enough was sent yet */
    DT_PAGE_VERDICT_HEALTHY,
    DT_PAGE_VERDICT_SLOW,
    DT_PAGE_VERDICT_WAITING /* the network is well, the peer is late to receive */
};

/* What detection says about a sender. Written by Detour's thread, while `changes` of the row is odd. */
struct dt_page_health {
    uint32_t verdict;         /* enum dt_page_verdict */
    uint32_t cause;           /* whose fault: enum dt_blame (detect/blame.h) */
    uint64_t since_ns;        /* slow or waiting since, on the clock of the events */
    uint64_t factor_permille; /* present time over the healthy one */
    uint64_t delay_ns;        /* what a transfer takes longer than a healthy one */
    uint64_t transfer_bytes;  /* of a typical transfer: what is sent between two pauses */
    uint64_t sample_count;    /* iterations that were judged */
    uint64_t missed_count;    /* messages that detection did not see, for want of time */
};

struct dt_page_path {
    char own[32];  /* name of this end's device; "": there is none */
    char peer[32]; /* of the other end's */
};

struct dt_page_connection {
    struct dt_page_row row;
    uint32_t device;    /* row of its default device */
    uint32_t is_send;   /* 1: sends, 0: receives */
    uint64_t id;        /* the same at both ends, and in the logs */
    uint64_t opened_ns; /* on the clock of the events */
    char peer[96];      /* process at the other end: "host:pid" */
    struct dt_page_path path[DT_PAGE_PATHS];
    uint32_t path_count;
    /* From here on all is written while readers look, each word by itself. */
    uint32_t path_now; /* the one that new messages take; UINT32_MAX: none */
    int32_t from_rank; /* of the sending end, or DT_PAGE_RANK_... */
    uint32_t unused;
    DT_PAGE_CONNECTION_COUNTERS(DT_PAGE_FIELD)
#undef DT_PAGE_FIELD
    uint64_t service_count[DT_PAGE_SERVICE_BUCKETS]; /* sender */
    struct dt_page_health health;                    /* sender */
    uint64_t reserved[6];
};

struct dt_page_header {
    uint64_t magic; /* stored last: a page without it is not ready */
    uint32_t version;
    uint32_t header_bytes;
    uint64_t page_bytes;
    int32_t pid;
    uint32_t reserved;
    uint64_t start_realtime_ns; /* since 1970 */
    uint64_t start_ns;          /* the same moment on the clock of the events */
    char process_name[64];
    char detour_version[32];
    uint32_t device_offset, device_bytes, device_count;
    uint32_t connection_offset, connection_bytes, connection_count;
    uint32_t event_offset, event_slots;
};

/* ------------------------------------------------------------------------------------------------------------
 * The process's own page
 */
struct dt_page;

struct dt_page_options {
    const struct dt_runtime_dir *dir; /* NULL: private memory. Only used during the call */
    int pid;
    const char *process_name;
    uint64_t start_realtime_ns;
    uint64_t start_ns;
};

/*
 * Makes the page. DT_NO_MEMORY is the only failure: without a file (one INFO line says why) it lies in
 * private memory. The file disappears at dt_page_close().
 */
enum dt_status dt_page_open(const struct dt_page_options *options, struct dt_page **page);

/* In a child after fork() this leaves the parent's file alone. Rows and ring are gone afterwards. */
void dt_page_close(struct dt_page *page);

/* The process is about to exit, and threads may still count: the file goes, rows and ring stay. */
void dt_page_withdraw(struct dt_page *page);

/* False: private memory. */
bool dt_page_is_shared(const struct dt_page *page);

/* For readers in the same process, tests above all. */
const struct dt_page_header *dt_page_get_header(const struct dt_page *page);
struct dt_event_ring *dt_page_events(struct dt_page *page);

/*
 * A row, never NULL: of a device with counters at 0, the same one again for the same name; of a connection
 * with what `content` has behind its head. Any thread. Rows of devices stay, rows of connections are given
 * back.
 */
struct dt_page_device *dt_page_claim_device(struct dt_page *page, const char *name);
struct dt_page_connection *dt_page_claim_connection(struct dt_page *page,
                                                    const struct dt_page_connection *content);
void dt_page_release_connection(struct dt_page *page, struct dt_page_connection *connection);

/* Writes a row's health as one; not for the data path. One thread at a time. */
void dt_page_set_health(struct dt_page_connection *connection, const struct dt_page_health *health);

/* Which row it is, for event records and dt_page_claim_connection(). */
uint32_t dt_page_device_row(const struct dt_page *page, const struct dt_page_device *device);
uint32_t dt_page_connection_row(const struct dt_page *page, const struct dt_page_connection *connection);

/* Adds to a counter of a row that the caller writes. Not a read-modify-write that locks: one writer per
 * counter. */
static inline void dt_page_add(uint64_t *counter, uint64_t n)
{
    dt_store_relaxed(counter, dt_load_relaxed(counter) + n);
}

/* ------------------------------------------------------------------------------------------------------------
 * Somebody else's page
 */

/* A copy of a page, checked: every offset and row lies inside. */
struct dt_page_copy {
    void *bytes;
    const struct dt_page_header *header;
};

/*
 * Reads the page of a process. DT_NOT_FOUND: it has none; DT_PROTOCOL: it is not one of this version;
 * DT_SYSTEM, DT_NO_MEMORY. Silent. Give it back with dt_page_copy_free().
 */
enum dt_status dt_page_read(const struct dt_runtime_dir *dir, int pid, struct dt_page_copy *copy);
void dt_page_copy_free(struct dt_page_copy *copy);

/* Row `row`, or NULL when it is out of range, free, or was being written. */
const struct dt_page_device *dt_page_copy_device(const struct dt_page_copy *copy, uint32_t row);
const struct dt_page_connection *dt_page_copy_connection(const struct dt_page_copy *copy, uint32_t row);
const struct dt_event_ring *dt_page_copy_events(const struct dt_page_copy *copy);

#ifdef __cplusplus
}
#endif

#endif
