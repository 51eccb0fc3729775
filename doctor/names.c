/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/names.h"

#include <ctype.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"

#define NAME_BYTES_MAX 64 /* longer than any known name with its edits */

/* Of the commands for a job's store: no settings of the plugin. */
static const char *const store_names[] = {DT_ENV_REDIS, DT_ENV_REDIS_CA, DT_ENV_REDIS_CERT, DT_ENV_REDIS_KEY};

/* The table "NCCL's settings" of docs/environment.md without what is an alias in base/param.h. */
static const char *const nccl_names[] = {
    "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DEVICE_PCI_ORDER",
    "NCCL_IB_DISABLE",
    "NCCL_IB_EVENT_BASED_LB",
    "NCCL_IB_EVENT_BASED_LB_REMOTE",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_MERGE_VFS",
    "NCCL_IB_MLX_VENDOR_ID",
    "NCCL_IB_OOO_RQ",
    "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS",
    "NCCL_IB_QUERY_PORT_SPEED",
    "NCCL_IB_RAIL_POLICY",
    "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_SORT_MERGE_NICS",
    "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_SUBNET_PREFIX_LEN",
    "NCCL_IB_USE_INLINE",
    "NCCL_IB_VR_RAILS_PER_SOCKET",
    "NCCL_IB_VR_SOCKET_COUNT",
    "NCCL_IB_WARN_RAIL_LOCAL",
    "NCCL_IB_WQE_LATENCY_REPORT",
    "NCCL_IB_WQE_LATENCY_THRESHOLD_NS",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_SOCKET_INLINE",
    "NCCL_SOCKET_MAGIC",
    "NCCL_SOCKET_MIN_TASKSIZE",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_SOCKET_POLL_TIMEOUT_MSEC",
    "NCCL_SOCKET_RCVBUF",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
    "NCCL_SOCKET_SNDBUF",
};

struct area {
    const char *prefix;
    const char *owner;
};

static const struct area *area_of(const char *name, size_t bytes)
{
#define AREA(prefix, owner) {prefix, owner},
    static const struct area areas[] = {DT_NAME_AREAS(AREA)};
#undef AREA

    for (size_t i = 0; i < DT_COUNT_OF(areas); i++) {
        size_t prefix_bytes = strlen(areas[i].prefix);

        if (bytes >= prefix_bytes && strncmp(name, areas[i].prefix, prefix_bytes) == 0)
            return &areas[i];
    }
    return NULL;
}

const char *dt_name_owner(const char *name, size_t bytes)
{
    const struct area *area = area_of(name, bytes);

    return area ? area->owner : NULL;
}

/* Each setting has two places, its name and its alias, which may be NULL. */
static const char *name_or_null(size_t index)
{
    size_t count;
    const struct dt_param_info *table = dt_param_table(&count);

    if (index < 2 * count)
        return index % 2 ? table[index / 2].alias : table[index / 2].name;
    index -= 2 * count;
    if (index < DT_COUNT_OF(store_names))
        return store_names[index];
    return nccl_names[index - DT_COUNT_OF(store_names)];
}

static size_t place_count(void)
{
    size_t count;

    (void)dt_param_table(&count);
    return 2 * count + DT_COUNT_OF(store_names) + DT_COUNT_OF(nccl_names);
}

const char *dt_name_at(size_t index)
{
    for (size_t i = 0; i < place_count(); i++) {
        const char *name = name_or_null(i);

        if (name && index-- == 0)
            return name;
    }
    return NULL;
}

bool dt_name_is_known(const char *name, size_t bytes)
{
    for (size_t i = 0; i < place_count(); i++) {
        const char *known = name_or_null(i);

        if (known && strlen(known) == bytes && memcmp(known, name, bytes) == 0)
            return true;
    }
    return false;
}

static bool is_same(char a, char b)
{
    return toupper((unsigned char)a) == toupper((unsigned char)b);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The edits that make a to b: optimal string alignment, by three rows of its table. Both are at most
 * NAME_BYTES_MAX long. */
static size_t edits(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t rows[3][NAME_BYTES_MAX + 1];

    for (size_t j = 0; j <= b_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            row[j] = smaller(last[j - 1] + !is_same(a[i - 1], b[j - 1]), smaller(last[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]))
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_bytes % 3][b_bytes];
}

const char *dt_name_nearest(const char *name, size_t bytes)
{
    const struct area *area = area_of(name, bytes);
    const char *nearest = NULL;
    size_t fewest;

    if (!area || bytes > NAME_BYTES_MAX)
        return NULL;
    /* One, and one more for each four characters behind the prefix, up to three; the next is too many. */
    fewest = 1 + smaller(1 + (bytes - strlen(area->prefix)) / 4, 3);
    for (size_t i = 0; i < place_count(); i++) {
        const char *known = name_or_null(i);
        size_t count =
            known && strlen(known) <= NAME_BYTES_MAX ? edits(name, bytes, known, strlen(known)) : fewest;

        if (count < fewest) {
            fewest = count;
            nearest = known;
        }
    }
    return nearest;
}
