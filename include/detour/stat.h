/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libdetour-stat: the counters of running processes that use Detour, and the verdicts on their links.
 *
 * Each such process keeps a page of counters in shared memory (DETOUR_RUNTIME_DIR, by default
 * /dev/shm/detour-UID). This library only copies the pages, which does not affect the process. It finds the
 * processes of the calling user on this host. `detour stat` prints its content; python/detour_stat.py is its
 * counterpart for Python.
 *
 *     struct detour_stat_snapshot *snapshot;
 *     char error[DETOUR_STAT_ERROR_BYTES];
 *
 *     if (detour_stat_read(NULL, 0, &snapshot, error) != DETOUR_STAT_OK)
 *         ...
 *     for (size_t i = 0; i < detour_stat_process_count(snapshot); i++)
 *         ... detour_stat_get_process(snapshot, i)->name
 *     detour_stat_free(snapshot);
 *
 * A snapshot is read only: its content is valid until detour_stat_free(), and any number of threads may read
 * it. Durations are nanoseconds; points in time are nanoseconds since 1970 (UTC). Counters never decrease
 * while a connection exists.
 *
 * Structs grow only at their end, and arrays are accessed through functions, so a program works with a newer
 * library of the same soname. DETOUR_STAT_API is the version of the header, detour_stat_api() that of the
 * library.
 */
#ifndef DETOUR_STAT_H
#define DETOUR_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DETOUR_API
#define DETOUR_API __attribute__((visibility("default")))
#endif

#define DETOUR_STAT_API 4

/* The largest DETOUR_STAT_API whose fields this library fills. */
DETOUR_API int detour_stat_api(void);

enum detour_stat_status {
    DETOUR_STAT_OK = 0,
    DETOUR_STAT_NOT_FOUND = 1, /* no such process, or it does not use Detour */
    DETOUR_STAT_REFUSED = 2,   /* the directory is not trusted or readable, or the page has another version */
    DETOUR_STAT_NO_MEMORY = 3
};

#define DETOUR_STAT_ERROR_BYTES 512

/* X(NAME, value, text): the verdict on a sender's messages */
#define DETOUR_STAT_VERDICTS(X)                             \
    X(LEARNING, 0, "learning") /* not enough traffic yet */ \
    X(HEALTHY, 1, "healthy")                                \
    X(SLOW, 2, "slow")                                      \
    X(WAITING, 3, "waiting") /* healthy, but the peer receives late */

enum detour_stat_verdict {
#define DETOUR_STAT_ENUM(name, value, text) DETOUR_STAT_##name = value,
    DETOUR_STAT_VERDICTS(DETOUR_STAT_ENUM)
#undef DETOUR_STAT_ENUM
};

/*
 * X(NAME, value, text): the cause of a verdict, from the connections of one process (docs/detection.md), and
 * from FAILED_WORK to PEER_LEFT that of a switchover.
 */
#define DETOUR_STAT_CAUSES(X)                                                                \
    X(NONE, 0, "-")                                                                          \
    X(OWN_NIC, 1, "this host's NIC")                                                         \
    X(PEER_NIC, 2, "the peer's NIC")                                                         \
    X(LINK, 3, "the link between the two NICs")                                              \
    X(PEER_NOT_READY, 4, "the peer, which is late to receive")                               \
    X(OWN_PROCESSOR, 5, "this host's processor")                                             \
    X(OWN_COMPUTATION, 6, "this rank's computation") /* of a process, not of a connection */ \
    X(FAILED_WORK, 7, "a failed work request")                                               \
    X(REFUSED, 8, "a call that the device refused")                                          \
    X(DEVICE_EVENT, 9, "an event of the device")                                             \
    X(DRAINED, 10, "a drain by the operator")                                                \
    X(SILENCE, 11, "no progress, or a probe without an answer")                              \
    X(PEER_LEFT, 12, "the other end, which left the path")                                   \
    X(PEER_PROCESSOR, 13, "the processor of the peer's host") /* of a verdict, as OWN_PROCESSOR */

enum detour_stat_cause {
#define DETOUR_STAT_ENUM(name, value, text) DETOUR_STAT_CAUSE_##name = value,
    DETOUR_STAT_CAUSES(DETOUR_STAT_ENUM)
#undef DETOUR_STAT_ENUM
};

/* Never NULL. */
DETOUR_API const char *detour_stat_verdict_text(enum detour_stat_verdict verdict);
DETOUR_API const char *detour_stat_cause_text(enum detour_stat_cause cause);

/* Values of a rank field that are not a rank. */
#define DETOUR_STAT_RANK_UNKNOWN (-1)
#define DETOUR_STAT_RANK_SEVERAL (-2) /* several ranks share the connection */

/* X(field, unit, help) */
#define DETOUR_STAT_COUNTERS(X)                                                              \
    X(messages, "", "messages completed")                                                    \
    X(bytes, "bytes", "payload of messages completed")                                       \
    X(service_ns, "ns", "sender: time from submission to completion, sum over the messages") \
    X(refused, "", "calls that returned no request: no clear-to-send yet, or no free slot")  \
    X(staged_messages, "", "sender: sends that went through host memory")                    \
    X(staged_bytes, "bytes", "sender: payload that went through host memory")                \
    X(flushes, "", "receiver: flushes of received data")                                     \
    X(takeovers, "", "times Detour's own thread progressed the connection")                  \
    X(errors, "", "completions with an error")                                               \
    X(switches, "", "path failures")                                                         \
    X(recoveries, "", "path recoveries")                                                     \
    X(retries, "", "sender: messages replayed over another path")                            \
    X(failover_ns, "ns", "time from a path failure to the end of the replay, sum over the failures")

/*
 * Service times, by powers of two: bucket 0 counts messages below 1024 ns, bucket k those below 2^(10+k) ns,
 * the last one all that took longer.
 */
#define DETOUR_STAT_BUCKETS 28

/* One direction of one connection, as one end sees it. */
struct detour_stat_connection {
    uint64_t id;          /* the same at both ends, and in the logs */
    int64_t opened_ns;    /* point in time */
    const char *peer;     /* process at the other end, "host:pid" */
    const char *nic;      /* this end's device on the path of new messages; "": none */
    const char *peer_nic; /* the peer's device */
    bool is_send;
    int32_t from_rank; /* of the sending end, as NCCL tags messages */
    int32_t to_rank;   /* of the receiving end, if known: it must send messages itself */
    int32_t path;      /* 0 is the default, others are backups; -1: none is up */
#define DETOUR_STAT_FIELD(field, unit, help) uint64_t field;
    DETOUR_STAT_COUNTERS(DETOUR_STAT_FIELD)
#undef DETOUR_STAT_FIELD
    uint64_t service_count[DETOUR_STAT_BUCKETS];
    /* The verdict; senders only. */
    int32_t verdict;         /* enum detour_stat_verdict */
    int32_t cause;           /* enum detour_stat_cause */
    int64_t since_ns;        /* point in time, if slow or waiting; otherwise 0 */
    double factor;           /* present time divided by the healthy one; 1 while unknown */
    uint64_t delay_ns;       /* extra time of a transfer over a healthy one */
    uint64_t transfer_bytes; /* of a typical transfer: the bytes between two pauses */
    uint64_t samples;        /* iterations evaluated */
    uint64_t merged;         /* messages sampled together, since the device thread was late */
    /* Since DETOUR_STAT_API 2. */
    uint64_t
        pool_full; /* sender: sends that found no room in the staging memory, and waited or went directly */
    /* Since DETOUR_STAT_API 3. */
    uint64_t held;    /* sender: messages that `detour hold` kept; no counter above has their waiting time */
    uint64_t held_ns; /* ... sum of that time */
};

/*
 * Ranks of the job are those of its launcher (or DETOUR_RANK); those of a connection are NCCL's, whose
 * communicators may number them otherwise.
 */
struct detour_stat_event {
    int64_t time_ns; /* point in time */
    const char
        *kind; /* "process", "device", "path", "verdict", "control", "command", "computation", "remedy" */
    const char *text; /* one line for people */
    int64_t value;    /* depends on the kind; remedy: 1 to 4 for S1 to S4 */
    /* Since DETOUR_STAT_API 2. */
    uint64_t number;      /* of the process, from 0; a gap: events that were overwritten */
    int32_t rank;         /* in the job, of the process */
    int32_t peer_rank;    /* in the job, of the peer: known if it is a process of this host in the snapshot */
    uint64_t connection;  /* its id; 0: the event concerns none, and the fields to `path` have no value */
    bool is_send;         /* this end sends */
    int32_t from_rank;    /* of the sending end, as NCCL tags messages */
    int32_t to_rank;      /* of the receiving end; known while the connection exists */
    const char *peer;     /* process at the other end, "host:pid" */
    const char *nic;      /* this end's device; "": none */
    const char *peer_nic; /* the peer's device; "": none */
    int32_t path;         /* that the event is about; -1: none */
    int32_t verdict;      /* enum detour_stat_verdict; -1: the event is no verdict */
    int32_t cause;        /* enum detour_stat_cause: of a verdict, or of a switchover */
    int64_t since_ns;     /* point in time, of a slow or waiting verdict; otherwise 0 */
    double factor;        /* of a verdict, present time divided by the healthy one; otherwise 0 */
    uint64_t
        delay_ns; /* slow: extra time of a transfer; path: from the failure to the end of the switchover */
    /* Since DETOUR_STAT_API 4. */
    const char *next_nic; /* path: this end's device that carries on; "": no path was up, or no path event */
};

struct detour_stat_process {
    int32_t pid;
    int32_t rank;     /* if all its senders agree; otherwise DETOUR_STAT_RANK_... */
    int64_t start_ns; /* when it started to use Detour */
    const char *name;
    const char *version; /* of its Detour */
    size_t connection_count;
    size_t event_count; /* of the newest events; older ones were overwritten */
    /* Since DETOUR_STAT_API 2. */
    const char *host;
    int32_t job_rank; /* by the launcher or DETOUR_RANK; or DETOUR_STAT_RANK_UNKNOWN */
    /* Since DETOUR_STAT_API 3: the iterations of the job, from the rhythm of the messages. */
    uint64_t iteration_ns;    /* of the last one; 0: not known */
    uint64_t compute_ns;      /* its part in which the process had its input and had not yet offered its next
                                 message, a lower bound of the computation; 0: not known */
    uint64_t iterations;      /* complete ones that were seen */
    int32_t compute_verdict;  /* enum detour_stat_verdict: learning, healthy or slow */
    double compute_factor;    /* present compute_ns divided by the healthy one; 1 while unknown */
    int64_t compute_since_ns; /* point in time, if slow; otherwise 0 */
};

struct detour_stat_snapshot;

/*
 * Reads the pages in the directory `dir` (NULL or "": the default) of all processes, or of one (`pid` not 0).
 * Files of dead processes are removed and ignored. Without any process the snapshot is empty; that is
 * DETOUR_STAT_OK unless `pid` was given. On any other status *snapshot is NULL, and `error`, unless NULL,
 * holds one line.
 */
DETOUR_API enum detour_stat_status detour_stat_read(const char *dir, int pid,
                                                    struct detour_stat_snapshot **snapshot,
                                                    char error[DETOUR_STAT_ERROR_BYTES]);

/* NULL is allowed. */
DETOUR_API void detour_stat_free(struct detour_stat_snapshot *snapshot);

/* When it was read. */
DETOUR_API int64_t detour_stat_time_ns(const struct detour_stat_snapshot *snapshot);

/* Ascending by process number; NULL: `index` is out of range. */
DETOUR_API size_t detour_stat_process_count(const struct detour_stat_snapshot *snapshot);
DETOUR_API const struct detour_stat_process *
detour_stat_get_process(const struct detour_stat_snapshot *snapshot, size_t index);

/* NULL: `index` is out of range. Events: the oldest first. */
DETOUR_API const struct detour_stat_connection *
detour_stat_get_connection(const struct detour_stat_process *process, size_t index);
DETOUR_API const struct detour_stat_event *detour_stat_get_event(const struct detour_stat_process *process,
                                                                 size_t index);

/* The messages from one rank to another: the worst of the connections between them. */
struct detour_stat_link {
    int32_t from_rank;
    int32_t to_rank;
    bool is_slow;
    int32_t cause;     /* enum detour_stat_cause */
    uint64_t delay_ns; /* extra time of a transfer over a healthy one; 0 unless slow */
    double factor;     /* present time divided by the healthy one; 1 unless slow */
    const struct detour_stat_connection *connection; /* the worst one; valid as long as the snapshot */
};

/*
 * The links of all processes in the snapshot, ascending by from_rank and to_rank: *count of them. A
 * connection without a verdict or with an unknown rank belongs to no link. NULL when out of memory; free()
 * releases the array.
 */
DETOUR_API struct detour_stat_link *detour_stat_links(const struct detour_stat_snapshot *snapshot,
                                                      size_t *count);

/* An upper bound of the service time of a share (0 to 1) of the messages, within a factor of two; 0: none was
 * timed. */
DETOUR_API uint64_t detour_stat_service_quantile_ns(const struct detour_stat_connection *connection,
                                                    double share);

#ifdef __cplusplus
}
#endif

#endif
