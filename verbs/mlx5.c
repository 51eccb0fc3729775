/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of ConnectX, handed over by libmlx5. */
#include "verbs/mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/log.h"
#include "softrnic/wqe.h"
#include "verbs/object.h"

#if defined(__has_include)
#if __has_include(<infiniband/mlx5dv.h>)
#include <infiniband/mlx5dv.h>

#define SAME(mine, my_field, theirs, their_field)                                                          \
    DT_STATIC_CHECK(offsetof(struct mine, my_field) == offsetof(struct theirs, their_field) &&             \
                        sizeof(((struct mine *)0)->my_field) == sizeof(((struct theirs *)0)->their_field), \
                    #their_field)

SAME(dt_mlx5_qp, dbrec, mlx5dv_qp, dbrec);
SAME(dt_mlx5_qp, sq.buf, mlx5dv_qp, sq.buf);
SAME(dt_mlx5_qp, sq.block_count, mlx5dv_qp, sq.wqe_cnt);
SAME(dt_mlx5_qp, sq.stride, mlx5dv_qp, sq.stride);
SAME(dt_mlx5_qp, rq, mlx5dv_qp, rq);
SAME(dt_mlx5_qp, bf.reg, mlx5dv_qp, bf.reg);
SAME(dt_mlx5_qp, bf.size, mlx5dv_qp, bf.size);
SAME(dt_mlx5_qp, comp_mask, mlx5dv_qp, comp_mask);
SAME(dt_mlx5_qp, tir_icm_addr, mlx5dv_qp, tir_icm_addr);
SAME(dt_mlx5_cq_out, buf, mlx5dv_cq, buf);
SAME(dt_mlx5_cq_out, dbrec, mlx5dv_cq, dbrec);
SAME(dt_mlx5_cq_out, cqe_count, mlx5dv_cq, cqe_cnt);
SAME(dt_mlx5_cq_out, cqe_bytes, mlx5dv_cq, cqe_size);
SAME(dt_mlx5_cq_out, comp_mask, mlx5dv_cq, comp_mask);
SAME(dt_mlx5_object, qp, mlx5dv_obj, qp);
SAME(dt_mlx5_object, cq, mlx5dv_obj, cq);
/* Newer releases append members: libmlx5 fills those of a queue that comp_mask asks for, and reads those of
 * an object that the type names (rdma-core 54 has one kind of object more). */
DT_STATIC_CHECK(sizeof(struct dt_mlx5_qp) <= sizeof(struct mlx5dv_qp), "mlx5dv_qp");
DT_STATIC_CHECK(sizeof(struct dt_mlx5_cq_out) <= sizeof(struct mlx5dv_cq), "mlx5dv_cq");
DT_STATIC_CHECK((int)DT_MLX5_OBJECT_QP == (int)MLX5DV_OBJ_QP, "type");
DT_STATIC_CHECK((int)DT_MLX5_OBJECT_CQ == (int)MLX5DV_OBJ_CQ, "type");
DT_STATIC_CHECK((int)DT_MLX5_SEND_RECORD == (int)MLX5_SND_DBR, "doorbell record");

DT_STATIC_CHECK(sizeof(struct dt_mlx5_cqe) == sizeof(struct mlx5_cqe64), "entry");
SAME(dt_mlx5_cqe, opcode_qpn, mlx5_cqe64, sop_drop_qpn);
SAME(dt_mlx5_cqe, wqe_counter, mlx5_cqe64, wqe_counter);
SAME(dt_mlx5_cqe, op_own, mlx5_cqe64, op_own);
SAME(dt_mlx5_cqe, vendor_syndrome, mlx5_err_cqe, vendor_err_synd);
SAME(dt_mlx5_cqe, syndrome, mlx5_err_cqe, syndrome);
SAME(dt_mlx5_cqe, opcode_qpn, mlx5_err_cqe, s_wqe_opcode_qpn);
SAME(dt_mlx5_cqe, wqe_counter, mlx5_err_cqe, wqe_counter);
SAME(dt_mlx5_cqe, op_own, mlx5_err_cqe, op_own);
DT_STATIC_CHECK((int)DT_MLX5_CQE_REQUEST == (int)MLX5_CQE_REQ, "opcode");
DT_STATIC_CHECK((int)DT_MLX5_CQE_REQUEST_ERROR == (int)MLX5_CQE_REQ_ERR, "opcode");
DT_STATIC_CHECK((int)DT_MLX5_CQE_INVALID == (int)MLX5_CQE_INVALID, "opcode");
DT_STATIC_CHECK((int)DT_MLX5_CQE_OWNER == (int)MLX5_CQE_OWNER_MASK, "owner");
DT_STATIC_CHECK((int)DT_MLX5_CQE_FORMAT == (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64), "format");
#endif
#endif

/* ------------------------------------------------------------------------------------------------------------
 * libmlx5
 */

/* The version since when the present layouts hold; without one for libraries that have no versions. */
static dt_mlx5_init_object find_init_object(void *library)
{
    void *symbol = dlvsym(library, "mlx5dv_init_obj", "MLX5_1.2");
    dt_mlx5_init_object function;

    if (!symbol)
        symbol = dlsym(library, "mlx5dv_init_obj");
    memcpy(&function, &symbol, sizeof function);
    return function;
}

/*
 * Loaded at the first use, by the first `dv` queue pair on a real device, and kept. Several threads create
 * queue pairs; a second loader finds the same library.
 */
static dt_mlx5_init_object init_object_of(struct dt_verbs *verbs, const char *device)
{
    const char *name = verbs->mlx5_library;
    dt_mlx5_init_object function = dt_load_acquire(&verbs->table.mlx5_init_object);
    void *library;

    if (function)
        return function;
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        dt_warn("dv-no-library",
                "%s: the dv posting back end needs libmlx5: %s; DETOUR_POSTING=std does without", device,
                dlerror());
        return NULL;
    }
    function = find_init_object(library);
    if (!function) {
        dt_warn("dv-old-library",
                "%s: the dv posting back end needs libmlx5, and %s has no mlx5dv_init_obj; "
                "DETOUR_POSTING=std does without",
                device, name);
        dlclose(library);
        return NULL;
    }
    dt_store_release(&verbs->table.mlx5_init_object, function);
    return function;
}

static bool is_mlx5(const struct dt_device *device)
{
    return device->info.provider == DT_PROVIDER_MLX;
}

/* ------------------------------------------------------------------------------------------------------------
 * Doorbell registers
 */
void dt_mlx5_open_domain(struct dt_qp *qp)
{
    struct dt_device *device = qp->device;
    struct ibv_td_init_attr td_attr = {0};
    struct ibv_parent_domain_init_attr domain_attr = {.pd = device->pd};

    if (!is_mlx5(device) || device->verbs->table.own_send_queue)
        return;
    qp->td = ibv_alloc_td(device->context, &td_attr);
    if (qp->td) {
        domain_attr.td = qp->td;
        qp->domain = ibv_alloc_parent_domain(device->context, &domain_attr);
    }
    if (qp->domain)
        return;
    dt_info("dv-doorbell", "%s: no doorbell register is left for a queue pair alone (%s): it shares one",
            device->info.name, strerror(errno));
    dt_mlx5_close_domain(qp);
}

void dt_mlx5_close_domain(struct dt_qp *qp)
{
    int error = qp->domain ? qp->device->verbs->table.dealloc_pd(qp->domain) : 0;

    if (!error && qp->td)
        error = ibv_dealloc_td(qp->td);
    if (error)
        dt_warn("dv-thread-domain", "%s: the thread domain of a QP cannot be freed: %s",
                qp->device->info.name, strerror(error));
    qp->domain = NULL;
    qp->td = NULL;
}

static enum dt_status not_handed_over(const struct dt_qp *qp, const char *what, int error)
{
    dt_warn("dv-takeover", "%s: the %s of QP %u cannot be taken over: %s; DETOUR_POSTING=std does without",
            qp->device->info.name, what, qp->qpn, strerror(error));
    return error == EOPNOTSUPP ? DT_UNSUPPORTED : DT_SYSTEM;
}

/* ------------------------------------------------------------------------------------------------------------
 * Taking over
 */
enum dt_status dt_mlx5_take_send_queue(struct dt_qp *qp)
{
    const struct dt_device_info *info = &qp->device->info;
    dt_mlx5_init_object init_object;
    struct dt_mlx5_qp out = {0};
    struct dt_mlx5_object object = {.qp = {qp->ibv, &out}};
    int error;

    if (!is_mlx5(qp->device)) {
        dt_warn("dv-device",
                "%s: the dv posting back end does not exist for this device (it is for mlx5, this one is of "
                "'%s'); DETOUR_POSTING=std does",
                info->name, dt_provider_text(info->provider));
        return DT_UNSUPPORTED;
    }
    init_object = init_object_of(qp->device->verbs, info->name);
    if (!init_object)
        return DT_UNSUPPORTED;
    error = init_object(&object, DT_MLX5_OBJECT_QP);
    if (error)
        return not_handed_over(qp, "send queue", error);
    if (out.sq.stride != DT_WQE_BLOCK_BYTES || !out.bf.reg || !out.dbrec) {
        dt_warn("dv-sq-format",
                "%s: the send queue of QP %u is not in a format known here (blocks of %u bytes); "
                "DETOUR_POSTING=std does without",
                info->name, qp->qpn, out.sq.stride);
        return DT_SYSTEM;
    }
    qp->queue = (struct dt_dv_queue){.sq_buf = out.sq.buf,
                                     .sq_block_count = out.sq.block_count,
                                     .doorbell_record = &out.dbrec[DT_MLX5_SEND_RECORD],
                                     .doorbell = out.bf.reg,
                                     .doorbell_bytes = out.bf.size};
    return DT_OK;
}

enum dt_status dt_mlx5_take_send_cq(struct dt_qp *qp)
{
    struct dt_cq *cq = qp->send_cq;
    dt_mlx5_init_object init_object = init_object_of(qp->device->verbs, qp->device->info.name);
    struct dt_mlx5_cq_out out = {0};
    struct dt_mlx5_object object = {.cq = {cq->ibv, &out}};
    struct dt_mlx5_cq *mlx5;
    const char *wrong;
    int error;

    if (!init_object)
        return DT_UNSUPPORTED;
    mlx5 = calloc(1, sizeof *mlx5);
    if (!mlx5)
        return DT_NO_MEMORY;
    error = init_object(&object, DT_MLX5_OBJECT_CQ);
    if (error) {
        free(mlx5);
        return not_handed_over(qp, "send CQ", error);
    }
    if (dt_mlx5_cq_init(mlx5, &out, &wrong) != DT_OK) {
        dt_warn("dv-cq-format",
                "%s: the send CQ of QP %u is not in a format known here: %s (%u entries of %u bytes); "
                "DETOUR_POSTING=std does without",
                qp->device->info.name, qp->qpn, wrong, out.cqe_count, out.cqe_bytes);
        free(mlx5);
        return DT_SYSTEM;
    }
    dt_store_release(&cq->mlx5, mlx5);
    if (!dt_exchange_acq_rel(&qp->device->logged_dv, true))
        dt_info("dv-in-use",
                "%s: the dv posting back end owns the send queues (the first: %u blocks, CQ of %u entries of "
                "%u bytes); not yet run on hardware",
                qp->device->info.name, qp->queue.sq_block_count, out.cqe_count, out.cqe_bytes);
    return DT_OK;
}
