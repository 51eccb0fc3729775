/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/backup.h"

#include <string.h>

struct sum {
    double service_ns, bytes;
    uint64_t count;
};

static bool is_measured(const struct dt_known_link *link, const char *host)
{
    return link->message_bytes && link->service_ns && link->nic[0] && !strcmp(link->host, host);
}

static void add(struct sum *sum, const struct dt_known_link *link)
{
    sum->service_ns += (double)link->service_ns;
    sum->bytes += (double)link->message_bytes;
    sum->count++;
}

double dt_backup_gain(const struct dt_known_link *links, size_t count, const char *host, const char *nic,
                      uint64_t connection)
{
    struct sum own = {0}, other = {0};

    for (size_t i = 0; i < count; i++) {
        if (is_measured(&links[i], host) && !strcmp(links[i].nic, nic) &&
            (!connection || links[i].connection == connection))
            add(&own, &links[i]);
    }
    for (size_t i = 0; own.count && i < count; i++) {
        double size = (double)links[i].message_bytes * (double)own.count / own.bytes;

        if (is_measured(&links[i], host) && strcmp(links[i].nic, nic) != 0 && size >= 0.5 && size <= 2)
            add(&other, &links[i]);
    }
    return other.count ? own.service_ns / own.bytes / (other.service_ns / other.bytes) : 0;
}
