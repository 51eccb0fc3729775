/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/blame.h"

#include <stdlib.h>

#include "base/util.h"

/* ------------------------------------------------------------------------------------------------------------
 * The time of a connection against the median of its class
 */
static bool is_known(const struct dt_blame_connection *connection)
{
    return connection->seconds_a_byte > 0;
}

/* By class; in a class those with a known time first, in ascending order. */
static int by_class(const void *a, const void *b)
{
    const struct dt_blame_connection *one = *(struct dt_blame_connection *const *)a;
    const struct dt_blame_connection *two = *(struct dt_blame_connection *const *)b;

    if (one->size_class != two->size_class)
        return one->size_class < two->size_class ? -1 : 1;
    if (is_known(one) != is_known(two))
        return is_known(one) ? -1 : 1;
    if (!is_known(one) || one->seconds_a_byte == two->seconds_a_byte)
        return 0;
    return one->seconds_a_byte < two->seconds_a_byte ? -1 : 1;
}

/*
 * Of one class, sorted; 0: the class is too small. For an even number it is the lower of the two middle
 * values, which makes more connections suspicious, not fewer.
 */
static double median(struct dt_blame_connection *const *members, uint32_t count)
{
    uint32_t known = 0;

    while (known < count && is_known(members[known]))
        known++;
    return known >= DT_BLAME_CLASS_MIN ? members[(known - 1) / 2]->seconds_a_byte : 0;
}

static void compare_with(double class_median, struct dt_blame_connection *connection)
{
    connection->class_median = class_median;
    connection->of_median =
        class_median > 0 && is_known(connection) ? connection->seconds_a_byte / class_median : 0;
    connection->is_suspicious = connection->is_slow || connection->of_median > DT_BLAME_SUSPICIOUS;
}

/* Returns whether a connection is suspicious. */
static bool compare(struct dt_blame_connection **order, uint32_t count)
{
    bool is_any_suspicious = false;

    qsort(order, count, sizeof *order, by_class);
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && order[end]->size_class == order[first]->size_class;)
            end++;
        double class_median = median(order + first, end - first);

        for (uint32_t i = first; i < end; i++) {
            compare_with(class_median, order[i]);
            is_any_suspicious |= order[i]->is_suspicious;
        }
    }
    return is_any_suspicious;
}

/* ------------------------------------------------------------------------------------------------------------
 * The neighbors of a connection: those with one of its two NICs in common
 */
static uint64_t own_nic(const struct dt_blame_connection *connection)
{
    return connection->own_nic;
}

static uint64_t peer_nic(const struct dt_blame_connection *connection)
{
    return (uint64_t)connection->peer_host << 32 | connection->peer_nic;
}

static int order_of(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_own_nic(const void *a, const void *b)
{
    const struct dt_blame_connection *one = *(struct dt_blame_connection *const *)a;
    const struct dt_blame_connection *two = *(struct dt_blame_connection *const *)b;
    int order = order_of(own_nic(one), own_nic(two));

    return order ? order : order_of(peer_nic(one), peer_nic(two));
}

static int by_peer_nic(const void *a, const void *b)
{
    const struct dt_blame_connection *one = *(struct dt_blame_connection *const *)a;
    const struct dt_blame_connection *two = *(struct dt_blame_connection *const *)b;
    int order = order_of(peer_nic(one), peer_nic(two));

    return order ? order : order_of(own_nic(one), own_nic(two));
}

struct run {
    uint32_t count, suspicious;
};

/* The connections from order[0] on with the same NIC. */
static struct run run_of(struct dt_blame_connection *const *order, uint32_t count,
                         uint64_t (*nic)(const struct dt_blame_connection *))
{
    struct run run = {0};

    for (; run.count < count && nic(order[run.count]) == nic(order[0]); run.count++)
        run.suspicious += order[run.count]->is_suspicious;
    return run;
}

/*
 * Sets, for each connection of one NIC, the share of the NIC's connections over another NIC at the other end
 * that are suspicious as well. In thirds: 3 all of them, 0 none, or there are no such connections.
 */
static void share_of_run(struct dt_blame_connection **order, struct run all,
                         uint64_t (*other_nic)(const struct dt_blame_connection *), bool is_own)
{
    struct run pair;

    for (uint32_t first = 0; first < all.count; first += pair.count) {
        pair = run_of(order + first, all.count - first, other_nic);
        uint32_t asked = all.count - pair.count;
        uint32_t thirds = asked ? 3 * (all.suspicious - pair.suspicious) / asked : 0;

        for (uint32_t i = first; i < first + pair.count; i++)
            *(is_own ? &order[i]->own_thirds : &order[i]->peer_thirds) = (uint8_t)thirds;
    }
}

static void share(struct dt_blame_connection **order, uint32_t count, bool is_own)
{
    struct run run;

    qsort(order, count, sizeof *order, is_own ? by_own_nic : by_peer_nic);
    for (uint32_t first = 0; first < count; first += run.count) {
        run = run_of(order + first, count - first, is_own ? own_nic : peer_nic);
        share_of_run(order + first, run, is_own ? peer_nic : own_nic, is_own);
    }
}

static enum dt_blame decide(const struct dt_blame_connection *connection)
{
    if (!connection->is_suspicious)
        return connection->is_waiting ? DT_BLAME_PEER_NOT_READY : DT_BLAME_NONE;
    if (connection->is_processor)
        return DT_BLAME_OWN_PROCESSOR;
    if (connection->own_thirds >= 2 && connection->own_thirds >= connection->peer_thirds)
        return DT_BLAME_OWN_NIC;
    return connection->peer_thirds >= 2 ? DT_BLAME_PEER_NIC : DT_BLAME_LINK;
}

void dt_blame_decide(struct dt_blame_connection *connections, uint32_t count,
                     struct dt_blame_connection **order)
{
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        order[i] = &connections[i];
    if (compare(order, count)) {
        share(order, count, true);
        share(order, count, false);
    }
    for (uint32_t i = 0; i < count; i++)
        connections[i].blame = decide(&connections[i]);
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
