/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/gid.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "verbs/fault_layer.h"

static bool is_empty(const union ibv_gid *gid)
{
    static const uint8_t zero[16];

    return !memcmp(gid->raw, zero, sizeof zero);
}

const char *dt_gid_kind_text(uint32_t kind)
{
    static const char *const texts[] = {
#define DT_GID_KIND_TEXT(name, text) text,
        DT_GID_KINDS(DT_GID_KIND_TEXT)
#undef DT_GID_KIND_TEXT
    };

    return kind < DT_GID_KIND_COUNT ? texts[kind] : "unknown";
}

static enum dt_gid_kind gid_kind(const union ibv_gid *gid, uint32_t type)
{
    static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};
    bool is_version_2 = type == IBV_GID_TYPE_ROCE_V2;

    if (is_empty(gid))
        return DT_GID_EMPTY;
    if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)
        return is_version_2 ? DT_GID_ROCE_V2_LINK_LOCAL : DT_GID_ROCE_V1_LINK_LOCAL;
    if (!is_version_2)
        return DT_GID_ROCE_V1;
    return memcmp(gid->raw, ipv4_prefix, sizeof ipv4_prefix) ? DT_GID_ROCE_V2_IPV6 : DT_GID_ROCE_V2_IPV4;
}

/*
 * One GID, its type and the network interface that it belongs to; where types are not known all are taken for
 * version 2.
 */
static bool read_entry(const struct dt_verbs_table *table, struct ibv_context *context, uint32_t port,
                       uint32_t index, union ibv_gid *gid, uint32_t *type, uint32_t *interface_index)
{
    struct ibv_gid_entry entry = {0};
    int error = dt_fault_query(context, DT_DEVICE_CALL_QUERY_GID);

    if (error)
        return false;
    error = EOPNOTSUPP;
    if (table->query_gid_ex)
        error = table->query_gid_ex(context, port, index, &entry, 0, sizeof entry);
    if (error != EOPNOTSUPP) {
        *gid = entry.gid;
        *type = entry.gid_type;
        *interface_index = entry.ndev_ifindex;
        return !error;
    }
    *type = IBV_GID_TYPE_ROCE_V2;
    *interface_index = 0;
    return !table->query_gid(context, (uint8_t)port, (int)index, gid);
}

static bool read_gid(const struct dt_verbs_table *table, struct ibv_context *context, uint32_t port,
                     uint32_t index, union ibv_gid *gid, uint32_t *type)
{
    uint32_t interface_index;

    return read_entry(table, context, port, index, gid, type, &interface_index);
}

static void take(struct dt_device_info *info, uint32_t index, const union ibv_gid *gid)
{
    info->gid_index = index;
    memcpy(info->gid, gid->raw, sizeof info->gid);
}

/* The user's choice: a missing entry is not replaced by another. */
static enum dt_status take_asked_for(const struct dt_verbs *verbs, struct ibv_context *context,
                                     const struct ibv_port_attr *port, struct dt_device_info *info)
{
    union ibv_gid gid;

    if (verbs->gid_index >= (uint32_t)port->gid_tbl_len ||
        verbs->table.query_gid(context, (uint8_t)info->port, (int)verbs->gid_index, &gid) || is_empty(&gid)) {
        dt_info("skip-gid-index",
                "verbs: %s port %u is left out: GID index %u was asked for, and it is not one of its GIDs",
                info->name, info->port, verbs->gid_index);
        return DT_NOT_FOUND;
    }
    take(info, verbs->gid_index, &gid);
    return DT_OK;
}

uint32_t dt_gid_flid(const uint8_t gid[16])
{
    return (uint32_t)gid[4] << 8 | gid[5];
}

bool dt_gid_is_same_subnet(const uint8_t a[16], const uint8_t b[16])
{
    return memcmp(a, b, 4) == 0 && memcmp(a + 6, b + 6, 2) == 0;
}

static bool take_infiniband(const struct dt_verbs *verbs, struct ibv_context *context,
                            const struct ibv_port_attr *port, struct dt_device_info *info)
{
    const struct dt_verbs_table *table = &verbs->table;
    uint32_t index = verbs->flid_gid_index;
    union ibv_gid gid;

    if (index < (uint32_t)port->gid_tbl_len &&
        !table->query_gid(context, (uint8_t)info->port, (int)index, &gid) && dt_gid_flid(gid.raw)) {
        take(info, index, &gid);
        return true;
    }
    if (table->query_gid(context, (uint8_t)info->port, 0, &gid))
        return false;
    take(info, 0, &gid);
    return true;
}

static uint32_t rank_of(const struct dt_verbs *verbs, const union ibv_gid *gid, uint32_t type)
{
    enum dt_gid_kind kind = gid_kind(gid, type);
    bool is_wished = kind != DT_GID_EMPTY &&
                     dt_gid_wish_is_met(&verbs->gid_wish, gid->raw, type == IBV_GID_TYPE_ROCE_V2 ? 2 : 1);

    return (uint32_t)kind + (is_wished ? DT_GID_KIND_COUNT : 0);
}

/* False: every entry is empty. */
static bool take_best(const struct dt_verbs *verbs, struct ibv_context *context,
                      const struct ibv_port_attr *port, struct dt_device_info *info)
{
    uint32_t best = DT_GID_EMPTY;

    for (int index = 0; index < port->gid_tbl_len; index++) {
        union ibv_gid gid;
        uint32_t type;

        if (!read_gid(&verbs->table, context, info->port, (uint32_t)index, &gid, &type))
            continue;
        if (rank_of(verbs, &gid, type) > best) {
            best = rank_of(verbs, &gid, type);
            take(info, (uint32_t)index, &gid);
        }
    }
    return best != DT_GID_EMPTY;
}

enum dt_status dt_gid_choose(const struct dt_verbs *verbs, struct ibv_context *context,
                             const struct ibv_port_attr *port, struct dt_device_info *info)
{
    bool is_taken;

    if (verbs->has_gid_index && info->link_layer != DT_LINK_INFINIBAND && !info->is_soft)
        return take_asked_for(verbs, context, port, info);
    is_taken = info->link_layer == DT_LINK_INFINIBAND ? take_infiniband(verbs, context, port, info)
                                                      : take_best(verbs, context, port, info);
    if (is_taken)
        return DT_OK;
    dt_info("skip-no-gid", "verbs: %s port %u is left out: it has no GID", info->name, info->port);
    return DT_NOT_FOUND;
}

/* Is the GID of *info at this place of the table? *type is that of the entry. */
static bool is_at(const struct dt_verbs *verbs, struct ibv_context *context,
                  const struct dt_device_info *info, uint32_t index, uint32_t *type)
{
    union ibv_gid gid;

    return read_gid(&verbs->table, context, info->port, index, &gid, type) &&
           memcmp(gid.raw, info->gid, sizeof info->gid) == 0;
}

/* The same address may stand there for both versions of RoCE: then it is version 2's that was chosen. The
 * usual case, the place that it was at, takes one query, however long the table is. */
bool dt_gid_find(const struct dt_verbs *verbs, struct ibv_context *context, const struct ibv_port_attr *port,
                 struct dt_device_info *info)
{
    bool is_found = false;
    uint32_t type;

    if (info->gid_index < (uint32_t)port->gid_tbl_len &&
        is_at(verbs, context, info, info->gid_index, &type) &&
        (type == IBV_GID_TYPE_ROCE_V2 || info->link_layer == DT_LINK_INFINIBAND))
        return true;
    for (uint32_t index = 0; index < (uint32_t)port->gid_tbl_len; index++) {
        if (!is_at(verbs, context, info, index, &type))
            continue;
        if (!is_found || type == IBV_GID_TYPE_ROCE_V2)
            info->gid_index = index;
        is_found = true;
    }
    return is_found;
}

/* ------------------------------------------------------------------------------------------------------------
 * For people
 */
static size_t list_gids(const struct dt_verbs_table *table, struct ibv_context *context,
                        const struct dt_device_info *info, struct dt_gid_info *list, size_t count_max)
{
    struct ibv_port_attr port;
    size_t count = 0;

    if (dt_table_query_port(table, context, (uint8_t)info->port, &port, NULL))
        return 0;
    for (int index = 0; index < port.gid_tbl_len && count < count_max; index++) {
        struct dt_gid_info *entry = &list[count];
        union ibv_gid gid;
        uint32_t type;

        if (!read_entry(table, context, info->port, (uint32_t)index, &gid, &type, &entry->interface_index) ||
            is_empty(&gid))
            continue;
        memcpy(entry->gid, gid.raw, sizeof entry->gid);
        entry->index = (uint32_t)index;
        entry->kind = info->link_layer == DT_LINK_INFINIBAND ? DT_GID_INFINIBAND : gid_kind(&gid, type);
        count++;
    }
    return count;
}

size_t dt_verbs_gids(struct dt_verbs *verbs, const struct dt_device_info *info, struct dt_gid_info *list,
                     size_t count_max)
{
    struct ibv_context *context = dt_open_by_name(&verbs->table, info->name);
    size_t count;

    if (!context) {
        dt_warn("gid-open", "%s: the device cannot be opened: %s", info->name, strerror(errno));
        return 0;
    }
    count = list_gids(&verbs->table, context, info, list, count_max);
    verbs->table.close_device(context);
    return count;
}
