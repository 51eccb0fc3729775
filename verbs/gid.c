/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/gid.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

static bool is_empty(const union ibv_gid *gid)
{
    static const uint8_t zero[16];

    return !memcmp(gid->raw, zero, sizeof zero);
}

/*
 * How good a GID is for RoCE: version 2 with an IPv4 address before version 2 with an IPv6 address,
 * link-local ones after that, version 1 last; 0 is unusable.
 */
static int gid_rank(const union ibv_gid *gid, uint32_t type)
{
    static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};
    bool is_version_2 = type == IBV_GID_TYPE_ROCE_V2;

    if (is_empty(gid))
        return 0;
    if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)
        return is_version_2 ? 2 : 1;
    if (!is_version_2)
        return 3;
    return memcmp(gid->raw, ipv4_prefix, sizeof ipv4_prefix) ? 4 : 5;
}

/* One GID and its type; where types are not known all are taken for version 2. */
static bool read_gid(const struct dt_verbs_table *table, struct ibv_context *context, uint32_t port,
                     uint32_t index, union ibv_gid *gid, uint32_t *type)
{
    struct ibv_gid_entry entry = {0};
    int error = EOPNOTSUPP;

    if (table->query_gid_ex)
        error = table->query_gid_ex(context, port, index, &entry, 0, sizeof entry);
    if (error != EOPNOTSUPP) {
        *gid = entry.gid;
        *type = entry.gid_type;
        return !error;
    }
    *type = IBV_GID_TYPE_ROCE_V2;
    return !table->query_gid(context, (uint8_t)port, (int)index, gid);
}

static void take(struct dt_device_info *info, uint32_t index, const union ibv_gid *gid)
{
    info->gid_index = index;
    memcpy(info->gid, gid->raw, sizeof info->gid);
}

/* The user knows best; an entry that is not there is not replaced by another. */
static enum dt_status take_asked_for(const struct dt_verbs *verbs, struct ibv_context *context,
                                     const struct ibv_port_attr *port, struct dt_device_info *info)
{
    union ibv_gid gid;

    if (verbs->gid_index >= (uint32_t)port->gid_tbl_len ||
        verbs->table.query_gid(context, (uint8_t)info->port, (int)verbs->gid_index, &gid) || is_empty(&gid)) {
        dt_info("verbs: %s port %u is left out: GID index %u was asked for, and it is not one of its GIDs",
                info->name, info->port, verbs->gid_index);
        return DT_NOT_FOUND;
    }
    take(info, verbs->gid_index, &gid);
    return DT_OK;
}

static int take_first(const struct dt_verbs_table *table, struct ibv_context *context,
                      struct dt_device_info *info)
{
    union ibv_gid gid;

    if (table->query_gid(context, (uint8_t)info->port, 0, &gid))
        return 0;
    take(info, 0, &gid);
    return 1;
}

/* The rank of what was taken. */
static int take_best(const struct dt_verbs_table *table, struct ibv_context *context,
                     const struct ibv_port_attr *port, struct dt_device_info *info)
{
    int best = 0;

    for (int index = 0; index < port->gid_tbl_len; index++) {
        union ibv_gid gid;
        uint32_t type;

        if (!read_gid(table, context, info->port, (uint32_t)index, &gid, &type))
            continue;
        if (gid_rank(&gid, type) > best) {
            best = gid_rank(&gid, type);
            take(info, (uint32_t)index, &gid);
        }
    }
    return best;
}

enum dt_status dt_gid_choose(const struct dt_verbs *verbs, struct ibv_context *context,
                             const struct ibv_port_attr *port, struct dt_device_info *info)
{
    int rank;

    if (verbs->has_gid_index && !info->is_soft)
        return take_asked_for(verbs, context, port, info);
    rank = info->link_layer == DT_LINK_INFINIBAND ? take_first(&verbs->table, context, info)
                                                  : take_best(&verbs->table, context, port, info);
    if (rank > 0)
        return DT_OK;
    dt_info("verbs: %s port %u is left out: it has no GID", info->name, info->port);
    return DT_NOT_FOUND;
}

/* The same address may stand there for both versions of RoCE: then it is version 2's that was chosen. */
bool dt_gid_find(const struct dt_verbs *verbs, struct ibv_context *context, const struct ibv_port_attr *port,
                 struct dt_device_info *info)
{
    bool is_found = false;

    for (int index = 0; index < port->gid_tbl_len; index++) {
        union ibv_gid gid;
        uint32_t type;

        if (!read_gid(&verbs->table, context, info->port, (uint32_t)index, &gid, &type) ||
            memcmp(gid.raw, info->gid, sizeof info->gid) != 0)
            continue;
        if (!is_found || type == IBV_GID_TYPE_ROCE_V2)
            info->gid_index = (uint32_t)index;
        is_found = true;
    }
    return is_found;
}
