/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "softrnic/front.h"
#include "softrnic/gid.h"

/* ---- the device list ------------------------------------------------------------------------------------
 */

/* The devices of the process; entries of lists point here, so they outlive every list. */
struct soft_entry {
    struct ibv_device device;
    uint32_t index;
};

static struct soft_entry entries[DT_SOFT_NAMES_MAX];
static pthread_once_t entries_once = PTHREAD_ONCE_INIT;

static void fill_entries(void)
{
    for (uint32_t i = 0; i < DT_SOFT_NAMES_MAX; i++) {
        struct ibv_device *device = &entries[i].device;

        entries[i].index = i;
        device->node_type = IBV_NODE_CA;
        device->transport_type = IBV_TRANSPORT_IB;
        /* dev_path and ibdev_path stay empty: there is nothing in sysfs. */
        snprintf(device->name, sizeof device->name, "soft%u", i);
        snprintf(device->dev_name, sizeof device->dev_name, "detour-soft%u", i);
    }
}

static uint32_t index_of(const struct ibv_device *device)
{
    return dt_container_of(device, struct soft_entry, device)->index;
}

int dt_soft_configure(const struct dt_soft_options *options)
{
    return dt_driver_configure(options);
}

struct ibv_device **dt_soft_get_device_list(int *num_devices)
{
    uint32_t count = dt_driver_device_count();
    struct ibv_device **list = calloc(count + 1, sizeof *list);
    uint32_t listed = 0;

    pthread_once(&entries_once, fill_entries);
    for (uint32_t i = 0; list && i < count; i++) {
        if (dt_driver_is_present(i))
            list[listed++] = &entries[i].device;
    }
    if (num_devices)
        *num_devices = (int)listed;
    return list;
}

void dt_soft_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *dt_soft_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int dt_soft_get_device_index(struct ibv_device *device)
{
    return (int)index_of(device);
}

/* Differs from process to process, as the RNICs do. */
__be64 dt_soft_get_device_guid(struct ibv_device *device)
{
    return htobe64((dt_driver_instance() << 8) | (index_of(device) + 1));
}

int dt_soft_fork_init(void)
{
    return 0;
}

enum ibv_fork_status dt_soft_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

/* ---- queries --------------------------------------------------------------------------------------------
 */

int dt_soft_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    snprintf(attr->fw_ver, sizeof attr->fw_ver, "soft");
    attr->node_guid = dt_soft_get_device_guid(context->device);
    attr->sys_image_guid = attr->node_guid; /* each is a card of its own */
    attr->max_mr_size = UINT64_MAX >> 1;
    attr->page_size_cap = 0xfffff000;
    attr->vendor_id = DT_SOFT_VENDOR_ID;
    attr->vendor_part_id = DT_SOFT_PART_ID;
    attr->hw_ver = 1;
    attr->max_qp = DT_RNIC_QP_MAX;
    attr->max_qp_wr = DT_RNIC_RQ_ENTRIES_MAX;
    attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID |
                             IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_N_NOTIFY_CQ;
    attr->max_sge = (int)DT_RNIC_SGE_MAX;
    attr->max_sge_rd = (int)DT_RNIC_SGE_MAX;
    attr->max_cq = DT_RNIC_QP_MAX;
    attr->max_cqe = DT_RNIC_CQ_ENTRIES_MAX;
    attr->max_mr = DT_RNIC_MR_MAX;
    attr->max_pd = DT_RNIC_MR_MAX;
    attr->max_qp_rd_atom = DT_RNIC_RD_ATOMIC_MAX;
    attr->max_res_rd_atom = DT_RNIC_QP_MAX * DT_RNIC_RD_ATOMIC_MAX;
    attr->max_qp_init_rd_atom = DT_RNIC_RD_ATOMIC_MAX;
    attr->atomic_cap = IBV_ATOMIC_NONE;
    attr->max_pkeys = 1;
    attr->phys_port_cnt = 1;
    return 0;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr, size_t attr_size)
{
    if ((input && input->comp_mask) || attr_size < sizeof attr->orig_attr)
        return EINVAL;
    memset(attr, 0, attr_size);
    dt_soft_query_device(context, &attr->orig_attr);
    if (attr_size >= sizeof *attr) {
        attr->phys_port_cnt_ex = 1;
        attr->device_cap_flags_ex = attr->orig_attr.device_cap_flags;
    }
    return 0;
}

/* Rates of one lane in Mbit/s, and what the port attributes call them. */
static const struct {
    uint32_t mbps;
    uint8_t speed;
} lane_speeds[] = {{2500, 1}, {5000, 2}, {10000, 4}, {14000, 16}, {25000, 32}, {50000, 64}, {100000, 128}};

static const struct {
    uint32_t lanes;
    uint8_t width;
} widths[] = {{4, 2}, {2, 16}, {1, 1}, {8, 4}, {12, 8}}; /* of equals, the first is taken */

#define UNLIMITED_MBPS 100000u /* what is shown when no rate is set */

/* The combination of width and speed that comes closest to the configured rate. */
static void fill_speed(struct ibv_port_attr *attr)
{
    uint64_t rate = dt_driver_rate_bytes_per_s();
    uint64_t wanted = rate ? rate / 125000 : UNLIMITED_MBPS;
    uint64_t best = UINT64_MAX;

    for (size_t i = 0; i < DT_COUNT_OF(widths); i++) {
        for (size_t k = 0; k < DT_COUNT_OF(lane_speeds); k++) {
            uint64_t mbps = (uint64_t)widths[i].lanes * lane_speeds[k].mbps;
            uint64_t distance = mbps > wanted ? mbps - wanted : wanted - mbps;

            if (distance < best) {
                best = distance;
                attr->active_width = widths[i].width;
                attr->active_speed = lane_speeds[k].speed;
            }
        }
    }
}

#define PHYS_STATE_DISABLED 3
#define PHYS_STATE_LINK_UP  5

static void fill_port(struct dt_soft_device *device, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof *attr);
    dt_driver_lock(device);
    bool is_up = dt_rnic_link_is_up(device->rnic) && !dt_rnic_is_fatal(device->rnic);
    dt_driver_unlock(device);
    attr->state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->phys_state = is_up ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = 1;
    attr->pkey_tbl_len = 1;
    attr->max_msg_sz = (uint32_t)DT_RNIC_MESSAGE_BYTES_MAX;
    attr->max_vl_num = 1;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    fill_speed(attr);
}

static int query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
                      size_t attr_bytes)
{
    struct ibv_port_attr full;

    if (port_num != 1)
        return EINVAL;
    fill_port(dt_front_context_of(context)->device, &full);
    memset(attr, 0, attr_bytes);
    memcpy(attr, &full, dt_min_u64(attr_bytes, sizeof full));
    return 0;
}

/* Programs built before the last fields existed have a shorter struct; `flags` was the last that all know. */
int dt_soft_query_port(struct ibv_context *context, uint8_t port_num, struct _compat_ibv_port_attr *attr)
{
    return query_port(context, port_num, (struct ibv_port_attr *)(void *)attr,
                      offsetof(struct ibv_port_attr, link_layer) + 1);
}

bool dt_soft_is_dead(struct ibv_context *context)
{
    struct dt_soft_device *device = dt_front_context_of(context)->device;
    bool is_dead;

    dt_driver_lock(device);
    is_dead = dt_rnic_is_fatal(device->rnic);
    dt_driver_unlock(device);
    return is_dead;
}

int dt_soft_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    if (port_num != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    dt_gid_make(dt_driver_instance(), dt_front_context_of(context)->device->index, gid->raw);
    return 0;
}

int dt_soft_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                         struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    struct ibv_gid_entry full = {.port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2};

    if (flags)
        return EOPNOTSUPP;
    if (port_num != 1)
        return EINVAL;
    if (gid_index != 0)
        return ENODATA;
    dt_gid_make(dt_driver_instance(), dt_front_context_of(context)->device->index, full.gid.raw);
    memset(entry, 0, entry_size);
    memcpy(entry, &full, dt_min_u64(entry_size, sizeof full));
    return 0;
}

ssize_t dt_soft_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *gid_entries,
                                size_t max_entries, uint32_t flags, size_t entry_size)
{
    if (max_entries == 0)
        return flags ? -EOPNOTSUPP : 0;
    int error = dt_soft_query_gid_ex(context, 1, 0, gid_entries, flags, entry_size);

    return error ? -error : 1;
}

#define PKEY_DEFAULT 0xffff /* full member of the default partition */

int dt_soft_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    (void)context;
    if (port_num != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(PKEY_DEFAULT);
    return 0;
}

int dt_soft_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    (void)context;
    if (port_num == 1 && pkey == htobe16(PKEY_DEFAULT))
        return 0;
    errno = EINVAL;
    return -1;
}

/* ---- contexts -------------------------------------------------------------------------------------------
 */

/* Fills every pointer of the context's tables. */
static void fill_ops(struct verbs_context *verbs)
{
    struct ibv_context_ops *ops = &verbs->context.ops;

    dt_front_fill_unsupported(verbs);
    ops->_compat_query_device = dt_soft_query_device;
    ops->_compat_query_port = dt_soft_query_port;
    ops->poll_cq = dt_front_poll_cq;
    ops->req_notify_cq = dt_front_req_notify_cq;
    ops->post_send = dt_front_post_send;
    ops->post_recv = dt_front_post_recv;
    verbs->query_port = query_port;
    verbs->query_device_ex = query_device_ex;
    verbs->create_cq_ex = dt_front_create_cq_ex;
    verbs->create_qp_ex = dt_front_create_qp_ex;
}

static const struct dt_driver_callbacks callbacks = {.event = dt_front_async, .notify = dt_front_notify};

static int open_context(struct dt_front_context *context, struct ibv_device *device)
{
    int error = dt_front_events_init(&context->events);

    if (error)
        return error;
    error = dt_driver_open(index_of(device), &callbacks, &context->device);
    if (error) {
        dt_front_events_free(&context->events);
        return error;
    }
    dt_driver_lock(context->device);
    dt_list_push_back(&context->device->contexts, &context->node);
    dt_driver_unlock(context->device);
    return 0;
}

struct ibv_context *dt_soft_open_device(struct ibv_device *device)
{
    struct dt_front_context *context = calloc(1, sizeof *context);
    int error;

    if (!context)
        return NULL;
    error = open_context(context, device);
    if (error) {
        free(context);
        errno = error;
        return NULL;
    }
    struct ibv_context *public_context = &context->verbs.context;
    fill_ops(&context->verbs);
    dt_list_init(&context->objects);
    context->verbs.sz = sizeof context->verbs;
    public_context->abi_compat = __VERBS_ABI_IS_EXTENDED;
    public_context->device = device;
    public_context->cmd_fd = -1;
    public_context->async_fd = context->events.fd;
    public_context->num_comp_vectors = 1;
    pthread_mutex_init(&public_context->mutex, NULL);
    return public_context;
}

void dt_front_add_object(struct ibv_context *context, struct dt_front_object *object,
                         void (*destroy)(struct dt_front_object *object))
{
    DT_CHECK(destroy && !object->destroy); /* entered once */
    object->destroy = destroy;
    pthread_mutex_lock(&context->mutex);
    dt_list_push_back(&dt_front_context_of(context)->objects, &object->node);
    pthread_mutex_unlock(&context->mutex);
}

void dt_front_remove_object(struct ibv_context *context, struct dt_front_object *object)
{
    pthread_mutex_lock(&context->mutex);
    DT_CHECK(!dt_list_is_empty(&object->node));
    dt_list_remove(&object->node);
    pthread_mutex_unlock(&context->mutex);
}

/* The newest first: nothing is needed by what was made before it. */
static void destroy_all_objects(struct dt_front_context *context)
{
    while (!dt_list_is_empty(&context->objects)) {
        struct dt_front_object *last = dt_container_of(context->objects.prev, struct dt_front_object, node);

        last->destroy(last);
    }
}

int dt_soft_close_device(struct ibv_context *public_context)
{
    struct dt_front_context *context = dt_front_context_of(public_context);

    destroy_all_objects(context);
    dt_driver_lock(context->device);
    dt_list_remove(&context->node);
    dt_driver_unlock(context->device);
    dt_driver_close(context->device);
    dt_front_events_free(&context->events);
    pthread_mutex_destroy(&public_context->mutex);
    free(context);
    return 0;
}
