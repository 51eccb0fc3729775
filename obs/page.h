/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter page: a process's counters, in a file that other processes read while it runs (runtime_dir.h).
 * A table with one row per connection, and a ring of event records.
 *
 * Counting is a plain store: each counter has one writer (the connection's owner), no lock, no system call
 * and no failure. If the file cannot be created, the process uses private memory. If the table is full,
 * further connections share its last row, whose numbers are then only a hint (its health is the worst of
 * them: transport/health.h).
 *
 * Layout: host byte order, natural alignment. A reader checks magic and version and takes offsets, counts and
 * row sizes from the header, so that a newer writer can append fields to rows. A change that an old reader
 * would misinterpret changes the version.
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
#define DT_PAGE_VERSION     6u
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

/* The rank in the tags of a connection's messages; NCCL tags them with the sender's rank. */
#define DT_PAGE_RANK_UNKNOWN (-1)
#define DT_PAGE_RANK_SEVERAL (-2) /* several ranks share the connection */

enum dt_page_row_state { DT_PAGE_ROW_FREE = 0, DT_PAGE_ROW_USED = 1 };

/* Head of every row. `changes` is odd while the row is written: read again. */
struct dt_page_row {
    uint32_t state; /* enum dt_page_row_state */
    uint32_t changes;
};

enum dt_page_verdict {
    DT_PAGE_VERDICT_LEARNING, /* not enough traffic yet */
    DT_PAGE_VERDICT_HEALTHY,
    DT_PAGE_VERDICT_SLOW,
    DT_PAGE_VERDICT_WAITING /* the network is healthy, the peer receives late */
};

/* The verdict of detect/ on a sender. The device thread writes it while `changes` of the row is odd. */
struct dt_page_health {
    uint32_t verdict;         /* enum dt_page_verdict */
    uint32_t cause;           /* enum dt_blame (detect/blame.h) */
    uint64_t since_ns;        /* start of slow or waiting, on the clock of the events */
    uint64_t factor_permille; /* present time over the healthy one */
    uint64_t delay_ns;        /* extra time of a transfer over a healthy one */
    uint64_t transfer_bytes;  /* of a typical transfer: the bytes between two pauses */
    uint64_t sample_count;    /* iterations evaluated */
    uint64_t merged_count;    /* messages sampled together, since the device thread was late */
};

/* The iterations of the job in this process (detect/rank_time.h). The device thread writes it. */
struct dt_page_pace {
    uint64_t iterations;   /* complete ones that were seen */
    uint64_t iteration_ns; /* time of the last one; 0: not known */
    uint64_t compute_ns;   /* its computing gap; 0: not known */
    uint32_t verdict;      /* enum dt_page_verdict: LEARNING, HEALTHY or SLOW: the computation */
    uint32_t unused;
    uint64_t since_ns;        /* start of slow, on the clock of the events */
    uint64_t factor_permille; /* present computing gap over the healthy one */
};

struct dt_page_process {
    struct dt_page_row row;
    struct dt_page_pace pace;
    uint64_t reserved[9];
};

struct dt_page_path {
    char own[32];  /* this end's device; "": none */
    char peer[32]; /* the peer's device */
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
    /* The fields from here on are written while others read them, each word atomically. */
    uint32_t path_now; /* the path of new messages; UINT32_MAX: none */
    int32_t from_rank; /* of the sending end, or DT_PAGE_RANK_... */
    uint32_t unused;
    /* Monotonic counters; DETOUR_STAT_COUNTERS in detour/stat.h documents them. */
    uint64_t message_count; /* completed */
    uint64_t payload_bytes; /* of these messages */
    uint64_t service_ns;    /* sender: from submission to completion, sum over the messages */
    uint64_t refused_count; /* calls that returned no request: no CTS yet, or no free slot */
    uint64_t staged_count;  /* sender: sends that went through host memory */
    uint64_t staged_bytes;
    uint64_t flush_count;     /* receiver */
    uint64_t takeover_count;  /* times the device thread progressed the connection for NCCL */
    uint64_t error_count;     /* completions with an error */
    uint64_t path_down_count; /* path failures */
    uint64_t path_up_count;   /* path recoveries */
    uint64_t rewound_count;   /* sender: messages replayed over another path */
    uint64_t failover_ns;     /* from the path failure to the end of the replay, sum */
    uint64_t service_count[DT_PAGE_SERVICE_BUCKETS]; /* sender */
    struct dt_page_health health;                    /* sender */
    uint64_t full_count; /* sender: sends that found no room in the staging memory */
    uint64_t held_count; /* sender: messages that a hold kept */
    uint64_t held_ns;    /* sum over them */
    uint64_t reserved[3];
};

struct dt_page_header {
    uint64_t magic; /* stored last: a page without it is not initialized */
    uint32_t version;
    uint32_t header_bytes;
    uint64_t page_bytes;
    int32_t pid; /* in the names of the files (runtime_dir.h) */
    uint32_t reserved;
    uint64_t start_realtime_ns; /* since 1970 */
    uint64_t start_ns;          /* the same time on the clock of the events */
    char process_name[64];
    char detour_version[32];
    char host[64];
    int32_t rank; /* in the job, by its launcher or DETOUR_RANK; or DT_PAGE_RANK_UNKNOWN */
    uint32_t reserved_word;
    uint32_t connection_offset, connection_bytes, connection_count;
    uint32_t event_offset, event_slots;
    uint32_t process_offset; /* struct dt_page_process */
};

/* ------------------------------------------------------------------------------------------------------------
 * The process's own page
 */
struct dt_page;

struct dt_page_options {
    const struct dt_runtime_dir *dir; /* NULL: private memory. Only used during the call */
    int pid;                          /* of the process; its number may be a larger one */
    const char *process_name;
    uint64_t start_realtime_ns;
    uint64_t start_ns;
    const char *host;
    int32_t rank; /* in the job, or DT_PAGE_RANK_UNKNOWN */
};

/*
 * Creates the page. The only failure is DT_NO_MEMORY: if the file cannot be created (one INFO line), the page
 * is private memory. dt_page_close() removes the file.
 */
enum dt_status dt_page_open(const struct dt_page_options *options, struct dt_page **page);

/* Frees rows and ring and removes the file; in a child after fork() the parent's file stays. */
void dt_page_close(struct dt_page *page);

/* Removes the file and keeps rows and ring: the process is about to exit, and threads may still count. */
void dt_page_unlink(struct dt_page *page);

/* For readers in the same process, mainly tests. */
const struct dt_page_header *dt_page_get_header(const struct dt_page *page);
struct dt_event_ring *dt_page_events(struct dt_page *page);

/*
 * Claims a row and fills it with `content` (except its head); never NULL. Any thread.
 */
struct dt_page_connection *dt_page_claim_connection(struct dt_page *page,
                                                    const struct dt_page_connection *content);
void dt_page_release_connection(struct dt_page *page, struct dt_page_connection *connection);

/* Writes the health of a row consistently; not for the data path. One thread at a time. */
void dt_page_set_health(struct dt_page_connection *connection, const struct dt_page_health *health);

/* Writes the pace of the process consistently; not for the data path. One thread at a time. */
void dt_page_set_pace(struct dt_page *page, const struct dt_page_pace *pace);

/* True for the last row, which connections share when the table is full. */
bool dt_page_is_shared(const struct dt_page *page, const struct dt_page_connection *connection);

/* The index of the row, for event records. */
uint32_t dt_page_connection_row(const struct dt_page *page, const struct dt_page_connection *connection);

/* Adds to a counter. Each counter has one writer, so no atomic read-modify-write is needed. */
static inline void dt_page_add(uint64_t *counter, uint64_t n)
{
    dt_store_relaxed(counter, dt_load_relaxed(counter) + n);
}

/* ------------------------------------------------------------------------------------------------------------
 * The page of another process
 */

/* A validated copy of a page: every offset and row is inside. */
struct dt_page_copy {
    void *bytes;
    const struct dt_page_header *header;
};

/*
 * Copies the page of a process. DT_NOT_FOUND: no page; DT_PROTOCOL: another version; DT_SYSTEM, DT_NO_MEMORY.
 * Does not log. Free it with dt_page_copy_free().
 */
enum dt_status dt_page_read(const struct dt_runtime_dir *dir, int pid, struct dt_page_copy *copy);
void dt_page_copy_free(struct dt_page_copy *copy);

/* Row `row`; NULL: out of range, free, or being written during the copy. */
const struct dt_page_connection *dt_page_copy_connection(const struct dt_page_copy *copy, uint32_t row);
/* All zero: it was being written during the copy. */
const struct dt_page_pace *dt_page_copy_pace(const struct dt_page_copy *copy);
const struct dt_event_ring *dt_page_copy_events(const struct dt_page_copy *copy);

#ifdef __cplusplus
}
#endif

#endif
