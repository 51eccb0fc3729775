/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/slow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define DEVICE_MAX   63
#define DELAY_NS_MAX 10000000000.0 /* 10 s */
#define FACTOR_MAX   100.0

static bool take_text(const char **at, const char *expected)
{
    size_t length = strlen(expected);

    if (strncmp(*at, expected, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool take_number(const char **at, double high, double *value)
{
    char *end;

    if ((**at < '0' || **at > '9') && **at != '.')
        return false;
    *value = strtod(*at, &end);
    if (end == *at || !(*value >= 0 && *value <= high)) /* nor NaN */
        return false;
    *at = end;
    return true;
}

static bool take_whole(const char **at, double high, double *value)
{
    return take_number(at, high, value) && *value == (double)(uint64_t)*value;
}

/* "D" or "D@R". */
static bool take_position(const char **at, struct dt_pipeline_position *position)
{
    double device, replica = DT_PIPELINE_EVERY_REPLICA;

    if (!take_whole(at, DEVICE_MAX, &device) || (take_text(at, "@") && !take_whole(at, DEVICE_MAX, &replica)))
        return false;
    *position = (struct dt_pipeline_position){(int32_t)device, (int32_t)replica};
    return true;
}

static bool take_time(const char **at, int64_t *time_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double value;

    if (!take_number(at, DELAY_NS_MAX, &value))
        return false;
    for (size_t i = 0; i < DT_COUNT_OF(units); i++) {
        if (!take_text(at, units[i].name))
            continue;
        value *= units[i].ns;
        *time_ns = (int64_t)(value + 0.5);
        return value <= DELAY_NS_MAX;
    }
    return false;
}

/* ",from=N", ",to=N" and, where `serial` is not NULL, ",serial", in any order, up to the end of the text. */
static bool take_rest(const char *at, struct dt_pipeline_period *period, bool *serial)
{
    double from = 0, to = UINT32_MAX;

    while (*at) {
        if (serial && take_text(&at, ",serial"))
            *serial = true;
        else if (!(take_text(&at, ",from=") && take_whole(&at, UINT32_MAX - 1.0, &from)) &&
                 !(take_text(&at, ",to=") && take_whole(&at, UINT32_MAX - 1.0, &to)))
            return false;
    }
    *period = (struct dt_pipeline_period){(uint32_t)from, (uint32_t)to};
    return from < to;
}

/* Two devices of the same replica or replicas, or two replicas of the same device. */
static bool is_link(struct dt_pipeline_position a, struct dt_pipeline_position b)
{
    return (a.device == b.device) != (a.replica == b.replica) &&
           (a.replica == DT_PIPELINE_EVERY_REPLICA) == (b.replica == DT_PIPELINE_EVERY_REPLICA);
}

bool dt_pipeline_slow_add_link(struct dt_pipeline_slow *slow, const char *text)
{
    struct dt_pipeline_slow_link link = {0};
    const char *at = text;

    if (slow->link_count == DT_PIPELINE_SLOW_MAX || !take_position(&at, &link.a) || !take_text(&at, "-") ||
        !take_position(&at, &link.b) || !take_text(&at, "=") || !take_time(&at, &link.delay_ns) ||
        !take_rest(at, &link.period, &link.serial) || !is_link(link.a, link.b))
        return false;
    if (link.a.device > link.b.device) {
        struct dt_pipeline_position a = link.a;
        link.a = link.b;
        link.b = a;
    }
    slow->links[slow->link_count++] = link;
    return true;
}

bool dt_pipeline_slow_add_device(struct dt_pipeline_slow *slow, const char *text)
{
    struct dt_pipeline_slow_device device = {0};
    const char *at = text;
    double factor;

    if (slow->device_count == DT_PIPELINE_SLOW_MAX || !take_position(&at, &device.position) ||
        !take_text(&at, "=") || !take_number(&at, FACTOR_MAX, &factor) || !take_text(&at, "x") ||
        !take_rest(at, &device.period, NULL) || factor < 0.01)
        return false;
    device.permille = (uint32_t)(factor * 1000 + 0.5);
    slow->devices[slow->device_count++] = device;
    return true;
}

bool dt_pipeline_slow_set_kill(struct dt_pipeline_slow *slow, const char *text)
{
    struct dt_pipeline_kill *kill = &slow->kill;
    size_t length = strcspn(text, "@ ;\"");
    const char *at = text + length;
    double from, to = UINT32_MAX;

    if (kill->nic[0] || length == 0 || length >= sizeof kill->nic || !take_text(&at, "@iteration=") ||
        !take_whole(&at, UINT32_MAX - 1.0, &from) ||
        (take_text(&at, ",back=") && !take_whole(&at, UINT32_MAX - 1.0, &to)) || *at || from >= to)
        return false;
    memcpy(kill->nic, text, length);
    kill->devices = UINT64_MAX;
    kill->period = (struct dt_pipeline_period){(uint32_t)from, (uint32_t)to};
    return true;
}

static bool is_at(struct dt_pipeline_position slow, struct dt_pipeline_position position)
{
    return slow.device == position.device &&
           (slow.replica == DT_PIPELINE_EVERY_REPLICA || slow.replica == position.replica);
}

bool dt_pipeline_slow_link_peer(const struct dt_pipeline_slow_link *link, struct dt_pipeline_position self,
                                struct dt_pipeline_position *peer)
{
    bool is_a = is_at(link->a, self);

    if (!is_a && !is_at(link->b, self))
        return false;
    *peer = is_a ? link->b : link->a;
    if (peer->replica == DT_PIPELINE_EVERY_REPLICA)
        peer->replica = self.replica;
    return true;
}

bool dt_pipeline_slow_link_joins(const struct dt_pipeline_slow_link *link, struct dt_pipeline_position a,
                                 struct dt_pipeline_position b)
{
    struct dt_pipeline_position peer;

    return dt_pipeline_slow_link_peer(link, a, &peer) && peer.device == b.device && peer.replica == b.replica;
}

const char *dt_pipeline_position_text(struct dt_pipeline_position position,
                                      char text[DT_PIPELINE_POSITION_BYTES])
{
    int length = snprintf(text, DT_PIPELINE_POSITION_BYTES, "%" PRId32, position.device);

    if (position.replica != DT_PIPELINE_EVERY_REPLICA)
        snprintf(text + length, DT_PIPELINE_POSITION_BYTES - (size_t)length, "@%" PRId32, position.replica);
    return text;
}

uint32_t dt_pipeline_slow_permille(const struct dt_pipeline_slow *slow, struct dt_pipeline_position position,
                                   uint32_t iteration)
{
    uint64_t permille = 1000;

    for (size_t i = 0; i < slow->device_count; i++) {
        const struct dt_pipeline_slow_device *one = &slow->devices[i];

        if (is_at(one->position, position) && dt_pipeline_period_has(&one->period, iteration))
            permille = dt_min_u64(permille * one->permille / 1000, 1000000);
    }
    return permille ? (uint32_t)permille : 1;
}
