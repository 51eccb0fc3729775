/* SPDX-License-Identifier: Apache-2.0 */
/* The device list: what each port of each device is. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <endian.h>
#include <limits.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "verbs/discover.h"
#include "verbs/gid.h"
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

/* IBV_MTU_256 is 1, IBV_MTU_4096 is 5; the smallest for any other value. */
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

/* LIDs of a port with virtual functions are virtual: the kernel refuses a path without a global header. */
static bool needs_grh(const struct ibv_port_attr *port)
{
    return link_layer_of(port) == DT_LINK_INFINIBAND && (port->flags & IBV_QPF_GRH_REQUIRED);
}

/* In front of all paths in sysfs. */
static const char *root_of(const struct dt_verbs_table *table)
{
    return table->root ? table->root : "";
}

static void read_sysfs(const char *root, const struct ibv_device *device, struct dt_device_info *info)
{
    char path[PATH_MAX];
    char real[PATH_MAX];
    size_t root_bytes = strlen(root);
    FILE *file;

    info->numa_node = -1;
    if (!device->ibdev_path[0])
        return;
    snprintf(path, sizeof path, "%s%s/device", root, device->ibdev_path);
    if (realpath(path, real) && strlen(real) < root_bytes + sizeof info->pci_path)
        strcpy(info->pci_path, real + (strncmp(real, root, root_bytes) ? 0 : root_bytes));
    snprintf(path, sizeof path, "%s%s/device/numa_node", root, device->ibdev_path);
    file = fopen(path, "re");
    if (!file)
        return;
    if (fscanf(file, "%d", &info->numa_node) != 1)
        info->numa_node = -1;
    fclose(file);
}

const char *dt_provider_text(uint32_t provider)
{
    static const char *const texts[] = {
#define PROVIDER_TEXT(name, text, vendor_id) text,
        DT_PROVIDERS(PROVIDER_TEXT)
#undef PROVIDER_TEXT
    };

    return provider < DT_COUNT_OF(texts) ? texts[provider] : "other";
}

static uint32_t provider_of(const struct dt_verbs_table *table, uint32_t vendor_id)
{
    static const uint32_t ids[] = {
#define PROVIDER_ID(name, text, vendor_id) vendor_id,
        DT_PROVIDERS(PROVIDER_ID)
#undef PROVIDER_ID
    };
    uint32_t provider = DT_PROVIDER_COUNT - 1;

    if (table->is_soft)
        return DT_PROVIDER_SOFT;
    while (provider != DT_PROVIDER_OTHER && (ids[provider] == 0 || ids[provider] != vendor_id))
        provider--;
    return provider;
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

enum dt_status dt_discover_port(const struct dt_verbs *verbs, struct ibv_context *context,
                                const struct ibv_device_attr *attr, uint32_t port,
                                struct dt_device_info *info)
{
    const struct dt_verbs_table *table = &verbs->table;
    struct ibv_port_attr port_attr;
    uint32_t speed;
    int error = dt_table_query_port(table, context, (uint8_t)port, &port_attr, &speed);

    memset(info, 0, sizeof *info);
    snprintf(info->name, sizeof info->name, "%s", table->get_device_name(context->device));
    if (error) {
        dt_info("skip-port-query", "verbs: %s port %u is left out: it cannot be queried: %s", info->name,
                port, strerror(error));
        return DT_SYSTEM;
    }
    info->guid = be64toh(table->get_device_guid(context->device));
    info->image_guid = be64toh(attr->sys_image_guid);
    info->port = port;
    info->lid = port_attr.lid;
    info->link_layer = link_layer_of(&port_attr);
    info->needs_grh = needs_grh(&port_attr);
    info->is_active = port_attr.state == IBV_PORT_ACTIVE;
    info->is_soft = table->is_soft;
    info->provider = provider_of(table, attr->vendor_id);
    info->mtu_bytes = mtu_bytes_of(port_attr.active_mtu);
    info->speed_mbps = lane_count(port_attr.active_width) * lane_mbps(speed);
    info->capabilities = DT_MEMORY_HOST;
    fill_limits(attr, info);
    read_sysfs(root_of(table), context->device, info);
    return dt_gid_choose(verbs, context, &port_attr, info);
}

enum dt_status dt_discover_again(const struct dt_verbs *verbs, struct ibv_context *context,
                                 struct dt_device_info *info)
{
    struct dt_device_info found = *info;
    struct ibv_port_attr port;

    if (dt_table_query_port(&verbs->table, context, (uint8_t)info->port, &port, NULL))
        return DT_SYSTEM;
    if (port.state != IBV_PORT_ACTIVE)
        return DT_AGAIN;
    found.lid = port.lid;
    found.mtu_bytes = mtu_bytes_of(port.active_mtu);
    found.needs_grh = needs_grh(&port);
    found.is_active = true;
    if (!dt_gid_find(verbs, context, &port, &found) && dt_gid_choose(verbs, context, &port, &found) != DT_OK)
        return DT_NOT_FOUND;
    info->lid = found.lid;
    info->mtu_bytes = found.mtu_bytes;
    info->needs_grh = found.needs_grh;
    info->is_active = true;
    info->gid_index = found.gid_index;
    memcpy(info->gid, found.gid, sizeof info->gid);
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

/* ------------------------------------------------------------------------------------------------------------
 * Memory that is not the host's
 */

/* The kernel module that lets RNICs register the CUDA driver's pointers, under the names it has had. */
static bool has_peer_memory(const char *root)
{
    static const char *const files[] = {"/sys/kernel/mm/memory_peers/nv_mem/version",
                                        "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
                                        "/sys/module/nvidia_peermem/version"};
    char path[PATH_MAX];

    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        snprintf(path, sizeof path, "%s%s", root, files[i]);
        if (!access(path, F_OK))
            return true;
    }
    return false;
}

/* Asks to register a file that is none: a driver that can do it complains about the file, others about the
 * call. */
static bool takes_dmabuf(const struct dt_verbs_table *table, struct ibv_context *context)
{
    struct ibv_pd *pd = table->reg_dmabuf_mr ? table->alloc_pd(context) : NULL;
    struct ibv_mr *mr;
    bool is_known;

    if (!pd)
        return false;
    errno = 0;
    mr = table->reg_dmabuf_mr(pd, 0, 0, 0, -1, 0);
    is_known = mr || (errno != EOPNOTSUPP && errno != EPROTONOSUPPORT && errno != ENOSYS);
    if (mr)
        table->dereg_mr(mr);
    table->dealloc_pd(pd);
    return is_known;
}

/* Devices that are not hardware have no PCI path; their copies are the CPU's, which cannot reach a GPU. */
static uint32_t capabilities_of(const struct dt_verbs_table *table, struct ibv_context *context,
                                const struct dt_device_info *info)
{
    if (table->is_soft || !info->pci_path[0])
        return DT_MEMORY_HOST;
    return DT_MEMORY_HOST | (has_peer_memory(root_of(table)) ? DT_MEMORY_CUDA : 0) |
           (takes_dmabuf(table, context) ? DT_MEMORY_DMABUF : 0);
}

/* ------------------------------------------------------------------------------------------------------------
 * The list
 */
static enum dt_status append_ports(const struct dt_verbs *verbs, struct ibv_context *context,
                                   struct port_list *list)
{
    const struct dt_verbs_table *table = &verbs->table;
    struct ibv_device_attr attr;
    int error = table->query_device(context, &attr);

    if (error) {
        dt_info("skip-device-query", "verbs: %s is left out: it cannot be queried: %s",
                table->get_device_name(context->device), strerror(error));
        return DT_OK;
    }
    for (uint32_t port = 1; port <= attr.phys_port_cnt; port++) {
        struct dt_device_info info;

        if (dt_discover_port(verbs, context, &attr, port, &info) != DT_OK)
            continue;
        info.capabilities = capabilities_of(table, context, &info);
        if (append(list, &info) != DT_OK)
            return DT_NO_MEMORY;
    }
    return DT_OK;
}

/* InfiniBand's queue pairs, which are RoCE's: iWARP connects by other means, and EFA has other queue pairs.
 */
static bool has_our_transport(const struct ibv_device *device)
{
    return device->transport_type == IBV_TRANSPORT_IB || device->transport_type == IBV_TRANSPORT_UNKNOWN;
}

static enum dt_status append_device(const struct dt_verbs *verbs, struct ibv_device *device,
                                    struct port_list *list)
{
    const struct dt_verbs_table *table = &verbs->table;
    struct ibv_context *context;
    enum dt_status status;

    if (!has_our_transport(device)) {
        dt_info("skip-link-layer", "verbs: %s is left out: it is neither InfiniBand nor RoCE",
                table->get_device_name(device));
        return DT_OK;
    }
    context = table->open_device(device);
    if (!context) {
        dt_info("skip-open", "verbs: %s is left out: it cannot be opened: %s", table->get_device_name(device),
                strerror(errno));
        return DT_OK;
    }
    status = append_ports(verbs, context, list);
    table->close_device(context);
    return status;
}

static bool comes_before(const struct dt_device_info *a, const struct dt_device_info *b)
{
    if (!a->pci_path[0] || !b->pci_path[0])
        return a->pci_path[0] && !b->pci_path[0];
    return strcmp(a->pci_path, b->pci_path) < 0;
}

/* By PCI path; equal ones, as the ports of one device are, stay in their order. */
static void sort_by_path(struct port_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        struct dt_device_info info = list->entries[i];
        size_t to = i;

        for (; to > 0 && comes_before(&info, &list->entries[to - 1]); to--)
            list->entries[to] = list->entries[to - 1];
        list->entries[to] = info;
    }
}

/* "0000:12:08.3", a second port or a virtual function, is on the card 0000:12:00.0. */
static void name_card(struct dt_device_info *info)
{
    size_t bytes = strlen(info->pci_path);

    memcpy(info->card_path, info->pci_path, bytes + 1);
    if (bytes < 12 || info->pci_path[bytes - 2] != '.' || info->pci_path[bytes - 5] != ':')
        return; /* no PCI function */
    info->card_path[bytes - 1] = '0';
    memcpy(info->card_path + bytes - 4, "00", 2);
}

/* Numbers the ports of each card, in the order of the list, which is the same in every process. */
static void find_cards(struct port_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct dt_device_info *info = &list->entries[i];

        name_card(info);
        info->card_port = info->port;
        for (size_t j = 0; j < i && info->card_path[0]; j++)
            info->card_port += strcmp(list->entries[j].card_path, info->card_path) == 0;
    }
}

enum dt_status dt_verbs_devices(struct dt_verbs *verbs, struct dt_device_info **list, size_t *count)
{
    struct port_list ports = {NULL, 0};
    enum dt_status status = DT_OK;
    int device_count = 0;
    struct ibv_device **devices = verbs->table.get_device_list(&device_count);

    if (!devices && errno == ENOSYS) { /* a kernel without RDMA */
        dt_info("no-rdma", "verbs: this kernel has no RDMA devices");
        *list = NULL;
        *count = 0;
        return DT_OK;
    }
    if (!devices) {
        dt_warn("device-list", "verbs: no device list: %s", strerror(errno));
        return DT_SYSTEM;
    }
    for (int i = 0; i < device_count && status == DT_OK; i++)
        status = append_device(verbs, devices[i], &ports);
    verbs->table.free_device_list(devices);
    if (status != DT_OK) {
        free(ports.entries);
        return status;
    }
    sort_by_path(&ports);
    find_cards(&ports);
    *list = ports.entries;
    *count = ports.count;
    return DT_OK;
}

void dt_verbs_devices_free(struct dt_device_info *list)
{
    free(list);
}
