/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of one software RNIC: reliable connections (RC) as the InfiniBand Architecture Specification,
 * volume 1, chapters 9 to 11, describes them. Packets, calls and the time go in; packets, completions, events
 * and a deadline come out. The engine reads no clock, takes no lock, starts no thread and, once a queue pair
 * exists, allocates nothing.
 *
 * Threads. Every function needs the RNIC's lock (the driver's; a simulation has one thread and no lock)
 * unless its comment says otherwise. Callbacks run inside a call, under that lock, and must not call the
 * engine. The wire's transmit() must not call it either: the wire queues the packet.
 *
 * Ownership. The RNIC owns queue pairs, completion queues and memory regions until their destroy call. The
 * memory of a region belongs to the application; the engine reads and writes it only inside dt_rnic_receive,
 * dt_rnic_progress and dt_rnic_doorbell, so none of it is accessed after dt_rnic_mr_deregister or a move of
 * the queue pair to ERR or RESET has returned.
 *
 * Times are nanoseconds of one monotonic clock; DT_RNIC_NEVER is "no deadline".
 */
#ifndef DETOUR_SOFTRNIC_ENGINE_H
#define DETOUR_SOFTRNIC_ENGINE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrnic/packet.h"
#include "softrnic/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_rnic;
struct dt_rnic_qp;
struct dt_rnic_cq;

#define DT_RNIC_NEVER UINT64_MAX

/* Grace period in which a packet that the other end has not read yet (wire.h, is_unread) costs no retry. */
#define DT_RNIC_PATIENCE_NS 2000000000ull

/* Limits of the device; ibv_query_device reports them. */
#define DT_RNIC_MESSAGE_BYTES_MAX (1ull << 30)
#define DT_RNIC_SGE_MAX           30u
#define DT_RNIC_INLINE_BYTES_MAX  928u   /* one element is at most 63 units of 16 bytes */
#define DT_RNIC_SQ_BLOCKS_MAX     32768u /* half of the 16-bit index, so that full and empty differ */
#define DT_RNIC_RQ_ENTRIES_MAX    32768u
#define DT_RNIC_CQ_ENTRIES_MAX    (1u << 22)
#define DT_RNIC_QP_MAX            16384u
#define DT_RNIC_MR_MAX            (1u << 20)
#define DT_RNIC_RD_ATOMIC_MAX     16u

/*
 * Reasons in ibv_wc.vendor_err: they tell the cases behind one status apart. The numbers are specific to this
 * device, as they are for every vendor. 0 on success.
 */
enum dt_vendor_err {
    DT_VENDOR_NONE = 0,
    DT_VENDOR_FLUSHED = 1,        /* WR_FLUSH_ERR: the queue pair entered ERR before the work request ran */
    DT_VENDOR_ACK_TIMEOUT = 2,    /* RETRY_EXC: retry_cnt + 1 timeouts in a row without progress */
    DT_VENDOR_NAK_RETRIES = 3,    /* RETRY_EXC: the last retries were used up by sequence NAKs */
    DT_VENDOR_RNR_RETRIES = 4,    /* RNR_RETRY_EXC */
    DT_VENDOR_REMOTE_ACCESS = 5,  /* REM_ACCESS_ERR: the peer refused key, range or right */
    DT_VENDOR_REMOTE_INVALID = 6, /* REM_INV_REQ_ERR */
    DT_VENDOR_REMOTE_OP = 7,      /* REM_OP_ERR */
    DT_VENDOR_LOCAL_KEY = 8,      /* LOC_PROT_ERR: no such lkey, or of another protection domain */
    DT_VENDOR_LOCAL_BOUNDS = 9,   /* LOC_PROT_ERR: outside the memory region */
    DT_VENDOR_LOCAL_RIGHT = 10,   /* LOC_PROT_ERR: the region lacks IBV_ACCESS_LOCAL_WRITE */
    DT_VENDOR_LENGTH = 11,        /* LOC_LEN_ERR: message longer than the device takes or the receive holds */
    DT_VENDOR_BAD_ELEMENT = 12,   /* LOC_QP_OP_ERR: the send queue element is malformed */
    DT_VENDOR_BAD_INDEX = 13,     /* LOC_QP_OP_ERR: the element carries another index or queue pair number */
    DT_VENDOR_BAD_OPCODE = 14     /* LOC_QP_OP_ERR: a READ on a queue pair whose max_rd_atomic is 0 */
};

/* ---- completion queues -------------------------------------------------------------------------------- */

/* The completed operation; the requester's kinds come first. */
enum dt_cqe_op {
    DT_CQE_SEND,
    DT_CQE_WRITE,
    DT_CQE_READ,
    DT_CQE_NOP,
    DT_CQE_RECV,          /* by a SEND */
    DT_CQE_RECV_WRITE_IMM /* by a WRITE with immediate */
};

enum dt_cqe_flags {
    DT_CQE_HAS_IMM = 1,
    DT_CQE_SOLICITED = 2, /* the sender set the solicited bit; also set on every error */
    DT_CQE_IS_RECV = 4    /* a receive: wr_id is valid, wqe_counter is not */
};

struct dt_cqe {
    uint64_t wr_id;   /* receives */
    void *qp_context; /* of dt_rnic_qp_options */
    uint32_t qpn;
    uint32_t byte_len;    /* receives and READs that succeeded */
    uint32_t imm;         /* network byte order */
    uint16_t wqe_counter; /* sends: index of the element's first block, as in the mlx5 CQE */
    uint8_t status;       /* enum ibv_wc_status */
    uint8_t vendor_err;   /* enum dt_vendor_err */
    uint8_t op;           /* enum dt_cqe_op; for a flushed or malformed element: from its opcode */
    uint8_t flags;        /* enum dt_cqe_flags */
};

/*
 * A queue for at least `entries` completions (1..DT_RNIC_CQ_ENTRIES_MAX). With `can_notify` false it can
 * never be armed, which saves a barrier per completion. NULL with errno EINVAL or ENOMEM.
 *
 * One thread at a time may consume, without the RNIC's lock: dt_rnic_cq_poll and dt_rnic_cq_arm.
 */
struct dt_rnic_cq *dt_rnic_cq_create(struct dt_rnic *rnic, uint32_t entries, bool can_notify, void *context);

/* 0, or EBUSY while a queue pair uses it. */
int dt_rnic_cq_destroy(struct dt_rnic_cq *cq);

void *dt_rnic_cq_context(const struct dt_rnic_cq *cq);
uint32_t dt_rnic_cq_entries(const struct dt_rnic_cq *cq);

/* Consumer, no RNIC lock: takes up to `count` completions, oldest first; returns how many. */
uint32_t dt_rnic_cq_poll(struct dt_rnic_cq *cq, struct dt_cqe *cqes, uint32_t count);

/* Consumer, no RNIC lock: is a completion ready? One load. */
bool dt_rnic_cq_has_some(const struct dt_rnic_cq *cq);

/*
 * Consumer, no RNIC lock: the next completion (with solicited_only: the next solicited or failed one) calls
 * options.notify once. As with ibv_req_notify_cq, completions that are already in the queue do not count:
 * poll once more afterwards.
 */
void dt_rnic_cq_arm(struct dt_rnic_cq *cq, bool solicited_only);

/*
 * Removes the completions of one queue pair and keeps the order of the others, for ibv_destroy_qp and a move
 * to RESET, after which no old completion may surface. Needs the RNIC's lock and exclusive use of the
 * consumer's side.
 */
void dt_rnic_cq_purge(struct dt_rnic_cq *cq, uint32_t qpn);

/*
 * An overrun breaks the queue for good: the completion is lost, IBV_EVENT_CQ_ERR is raised once, and every
 * queue pair that completes into it enters ERR with IBV_EVENT_QP_FATAL.
 */

/* ---- the RNIC ------------------------------------------------------------------------------------------ */

struct dt_rnic_event {
    enum ibv_event_type type;
    struct dt_rnic_qp *qp; /* of QP events */
    struct dt_rnic_cq *cq; /* of IBV_EVENT_CQ_ERR */
};

struct dt_rnic_options {
    struct dt_wire *wire;      /* must outlive the RNIC */
    uint8_t gid[16];           /* its address on the wire */
    uint64_t rate_bytes_per_s; /* payload sent per second; 0 is unlimited */
    uint32_t number_seed;      /* start of QP numbers and keys; should differ between RNICs */
    bool reuses_numbers;       /* a new QP gets the lowest free number */
    void *context;             /* passed to the callbacks */
    void (*event)(void *context, const struct dt_rnic_event *event); /* asynchronous events; may be NULL */
    void (*notify)(void *context, struct dt_rnic_cq *cq);            /* an armed CQ fires; may be NULL */
};

/* NULL when memory is short. The port comes up ACTIVE without an event. */
struct dt_rnic *dt_rnic_create(const struct dt_rnic_options *options);

/* Also destroys the objects that are left. */
void dt_rnic_destroy(struct dt_rnic *rnic);

/*
 * Processes one arrived packet: lands the payload, completes work and notes the answers to send. Call
 * dt_rnic_progress after one or a few packets (the answers noted in between become one acknowledgement).
 * `packet` and `received` are used only during the call. Their content is not trusted: malformed packets, and
 * packets for queue pairs that do not exist or cannot receive, are dropped.
 */
void dt_rnic_receive(struct dt_rnic *rnic, const struct dt_packet *packet, struct dt_received *received,
                     uint64_t now_ns);

/*
 * Sends what can be sent and fires due timers. Deliver the packets that have arrived first, or a request
 * times out although its acknowledgement is already here.
 */
void dt_rnic_progress(struct dt_rnic *rnic, uint64_t now_ns);

/*
 * When dt_rnic_progress must be called next if nothing else happens. Queue pairs that wait for room on the
 * wire have no deadline (wire.h). The answer may be early, never late.
 */
uint64_t dt_rnic_deadline_ns(const struct dt_rnic *rnic);

/* The doorbell: sends the elements that the doorbell record announces, as far as wire and windows allow. */
void dt_rnic_doorbell(struct dt_rnic_qp *qp, uint64_t now_ns);

/*
 * Link down: no packet leaves or arrives while timers run on, so requests end in RETRY_EXC. Raises
 * IBV_EVENT_PORT_ERR or IBV_EVENT_PORT_ACTIVE when the state changes.
 */
void dt_rnic_set_link(struct dt_rnic *rnic, bool up);
bool dt_rnic_link_is_up(const struct dt_rnic *rnic);

/*
 * The device dies: it raises IBV_EVENT_DEVICE_FATAL, then sends, receives and completes nothing any more.
 * Modify and create calls answer EIO; destroy calls work.
 */
void dt_rnic_set_fatal(struct dt_rnic *rnic);
bool dt_rnic_is_fatal(const struct dt_rnic *rnic);

void dt_rnic_set_rate(struct dt_rnic *rnic, uint64_t rate_bytes_per_s);

/* Monotonic counts since creation. */
struct dt_rnic_counters {
    uint64_t packets_sent, packets_received;
    uint64_t payload_bytes_sent, payload_bytes_landed;
    uint64_t acks_sent, naks_sent, rnr_naks_sent;
    uint64_t retransmissions; /* times a requester returned to psn_una */
    uint64_t timeouts;        /* of these, caused by the retry timer */
    uint64_t duplicates;      /* request segments that had been executed before */
    uint64_t out_of_sequence; /* request segments ahead of the expected PSN */
    uint64_t
        dropped; /* packets without a queue pair, malformed, or with a payload that is no longer readable */
    uint64_t completions_failed;
};
void dt_rnic_query_counters(const struct dt_rnic *rnic, struct dt_rnic_counters *counters);

/* ---- memory regions ------------------------------------------------------------------------------------ */

/*
 * Registers [addr, addr + bytes) under `iova` with enum ibv_access_flags; *key serves as lkey and rkey. 0,
 * EINVAL (no bytes, range wraps, unknown access flag, remote write without local write), ENOMEM (out of
 * regions or memory), EIO. `pd` is any number that stands for the protection domain.
 */
int dt_rnic_mr_register(struct dt_rnic *rnic, uint32_t pd, void *addr, uint64_t bytes, uint64_t iova,
                        unsigned access, uint32_t *key);

/* 0, or EINVAL for an unknown key. No byte of the region is touched after it returns. */
int dt_rnic_mr_deregister(struct dt_rnic *rnic, uint32_t key);

/* ---- queue pairs --------------------------------------------------------------------------------------- */

struct dt_rnic_qp_options {
    uint32_t pd;
    struct dt_rnic_cq *send_cq; /* both CQs may be the same; they outlive the queue pair */
    struct dt_rnic_cq *recv_cq;
    uint32_t sq_blocks;    /* send queue in 64-byte blocks; rounded up to a power of two, at least 1 */
    uint32_t rq_entries;   /* receives; rounded up to a power of two; 0 is allowed */
    uint32_t recv_sge_max; /* per receive, up to DT_RNIC_SGE_MAX */
    void *context;         /* in every completion, and dt_rnic_qp_context */
    bool is_unreliable;    /* UC: messages without payload that are complete once sent, never repeated or
                              answered */
};

/* In state RESET. NULL with errno EINVAL, ENOMEM (too many, or no memory) or EIO. */
struct dt_rnic_qp *dt_rnic_qp_create(struct dt_rnic *rnic, const struct dt_rnic_qp_options *options);

/* Its completions stay in the CQs (dt_rnic_cq_purge). */
void dt_rnic_qp_destroy(struct dt_rnic_qp *qp);

uint32_t dt_rnic_qp_number(const struct dt_rnic_qp *qp);
void *dt_rnic_qp_context(const struct dt_rnic_qp *qp);

/* Any thread, no lock: the current state, which may become ERR at any time. */
enum ibv_qp_state dt_rnic_qp_state(const struct dt_rnic_qp *qp);

/*
 * ibv_modify_qp for an RC queue pair: checks the transition and the mask (qp_state.h) and every value, then
 * applies all or nothing. 0, EINVAL, ENOMEM (no memory for the link) or EIO. A move to ERR flushes all
 * outstanding work before it returns; a move to RESET discards all work and zeroes the doorbell records.
 * ah_attr.grh.dgid is the peer's address; ah_attr must be global. The front checks sgid_index.
 */
int dt_rnic_qp_modify(struct dt_rnic_qp *qp, const struct ibv_qp_attr *attr, int attr_mask, uint64_t now_ns);

/* All attributes as ibv_query_qp reports them, except cap, which the front fills. */
void dt_rnic_qp_query(const struct dt_rnic_qp *qp, struct ibv_qp_attr *attr);

/*
 * The send queue: a ring of 64-byte blocks in mlx5 format (wqe.h), page aligned, valid until the queue pair
 * is destroyed. The application writes elements at its own producer index (counted in blocks modulo 65536),
 * stores that index big-endian into doorbell[DT_DBREC_SEND] with release order, and calls dt_rnic_doorbell.
 * An element, inline data included, must stay unchanged until it has completed: retransmission reads it
 * again. The producer may be at most `blocks` ahead of the first block of the oldest element not completed.
 */
enum { DT_DBREC_RECV = 0, DT_DBREC_SEND = 1 };

struct dt_rnic_sq {
    void *buffer;
    uint32_t blocks;    /* a power of two */
    uint32_t *doorbell; /* the pair of doorbell records */
};
void dt_rnic_qp_sq(const struct dt_rnic_qp *qp, struct dt_rnic_sq *sq);

/*
 * Posts one receive. Needs no RNIC lock, but one caller at a time per queue pair. 0; ENOMEM when the queue is
 * full; EINVAL in RESET or for too many elements. *must_kick is set when the queue pair is in ERR: the caller
 * then takes the RNIC's lock and calls dt_rnic_doorbell, which flushes the receive. `sg_list` is copied.
 */
int dt_rnic_qp_post_recv(struct dt_rnic_qp *qp, uint64_t wr_id, const struct ibv_sge *sg_list, int num_sge,
                         bool *must_kick);

#ifdef __cplusplus
}
#endif

#endif
