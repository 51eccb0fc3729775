/* SPDX-License-Identifier: Apache-2.0 */
/* The device list: what each port of each device is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <endian.h>
#include <limits.h>

#include "base/log.h"
#include "base/util.h"
#include "verbs/discover.h"
#include "verbs/object.h"

/* Lanes, from ibv_port_attr.active_width (IBA PortInfo.LinkWidthActive). */
static uint32_t lane_count(uint8_t width)
{
    switch (width) {
    case 1:
        return 1;
    case 2:
        return 4;
    case 4:
        return 8;
    case 8:
        return 12;
    case 16:
        return 2;
    default:
        return 1;
    }
}

/* Signalling rate of one lane in Mbit/s, from active_speed (IBA PortInfo.LinkSpeedActive and its extensions).
 */
static uint32_t lane_mbps(uint32_t speed)
{
    switch (speed) {
    case 1:
        return 2500; /* SDR */
    case 2:
        return 5000; /* DDR */
    case 4:
        return 10000; /* QDR */
    case 8:
        return 10000; /* FDR10 */
    case 16:
        return 14000; /* FDR */
    case 32:
        return 25000; /* EDR */
    case 64:
        return 50000; /* HDR */
    case 128:
        return 100000; /* NDR */
    case 256:
        return 200000; /* XDR */
    default:
        return 2500;
    }
}

/* IBV_MTU_256 is 1, IBV_MTU_4096 is 5; the smallest for a device that says something else. */
static uint32_t mtu_bytes_of(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 256;
}

static enum dt_link_layer link_layer_of(const struct ibv_port_attr *port)
{
    switch (port->link_layer) {
    case IBV_LINK_LAYER_ETHERNET:
        return DT_LINK_ETHERNET;
    case IBV_LINK_LAYER_INFINIBAND:
    case IBV_LINK_LAYER_UNSPECIFIED: /* devices older than the field are InfiniBand */
        return DT_LINK_INFINIBAND;
    default:
        return DT_LINK_UNKNOWN;
    }
}

/*
 * How good a GID is for RoCE: version 2 with an IPv4 address before version 2 with an IPv6 address,
 * link-local ones after that, version 1 last; 0 is unusable.
 */
static int gid_rank(const union ibv_gid *gid, uint32_t type)
{
    static const uint8_t ipv4_prefix[12] = {[10] = 0xff, [11] = 0xff};
    static const uint8_t zero[16];
    bool is_version_2 = type == IBV_GID_TYPE_ROCE_V2;

    if (!memcmp(gid->raw, zero, sizeof zero))
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

/* Entry 0 on InfiniBand, the best-ranked one on RoCE. False: the port has no usable GID. */
static bool choose_gid(const struct dt_verbs_table *table, struct ibv_context *context,
                       const struct ibv_port_attr *port, struct dt_device_info *info)
{
    int best = 0;

    if (info->link_layer == DT_LINK_INFINIBAND) {
        union ibv_gid gid;

        if (table->query_gid(context, (uint8_t)info->port, 0, &gid))
            return false;
        memcpy(info->gid, gid.raw, sizeof info->gid);
        return true;
    }
    for (int index = 0; index < port->gid_tbl_len; index++) {
        union ibv_gid gid;
        uint32_t type;

        if (!read_gid(table, context, info->port, (uint32_t)index, &gid, &type))
            continue;
        if (gid_rank(&gid, type) > best) {
            best = gid_rank(&gid, type);
            info->gid_index = (uint32_t)index;
            memcpy(info->gid, gid.raw, sizeof info->gid);
        }
    }
    return best > 0;
}

static void read_sysfs(const struct ibv_device *device, struct dt_device_info *info)
{
    char path[IBV_SYSFS_PATH_MAX + 32];
    char real[PATH_MAX];
    FILE *file;

    info->numa_node = -1;
    if (!device->ibdev_path[0])
        return;
    snprintf(path, sizeof path, "%s/device", device->ibdev_path);
    if (realpath(path, real) && strlen(real) < sizeof info->pci_path)
        strcpy(info->pci_path, real);
    snprintf(path, sizeof path, "%s/device/numa_node", device->ibdev_path);
    file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%d", &info->numa_node) != 1)
        info->numa_node = -1;
    fclose(file);
}

static void fill_limits(const struct ibv_device_attr *attr, struct dt_device_info *info)
{
    info->qp_wr_max = (uint32_t)attr->max_qp_wr;
    info->cqe_max = (uint32_t)attr->max_cqe;
    info->qp_max = (uint32_t)attr->max_qp;
    info->mr_max = (uint32_t)attr->max_mr;
    info->rd_atomic_max = (uint32_t)attr->max_qp_rd_atom;
    info->mr_bytes_max = attr->max_mr_size;
}

enum dt_status dt_discover_port(const struct dt_verbs_table *table, struct ibv_context *context,
                                const struct ibv_device_attr *attr, uint32_t port,
                                struct dt_device_info *info)
{
    struct ibv_port_attr port_attr;
    int error = dt_table_query_port(table, context, (uint8_t)port, &port_attr);

    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%s", table->get_device_name(context->device));
    if (error) {
        dt_info("verbs: %s port %u is left out: it cannot be queried: %s", info->name, port, strerror(error));
        return DT_SYSTEM;
    }
    info->guid = be64toh(table->get_device_guid(context->device));
    info->port = port;
    info->lid = port_attr.lid;
    info->link_layer = link_layer_of(&port_attr);
    info->is_active = port_attr.state == IBV_PORT_ACTIVE;
    info->is_soft = table->is_soft;
    info->mtu_bytes = mtu_bytes_of(port_attr.active_mtu);
    info->speed_mbps = lane_count(port_attr.active_width) * lane_mbps(port_attr.active_speed);
    info->capabilities = DT_MEMORY_HOST;
    fill_limits(attr, info);
    read_sysfs(context->device, info);
    if (!choose_gid(table, context, &port_attr, info)) {
        dt_info("verbs: %s port %u is left out: it has no GID", info->name, port);
        return DT_NOT_FOUND;
    }
    return DT_OK;
}

/* A growing list of ports. */
struct port_list {
    struct dt_device_info *entries;
    size_t count;
};

static enum dt_status append(struct port_list *list, const struct dt_device_info *info)
{
    struct dt_device_info *entries = realloc(list->entries, (list->count + 1) * sizeof *entries);

    if (!entries)
        return DT_NO_MEMORY;
    list->entries = entries;
    list->entries[list->count++] = *info;
    return DT_OK;
}

static enum dt_status append_ports(const struct dt_verbs_table *table, struct ibv_context *context,
                                   struct port_list *list)
{
    struct ibv_device_attr attr;
    int error = table->query_device(context, &attr);

    if (error) {
        dt_info("verbs: %s is left out: it cannot be queried: %s", table->get_device_name(context->device),
                strerror(error));
        return DT_OK;
    }
    for (uint32_t port = 1; port <= attr.phys_port_cnt; port++) {
        struct dt_device_info info;

        if (dt_discover_port(table, context, &attr, port, &info) != DT_OK)
            continue;
        if (append(list, &info) != DT_OK)
            return DT_NO_MEMORY;
    }
    return DT_OK;
}

static enum dt_status append_device(const struct dt_verbs_table *table, struct ibv_device *device,
                                    struct port_list *list)
{
    struct ibv_context *context = table->open_device(device);
    enum dt_status status;

    if (!context) {
        dt_info("verbs: %s is left out: it cannot be opened: %s", table->get_device_name(device),
                strerror(errno));
        return DT_OK;
    }
    status = append_ports(table, context, list);
    table->close_device(context);
    return status;
}

enum dt_status dt_verbs_devices(struct dt_verbs *verbs, struct dt_device_info **list, size_t *count)
{
    struct port_list ports = {NULL, 0};
    enum dt_status status = DT_OK;
    int device_count = 0;
    struct ibv_device **devices = verbs->table.get_device_list(&device_count);

    if (!devices && errno == ENOSYS) { /* a kernel without RDMA */
        dt_info("verbs: this kernel has no RDMA devices");
        *list = NULL;
        *count = 0;
        return DT_OK;
    }
    if (!devices) {
        dt_warn("verbs: no device list: %s", strerror(errno));
        return DT_SYSTEM;
    }
    for (int i = 0; i < device_count && status == DT_OK; i++)
        status = append_device(&verbs->table, devices[i], &ports);
    verbs->table.free_device_list(devices);
    if (status != DT_OK) {
        free(ports.entries);
        return status;
    }
    *list = ports.entries;
    *count = ports.count;
    return DT_OK;
}

void dt_verbs_devices_free(struct dt_device_info *list)
{
    free(list);
}
