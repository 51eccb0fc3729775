/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion queues and reliable-connection queue pairs.
 *
 * Threads. One owner at a time posts to a QP and polls its CQs, without a lock: two threads never post to one
 * QP, nor poll one CQ, nor post to a QP while another polls its send CQ. Different QPs with different CQs are
 * independent. Everything else (create, connect, fail, destroy) may block and belongs on a control thread;
 * dt_qp_fail() may run while the owner posts and polls, dt_qp_create() while the owner polls the CQs it
 * names, dt_qp_destroy() may not.
 *
 * Posting back ends. `std` hands work requests to the library (ibv_post_send). `dv` owns the send queue: it
 * keeps the producer index and writes every element, in mlx5 format, and the doorbell itself. They behave
 * alike: the same calls, the same completions, the same refusals. `dv` needs a send CQ of its own (no other
 * QP ever uses it, nor this one for its receives), in which the k-th signaled success is the k-th signaled
 * work request.
 *
 * Room. A QP accepts at most `sq_depth` work requests that are not known to be complete; it answers DT_FULL
 * to more and never overwrites one. A signaled completion also frees the unsignaled work requests before
 * it, so signal at least one in every sq_depth. Room is freed by polling the send CQ.
 *
 * Errors. When a work request fails, the QP is in the error state: it and everything after it, signaled or
 * not, completes with an error (the rest as DT_WC_FLUSHED), in order. The peer's QP is not notified.
 */
#ifndef DETOUR_VERBS_QUEUE_H
#define DETOUR_VERBS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cq;
struct dt_qp;

/* ------------------------------------------------------------------------------------------------------------
 * Completions
 */

/*
 * The cause of a failed completion. CALLER: the work request itself was wrong (protection, length, remote
 * access); another path would fail the same way. TRANSPORT: the path failed, another may work.
 */
enum dt_wc_class { DT_WC_CLASS_OK, DT_WC_CLASS_CALLER, DT_WC_CLASS_TRANSPORT };

/* name, text, class, apart from the exceptions in wc_status.c; in the order of
 * libibverbs' ibv_wc_status, whose values are the same (asserted in wc_status.c) */
#define DT_WC_STATUS_LIST(X)                                                                      \
    X(DT_WC_SUCCESS, "success", DT_WC_CLASS_OK)                                                   \
    X(DT_WC_LOCAL_LENGTH, "local length error", DT_WC_CLASS_CALLER)                               \
    X(DT_WC_LOCAL_QP_OPERATION, "local QP operation error", DT_WC_CLASS_TRANSPORT)                \
    X(DT_WC_LOCAL_EEC_OPERATION, "local EE context operation error", DT_WC_CLASS_CALLER)          \
    X(DT_WC_LOCAL_PROTECTION, "local protection error", DT_WC_CLASS_CALLER)                       \
    X(DT_WC_FLUSHED, "flushed", DT_WC_CLASS_TRANSPORT)                                            \
    X(DT_WC_MEMORY_WINDOW_BIND, "memory window bind error", DT_WC_CLASS_CALLER)                   \
    X(DT_WC_BAD_RESPONSE, "bad response", DT_WC_CLASS_TRANSPORT)                                  \
    X(DT_WC_LOCAL_ACCESS, "local access error", DT_WC_CLASS_CALLER)                               \
    X(DT_WC_REMOTE_INVALID_REQUEST, "remote invalid request", DT_WC_CLASS_CALLER)                 \
    X(DT_WC_REMOTE_ACCESS, "remote access error", DT_WC_CLASS_CALLER)                             \
    X(DT_WC_REMOTE_OPERATION, "remote operation error", DT_WC_CLASS_TRANSPORT)                    \
    X(DT_WC_RETRY_EXCEEDED, "transport retry count exceeded", DT_WC_CLASS_TRANSPORT)              \
    X(DT_WC_RNR_RETRY_EXCEEDED, "receiver-not-ready retry count exceeded", DT_WC_CLASS_TRANSPORT) \
    X(DT_WC_LOCAL_RDD_VIOLATION, "local RDD violation", DT_WC_CLASS_CALLER)                       \
    X(DT_WC_REMOTE_INVALID_RD, "remote invalid RD request", DT_WC_CLASS_CALLER)                   \
    X(DT_WC_REMOTE_ABORTED, "remote aborted", DT_WC_CLASS_TRANSPORT)                              \
    X(DT_WC_INVALID_EECN, "invalid EE context number", DT_WC_CLASS_CALLER)                        \
    X(DT_WC_INVALID_EEC_STATE, "invalid EE context state", DT_WC_CLASS_CALLER)                    \
    X(DT_WC_FATAL, "fatal error", DT_WC_CLASS_TRANSPORT)                                          \
    X(DT_WC_RESPONSE_TIMEOUT, "response timeout", DT_WC_CLASS_TRANSPORT)                          \
    X(DT_WC_GENERAL, "general error", DT_WC_CLASS_TRANSPORT)

enum dt_wc_status {
#define DT_WC_STATUS_ENUM(name, text, class_of) name,
    DT_WC_STATUS_LIST(DT_WC_STATUS_ENUM)
#undef DT_WC_STATUS_ENUM
        DT_WC_STATUS_COUNT
};

/* Never NULL; "unknown completion status" outside the list. */
const char *dt_wc_status_text(uint32_t status);

/* On a device of this provider. A status outside the list (a newer library's) is TRANSPORT. */
enum dt_wc_class dt_wc_status_class(enum dt_provider provider, uint32_t status);

enum dt_wc_direction {
    DT_WC_SEND, /* one of our writes or reads */
    DT_WC_RECV  /* a receive of ours was consumed by a WRITE_WITH_IMM of the peer, or flushed */
};

struct dt_completion {
    uint64_t wr_id;      /* of the work request; for receives the QP's recv_wr_id. Valid on errors too */
    uint32_t status;     /* enum dt_wc_status */
    uint32_t vendor_err; /* the device's own code for the log; only with an error */
    uint32_t direction;  /* enum dt_wc_direction; valid on errors too */
    uint32_t qpn;        /* of the local QP */
    uint32_t bytes;      /* RECV, success: bytes that the peer wrote */
    uint32_t imm;        /* RECV, success, has_imm: host byte order */
    bool has_imm;
};

/*
 * A CQ for at least `entries` completions. It must have room for everything that can be outstanding on its
 * QPs, the flush of all receives included: an overrun is fatal for the CQ. `user` comes back in
 * DT_EVENT_CQ_ERROR.
 */
enum dt_status dt_cq_create(struct dt_device *device, uint32_t entries, const void *user, struct dt_cq **cq);

/* No QP uses it any more. */
void dt_cq_destroy(struct dt_cq *cq);

/*
 * Takes up to `count_max` completions, oldest first; returns how many, or -1 when the CQ itself failed (one
 * WARN the first time; it stays failed). Completions of QPs that were destroyed meanwhile are left out. Never
 * blocks.
 */
int dt_cq_poll(struct dt_cq *cq, struct dt_completion *completions, unsigned count_max);

/* ------------------------------------------------------------------------------------------------------------
 * Queue pairs
 */
enum dt_posting_kind { DT_POSTING_STD, DT_POSTING_DV };

/*
 * How many of a device's work requests (dt_device_info's qp_wr_max) a send queue takes that always has room
 * for sq_depth of ours: dv counts in blocks of 64 bytes, of which an element may need several.
 */
uint32_t dt_qp_wr_count(enum dt_posting_kind posting, uint32_t sq_depth, uint32_t inline_bytes);

struct dt_qp_options {
    struct dt_cq *send_cq;
    struct dt_cq *recv_cq; /* may be send_cq with std */
    uint32_t sq_depth;     /* work requests that always fit the send queue; >= 1 */
    uint32_t rq_depth;     /* receives that can be posted */
    uint32_t inline_bytes; /* largest DT_POST_INLINE payload; 0: none */
    uint64_t recv_wr_id;   /* wr_id of all receive completions of this QP */
    enum dt_posting_kind posting;
    uint32_t access;  /* enum dt_mr_access: what the peer may do */
    uint32_t psn;     /* first send PSN, 24 bits; the caller draws it */
    const void *user; /* comes back in DT_EVENT_QP_FATAL */
    bool is_probe;    /* carries no messages: injected faults with a limit pass it over (fault.h) */
};

/* How a QP is reached; exchanged by the two ends. Plain data in host byte order (gid: network byte order). */
struct dt_qp_address {
    uint8_t gid[16];
    uint32_t qpn;
    uint32_t psn;
    uint32_t lid;
    uint32_t mtu_bytes;
    uint32_t link_layer; /* enum dt_link_layer */
};

/*
 * Enhanced connection establishment (ibv_query_ece(3)): options of the vendor that the devices of both ends
 * agree on. The connecting end offers those of its queue pair; the other end's device reduces them when its
 * queue pair is connected, and the connecting end's is connected with the result.
 */
struct dt_ece {
    uint32_t vendor_id;
    uint32_t options; /* 0: none */
};

/* Which refusals of the device the caller will repeat. RoCE resolves the peer's address (ARP, ND) when a
 * queue pair goes to RTR, and answers ETIMEDOUT where that takes too long, as when a job starts on many
 * hosts. */
enum dt_qp_repeat { DT_QP_REPEAT_NONE, DT_QP_REPEAT_TIMEOUT, DT_QP_REPEAT_ALL };

struct dt_qp_link_options {
    uint32_t timeout_exponent; /* RC transport timer: 4.096 us x 2^N, 1..31 */
    uint32_t retry_count;      /* 0..7; Linux soft-RoCE reads 7 as forever */
    uint32_t rnr_retry_count;  /* 0..7; 7 is forever */
    uint32_t min_rnr_timer;    /* code of the RNR NAK timer, 0..31 (IBA table; 12 is 0.64 ms) */
    uint32_t traffic_class;    /* 0..255 */
    uint32_t service_level;    /* 0..15 */
    uint32_t rd_atomic;        /* reads outstanding in each direction; >= 1 where reads are posted */
    bool is_attempt;           /* failure is likely: the device's refusal is logged at INFO, not WARN */
    enum dt_qp_repeat repeat;
    struct dt_ece ece; /* to be used from RTR on; a device that refuses them (one INFO) goes without */
};

/*
 * Creates a QP and moves it to INIT, so that receives can be posted. DT_UNSUPPORTED (one WARN) when the
 * device does not support the posting back end; DT_INVALID for impossible options; DT_SYSTEM when the device
 * refuses.
 */
enum dt_status dt_qp_create(struct dt_device *device, const struct dt_qp_options *options, struct dt_qp **qp);

/* The address that the peer needs. */
void dt_qp_local_address(const struct dt_qp *qp, struct dt_qp_address *address);

/*
 * Before dt_qp_connect(): what the device offers for this QP. After it: what the device has made of
 * options->ece; call it only if there were any. None where library or device have no ECE, or refused it.
 */
void dt_qp_query_ece(const struct dt_qp *qp, struct dt_ece *ece);

/*
 * INIT to RTR to RTS, towards *remote; the path MTU is the smaller of both ends. DT_INVALID when an option or
 * the address is invalid, DT_SYSTEM when the device refuses (one WARN names step and errno, one INFO both
 * addresses), DT_AGAIN when it refuses something that options->repeat names (the lines are INFO): the call
 * may be repeated. One that is connected already stays as it is: DT_OK. Posting sends is allowed afterwards.
 */
enum dt_status dt_qp_connect(struct dt_qp *qp, const struct dt_qp_address *remote,
                             const struct dt_qp_link_options *options);

/*
 * To ERR: everything outstanding is flushed. When it returned DT_OK the peer can no longer write through this
 * QP. DT_SYSTEM (one WARN) if the device refuses; the state is then unknown.
 */
enum dt_status dt_qp_fail(struct dt_qp *qp);

/* The same on a device that has reported DEVICE_FATAL: a refusal is no surprise, so INFO instead of WARN. */
enum dt_status dt_qp_try_fail(struct dt_qp *qp);

/* Does the device report the QP in ERR, whether or not a completion has? False when the query fails. Blocks
 * like the device's query; may run while another thread posts. */
bool dt_qp_is_in_error(const struct dt_qp *qp);

/*
 * Has the device destroy the QP, and keeps *qp for dt_qp_destroy(). DT_SYSTEM (one WARN, the first time): the
 * device refuses, and the QP may still send and receive; the call may be repeated. No thread may post to it
 * or poll its CQs meanwhile; completions in its CQs are dropped.
 */
enum dt_status dt_qp_end(struct dt_qp *qp);

/* The same, and frees *qp also if the device refuses. */
void dt_qp_destroy(struct dt_qp *qp);

uint32_t dt_qp_number(const struct dt_qp *qp);

/* The largest inline payload, as requested. */
uint32_t dt_qp_inline_bytes(const struct dt_qp *qp);

/* ------------------------------------------------------------------------------------------------------------
 * Posting (data path: no lock, no allocation, no system call)
 */
enum dt_post_flags {
    DT_POST_FENCE = 1,    /* starts after all earlier reads of this QP are complete */
    DT_POST_SIGNALED = 2, /* report its completion; else only its failure is reported */
    DT_POST_INLINE = 8,   /* the payload is copied now: bytes <= dt_qp_inline_bytes(), lkey is not used */
    DT_POST_IMM = 16      /* WRITE_WITH_IMM: consumes a receive of the peer's and hands it `imm` */
};

struct dt_write {
    uint64_t local_addr;
    uint64_t remote_addr;
    uint64_t wr_id;
    uint32_t bytes; /* 0: nothing moves, addresses and keys are not used; at most 2^31 - 1 */
    uint32_t lkey;
    uint32_t rkey;
    uint32_t imm;   /* host byte order */
    uint32_t flags; /* enum dt_post_flags */
};

struct dt_read {
    uint64_t local_addr; /* where the bytes go */
    uint64_t remote_addr;
    uint64_t wr_id;
    uint32_t bytes;
    uint32_t lkey;
    uint32_t rkey;
    uint32_t flags; /* SIGNALED, FENCE */
};

/* Work requests that would be accepted now. */
uint32_t dt_qp_room(const struct dt_qp *qp);

/*
 * Posts `count` writes, in order, all or none: DT_FULL when there is no room for all. They start, at the
 * latest, with the next dt_qp_ring(); std starts at once. DT_INVALID: an inline payload is too long (silent;
 * nothing is posted). DT_PATH_ERROR (one WARN): the device refused; how many started is then unknown, treat
 * the QP as failed.
 */
enum dt_status dt_qp_post_write(struct dt_qp *qp, const struct dt_write *writes, unsigned count);

/* The same for one RDMA read. */
enum dt_status dt_qp_post_read(struct dt_qp *qp, const struct dt_read *read);

/* The doorbell: everything posted may start now. Cheap when nothing is new. */
void dt_qp_ring(struct dt_qp *qp);

/*
 * Posts `count` zero-length receives, which deliver the peer's immediates. All or none: DT_FULL when rq_depth
 * would be exceeded; DT_PATH_ERROR (one WARN) when the device refuses.
 */
enum dt_status dt_qp_post_empty_recvs(struct dt_qp *qp, unsigned count);

/*
 * Posted and not known to be complete. A flush brings exactly as many receive completions, and at most as
 * many send completions (unsignaled work requests that succeeded before the error are among them).
 */
uint32_t dt_qp_sends_outstanding(const struct dt_qp *qp);
uint32_t dt_qp_recvs_outstanding(const struct dt_qp *qp);

#ifdef __cplusplus
}
#endif

#endif
