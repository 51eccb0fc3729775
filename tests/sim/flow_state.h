/* SPDX-License-Identifier: Apache-2.0 */
/* What flow.c (set-up, errors, ends) and flow_messages.c (irecv, isend, test) share. */
#ifndef DETOUR_TESTS_SIM_FLOW_STATE_H
#define DETOUR_TESTS_SIM_FLOW_STATE_H

#include "base/clock.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/flow.h"

enum dt_flow_end_state {
    DT_FLOW_END_LIVE,   /* or being set up */
    DT_FLOW_END_FAILED, /* a call returned an error: everything open is to be answered */
    DT_FLOW_END_CLOSED,
    DT_FLOW_END_DEAD /* its process has ended, and no call comes from it */
};

/* Registrations of an end's memory, of which the newest serves new messages. */
#define DT_FLOW_REGISTRATIONS_MAX 8

struct dt_flow_end {
    void *comm;
    void *mhandle;
    void *old_mhandle[DT_FLOW_REGISTRATIONS_MAX]; /* of messages that may be under way */
    uint32_t old_count;
    uint32_t state;
    ncclResult_t error;
    bool is_process_dead; /* also when it had closed before */
};

/* The state of a part's isend, and of a message's irecv, by the answers of the plugin. */
struct dt_flow_sending {
    void *request;
    bool is_accepted;
    bool is_orphan; /* accepted before its irecv was posted: the connection has failed, test returns the error
                     */
    bool is_done;
    bool is_answered; /* done, or an error */
};

struct dt_flow_receiving {
    void *request;
    void *mhandle; /* of its irecv, and so of its flush */
    void *flush;
    bool is_done;
    bool is_answered;
};

struct dt_flow {
    const ncclNet_v8_t *net;
    struct dt_flow_options options;
    struct dt_prng prng;
    struct dt_prng registrations;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen_comm;
    struct dt_flow_end end[DT_FLOW_SIDES];
    struct dt_plan plan;
    struct dt_flow_sending sending[DT_FLOW_MESSAGES_MAX * DT_FLOW_PARTS_MAX];
    struct dt_flow_receiving receiving[DT_FLOW_MESSAGES_MAX];
    uint32_t posted;    /* irecvs accepted */
    uint32_t received;  /* irecvs reported done (and flushed); the oldest first, as NCCL asks */
    uint32_t next_send; /* message whose parts are being sent */
    uint64_t resume_ns; /* not before then */
    uint64_t irecv_ns;  /* the next irecv: not before then */
    uint32_t send_done; /* messages all of whose isends were reported done */
    char failure[320];
};

static inline uint64_t dt_flow_now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

/* Records what is wrong, if nothing is yet. Returns false. */
bool dt_flow_fail(struct dt_flow *flow, enum dt_flow_side side, const char *what, uint32_t message,
                  long detail);

/* A call returned an error: the end is over. False: it must not have. */
bool dt_flow_take_error(struct dt_flow *flow, enum dt_flow_side side, ncclResult_t result, const char *call,
                        uint32_t message);

/* One call each, if it is the time for it (flow_messages.c). False: something is wrong. */
bool dt_flow_irecv(struct dt_flow *flow);
bool dt_flow_test_receive(struct dt_flow *flow);
bool dt_flow_isend(struct dt_flow *flow);
bool dt_flow_test_send(struct dt_flow *flow);

/* After an error: every open request of the end must be answered at once. */
bool dt_flow_answer_all(struct dt_flow *flow, enum dt_flow_side side);

#endif
