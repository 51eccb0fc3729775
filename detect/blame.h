/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cause of a slow connection: compares the connections of one process with each other.
 *
 * A connection is suspicious if its own monitor finds it slow, or if it takes more than 1.1 times the median
 * of the connections with messages of its size class (FALCON, arXiv 2410.12588, section 4.3). Its neighbors
 * then decide: if the other connections over the same local NIC are suspicious as well, the cause is that
 * NIC; if those to the same NIC of the peer are, it is the peer's NIC; otherwise it is the link between the
 * two. Before all of them: if the waits of this end's threads for a processor explain the time, it is this
 * host's processor. If the network time of a connection is healthy and it waits longer for its peer than
 * before, the peer is not ready.
 *
 * Pure, no allocation of its own (qsort() of the C library may take temporary memory).
 */
#ifndef DETOUR_DETECT_BLAME_H
#define DETOUR_DETECT_BLAME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_BLAME_SUSPICIOUS 1.10 /* times the median */
#define DT_BLAME_CLASS_MIN  3    /* connections of a size class required for a median */

/* X(blame, text) */
#define DT_BLAMES(X)                                        \
    X(NONE, "healthy")                                      \
    X(OWN_NIC, "this host's NIC")                           \
    X(PEER_NIC, "the peer's NIC")                           \
    X(LINK, "the link between the two NICs")                \
    X(PEER_NOT_READY, "the peer, which is late to receive") \
    X(OWN_PROCESSOR, "this host's processor")

enum dt_blame {
#define DT_BLAME_ENUM(blame, text) DT_BLAME_##blame,
    DT_BLAMES(DT_BLAME_ENUM)
#undef DT_BLAME_ENUM
        DT_BLAME_COUNT
};

struct dt_blame_connection {
    /* in */
    uint32_t own_nic;
    uint32_t peer;     /* the peer process */
    uint32_t peer_nic; /* index on the peer's host; unique only together with `peer_host` */
    uint32_t peer_host;
    uint32_t size_class;   /* logarithm to base 2 of the typical message's bytes */
    double seconds_a_byte; /* 0: not known */
    bool is_slow;          /* verdict of its network monitor */
    bool is_waiting;       /* verdict of its waiting monitor */
    bool is_processor;     /* the waits of this end's threads explain it (processor.h) */
    /* out */
    bool is_suspicious;
    enum dt_blame blame;
    double class_median; /* of seconds_a_byte in its size class; 0: unknown */
    double of_median;    /* its time divided by the median; 0: unknown */
    /* between; valid if a connection is suspicious: in thirds, how many neighbors are, over the same NIC */
    uint8_t own_thirds;
    uint8_t peer_thirds;
};

/*
 * Sorts up to three times: count * log(count) steps, not for the data path. `order` is room for `count`
 * pointers; the connections stay in their order.
 */
void dt_blame_decide(struct dt_blame_connection *connections, uint32_t count,
                     struct dt_blame_connection **order);

/* Never NULL. */
const char *dt_blame_text(enum dt_blame blame);

#ifdef __cplusplus
}
#endif

#endif
