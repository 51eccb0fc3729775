/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/command.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "base/util.h"
#include "tests/provider/events.h"

#define VENDOR_ID 0x02c9 /* Mellanox' OUI, as ConnectX answers */
#define PART_ID   4119   /* ConnectX-5 */

void dt_uverbs_get(const struct dt_uverbs_call *call, size_t offset, void *to, size_t bytes)
{
    memset(to, 0, bytes);
    if (offset < call->in_bytes)
        memcpy(to, call->in + offset, dt_min_u64(bytes, call->in_bytes - offset));
}

void dt_uverbs_put(const struct dt_uverbs_call *call, size_t offset, const void *from, size_t bytes)
{
    if (offset < call->out_bytes)
        memcpy(call->out + offset, from, dt_min_u64(bytes, call->out_bytes - offset));
}

/* ------------------------------------------------------------------------------------------------------------
 * The context
 */
static int open_soft(struct dt_uverbs_context *context)
{
    struct ibv_device **list = dt_soft_get_device_list(NULL);
    int error = 0;

    if (!list)
        return ENOMEM;
    context->soft = dt_soft_open_device(list[context->device]);
    if (!context->soft ||
        fcntl(context->soft->async_fd, F_SETFL, fcntl(context->soft->async_fd, F_GETFL) | O_NONBLOCK))
        error = errno;
    dt_soft_free_device_list(list);
    return error;
}

int dt_uverbs_get_context(struct dt_uverbs_call *call)
{
    struct dt_uverbs_context *context = call->context;
    struct mlx5_ib_alloc_ucontext_req_v2 request;
    struct ib_uverbs_get_context_resp core = {.num_comp_vectors = 1};
    int events_fd;

    dt_uverbs_get(call, sizeof(struct ib_uverbs_get_context), &request, sizeof request);
    if (context->soft)
        return EINVAL;
    if (request.flags & MLX5_IB_ALLOC_UCTX_DEVX)
        return EOPNOTSUPP; /* libmlx5 repeats the command without it */
    if (!request.total_num_bfregs || request.total_num_bfregs > DT_UVERBS_REGISTERS_MAX ||
        request.num_low_latency_bfregs > request.total_num_bfregs - 1)
        return EINVAL;
    int error = open_soft(context);
    if (!error)
        error = dt_uverbs_events_open(context, &events_fd);
    if (error)
        return error;
    context->register_count = (request.total_num_bfregs + 1) & ~1u;
    context->low_latency = request.num_low_latency_bfregs;
    struct mlx5_ib_alloc_ucontext_resp response = {
        .qp_tab_size = 1 << 18,
        .bf_reg_size = DT_UVERBS_REGISTER_BYTES,
        .tot_bfregs = context->register_count,
        .cache_line_size = 64,
        .max_sq_desc_sz = 1008, /* 63 units of 16 bytes (softrnic/wqe.h) */
        .max_rq_desc_sz = 512,
        .max_send_wqebb = 32768,
        .max_recv_wr = 32768,
        .num_ports = 1,
        .response_length = sizeof response,
        .cqe_version = request.max_cqe_version ? 1 : 0,
        .eth_min_inline = MLX5_USER_INLINE_MODE_NONE,
        .log_uar_size = 12,
        .num_uars_per_page = 1,
        .num_dyn_bfregs = DT_UVERBS_DYNAMIC_MAX - 2 /* libmlx5 maps one page more */};
    core.async_fd = (uint32_t)events_fd;
    dt_uverbs_put(call, 0, &core, sizeof core);
    dt_uverbs_put(call, sizeof core, &response, sizeof response);
    return 0;
}

static int fill_device(struct dt_uverbs_context *context, struct ib_uverbs_query_device_resp *out)
{
    struct ibv_device_attr attr;
    int error = context->soft ? dt_soft_query_device(context->soft, &attr) : EINVAL;

    if (error)
        return error;
    *out = (struct ib_uverbs_query_device_resp){.fw_ver = 16ull << 32 | 35 << 16 | 2000,
                                                .node_guid = attr.node_guid,
                                                .sys_image_guid = attr.sys_image_guid,
                                                .max_mr_size = attr.max_mr_size,
                                                .page_size_cap = attr.page_size_cap,
                                                .vendor_id = VENDOR_ID,
                                                .vendor_part_id = PART_ID,
                                                .hw_ver = attr.hw_ver,
                                                .max_qp = (uint32_t)attr.max_qp,
                                                .max_qp_wr = (uint32_t)attr.max_qp_wr,
                                                .device_cap_flags = attr.device_cap_flags,
                                                .max_sge = (uint32_t)attr.max_sge,
                                                .max_sge_rd = (uint32_t)attr.max_sge_rd,
                                                .max_cq = (uint32_t)attr.max_cq,
                                                .max_cqe = (uint32_t)attr.max_cqe,
                                                .max_mr = (uint32_t)attr.max_mr,
                                                .max_pd = (uint32_t)attr.max_pd,
                                                .max_qp_rd_atom = (uint32_t)attr.max_qp_rd_atom,
                                                .max_res_rd_atom = (uint32_t)attr.max_res_rd_atom,
                                                .max_qp_init_rd_atom = (uint32_t)attr.max_qp_init_rd_atom,
                                                .max_pkeys = attr.max_pkeys,
                                                .phys_port_cnt = attr.phys_port_cnt};
    return 0;
}

int dt_uverbs_query_device(struct dt_uverbs_call *call)
{
    struct ib_uverbs_query_device_resp out;
    int error = fill_device(call->context, &out);

    dt_uverbs_put(call, 0, &out, error ? 0 : sizeof out);
    return error;
}

int dt_uverbs_query_device_ex(struct dt_uverbs_call *call)
{
    struct ib_uverbs_ex_query_device_resp out = {.response_length = sizeof out};
    int error = fill_device(call->context, &out.base);

    dt_uverbs_put(call, 0, &out, error ? 0 : sizeof out);
    return error;
}

int dt_uverbs_query_port(struct dt_uverbs_call *call)
{
    struct ib_uverbs_query_port request;
    struct ibv_port_attr attr;
    struct verbs_context *verbs = call->context->soft ? verbs_get_ctx(call->context->soft) : NULL;

    dt_uverbs_get(call, 0, &request, sizeof request);
    int error = verbs ? verbs->query_port(call->context->soft, request.port_num, &attr, sizeof attr) : EINVAL;
    if (error)
        return error;
    struct ib_uverbs_query_port_resp out = {.port_cap_flags = attr.port_cap_flags,
                                            .max_msg_sz = attr.max_msg_sz,
                                            .gid_tbl_len = (uint32_t)attr.gid_tbl_len,
                                            .pkey_tbl_len = attr.pkey_tbl_len,
                                            .state = (uint8_t)attr.state,
                                            .max_mtu = (uint8_t)attr.max_mtu,
                                            .active_mtu = (uint8_t)attr.active_mtu,
                                            .max_vl_num = attr.max_vl_num,
                                            .active_width = attr.active_width,
                                            .active_speed = attr.active_speed,
                                            .phys_state = attr.phys_state,
                                            .link_layer = attr.link_layer,
                                            .flags = attr.flags};
    dt_uverbs_put(call, 0, &out, sizeof out);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Protection domains and memory regions
 */
static int alloc_pd(struct dt_uverbs_call *call)
{
    struct dt_uverbs_object *object = calloc(1, sizeof *object);
    struct ib_uverbs_alloc_pd_resp core;

    if (!object)
        return ENOMEM;
    object->soft.pd = dt_soft_alloc_pd(call->context->soft);
    if (!object->soft.pd) {
        free(object);
        return errno;
    }
    dt_uverbs_add(call->context, DT_UVERBS_PD, object);
    core.pd_handle = object->handle;
    dt_uverbs_put(call, 0, &core, sizeof core);
    dt_uverbs_put(call, sizeof core, &object->handle, sizeof object->handle); /* mlx5_ib_alloc_pd_resp */
    return 0;
}

static int destroy_simple(struct dt_uverbs_call *call, enum dt_uverbs_kind kind)
{
    uint32_t handle; /* all that ib_uverbs_dealloc_pd and ib_uverbs_dereg_mr have */

    dt_uverbs_get(call, 0, &handle, sizeof handle);
    struct dt_uverbs_object *object = dt_uverbs_find(call->context, kind, handle);
    return object ? dt_uverbs_destroy(kind, object) : EINVAL;
}

static int dealloc_pd(struct dt_uverbs_call *call)
{
    return destroy_simple(call, DT_UVERBS_PD);
}

static int dereg_mr(struct dt_uverbs_call *call)
{
    return destroy_simple(call, DT_UVERBS_MR);
}

static int reg_mr(struct dt_uverbs_call *call)
{
    struct dt_uverbs_object *object = calloc(1, sizeof *object);
    struct ib_uverbs_reg_mr request;

    dt_uverbs_get(call, 0, &request, sizeof request);
    struct dt_uverbs_object *pd = dt_uverbs_find(call->context, DT_UVERBS_PD, request.pd_handle);
    if (object && pd)
        object->soft.mr = dt_soft_reg_mr_iova2(pd->soft.pd, (void *)(uintptr_t)request.start, request.length,
                                               request.hca_va, request.access_flags);
    if (!object || !object->soft.mr) {
        int error = object && pd ? errno : object ? EINVAL : ENOMEM;

        free(object);
        return error;
    }
    dt_uverbs_add(call->context, DT_UVERBS_MR, object);
    struct ib_uverbs_reg_mr_resp out = {
        .mr_handle = object->handle, .lkey = object->soft.mr->lkey, .rkey = object->soft.mr->rkey};
    dt_uverbs_put(call, 0, &out, sizeof out);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Completion queues
 */
static const char *wrong_cq(const struct ib_uverbs_create_cq *core, const struct mlx5_ib_create_cq *mlx5)
{
    if (core->comp_channel >= 0)
        return "a CQ with a completion channel";
    if (mlx5->cqe_size != 64 && mlx5->cqe_size != 128)
        return "a CQ whose entries have neither 64 nor 128 bytes";
    if (mlx5->cqe_comp_en || mlx5->flags)
        return "a CQ with compressed entries, padding, a register of its own or time stamps";
    if (!dt_is_power_of_two((uint64_t)core->cqe + 1))
        return "a CQ whose size is no power of two";
    return NULL;
}

static int create_cq(struct dt_uverbs_call *call)
{
    struct ib_uverbs_create_cq core;
    struct mlx5_ib_create_cq mlx5;

    dt_uverbs_get(call, 0, &core, sizeof core);
    dt_uverbs_get(call, sizeof core, &mlx5, sizeof mlx5);
    const char *wrong = wrong_cq(&core, &mlx5);
    if (wrong) {
        dt_uverbs_refuse("CREATE_CQ: %s", wrong);
        return EOPNOTSUPP;
    }
    struct dt_uverbs_cq *cq = calloc(1, sizeof *cq);
    if (!cq)
        return ENOMEM;
    cq->object.soft.cq = dt_soft_create_cq(call->context->soft, (int)core.cqe + 1, NULL, NULL, 0);
    if (!cq->object.soft.cq) {
        free(cq);
        return errno;
    }
    cq->object.soft.cq->cq_context = cq;
    cq->object.user_handle = core.user_handle;
    cq->entries = (uint8_t *)(uintptr_t)mlx5.buf_addr;
    cq->entry_bytes = mlx5.cqe_size;
    cq->count = core.cqe + 1;
    cq->record = (const uint32_t *)(uintptr_t)mlx5.db_addr;
    dt_uverbs_add(call->context, DT_UVERBS_CQ, &cq->object);
    struct ib_uverbs_create_cq_resp out = {.cq_handle = cq->object.handle, .cqe = core.cqe};
    struct mlx5_ib_create_cq_resp number = {.cqn = cq->object.handle & 0xffffff};
    dt_uverbs_put(call, 0, &out, sizeof out);
    dt_uverbs_put(call, sizeof out, &number, sizeof number);
    return 0;
}

static int destroy_cq(struct dt_uverbs_call *call)
{
    struct ib_uverbs_destroy_cq request;
    struct ib_uverbs_destroy_cq_resp out = {0};

    dt_uverbs_get(call, 0, &request, sizeof request);
    struct dt_uverbs_cq *cq = dt_uverbs_find(call->context, DT_UVERBS_CQ, request.cq_handle);
    if (!cq)
        return EINVAL;
    out.async_events_reported = dt_uverbs_events_forget(&cq->object);
    int error = dt_uverbs_destroy(DT_UVERBS_CQ, &cq->object);
    dt_uverbs_put(call, 0, &out, error ? 0 : sizeof out);
    return error;
}

/* ------------------------------------------------------------------------------------------------------------
 * All commands
 */
#define EX IB_USER_VERBS_CMD_FLAG_EXTENDED

static const struct {
    uint32_t command;
    uint32_t in_bytes; /* at least */
    bool has_response; /* then the request begins with its address; extended ones have it in the header */
    dt_uverbs_handler *handler;
} commands[] = {
    {IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(struct ib_uverbs_get_context), true, dt_uverbs_get_context},
    {IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(struct ib_uverbs_query_device), true, dt_uverbs_query_device},
    {EX | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, sizeof(struct ib_uverbs_ex_query_device), false,
     dt_uverbs_query_device_ex},
    {IB_USER_VERBS_CMD_QUERY_PORT, sizeof(struct ib_uverbs_query_port), true, dt_uverbs_query_port},
    {IB_USER_VERBS_CMD_ALLOC_PD, sizeof(struct ib_uverbs_alloc_pd), true, alloc_pd},
    {IB_USER_VERBS_CMD_DEALLOC_PD, sizeof(struct ib_uverbs_dealloc_pd), false, dealloc_pd},
    {IB_USER_VERBS_CMD_REG_MR, sizeof(struct ib_uverbs_reg_mr), true, reg_mr},
    {IB_USER_VERBS_CMD_DEREG_MR, sizeof(struct ib_uverbs_dereg_mr), false, dereg_mr},
    {IB_USER_VERBS_CMD_CREATE_CQ, sizeof(struct ib_uverbs_create_cq), true, create_cq},
    {IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(struct ib_uverbs_destroy_cq), true, destroy_cq},
    {IB_USER_VERBS_CMD_CREATE_QP, sizeof(struct ib_uverbs_create_qp), true, dt_uverbs_create_qp},
    {IB_USER_VERBS_CMD_MODIFY_QP, sizeof(struct ib_uverbs_modify_qp), false, dt_uverbs_modify_qp},
    {IB_USER_VERBS_CMD_QUERY_QP, sizeof(struct ib_uverbs_query_qp), true, dt_uverbs_query_qp},
    {IB_USER_VERBS_CMD_DESTROY_QP, sizeof(struct ib_uverbs_destroy_qp), true, dt_uverbs_destroy_qp},
};

/* Request and response behind the header, whose two forms count words of 4 and of 8 bytes. False: malformed.
 */
static bool unpack(const struct ib_uverbs_cmd_hdr *header, const uint8_t *data, size_t bytes,
                   bool has_response, struct dt_uverbs_call *call)
{
    bool is_extended = header->command & EX;
    size_t skipped = sizeof *header + (is_extended ? sizeof(struct ib_uverbs_ex_cmd_hdr) : 0);
    uint64_t response = 0;

    if (bytes < skipped)
        return false;
    call->in = data + skipped;
    call->in_bytes = bytes - skipped;
    call->out_bytes = header->out_words * (is_extended ? 8u : 4u);
    if (is_extended) {
        struct ib_uverbs_ex_cmd_hdr more;

        memcpy(&more, data + sizeof *header, sizeof more);
        response = more.response;
        call->out_bytes += more.provider_out_words * 8u;
    } else if (has_response && call->in_bytes >= sizeof response) {
        memcpy(&response, call->in, sizeof response);
    }
    call->out = (uint8_t *)(uintptr_t)response;
    if (!call->out)
        call->out_bytes = 0;
    return true;
}

int dt_uverbs_command(struct dt_uverbs_context *context, const void *data, size_t bytes)
{
    struct ib_uverbs_cmd_hdr header;
    struct dt_uverbs_call call = {.context = context};

    if (bytes < sizeof header)
        return EINVAL;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < DT_COUNT_OF(commands); i++) {
        if (commands[i].command != header.command)
            continue;
        if (!unpack(&header, data, bytes, commands[i].has_response, &call) ||
            call.in_bytes < commands[i].in_bytes)
            return EINVAL;
        if (!context->soft && commands[i].handler != dt_uverbs_get_context)
            return EINVAL;
        return commands[i].handler(&call);
    }
    dt_uverbs_refuse("command %u%s of mlx5_%u (ib_uverbs_write_cmds in rdma/ib_user_verbs.h)",
                     header.command & 0xff, header.command & EX ? ", extended," : "", context->device);
    return EOPNOTSUPP;
}
