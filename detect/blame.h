/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose fault is a slow connection? One process's view of its connections, compared with each other.
 *
 * A connection is suspicious when its own monitor calls it slow, or when it takes more than 1.1 times as long
 * as the median of the connections with messages of its size class (FALCON, arXiv 2410.12588, section 4.3).
 * Then neighbours decide: if the other connections over the same NIC of this host suffer too, it is that NIC;
 * if those to the same NIC of the peer do, it is that one; else the link between the two. A connection whose
 * network time is well but whose peer lets it wait longer than it used to has a peer that is not ready.
 *
 * Pure, no allocation.
 */
#ifndef DETOUR_DETECT_BLAME_H
#define DETOUR_DETECT_BLAME_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_BLAME_SUSPICIOUS 1.10 /* times the median */
#define DT_BLAME_CLASS_MIN  3    /* connections of a size class that have a median worth the name */

/* X(blame, text) */
#define DT_BLAMES(X)                         \
    X(NONE, "healthy")                       \
    X(OWN_NIC, "this host's NIC")            \
    X(PEER_NIC, "the peer's NIC")            \
    X(LINK, "the link between the two NICs") \
    X(PEER_NOT_READY, "the peer, which is late to receive")

enum dt_blame {
#define DT_BLAME_ENUM(blame, text) DT_BLAME_##blame,
    DT_BLAMES(DT_BLAME_ENUM)
#undef DT_BLAME_ENUM
        DT_BLAME_COUNT
};

struct dt_blame_connection {
    /* in */
    uint32_t own_nic;
    uint32_t peer;     /* process at the other end */
    uint32_t peer_nic; /* of that process's host; numbers are compared together with `peer_host` */
    uint32_t peer_host;
    uint32_t size_class;   /* logarithm to base 2 of the typical message's bytes */
    double seconds_a_byte; /* 0: not known */
    bool is_slow;          /* its network monitor says so */
    bool is_waiting;       /* its waiting monitor says so */
    /* out */
    bool is_suspicious;
    enum dt_blame blame;
    double class_median; /* of its size class's seconds_a_byte; 0: not known */
    double of_median;    /* its time over that; 0: not known */
};

/* count^2 steps for each size class: not for the data path. */
void dt_blame_decide(struct dt_blame_connection *connections, uint32_t count);

/* Never NULL. */
const char *dt_blame_text(enum dt_blame blame);

#ifdef __cplusplus
}
#endif

#endif
