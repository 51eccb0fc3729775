/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter page: what a process has done, in a file that other processes read while it works
 * (runtime_dir.h): a table with one row per connection, and a ring of event records.
 *
 * Counting is a plain store: each counter has one writer (the connection's owner), no lock, no system call,
 * and nothing that can fail. When the file cannot be made the process runs on with private memory; when the
 * table is full, further connections share its last row, whose numbers are then only a hint (its health is
 * that of the worst of them: transport/health.h).
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
#define DT_PAGE_VERSION     3u
#define DT_PAGE_CONNECTIONS 1024u
#define DT_PAGE_PATHS       4u

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
    uint64_t merged_count;    /* messages that detection did not see one by one, for want of time */
};

struct dt_page_path {
    char own[32];  /* name of this end's device; "": there is none */
    char peer[32]; /* of the other end's */
};

struct dt_page_connection {
    struct dt_page_row row;
    uint32_t is_send; /* 1: sends, 0: receives */
    uint32_t reserved_word;
    uint64_t id;        /* the same at both ends, and in the logs */
    uint64_t opened_ns; /* on the clock of the events */
    char peer[96];      /* process at the other end: "host:pid" */
    struct dt_page_path path[DT_PAGE_PATHS];
    uint32_t path_count;
    /* From here on all is written while readers look, each word by itself. */
    uint32_t path_now; /* the one that new messages take; UINT32_MAX: none */
    int32_t from_rank; /* of the sending end, or DT_PAGE_RANK_... */
    uint32_t unused;
    /* Counters, which only grow. What users read of each: DETOUR_STAT_COUNTERS in detour/stat.h. */
    uint64_t message_count; /* completed */
    uint64_t payload_bytes; /* of these */
    uint64_t service_ns;    /* sender: from hand-over to completion, added up */
    uint64_t refused_count; /* calls told to come again: no clear-to-send yet, or no free slot */
    uint64_t staged_count;  /* sender: sends that went through host memory */
    uint64_t staged_bytes;
    uint64_t flush_count;     /* receiver */
    uint64_t takeover_count;  /* times Detour's own thread progressed the connection */
    uint64_t error_count;     /* completions with an error */
    uint64_t path_down_count; /* times a path was declared bad */
    uint64_t path_up_count;   /* times a path came back */
    uint64_t rewound_count;   /* sender: messages posted again over another path */
    uint64_t failover_ns;     /* between declaring a path bad and carrying on, added up */
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

/* Removes the file and keeps rows and ring: the process is about to exit, and threads may still count. */
void dt_page_unlink(struct dt_page *page);

/* For readers in the same process, tests above all. */
const struct dt_page_header *dt_page_get_header(const struct dt_page *page);
struct dt_event_ring *dt_page_events(struct dt_page *page);

/*
 * A row with what `content` has behind its head; never NULL. Any thread.
 */
struct dt_page_connection *dt_page_claim_connection(struct dt_page *page,
                                                    const struct dt_page_connection *content);
void dt_page_release_connection(struct dt_page *page, struct dt_page_connection *connection);

/* Writes a row's health as one; not for the data path. One thread at a time. */
void dt_page_set_health(struct dt_page_connection *connection, const struct dt_page_health *health);

/* Is it the last row, which connections share that find no other? */
bool dt_page_is_shared(const struct dt_page *page, const struct dt_page_connection *connection);

/* Which row it is, for event records. */
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
const struct dt_page_connection *dt_page_copy_connection(const struct dt_page_copy *copy, uint32_t row);
const struct dt_event_ring *dt_page_copy_events(const struct dt_page_copy *copy);

#ifdef __cplusplus
}
#endif

#endif
