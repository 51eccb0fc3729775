/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "obs/runtime_dir.h"

struct dt_peers {
    size_t count;
    struct dt_peer list[DT_PEERS_MAX]; /* open addressing by name */
};

struct dt_peers *dt_peers_create(void)
{
    return calloc(1, sizeof(struct dt_peers));
}

void dt_peers_destroy(struct dt_peers *peers)
{
    free(peers);
}

/* Its place, or the unused one where it belongs. */
static size_t place_of(const struct dt_peers *peers, const char *name)
{
    size_t at = (size_t)(dt_digest_add(DT_DIGEST_EMPTY, name, strlen(name)) % DT_PEERS_MAX);

    while (peers->list[at].name[0] && strcmp(peers->list[at].name, name) != 0)
        at = (at + 1) % DT_PEERS_MAX;
    return at;
}

/* The number of a page is the PID plus a multiple of DT_RUNTIME_NUMBER_STEP; an agent of an earlier version
 * reports no host of the page. */
static void name_of(const struct dt_observation *observation, char name[DT_RECORD_PEER_BYTES])
{
    const char *host = observation->page_host[0] ? observation->page_host : observation->host;

    snprintf(name, DT_RECORD_PEER_BYTES, "%s:%" PRId32, host, observation->pid % DT_RUNTIME_NUMBER_STEP);
}

/* A process that starts under the name of an earlier one is one change; two that report in turn are many. */
static void note_change(struct dt_peer *peer, const struct dt_observation *observation, int64_t time_ns)
{
    const bool is_other_rank = peer->rank >= 0 && observation->rank >= 0 && peer->rank != observation->rank;

    if (!is_other_rank && !strcmp(peer->host, observation->host))
        return;
    if (peer->changed_ns && time_ns - peer->changed_ns < DT_PEERS_UNCLEAR_NS)
        peer->unclear_ns = time_ns;
    peer->changed_ns = time_ns;
}

void dt_peers_take(struct dt_peers *peers, const struct dt_observation *observation, int64_t time_ns)
{
    char name[DT_RECORD_PEER_BYTES];
    struct dt_peer *peer;

    name_of(observation, name);
    peer = &peers->list[place_of(peers, name)];
    if (peer->name[0]) {
        note_change(peer, observation, time_ns);
    } else {
        if (peers->count == DT_PEERS_MAX / 2) {
            memset(peers, 0, sizeof *peers);
            peer = &peers->list[place_of(peers, name)];
        }
        peers->count++;
        memcpy(peer->name, name, sizeof peer->name);
    }
    memcpy(peer->host, observation->host, sizeof peer->host);
    peer->rank = observation->rank;
}

const struct dt_peer *dt_peers_find(const struct dt_peers *peers, const char *name, int64_t time_ns)
{
    const struct dt_peer *peer = &peers->list[place_of(peers, name)];

    if (!peer->name[0] || (peer->unclear_ns && time_ns - peer->unclear_ns < DT_PEERS_UNCLEAR_NS))
        return NULL;
    return peer;
}
