/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/blame.h"

#include "base/util.h"

/*
 * The median of a class without sorting: the value with as many below as above; 0: the class is too small.
 * For an even number it is the lower of the two middle values, which makes more connections suspicious, not
 * fewer.
 */
static double class_median(const struct dt_blame_connection *connections, uint32_t count, uint32_t size_class)
{
    uint32_t members = 0;
    double median = 0;

    for (uint32_t i = 0; i < count; i++)
        members += connections[i].size_class == size_class && connections[i].seconds_a_byte > 0;
    for (uint32_t i = 0; i < count && members >= DT_BLAME_CLASS_MIN; i++) {
        const struct dt_blame_connection *candidate = &connections[i];
        uint32_t below = 0, equal = 0;

        if (candidate->size_class != size_class || !(candidate->seconds_a_byte > 0))
            continue;
        for (uint32_t j = 0; j < count; j++) {
            const struct dt_blame_connection *other = &connections[j];

            if (other->size_class != size_class || !(other->seconds_a_byte > 0))
                continue;
            below += other->seconds_a_byte < candidate->seconds_a_byte;
            equal += other->seconds_a_byte == candidate->seconds_a_byte;
        }
        if (below <= (members - 1) / 2 && below + equal > (members - 1) / 2)
            median = candidate->seconds_a_byte;
    }
    return median;
}

/* The median of connection i's class, taken from an earlier member if there is one. */
static double median_of(struct dt_blame_connection *connections, uint32_t count, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++) {
        if (connections[j].size_class == connections[i].size_class)
            return connections[j].class_median;
    }
    return class_median(connections, count, connections[i].size_class);
}

static void compare(struct dt_blame_connection *connections, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct dt_blame_connection *connection = &connections[i];
        double median = connection->class_median = median_of(connections, count, i);

        connection->of_median =
            median > 0 && connection->seconds_a_byte > 0 ? connection->seconds_a_byte / median : 0;
        connection->is_suspicious = connection->is_slow || connection->of_median > DT_BLAME_SUSPICIOUS;
    }
}

static bool is_same_peer_nic(const struct dt_blame_connection *a, const struct dt_blame_connection *b)
{
    return a->peer_host == b->peer_host && a->peer_nic == b->peer_nic;
}

/*
 * The share of the connections with one NIC in common with `me` that are suspicious as well, in thirds: 3 all
 * of them, 0 none, or there are no such connections.
 */
static uint32_t neighbors(const struct dt_blame_connection *connections, uint32_t count,
                          const struct dt_blame_connection *me, bool by_own_nic)
{
    uint32_t asked = 0, suffering = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct dt_blame_connection *other = &connections[i];
        bool shares_own = other->own_nic == me->own_nic, shares_peer = is_same_peer_nic(other, me);

        if (by_own_nic ? !(shares_own && !shares_peer) : !(shares_peer && !shares_own))
            continue;
        asked++;
        suffering += other->is_suspicious;
    }
    return asked ? 3 * suffering / asked : 0;
}

static enum dt_blame decide(const struct dt_blame_connection *connections, uint32_t count,
                            const struct dt_blame_connection *me)
{
    if (!me->is_suspicious)
        return me->is_waiting ? DT_BLAME_PEER_NOT_READY : DT_BLAME_NONE;
    uint32_t own = neighbors(connections, count, me, true);
    uint32_t peer = neighbors(connections, count, me, false);

    if (own >= 2 && own >= peer)
        return DT_BLAME_OWN_NIC;
    return peer >= 2 ? DT_BLAME_PEER_NIC : DT_BLAME_LINK;
}

void dt_blame_decide(struct dt_blame_connection *connections, uint32_t count)
{
    compare(connections, count);
    for (uint32_t i = 0; i < count; i++)
        connections[i].blame = decide(connections, count, &connections[i]);
}

const char *dt_blame_text(enum dt_blame blame)
{
    static const char *const texts[] = {
#define BLAME_TEXT(name, text) text,
        DT_BLAMES(BLAME_TEXT)
#undef BLAME_TEXT
    };

    return (uint32_t)blame < DT_COUNT_OF(texts) ? texts[blame] : "unknown";
}
