/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the control loop, and their form in the store: one JSON object each, with "version" and
 * "type". Pure.
 *
 *   observation      an agent: what one process of its host measures
 *   finding          the controller: a link, RNIC, device or processor is slow, or no longer (for readers)
 *   decision         the controller: what is done about it, for agents
 *   request          a command (`detour control hold`): a decision that the controller is to make
 *   acknowledgement  an agent: what became of a decision on its host
 *
 * A record may come from anyone with access to the store. The readers refuse, in one line, whatever is not
 * exactly a record: another version or type, a missing member, a wrong type, a number out of range, a text
 * that is too long or has other than printable ASCII characters (texts become parts of command lines), too
 * many elements. Members that a reader does not know are ignored: a newer writer may add some. On an error
 * the output is not defined.
 *
 * Points in time are nanoseconds since 1970, in the clock of the host that wrote the record.
 */
#ifndef DETOUR_CONTROLLER_RECORD_H
#define DETOUR_CONTROLLER_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RECORD_VERSION      1
#define DT_RECORD_REASON_BYTES 256
#define DT_RECORD_TEXT_BYTES   256 /* of a reason, with its end */
#define DT_RECORD_NIC_BYTES    64
#define DT_RECORD_PEER_BYTES   96 /* "host:pid" */
#define DT_RECORD_LINKS_MAX    96 /* keeps the largest record below DT_STORE_RECORD_BYTES */
#define DT_RECORD_NODES_MAX    1024
#define DT_RECORD_RANK_MAX     ((1 << 24) - 1)
#define DT_RECORD_HOLD_NS_MAX  600000000000 /* ten minutes: the limit of `detour hold` */
#define DT_RECORD_AHEAD_MAX    1000000      /* see dt_decision_is_near() */

/* The names of the streams of a job, its lease, and a field. */
#define DT_STREAM_OBSERVATIONS     "observations"
#define DT_STREAM_FINDINGS         "findings"
#define DT_STREAM_DECISIONS        "decisions"
#define DT_STREAM_ACKNOWLEDGEMENTS "acknowledgements"
#define DT_STREAM_REQUESTS         "requests"
#define DT_LEASE_CONTROLLER        "controller"
#define DT_FIELD_JOB               "job" /* dt_known_job(), as decisions are for it */

/* A sending connection. */
struct dt_observed_link {
    uint64_t connection; /* its id, the same at both ends */
    int32_t from_rank;   /* in NCCL's communicator, not in the job; or -1: unknown or several */
    int32_t to_rank;     /* likewise */
    int32_t path;        /* 0: the default one; -1: none is up */
    char peer[DT_RECORD_PEER_BYTES];
    char nic[DT_RECORD_NIC_BYTES]; /* of the path in use; "": none */
    char peer_nic[DT_RECORD_NIC_BYTES];
    int32_t verdict; /* enum detour_stat_verdict */
    int32_t cause;   /* enum detour_stat_cause */
    double factor;
    int64_t delay_ns;
    int64_t transfer_bytes;
    int64_t samples;
    int64_t since_ns;
    /* Since the agent's previous observation. */
    int64_t messages;
    int64_t bytes;
    int64_t service_ns; /* sum over the messages, from submission to completion */
};

/* What one process measures. A process with more links than fit is reported in several observations. */
struct dt_observation {
    char host[DT_STORE_NAME_BYTES];      /* as its agent is called */
    char page_host[DT_STORE_NAME_BYTES]; /* as its peers have it in "host:pid"; "": not known */
    char process[DT_STORE_NAME_BYTES];
    int32_t pid;
    int32_t rank; /* of the process in the job, or -1 */
    int64_t time_ns;
    int64_t window_ns;    /* since the agent's previous observation of the process; 0: it is the first */
    int64_t iteration_ns; /* 0: not known, or none since the previous observation; as the next two */
    int64_t compute_ns;
    int64_t iterations;     /* since the previous observation */
    double processor_share; /* of the time its threads wanted to run, the part they waited: run_queue.h */
    int64_t number;         /* of the last decision that the agent has taken; 0: none */
    size_t link_count;
    struct dt_observed_link links[DT_RECORD_LINKS_MAX];
};

/* X(NAME, text): what agents do */
#define DT_DECISION_KINDS(X)                                                                    \
    X(REPLAN, "replan")           /* new delays for the schedule: decision.json */              \
    X(HOSTPATH_ON, "hostpath-on") /* of one connection, at its sender */                        \
    X(HOSTPATH_OFF, "hostpath-off")                                                             \
    X(MIGRATE, "migrate") /* an RNIC of a host, or one connection's path over it, is drained */ \
    X(BACK, "back")       /* the drain ends */                                                  \
    X(HOLD, "hold")       /* new messages wait, see `connection` */                             \
    X(RELEASE, "release")                                                                       \
    X(REMEDY, "remedy") /* a step of detour/mitigate.h: remedy.json */

enum dt_decision_kind {
#define DT_DECISION_ENUM(name, text) DT_DECISION_##name,
    DT_DECISION_KINDS(DT_DECISION_ENUM)
#undef DT_DECISION_ENUM
        DT_DECISION_KIND_COUNT
};

/* Never NULL. */
const char *dt_decision_kind_text(enum dt_decision_kind kind);

/* A link's extra delay, for the schedule. */
struct dt_decided_link {
    int32_t from_rank;
    int32_t to_rank;
    int64_t delay_ns;
};

/*
 * Numbers ascend over all controllers of a job, fencing numbers over its leases (store.h). An agent executes
 * a decision once, and none with a smaller fencing number than it has seen.
 */
struct dt_decision {
    int64_t number; /* from 1 */
    int64_t fence;  /* from 1 */
    int64_t time_ns;
    int32_t kind; /* enum dt_decision_kind */
    char reason[DT_RECORD_TEXT_BYTES];
    char host[DT_STORE_NAME_BYTES]; /* whose agent executes it; "": every one */
    int32_t from_rank;              /* the link that it is about; -1: none */
    int32_t to_rank;
    uint64_t connection;           /* 0: none; hold, release, migrate and back: all connections */
    char nic[DT_RECORD_NIC_BYTES]; /* of migrate and back */
    int64_t hold_ns;
    char request[DT_STORE_ID_BYTES]; /* the id of the request that it fulfills; "": none */
    size_t link_count;               /* of replan: all links with a delay; none: the planned schedule again.
                                        Of hostpath-on: the delay of the connection's messages. Of remedy:
                                        the slow links that it is for; none if a device is slow, too */
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    /* Of remedy, whose record alone has these members: the whole arrangement of the job, not a change. */
    int32_t step;                        /* enum detour_step; S1: as the job began */
    size_t replica_count;                /* that have a count; at least 1 */
    int32_t counts[DT_RECORD_NODES_MAX]; /* [replica]: microbatches, at least 1 */
    size_t node_count;                   /* positions: replicas * stages */
    int32_t nodes[DT_RECORD_NODES_MAX];  /* [position]: rank, each once */
};

/* A hold or a release of all connections of a host, or of all hosts. */
struct dt_request {
    int64_t time_ns;                /* an old request is refused: dt_control_step() */
    int32_t kind;                   /* DT_DECISION_HOLD or DT_DECISION_RELEASE */
    char host[DT_STORE_NAME_BYTES]; /* "": all */
    int64_t hold_ns;                /* of a hold */
    char reason[DT_RECORD_TEXT_BYTES];
};

/* For readers of the stream; agents do not read it. */
struct dt_finding_record {
    int64_t time_ns;
    int64_t since_ns;               /* of the first slow report */
    char kind[DT_STORE_NAME_BYTES]; /* "link", "NIC", "device", "processor", "validation" */
    int32_t ended;                  /* 0 or 1 */
    int32_t from_rank;              /* -1: none, as the next */
    int32_t to_rank;
    char from_host[DT_STORE_NAME_BYTES]; /* "": none, as the next three */
    char to_host[DT_STORE_NAME_BYTES];
    char from_nic[DT_RECORD_NIC_BYTES];
    char to_nic[DT_RECORD_NIC_BYTES];
    double factor;
    int64_t delay_ns;
    char reason[DT_RECORD_TEXT_BYTES];
};

/*
 * Whether a controller or an agent whose last decision has `number` may take this one. Later decisions need
 * larger numbers, so one record with an extreme number would disable the loop for good: a number is at most
 * DT_RECORD_AHEAD_MAX above the last one, more than a job has decisions, and a fencing number, which begins
 * at the time in milliseconds since 1970, at most as much above that time.
 */
bool dt_decision_is_near(const struct dt_decision *decision, int64_t number, int64_t time_ns);

/* What became of a decision: the number of an enum dt_status, and one line. */
struct dt_acknowledgement {
    int64_t number;
    int64_t fence;
    int64_t time_ns;
    char host[DT_STORE_NAME_BYTES];
    int32_t status;
    char text[DT_RECORD_TEXT_BYTES];
};

/*
 * Writes a record. The text is to be released with free(). NULL when out of memory, or if a text of the
 * record is one that the readers refuse; of a decision, if dt_decision_read() refuses anything in it.
 */
char *dt_observation_write(const struct dt_observation *observation);
char *dt_decision_write(const struct dt_decision *decision);
char *dt_request_write(const struct dt_request *request);
char *dt_finding_write(const struct dt_finding_record *finding);
char *dt_acknowledgement_write(const struct dt_acknowledgement *acknowledgement);

/* Reads a record. DT_INVALID: it is none, with the reason in one line; DT_NO_MEMORY. */
enum dt_status dt_observation_read(const char *text, size_t bytes, struct dt_observation *observation,
                                   char reason[DT_RECORD_REASON_BYTES]);
enum dt_status dt_decision_read(const char *text, size_t bytes, struct dt_decision *decision,
                                char reason[DT_RECORD_REASON_BYTES]);
enum dt_status dt_request_read(const char *text, size_t bytes, struct dt_request *request,
                               char reason[DT_RECORD_REASON_BYTES]);
enum dt_status dt_finding_read(const char *text, size_t bytes, struct dt_finding_record *finding,
                               char reason[DT_RECORD_REASON_BYTES]);
enum dt_status dt_acknowledgement_read(const char *text, size_t bytes,
                                       struct dt_acknowledgement *acknowledgement,
                                       char reason[DT_RECORD_REASON_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
