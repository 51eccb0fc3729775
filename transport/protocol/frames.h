/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-band messages of the two ends: the listener's handle, which NCCL carries, and the frames on the
 * control channel. Fixed layouts, little-endian, no pointers. The decoders check every value, so that the
 * rest of the code sees only values in range.
 *
 *   connecting end                         listening end
 *   HELLO   (versions, terms, devices, the listener's nonce)
 *                                          ANSWER (what both ends use)  or REJECT (why not), end
 *   PATHS   (queue pairs and memory)       PATHS    (with ECE: once its queue pairs are connected)
 *   READY   (paths that are connected)     READY
 *   READY   (paths that reach the peer)    READY
 *   ... then, either end: PATH (SWITCH, SETTLED, RESUME, STOP, OPEN, OPENED, USED: failover/path_table.h)
 *   ... or QUERY (is this message complete?)   COMPLETE (it is), or no answer
 *       these and CLOSE also go in band, over the paths' mailboxes (mailbox.h)
 *   ... or, once, a receiver's GRANT (memory that eager sends may write: eager.h)
 *   ... at last, either end: CLOSE         CLOSE_ACK, from the other
 *
 * A channel that ended without CLOSE is replaced by another one (session.h):
 *
 *   REJOIN  (connection, nonce)
 *                                          WELCOME                      or REJECT (unknown), end
 *
 * The channels of all connections between two processes share one TCP connection (session/pair.h), which
 * begins with
 *
 *   PAIR    (identities, round)
 *                                          PAIRED (accepted or stale)   or REJECT (another process), end
 *
 * A frame on the channel is 4 bytes magic, 2 bytes type, 2 bytes length of the body, body.
 */
#ifndef DETOUR_TRANSPORT_PROTOCOL_FRAMES_H
#define DETOUR_TRANSPORT_PROTOCOL_FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "failover/path_machine.h"
#include "failover/resume.h"
#include "transport/protocol/address.h"
#include "failover/backup.h"
#include "base/limits.h"
#include "transport/protocol/codec.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Versions of this protocol that this code speaks. The ends agree on the newest one that both speak; the
 * listening end refuses a peer whose range does not overlap with its own (REJECT).
 */
#define DT_PROTOCOL_VERSION_MIN 4u
#define DT_PROTOCOL_VERSION_MAX 6u
#define DT_PROTOCOL_VERSION_ECE 5u /* from this one on an offer may have ECE options */
/* From this one on paths may have more than DT_QPS_IN_BAND_MAX queue pairs. */
#define DT_PROTOCOL_VERSION_QPS 6u

#define DT_FRAME_MAGIC        0x43525444u /* "DTRC" */
#define DT_FRAME_HEADER_BYTES 8
#define DT_FRAME_BODY_MAX     4720 /* PATHS, with DT_PATHS_MAX paths of DT_QPS_MAX queue pairs */
#define DT_FRAME_BYTES_MAX    (DT_FRAME_HEADER_BYTES + DT_FRAME_BODY_MAX)
/* Of a frame of an established connection, with its header: the longest is OPEN. */
#define DT_PATH_FRAME_BYTES_MAX 1200

enum dt_frame_type {
    DT_FRAME_HELLO = 1,
    DT_FRAME_ANSWER = 2,
    DT_FRAME_REJECT = 3,
    DT_FRAME_PATHS = 4,
    DT_FRAME_READY = 5,
    DT_FRAME_CLOSE = 6,
    DT_FRAME_PATH = 7,
    DT_FRAME_CLOSE_ACK = 8, /* no body */
    DT_FRAME_REJOIN = 9,
    DT_FRAME_WELCOME = 10,  /* no body: REJOIN was accepted */
    DT_FRAME_QUERY = 11,    /* is this message complete at the other end? No answer: it is not */
    DT_FRAME_COMPLETE = 12, /* answers QUERY: it is */
    DT_FRAME_GRANT = 13,
    DT_FRAME_PAIR = 14,  /* first message of a carrier (session/pair.h) */
    DT_FRAME_PAIRED = 15 /* its answer */
};

#define DT_NAME_BYTES 64 /* host and device names, with the terminating zero */

/* What listen() gives to the peer, with the identity of its process: bytes 0 to 55 of the handle. The last 8
 * bytes of it are the connecting end's own (dt_handle_cookie), zero when they leave listen(). */
struct dt_handle {
    uint16_t version_min;
    uint16_t version_max;
    struct dt_address address;
    uint64_t listen_id; /* which listener of that process */
    uint64_t nonce;     /* known only to holders of the handle */
};

/* How the messages of a connection go over the queue pairs of a path (protocol/split.h). */
enum dt_spread {
    DT_SPREAD_SPLIT, /* each message over all of them, or DT_SHARES_MAX, in turn */
    DT_SPREAD_TURNS, /* each message over one of them, in turn */
    DT_SPREAD_COUNT
};

void dt_handle_encode(const struct dt_handle *handle, uint8_t bytes[DT_HANDLE_BYTES]);
/* DT_PROTOCOL: not one of our handles. */
enum dt_status dt_handle_decode(const uint8_t bytes[DT_HANDLE_BYTES], struct dt_handle *handle);

uint64_t dt_handle_cookie(const uint8_t bytes[DT_HANDLE_BYTES]);
void dt_handle_set_cookie(uint8_t bytes[DT_HANDLE_BYTES], uint64_t cookie);

/* The terms of a connection: each is the smaller of both ends' wishes. */
struct dt_terms {
    uint32_t paths;       /* 1 .. DT_PATHS_MAX */
    uint32_t qps;         /* per path: 1 .. DT_QPS_MAX; DT_QPS_IN_BAND_MAX before DT_PROTOCOL_VERSION_QPS */
    uint32_t slots;       /* a power of two, DT_SLOTS_MIN .. DT_SLOTS_MAX */
    uint32_t chunk_bytes; /* largest write: a multiple of DT_CUT_BYTES, >= DT_CHUNK_BYTES_MIN */
};

struct dt_terms dt_terms_agree(const struct dt_terms *a, const struct dt_terms *b);

struct dt_hello {
    uint16_t version_min;
    uint16_t version_max;
    uint64_t listen_id;
    uint64_t nonce;
    uint64_t connection_id; /* names the connection in both ends' logs */
    struct dt_terms wanted;
    uint32_t pid;
    char host[DT_NAME_BYTES];
    char device[DT_NAME_BYTES]; /* the connecting end's default device */
    struct dt_backup_offer devices;
    struct dt_address listener; /* the connecting process's own; family NONE: it has none */
    enum dt_spread spread;      /* SPLIT if the ends have no common version */
};

struct dt_answer {
    uint16_t version;
    struct dt_terms agreed;
    uint32_t pid;
    char host[DT_NAME_BYTES];
    char device[DT_NAME_BYTES];
    struct dt_backup_pair path[DT_PATHS_MAX]; /* the first agreed.paths; `sender` is a place in `devices` */
};

struct dt_reject {
    char reason[200];
};

/* The part of an address that differs between the queue pairs of a path. 24 bits each. */
struct dt_qp_numbers {
    uint32_t qpn;
    uint32_t psn;
};

/* One end of one path. */
struct dt_path_offer {
    bool is_usable; /* this end has it; the rest is zero if not */
    char device[DT_NAME_BYTES];
    struct dt_qp_address probe;
    /* The first terms.qps; the rest of their addresses is that of `probe`. */
    struct dt_qp_numbers qp[DT_QPS_MAX];
    /* Of each data queue pair. Sender: offered; receiver: what its device has made of them. Version 5; left
       out where the offer would be longer than the longest one without that the mailbox has room for. */
    struct dt_ece ece;
    /* Memory that the peer writes: the sender's CTS ring, the receiver's size records. */
    uint64_t control_addr;
    uint32_t control_rkey;
    /* How often the device was opened again (dt_device_generation()). Receiver: CTS entries of messages
       before keys_since may have keys for this path of an earlier generation. */
    uint32_t generation;
    uint64_t keys_since;
};

/* Whether the offer of a path of that device may have ECE options; else its ends use none. */
static inline bool dt_offer_has_ece_room(const char *device, uint32_t qps)
{
    return qps > DT_QPS_IN_BAND_MAX ||
           strlen(device) + 8u * (qps + 1) < DT_NAME_BYTES + 8u * DT_QPS_IN_BAND_MAX;
}

/* The address of a data queue pair of an offer. */
static inline struct dt_qp_address dt_offer_address(const struct dt_path_offer *offer, uint32_t q)
{
    struct dt_qp_address address = offer->probe;

    address.qpn = offer->qp[q].qpn;
    address.psn = offer->qp[q].psn;
    return address;
}

struct dt_paths_offer {
    struct dt_path_offer path[DT_PATHS_MAX]; /* the first terms.paths */
};

struct dt_ready {
    uint32_t
        path_mask; /* paths that are connected at this end, or, the second time, that reach the peer; not 0 */
};

/*
 * Last message of an end: the sequence of its first message that is not complete. The other end has, or will
 * get, every message before it, and none from it on.
 */
struct dt_close {
    uint64_t sequence;
};

/* QUERY, COMPLETE. */
struct dt_fact {
    uint64_t sequence;
    uint32_t path; /* the message was last posted on this epoch of it; a receiver that asks: 0, 0 */
    uint32_t epoch;
};

/* Where eager sends may write (eager.h); `bytes` of payload in each place. */
struct dt_grant {
    uint64_t addr;
    uint32_t bytes;
    uint32_t path_mask; /* paths whose device takes the memory; not 0 */
    uint32_t rkey[DT_PATHS_MAX];
};

/*
 * First message of a channel that replaces another one. From the connecting end: take this channel instead.
 * From the listening end, as a liveness probe: the channel is lost.
 */
struct dt_rejoin {
    uint64_t connection_id;
    uint64_t nonce; /* the listener's: what only these two ends know */
    uint32_t round; /* connecting end: of this channel, more than that of any before; else of the lost one */
    bool is_sender; /* which end sends it */
};

/* First message on a carrier: the TCP connection of two processes (session/pair.h). */
struct dt_pair_frame {
    uint64_t from; /* identity of the process that dials */
    uint64_t to;   /* of the one that it means to reach; neither is 0 */
    uint32_t round;
};

/* Its answer. */
struct dt_paired {
    bool is_accepted; /* records follow, both ways; else the offer was stale, and the carrier ends */
    uint32_t round;   /* of the carrier, or the newest that the answering process knows */
};

/* A fact about one epoch of one path. */
struct dt_path_frame {
    uint32_t message; /* enum dt_path_message, not NONE */
    uint32_t path;
    uint32_t epoch;
    bool is_stopped;            /* SWITCH: the sender has the proof of its own fence */
    struct dt_resume resume;    /* RESUME */
    struct dt_path_offer offer; /* OPEN, OPENED; usable */
};

/*
 * Encoders append a whole frame to *w; it is full afterwards if the frame did not fit. Decoders take the body
 * of a frame and answer DT_PROTOCOL for anything that is too short, too long or out of range.
 */
void dt_hello_encode(const struct dt_hello *hello, struct dt_writer *w);
/* A HELLO without a version that this end speaks is read up to `devices`, so that its refusal has a reason;
 * what follows `devices` differs between versions. */
enum dt_status dt_hello_decode(const uint8_t *body, size_t bytes, struct dt_hello *hello);
void dt_answer_encode(const struct dt_answer *answer, struct dt_writer *w);
enum dt_status dt_answer_decode(const uint8_t *body, size_t bytes, struct dt_answer *answer);
void dt_reject_encode(const struct dt_reject *reject, struct dt_writer *w);
enum dt_status dt_reject_decode(const uint8_t *body, size_t bytes, struct dt_reject *reject);
void dt_paths_encode(const struct dt_paths_offer *offer, const struct dt_terms *terms, struct dt_writer *w);
enum dt_status dt_paths_decode(const uint8_t *body, size_t bytes, const struct dt_terms *terms,
                               struct dt_paths_offer *offer);
void dt_ready_encode(const struct dt_ready *ready, struct dt_writer *w);
enum dt_status dt_ready_decode(const uint8_t *body, size_t bytes, const struct dt_terms *terms,
                               struct dt_ready *ready);
void dt_close_encode(const struct dt_close *close, struct dt_writer *w);
enum dt_status dt_close_decode(const uint8_t *body, size_t bytes, struct dt_close *close);
void dt_fact_encode(enum dt_frame_type type, const struct dt_fact *fact, struct dt_writer *w);
enum dt_status dt_fact_decode(const uint8_t *body, size_t bytes, uint32_t paths, struct dt_fact *fact);
void dt_grant_encode(const struct dt_grant *grant, uint32_t paths, struct dt_writer *w);
enum dt_status dt_grant_decode(const uint8_t *body, size_t bytes, uint32_t paths, struct dt_grant *grant);
/* A frame without a body. */
void dt_empty_frame_encode(enum dt_frame_type type, struct dt_writer *w);
void dt_rejoin_encode(const struct dt_rejoin *rejoin, struct dt_writer *w);
enum dt_status dt_rejoin_decode(const uint8_t *body, size_t bytes, struct dt_rejoin *rejoin);
void dt_pair_frame_encode(const struct dt_pair_frame *pair, struct dt_writer *w);
enum dt_status dt_pair_frame_decode(const uint8_t *body, size_t bytes, struct dt_pair_frame *pair);
void dt_paired_encode(const struct dt_paired *paired, struct dt_writer *w);
enum dt_status dt_paired_decode(const uint8_t *body, size_t bytes, struct dt_paired *paired);
void dt_path_frame_encode(const struct dt_path_frame *frame, uint32_t qps, struct dt_writer *w);
enum dt_status dt_path_frame_decode(const uint8_t *body, size_t bytes, uint32_t paths, uint32_t qps,
                                    struct dt_path_frame *frame);

struct dt_frame_header {
    uint16_t type; /* any value: the caller compares */
    uint16_t body_bytes;
};

/* DT_PROTOCOL: wrong magic, or a body larger than any of ours. */
enum dt_status dt_frame_header_decode(const uint8_t bytes[DT_FRAME_HEADER_BYTES],
                                      struct dt_frame_header *header);

#ifdef __cplusplus
}
#endif

#endif
