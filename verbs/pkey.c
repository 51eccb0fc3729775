/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/pkey.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define PARTITION   0x7fffu /* the bits of a key that name the partition */
#define FULL_MEMBER 0x8000u

/* 0, which is no key: the entry is empty, or cannot be read. */
static uint32_t key_at(const struct dt_device *device, uint32_t index)
{
    __be16 key = 0;

    if (device->verbs->table.query_pkey(device->context, (uint8_t)device->info.port, (int)index, &key))
        return 0;
    return be16toh(key);
}

static bool is_same_partition(uint32_t key, uint32_t wanted)
{
    return (key & PARTITION) != 0 && (key & PARTITION) == (wanted & PARTITION);
}

static bool is_best(uint32_t key, uint32_t wanted)
{
    return is_same_partition(key, wanted) && (key & FULL_MEMBER);
}

/* The place of the best entry, plus one; 0: there is none. */
static uint32_t find(const struct dt_device *device, uint32_t count, uint32_t wanted)
{
    uint32_t limited = 0;

    for (uint32_t index = 0; index < count; index++) {
        uint32_t key = key_at(device, index);

        if (is_best(key, wanted))
            return index + 1;
        if (!limited && is_same_partition(key, wanted))
            limited = index + 1;
    }
    return limited;
}

static void warn(const struct dt_device *device, uint32_t count)
{
    char keys[128] = "";
    size_t used = 0;

    for (uint32_t index = 0; index < count && used + sizeof " 0xffff ..." < sizeof keys; index++) {
        uint32_t key = key_at(device, index);

        if (key)
            used += (size_t)snprintf(keys + used, sizeof keys - used, " 0x%04x", key);
    }
    dt_warn("pkey-missing", "%s port %u: partition key 0x%04x is not in its table, which has%s",
            device->info.name, device->info.port, device->verbs->pkey_value, used ? keys : " none");
}

/* Each attempt to recover a path searches again; a failure is logged when it begins. */
static bool is_first(struct dt_device *device, enum dt_status failure)
{
    bool is_logged = device->logged_pkey == failure;

    device->logged_pkey = failure;
    return !is_logged;
}

/* An entry that is not in the table is refused here: the device's own refusal, of a state of the queue pair,
 * names no setting. Where the length is unknown the device decides. */
static enum dt_status check_index(struct dt_device *device)
{
    const struct dt_verbs *verbs = device->verbs;
    struct ibv_port_attr port;

    if (!verbs->pkey_index ||
        dt_table_query_port(&verbs->table, device->context, (uint8_t)device->info.port, &port, NULL) ||
        !port.pkey_tbl_len || verbs->pkey_index < port.pkey_tbl_len)
        return DT_OK;
    if (is_first(device, DT_NOT_FOUND))
        dt_warn("pkey-index",
                "%s port %u: DETOUR_PKEY or NCCL_IB_PKEY is %u, and the port's table of partition keys has "
                "entries 0 to %u only",
                device->info.name, device->info.port, verbs->pkey_index, port.pkey_tbl_len - 1u);
    return DT_NOT_FOUND;
}

enum dt_status dt_pkey_find(struct dt_device *device, uint16_t *index)
{
    const struct dt_verbs *verbs = device->verbs;
    struct ibv_port_attr port;
    int error;

    *index = (uint16_t)verbs->pkey_index;
    if (!verbs->pkey_value)
        return check_index(device);
    /* The usual case takes one query: each reads a file, and a table may have 128 entries. A limited member
     * takes the search: a full membership may have been added. */
    if (!device->pkey_place || !is_best(key_at(device, device->pkey_place - 1), verbs->pkey_value)) {
        error = dt_table_query_port(&verbs->table, device->context, (uint8_t)device->info.port, &port, NULL);
        if (error) {
            if (is_first(device, DT_SYSTEM))
                dt_warn("pkey-query", "%s port %u: its table of partition keys cannot be read: %s",
                        device->info.name, device->info.port, strerror(error));
            return DT_SYSTEM;
        }
        device->pkey_place = find(device, port.pkey_tbl_len, verbs->pkey_value);
        if (!device->pkey_place) {
            if (is_first(device, DT_NOT_FOUND))
                warn(device, port.pkey_tbl_len);
            return DT_NOT_FOUND;
        }
    }
    device->logged_pkey = DT_OK;
    *index = (uint16_t)(device->pkey_place - 1);
    return DT_OK;
}
