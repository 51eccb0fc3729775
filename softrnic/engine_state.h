/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the engine: the structs behind engine.h and the functions that its files share.
 *
 * A queue pair is a requester (sends its send queue, receives answers) and a responder (receives requests,
 * sends answers). The two share only the queue pair's attributes and its state.
 *
 * List membership is state: a requester on `send_list` has something to transmit and no reason of its own to
 * wait, a responder on `reply_list` has answers to transmit, a requester on `timer_list` has a running timer.
 */
#ifndef DETOUR_SOFTRNIC_ENGINE_STATE_H
#define DETOUR_SOFTRNIC_ENGINE_STATE_H

#include "base/check.h"
#include "base/list.h"
#include "base/ring.h"
#include "softrnic/engine.h"
#include "softrnic/psn.h"
#include "softrnic/wqe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- memory regions (mr.c) ---- */

struct dt_rnic_mr {
    uint8_t *addr;
    uint64_t bytes;
    uint64_t iova;
    uint32_t key; /* index << 8 | tag; 0 while the slot is free */
    uint32_t pd;
    uint32_t access; /* enum ibv_access_flags */
    uint32_t next_free;
    uint8_t tag; /* of the last key given out for this slot */
};

struct dt_mr_table {
    struct dt_rnic_mr *slots;
    uint32_t size;      /* slots allocated */
    uint32_t free_head; /* oldest free slot, so that keys are reused late; == UINT32_MAX for none */
    uint32_t free_tail;
};

/*
 * The local address of [addr, addr + bytes) in the region of `key`. NULL, with the reason in *vendor_err,
 * when the key, the protection domain, the range or one of the rights in `access` is wrong.
 */
void *dt_mr_translate(const struct dt_rnic *rnic, uint32_t key, uint32_t pd, uint64_t addr, uint64_t bytes,
                      unsigned access, uint8_t *vendor_err);
/*
 * Lands [land_offset, land_offset + bytes) of `received` at byte `at` of a scatter list. 0; EINVAL with
 * *vendor_err when the list is too short or its memory is not writable; another errno when the payload is no
 * longer readable. The pieces before the failed one have landed.
 */
int dt_qp_scatter(const struct dt_rnic_qp *qp, const struct dt_wqe_sge *sges, uint32_t sge_count, uint64_t at,
                  struct dt_received *received, uint64_t land_offset, uint64_t bytes, uint8_t *vendor_err);
int dt_mr_table_init(struct dt_mr_table *table, uint32_t seed);
void dt_mr_table_free(struct dt_mr_table *table);

/* ---- completion queues (cq.c) ---- */

enum { DT_CQ_DISARMED, DT_CQ_ARMED_SOLICITED, DT_CQ_ARMED_ANY };

struct dt_rnic_cq {
    struct dt_list node; /* on rnic.cqs */
    struct dt_rnic *rnic;
    void *context;
    struct dt_ring ring;
    struct dt_cqe *cqes;
    uint32_t users; /* queue pairs, counted once per role */
    uint32_t armed; /* atomic */
    bool can_notify;
    bool is_broken;
};

/* False when the queue is broken: the caller moves its queue pair to ERR (dt_qp_break). */
bool dt_cq_push(struct dt_rnic_cq *cq, const struct dt_cqe *cqe);

/* ---- queue pairs ---- */

/* The engine's record of a decoded element of the send queue. */
struct dt_sq_entry {
    struct dt_wqe wqe;
    uint32_t psn;       /* first */
    uint32_t psn_count; /* 0 for a NOP */
    uint8_t status; /* enum ibv_wc_status; on an error the element fails once all before it are complete */
    uint8_t vendor_err;
};

struct dt_requester {
    struct dt_wqe_ring ring;
    struct dt_sq_entry *entries; /* one per block; used at the first block of an element */
    uint32_t *doorbell;          /* two records */
    uint16_t tail;               /* oldest element not complete */
    uint16_t cursor;             /* element to transmit next; moved back to `tail` for a retransmission */
    uint16_t decoded;            /* end of the decoded elements */
    uint32_t psn_una;            /* oldest PSN not acknowledged */
    uint32_t psn_next;           /* next PSN to transmit; at or inside the element at `cursor` */
    uint32_t psn_top;            /* one after the highest ever transmitted */
    uint32_t psn_new;            /* first PSN of the next element to decode */
    uint32_t reads_outstanding;  /* READs between tail and cursor */
    uint64_t bytes_unasked;      /* sent since the last acknowledgement request */
    uint64_t timer_ns;           /* DT_RNIC_NEVER: not running */
    uint64_t patience_end_ns; /* the timer costs no retry before; 0: no packet was late since psn_una moved */
    uint32_t mark;            /* the wire's mark after the last packet */
    uint8_t retries_left;
    uint8_t rnr_left;
    bool rnr_waiting;  /* timer_ns ends the wait that an RNR NAK asked for */
    bool went_back;    /* retransmitted after a NAK, and psn_una has not moved since */
    bool nak_was_last; /* the last retry was caused by a NAK */
    bool drain_event;  /* raise SQ_DRAINED when drained */
};

/* A READ being answered. */
struct dt_read_job {
    uint32_t psn;   /* of its next response */
    uint32_t count; /* PSNs left */
    uint32_t rkey;
    uint32_t msn;
    uint64_t addr;
    uint64_t bytes; /* left */
    bool is_first;  /* nothing sent yet */
    bool is_repeat; /* of a duplicate request */
};

#define DT_READ_JOBS_MAX (2 * DT_RNIC_RD_ATOMIC_MAX)

/* A posted receive, followed by recv_sge_max scatter elements. */
struct dt_recv {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t reserved;
    struct dt_wqe_sge sges[];
};

struct dt_responder {
    struct dt_ring ring; /* of receives; the application produces */
    uint8_t *recvs;
    uint32_t recv_stride_bytes;
    uint32_t recv_sge_max;
    uint32_t psn; /* expected */
    uint32_t msn;
    bool in_message;
    uint8_t message_op;
    uint64_t message_bytes; /* of the current message: in total (WRITE), received so far (SEND) */
    uint64_t message_left;  /* WRITE */
    uint64_t next_addr;     /* WRITE: required address of the next segment */
    bool nak_sent;          /* a NAK for the expected PSN was sent: no other until that PSN arrives */
    bool ack_pending;
    uint8_t ack_syndrome;
    uint32_t nak_psn;  /* PSN of a negative acknowledgement */
    uint32_t job_head; /* READ jobs: a small ring */
    uint32_t job_count;
    struct dt_read_job jobs[DT_READ_JOBS_MAX];
};

struct dt_rnic_qp {
    struct dt_rnic *rnic;
    void *context;
    uint32_t number;
    uint32_t pd;
    uint32_t state; /* enum ibv_qp_state; atomic: post_recv looks without the lock */
    uint8_t mtu_shift;
    struct ibv_qp_attr attr;   /* as passed to modify; without state, PSNs and sq_draining */
    struct dt_wire_link *link; /* from RTR on */
    struct dt_rnic_cq *send_cq;
    struct dt_rnic_cq *recv_cq;
    uint8_t *memory; /* of its queues (qp.c) */
    uint64_t memory_bytes;
    struct dt_list send_node;
    struct dt_list reply_node;
    struct dt_list timer_node;
    bool is_unreliable; /* UC */
    bool established;   /* COMM_EST has been raised, or RTS reached */
    struct dt_requester req;
    struct dt_responder resp;
};

struct dt_rnic {
    struct dt_rnic_options options;
    struct dt_rnic_qp **qps; /* DT_RNIC_QP_MAX slots, by the low bits of the number */
    uint16_t *qp_generation; /* per slot: upper bits of the last number given out */
    uint32_t qp_slot_next;
    uint32_t qp_count;
    struct dt_mr_table mrs;
    struct dt_list cqs;
    struct dt_list send_list;
    struct dt_list reply_list;
    struct dt_list timer_list;
    uint64_t timer_next_ns; /* no timer is due earlier; may lag behind */
    uint64_t paced_until_ns;
    uint64_t paced_at_ns; /* time of the last attempt to transmit */
    bool link_up;
    bool is_fatal;
    struct dt_rnic_counters counters;
};

/* ---- invariants, for DT_CHECK ---- */

/* tail <= cursor <= decoded <= tail + blocks of the ring */
static inline bool dt_requester_indices_are_ordered(const struct dt_requester *req)
{
    uint16_t cursor = (uint16_t)(req->cursor - req->tail);
    uint16_t decoded = (uint16_t)(req->decoded - req->tail);

    return cursor <= decoded && decoded <= req->ring.blocks;
}

/* psn_una <= psn_next <= psn_top <= psn_new, in circular order */
static inline bool dt_requester_psns_are_ordered(const struct dt_requester *req)
{
    return dt_psn_diff(req->psn_next, req->psn_una) >= 0 && dt_psn_diff(req->psn_top, req->psn_next) >= 0 &&
           dt_psn_diff(req->psn_new, req->psn_top) >= 0;
}

/* A timer is on the RNIC's list exactly while it runs. */
static inline bool dt_requester_timer_is_listed(const struct dt_rnic_qp *qp)
{
    return (qp->req.timer_ns == DT_RNIC_NEVER) == dt_list_is_empty(&qp->timer_node);
}

/* A responder with an answer to send is on the reply list. */
static inline bool dt_responder_is_listed(const struct dt_rnic_qp *qp)
{
    return (!qp->resp.ack_pending && !qp->resp.job_count) || !dt_list_is_empty(&qp->reply_node);
}

/* ---- queue pairs (qp.c) ---- */

static inline enum ibv_qp_state dt_qp_state(const struct dt_rnic_qp *qp)
{
    return (enum ibv_qp_state)dt_load_relaxed(&qp->state);
}

/* The queue pair with this number, or NULL. */
static inline struct dt_rnic_qp *dt_qp_find(const struct dt_rnic *rnic, uint32_t number)
{
    struct dt_rnic_qp *qp = rnic->qps[number & (DT_RNIC_QP_MAX - 1)];

    return qp && qp->number == number ? qp : NULL;
}

/* Enters `state`; the transition is in the table (qp_state.h). */
void dt_qp_set_state(struct dt_rnic_qp *qp, enum ibv_qp_state state);

/* Takes payload back that was transmitted by reference (wire.h, revoke_qp). */
void dt_qp_revoke(struct dt_rnic_qp *qp);

/* Moves to ERR and flushes both queues. With `keep_answers` pending answers are still sent. */
void dt_qp_enter_error(struct dt_rnic_qp *qp, bool keep_answers);

/* Moves to ERR and raises IBV_EVENT_QP_FATAL; does nothing in ERR. */
void dt_qp_break(struct dt_rnic_qp *qp);

/* Hands an asynchronous event to the RNIC's user. */
static inline void dt_rnic_raise(struct dt_rnic *rnic, enum ibv_event_type type, struct dt_rnic_qp *qp,
                                 struct dt_rnic_cq *cq)
{
    struct dt_rnic_event event = {type, qp, cq};

    DT_CHECK(!qp || !cq);
    if (rnic->options.event)
        rnic->options.event(rnic->options.context, &event);
}

/* ---- packets out (transmit.c) ---- */

/* Must a packet with payload wait for the RNIC's rate? Answers and READ requests are not paced. */
bool dt_rnic_is_paced_out(const struct dt_rnic *rnic, uint64_t now_ns);

/* Does the wire take another packet? */
bool dt_qp_can_transmit(const struct dt_rnic_qp *qp);

/* Sends a packet; loses it while the link is down. Only after dt_qp_can_transmit. */
void dt_qp_transmit(struct dt_rnic_qp *qp, const struct dt_packet *packet, uint64_t now_ns);

/* Fills all fields of a packet of this queue pair but its iov. */
void dt_qp_init_packet(const struct dt_rnic_qp *qp, struct dt_packet *packet, uint8_t op, uint32_t psn,
                       uint32_t psn_count);

/* The largest payload of one packet. */
uint64_t dt_qp_segment_bytes(const struct dt_rnic_qp *qp);

/* requester.c: transmission. Both `send` and `reply` return whether something was transmitted. */
void dt_requester_reset(struct dt_rnic_qp *qp);
void dt_requester_start(struct dt_rnic_qp *qp, uint32_t psn);
void dt_requester_wake(struct dt_rnic_qp *qp);
bool dt_requester_send(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns);
void dt_requester_go_back(struct dt_rnic_qp *qp);
bool dt_requester_is_drained(const struct dt_rnic_qp *qp);

/* requester_ack.c: answers, completion, timers. */
void dt_requester_receive(struct dt_rnic_qp *qp, const struct dt_packet *packet, struct dt_received *received,
                          uint64_t now_ns);
void dt_requester_retire(struct dt_rnic_qp *qp, uint64_t now_ns);

/* UC: what was sent is complete. */
void dt_requester_complete_sent(struct dt_rnic_qp *qp, uint64_t now_ns);
void dt_requester_fire_timer(struct dt_rnic_qp *qp, uint64_t now_ns);
void dt_requester_arm_timer(struct dt_rnic_qp *qp, uint64_t deadline_ns);
void dt_requester_disarm_timer(struct dt_rnic_qp *qp);
void dt_requester_flush(struct dt_rnic_qp *qp);
/* Blocks between the oldest element not complete and the doorbell; more than the ring has: an overrun. */
uint16_t dt_requester_posted(const struct dt_rnic_qp *qp);
static inline struct dt_sq_entry *dt_requester_entry(const struct dt_requester *req, uint16_t index)
{
    DT_CHECK_HOT((uint16_t)(index - req->tail) < req->ring.blocks);
    return &req->entries[index & (req->ring.blocks - 1)];
}

/* responder.c: requests; responder_reply.c: answers. */
void dt_responder_reset(struct dt_rnic_qp *qp);
void dt_responder_receive(struct dt_rnic_qp *qp, const struct dt_packet *packet,
                          struct dt_received *received);
void dt_responder_flush(struct dt_rnic_qp *qp);
bool dt_responder_reply(struct dt_rnic_qp *qp, unsigned quantum, uint64_t now_ns);
void dt_responder_drop_answers(struct dt_rnic_qp *qp);
/* Notes an answer; replaces the one noted before. */
void dt_responder_note(struct dt_rnic_qp *qp, uint8_t syndrome, uint32_t nak_psn);
/* Fails: NAK, event or nothing (`event` < 0), then ERR. */
void dt_responder_fail(struct dt_rnic_qp *qp, uint8_t syndrome, uint32_t psn, int event);
void dt_responder_add_read(struct dt_rnic_qp *qp, const struct dt_packet *packet, bool is_repeat);
static inline struct dt_recv *dt_responder_front(const struct dt_responder *resp)
{
    DT_CHECK_HOT(dt_ring_used(&resp->ring) > 0);
    return (struct dt_recv *)(void *)(resp->recvs +
                                      (size_t)dt_ring_front(&resp->ring) * resp->recv_stride_bytes);
}

#ifdef __cplusplus
}
#endif

#endif
