/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A validation before a remedy (FALCON, section 4.3): the messages of all hosts are held, so that they
 * disturb no measurement; a command of the caller measures the links of the job and the computing of its
 * ranks; the findings that the remedy is for are confirmed or refuted; the messages are released. A remedy
 * with a refuted cause, and one whose validation failed, is not taken.
 *
 *   finding   confirmed by
 *   link      the slow link, or a slow network of one of its ranks
 *   NIC       the slow network of its rank, or a slow link of it
 *   device    the slow computing of its rank
 *
 * Pure: no clock, no process; the caller has both. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_VALIDATE_H
#define DETOUR_CONTROLLER_VALIDATE_H

#include <stdbool.h>

#include "controller/judge.h"
#include "controller/record.h"
#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of `detour perf`: the network and the computing of 1,024 ranks, and 2,048 links. */
#define DT_VALIDATE_SLOW_MAX 4096
#define DT_VALIDATE_ANSWERS_NS \
    2000000000ull /* a host whose hold is not acknowledged is waited for this long */
#define DT_VALIDATE_LIMIT_NS 60000000000ull /* of the command; longer is a failure */

/* A finding that a remedy is for. */
struct dt_suspect {
    uint64_t number; /* of the finding */
    enum dt_finding_kind kind;
    int32_t rank;
    int32_t peer; /* of a link, else -1 */
};

/* What a command has measured. */
struct dt_validate_slow {
    enum detour_slow_kind kind;
    int32_t rank;
    int32_t peer; /* of a link, else -1 */
    double factor;
};

struct dt_validate_report {
    size_t slow_count;
    struct dt_validate_slow slow[DT_VALIDATE_SLOW_MAX];
    char reason[DT_RECORD_REASON_BYTES]; /* of a failure, one line */
};

/* Of the caller, who runs the command. `start` is NULL: there is no validation. */
struct dt_validate_funcs {
    /* Measures these links and the ranks' computing. False with the reason in one line. */
    bool (*start)(void *arg, const struct detour_validation *links, char reason[DT_RECORD_REASON_BYTES]);
    /* Does not block. DT_AGAIN: it goes on; DT_OK with the report; otherwise it has failed, with
     * report->reason. */
    enum dt_status (*poll)(void *arg, struct dt_validate_report *report);
    /* Ends one that has been started and not been polled to its end. */
    void (*stop)(void *arg);
};

enum dt_validate_state { DT_VALIDATE_IDLE, DT_VALIDATE_HOLDING, DT_VALIDATE_RUNNING };

/* Zero is its beginning. */
struct dt_validate {
    enum dt_validate_state state;
    int64_t hold;   /* number of the hold's decision */
    size_t answers; /* hosts that have acknowledged it */
    uint64_t until_ns;
};

/* Messages are being held by the decision of this number. */
void dt_validate_begin(struct dt_validate *validate, int64_t hold, uint64_t now_ns);

/* A host has acknowledged a decision. */
void dt_validate_acknowledged(struct dt_validate *validate, int64_t number);

/*
 * Once in a round until it is not DT_AGAIN. `hosts`: of the job. DT_OK: *report is complete; any other
 * status: it has failed, with report->reason. Both are its end.
 */
enum dt_status dt_validate_step(struct dt_validate *validate, const struct dt_validate_funcs *funcs,
                                void *arg, const struct detour_validation *links, size_t hosts,
                                uint64_t now_ns, struct dt_validate_report *report);

/* Ends it, and the command. */
void dt_validate_stop(struct dt_validate *validate, const struct dt_validate_funcs *funcs, void *arg);

/* What was measured that confirms the finding; NULL: it is refuted. */
const struct dt_validate_slow *dt_validate_find(const struct dt_validate_report *report,
                                                const struct dt_suspect *suspect);

#ifdef __cplusplus
}
#endif

#endif
