/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/node_memory.h"
#include "failover/planted.h"
#include "base/util.h"
#include "transport/path/nic.h"
#include "transport/path/queues.h"
#include "transport/protocol/work_id.h"
#include "transport/protocol/memory_layout.h"

/* ------------------------------------------------------------------------------------------------------------
 * Create
 */
static struct dt_device *open_device(struct dt_nic *nic)
{
    struct dt_device *device = dt_load_relaxed(&nic->device);

    if (device || nic->is_broken)
        return device;
    if (dt_device_open(nic->environment->verbs, &nic->info, &device) != DT_OK) {
        nic->is_broken = true;
        return NULL;
    }
    if (nic->environment->opened)
        nic->environment->opened(nic, device);
    dt_store_release(&nic->first, device);
    dt_store_release(&nic->device, device);
    return device;
}

static struct dt_path *first_of(struct dt_path *path)
{
    return path - path->index;
}

static enum dt_status create_control(struct dt_path *path, struct dt_device *device)
{
    const struct dt_path_group *group = path->group;

    DT_CHECK(!path->control_mr); /* registered once */
    path->control_bytes = dt_control_bytes(group->is_sender, group->slots);
    if (DT_PLANTED(ONE_RING) && group->is_sender)
        path->control = first_of(path)->control;
    if (!path->control)
        dt_store_release(&path->control,
                         (uint8_t *)dt_node_memory_alloc(path->control_bytes, path->nic->info.numa_node));
    if (DT_PLANTED(ONE_RING) && group->is_sender)
        first_of(path)->control = path->control;
    if (!path->control)
        return DT_NO_MEMORY;
    return dt_mr_register(device, path->control, path->control_bytes, DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE,
                          &path->control_mr);
}

/* Made by the create task for its path, which gets it if set-up has waited. */
struct made {
    struct dt_path_queues queues;
    struct dt_mr *staged_mr;
};

/* A device that refuses the host path's memory carries no staged messages; the path works without. */
static void register_staged(const struct dt_path *path, struct dt_device *device, struct made *made)
{
    const struct dt_region *staged = &path->group->staged;

    if (staged->bytes > 0)
        dt_mr_register(device, staged->base, staged->bytes, staged->access, &made->staged_mr);
}

/* A failed attempt leaves in *made what it has created. */
static enum dt_status create(struct dt_path *path, struct made *made)
{
    struct dt_device *device = open_device(path->nic);
    enum dt_status status;

    if (!device || dt_load_acquire(&path->nic->is_dead))
        return DT_NOT_FOUND;
    status = create_control(path, device);
    if (status != DT_OK)
        return status;
    register_staged(path, device, made);
    /* Addresses change while a process runs: GIDs move in their table, the subnet manager gives other LIDs. A
     * port that has no link now keeps what is known; failover looks again when the link is back. */
    dt_device_refresh(device);
    return dt_path_queues_create(path, 0, &made->queues);
}

static void count_down(uint32_t *counter)
{
    uint32_t before = dt_fetch_sub_acq_rel(counter, 1);

    DT_CHECK(before > 0);
}

static bool setup_change(struct dt_path *path, enum dt_path_setup from, enum dt_path_setup to)
{
    uint32_t expected = (uint32_t)from;

    return dt_compare_swap(&path->setup_state, &expected, (uint32_t)to);
}

/* The task of set-up has ended: false if its result is to be dropped. Then nothing of the path is written. */
static bool setup_take(struct dt_path *path)
{
    if (setup_change(path, DT_PATH_SETUP_BUSY, DT_PATH_SETUP_TAKEN))
        return true;
    DT_CHECK(dt_load_relaxed(&path->setup_state) == DT_PATH_SETUP_LATE);
    return false;
}

/* Its result is written, or dropped. */
static void setup_end(struct dt_path *path, enum dt_status status, bool is_taken)
{
    struct dt_path_group *group = path->group;

    if (is_taken) {
        path->state = status == DT_OK ? DT_PATH_UP : DT_PATH_NONE;
        dt_store_release(&path->setup_state, (uint32_t)DT_PATH_SETUP_IDLE);
        count_down(&group->setup_pending);
    } else {
        dt_store_release(&path->setup_state, (uint32_t)DT_PATH_SETUP_IDLE);
        count_down(&path->nic->late_tasks);
    }
    dt_path_group_release(group);
}

bool dt_path_leave_setup(struct dt_path *path)
{
    dt_fetch_add_acq_rel(&path->nic->late_tasks, 1); /* before the task can bring it down */
    if (setup_change(path, DT_PATH_SETUP_BUSY, DT_PATH_SETUP_LATE)) {
        path->state = DT_PATH_NONE;
        count_down(&path->group->setup_pending);
        return true;
    }
    count_down(&path->nic->late_tasks);
    return false;
}

/* Of control verbs, since the stamp. */
static uint64_t time_since(const struct dt_path *path, uint64_t begun)
{
    const struct dt_ticks *ticks = &path->group->environment->ticks;

    return dt_ticks_to_ns(ticks, dt_ticks_now(ticks) - begun);
}

static void adopt(struct dt_path *path, struct made *made)
{
    struct dt_path_queues none;

    dt_path_adopt(path, &made->queues, &none);
    path->staged_mr = made->staged_mr;
}

static void discard(struct dt_path *path, struct made *made)
{
    dt_path_queues_destroy(path, &made->queues);
    if (made->staged_mr)
        dt_mr_deregister(dt_nic_device(path->nic), made->staged_mr);
}

static void run_create(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, create_task);
    uint64_t begun = dt_ticks_now(&path->group->environment->ticks);
    struct made made = {0};
    enum dt_status status = create(path, &made);
    uint64_t verbs_ns = time_since(path, begun);
    bool is_taken = setup_take(path);

    if (is_taken) {
        path->verbs_ns += verbs_ns;
        adopt(path, &made);
    } else {
        discard(path, &made);
    }
    setup_end(path, status, is_taken);
}

static void prepare(struct dt_path *path, struct dt_task *task, void (*run)(struct dt_task *))
{
    uint32_t references = dt_fetch_add_acq_rel(&path->group->references, 1);

    DT_CHECK(references > 0);                                    /* the submitter holds one */
    DT_CHECK(!task->node.next || dt_list_is_empty(&task->node)); /* queued at most once at a time */
    task->run = run;
}

static void submit(struct dt_path *path, struct dt_task *task, void (*run)(struct dt_task *))
{
    prepare(path, task, run);
    dt_nic_submit(path->nic, task);
}

static void submit_urgent(struct dt_path *path, struct dt_task *task, void (*run)(struct dt_task *))
{
    prepare(path, task, run);
    dt_nic_submit_urgent(path->nic, task);
}

static void submit_setup(struct dt_path *path, struct dt_task *task, void (*run)(struct dt_task *))
{
    bool is_idle = setup_change(path, DT_PATH_SETUP_IDLE, DT_PATH_SETUP_BUSY);

    DT_CHECK(is_idle);
    dt_fetch_add_acq_rel(&path->group->setup_pending, 1);
    submit(path, task, run);
}

void dt_path_submit_create(struct dt_path *path)
{
    DT_CHECK(path->epoch == 0); /* of set-up: later epochs have their operations */
    submit_setup(path, &path->create_task, run_create);
}

/* ------------------------------------------------------------------------------------------------------------
 * Link
 */
static struct dt_qp_numbers numbers_of(const struct dt_qp *qp)
{
    struct dt_qp_address address;

    dt_qp_local_address(qp, &address);
    return (struct dt_qp_numbers){address.qpn, address.psn};
}

void dt_path_get_offer(const struct dt_path *path, bool is_usable, struct dt_path_offer *offer)
{
    memset(offer, 0, sizeof *offer);
    offer->is_usable = is_usable;
    if (!is_usable)
        return;
    snprintf(offer->device, sizeof offer->device, "%s", path->nic->name);
    dt_qp_local_address(path->probe, &offer->probe);
    for (uint32_t q = 0; q < path->qp_count; q++)
        offer->qp[q] = numbers_of(path->qp[q]);
    offer->ece = path->ece;
    offer->control_addr = (uintptr_t)path->control;
    offer->control_rkey = dt_load_relaxed(&path->control_mr->rkey);
    offer->generation = path->generation;
    offer->keys_since = path->group->is_sender ? 0 : path->keys_since;
    if (!path->group->is_sender)
        offer->control_addr += dt_cts_ring_bytes(path->group->slots);
}

void dt_path_accept_offer(struct dt_path *path, const struct dt_path_offer *offer)
{
    if (!offer->is_usable) {
        path->state = DT_PATH_NONE;
        return;
    }
    /* The name is constant from the first offer on: device threads of other devices read it (health.c). */
    if (!*path->peer_device)
        memcpy(path->peer_device, offer->device, sizeof path->peer_device);
    memcpy(path->peer_qp, offer->qp, sizeof path->peer_qp);
    path->peer_probe = offer->probe;
    path->peer_ece = offer->ece;
    path->peer_control_addr = offer->control_addr;
    path->peer_control_rkey = offer->control_rkey;
}

static void run_link(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, link_task);
    struct dt_path_offer peer = {.probe = path->peer_probe, .ece = path->peer_ece};
    struct dt_ece ece = {0};
    uint64_t begun = dt_ticks_now(&path->group->environment->ticks);
    uint64_t verbs_ns;
    enum dt_status status;
    bool is_taken;

    memcpy(peer.qp, path->peer_qp, sizeof peer.qp);
    status =
        path->is_fenced ? DT_CLOSED : dt_path_queues_link(path, path->probe, path->qp, &peer, false, &ece);
    verbs_ns = time_since(path, begun);
    if (status == DT_AGAIN)
        dt_fetch_add_relaxed(&path->nic->links_refused, 1);
    is_taken = setup_take(path);
    if (is_taken) {
        path->verbs_ns += verbs_ns;
        path->link_status = status;
        path->ece = ece;
    }
    setup_end(path, status == DT_AGAIN ? DT_OK : status, is_taken);
}

void dt_path_submit_link(struct dt_path *path)
{
    DT_CHECK(path->state == DT_PATH_UP && path->epoch == 0);
    submit_setup(path, &path->link_task, run_link);
}

/* ------------------------------------------------------------------------------------------------------------
 * Flush
 */
static void run_flush(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, flush_task);
    struct dt_path_group *group = path->group;
    struct dt_qp_link_options options = dt_path_link_options(group->environment);
    struct dt_flush *flush;

    dt_device_refresh(dt_nic_device(path->nic)); /* the flush is a path of the device to itself */
    if (!dt_load_acquire(&path->nic->is_dead) &&
        dt_flush_create(dt_nic_device(path->nic), DT_FLUSHES_MAX, dt_path_random_psn(group->environment),
                        &options, &flush) == DT_OK)
        dt_store_release(&path->flush, flush);
    else
        dt_store_release(&path->is_flush_refused, 1u);
    dt_store_release(&path->is_flush_queued, 0u);
    dt_path_group_release(group);
}

void dt_path_submit_flush(struct dt_path *path)
{
    DT_CHECK(!path->group->is_sender && !dt_load_relaxed(&path->flush)); /* made once in an epoch */
    dt_store_relaxed(&path->is_flush_queued, 1u);
    submit(path, &path->flush_task, run_flush);
}

/* ------------------------------------------------------------------------------------------------------------
 * Fence and destroy
 */
void dt_path_fence(struct dt_path *path)
{
    bool is_dead = path->nic && dt_load_relaxed(&path->nic->is_dead);

    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q])
            is_dead ? dt_qp_try_fail(path->qp[q]) : dt_qp_fail(path->qp[q]);
    }
}

static void run_fence(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, fence_task);
    struct dt_path_group *group = path->group;
    uint32_t pending;

    path->is_fenced = true;
    dt_path_fence(path);
    pending = dt_fetch_sub_acq_rel(&group->fences_pending, 1);
    DT_CHECK(pending > 0);
    if (pending == 1)
        group->fenced(group);
    dt_path_group_release(group);
}

void dt_path_submit_fence(struct dt_path *path)
{
    submit_urgent(path, &path->fence_task, run_fence);
}

static void destroy_set(struct dt_path *path, struct dt_path_queues *queues)
{
    if (!queues)
        return;
    dt_path_queues_destroy(path, queues);
    free(queues);
}

static void destroy(struct dt_path *path)
{
    struct dt_path_queues none, now;

    dt_path_fence(path);
    memset(&none, 0, sizeof none);
    dt_path_adopt(path, &none, &now);
    if (path->flush)
        dt_flush_destroy(path->flush);
    dt_path_queues_destroy(path, &now);
    destroy_set(path, path->fresh);
    destroy_set(path, path->doomed);
    free(path->last_receives);
    dt_list_for_each(node, &path->retired)
        destroy_set(path, dt_container_of(node, struct dt_path_queues, node));
    if (path->control_mr)
        dt_mr_deregister(dt_nic_device(path->nic), path->control_mr);
    if (path->staged_mr)
        dt_mr_deregister(dt_nic_device(path->nic), path->staged_mr);
    if (!DT_PLANTED(ONE_RING) || !path->group->is_sender || path->index == 0)
        dt_node_memory_free(path->control, path->control_bytes);
}

static void run_destroy(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, destroy_task);

    destroy(path);
    dt_path_group_release(path->group);
}

void dt_path_submit_destroy(struct dt_path *path)
{
    submit(path, &path->destroy_task, run_destroy);
}

/* ------------------------------------------------------------------------------------------------------------
 * Failover's tasks
 */
static enum dt_status make(struct dt_path *path)
{
    bool is_sender = path->group->is_sender;
    struct dt_device *device = open_device(path->nic);
    bool is_there = device && !dt_load_acquire(&path->nic->is_dead) && path->may_make;
    enum dt_status status = is_there ? dt_device_refresh(device) : DT_NOT_FOUND;

    if (status != DT_OK)
        return status;
    if (!path->control_mr)
        status = create_control(path, device);
    DT_CHECK(!path->fresh || status != DT_OK); /* the set before was adopted or destroyed */
    path->fresh = status == DT_OK ? calloc(1, sizeof *path->fresh) : NULL;
    if (!path->fresh)
        return status == DT_OK ? DT_NO_MEMORY : status;
    status = dt_path_queues_create(path, path->make_epoch, path->fresh);
    if (status == DT_OK && !is_sender)
        status = dt_path_queues_link(path, path->fresh->probe, path->fresh->qp, &path->peer_offer, true,
                                     &path->fresh->ece);
    if (status == DT_OK)
        return status;
    destroy_set(path, path->fresh);
    path->fresh = NULL;
    return status;
}

static uint32_t find_stopped(const struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q] && dt_qp_is_in_error(path->qp[q]))
            return dt_qp_number(path->qp[q]);
    }
    return 0;
}

/* A queue pair that the device does not destroy keeps its completion queues: it may still receive. */
static enum dt_status end_doomed(struct dt_path *path)
{
    enum dt_status status;

    if (path->last_receives)
        dt_path_queues_poll_last(path->doomed, path->last_receives);
    status = dt_path_queues_end(path, path->doomed);
    if (status != DT_OK)
        return status;
    destroy_set(path, path->doomed);
    path->doomed = NULL;
    return DT_OK;
}

static enum dt_status run_op_now(struct dt_path *path)
{
    switch (path->op) {
    case DT_PATH_OP_FENCE:
        dt_path_fence(path);
        return DT_OK;
    case DT_PATH_OP_DESTROY:
        return end_doomed(path);
    case DT_PATH_OP_MAKE:
        return make(path);
    case DT_PATH_OP_LINK:
        return dt_path_queues_link(path, path->probe, path->qp, &path->peer_offer, true, &path->ece);
    case DT_PATH_OP_QUERY:
        path->stopped_qpn = find_stopped(path);
        return DT_OK;
    }
    return DT_INTERNAL;
}

/* The states of an operation are a cycle: IDLE -> BUSY -> DONE -> IDLE. Release: what was written before. */
static void op_enter(struct dt_path *path, enum dt_path_op_state state)
{
    static const uint32_t before[] = {
        [DT_PATH_OP_IS_IDLE] = DT_PATH_OP_IS_DONE,
        [DT_PATH_OP_IS_BUSY] = DT_PATH_OP_IS_IDLE,
        [DT_PATH_OP_IS_DONE] = DT_PATH_OP_IS_BUSY,
    };

    DT_CHECK(dt_load_relaxed(&path->op_state) == before[state]);
    dt_store_release(&path->op_state, (uint32_t)state);
}

void dt_path_finish_op(struct dt_path *path)
{
    op_enter(path, DT_PATH_OP_IS_IDLE);
}

static void run_op(struct dt_task *task)
{
    struct dt_path *path = dt_container_of(task, struct dt_path, op_task);
    struct dt_path_group *group = path->group;

    path->op_status = run_op_now(path);
    op_enter(path, DT_PATH_OP_IS_DONE);
    dt_nic_wake(group->nic);
    dt_path_group_release(group);
}

/* A fence, and the destruction that replaces one. The destruction of queue pairs that are fenced has time. */
static bool is_urgent(const struct dt_path *path, enum dt_path_op op)
{
    return op == DT_PATH_OP_FENCE || (op == DT_PATH_OP_DESTROY && path->fence.is_active);
}

void dt_path_submit_op(struct dt_path *path, enum dt_path_op op)
{
    DT_CHECK(op != DT_PATH_OP_MAKE || (!path->fresh && path->make_epoch >= path->epoch));
    DT_CHECK((op == DT_PATH_OP_DESTROY) == (path->doomed != NULL));
    path->op = op;
    op_enter(path, DT_PATH_OP_IS_BUSY);
    if (is_urgent(path, op))
        submit_urgent(path, &path->op_task, run_op);
    else
        submit(path, &path->op_task, run_op);
}

/* ------------------------------------------------------------------------------------------------------------
 * Probes
 */
enum dt_status dt_path_send_probe(struct dt_path *path, bool is_full)
{
    const struct dt_path_group *group = path->group;
    struct dt_write write = {
        .wr_id = dt_work_encode(DT_WORK_PROBE, path->index, 0, path->epoch, 0),
        .flags = DT_POST_SIGNALED,
    };
    enum dt_status status;

    if (is_full && !DT_PLANTED(ONE_RING)) { /* whose memory may be gone with another path */
        struct dt_qp_address own; /* the control thread may be refreshing the device's description */

        dt_qp_local_address(path->probe, &own);
        write.local_addr = (uintptr_t)path->control + dt_probe_offset(group->is_sender, group->slots);
        write.lkey = path->control_mr->lkey;
        write.remote_addr = path->peer_control_addr + dt_peer_probe_offset(group->is_sender, group->slots);
        write.rkey = path->peer_control_rkey;
        write.bytes = (uint32_t)dt_min_u64(own.mtu_bytes, path->peer_probe.mtu_bytes);
    }
    DT_CHECK(!write.bytes || (write.bytes <= DT_PROBE_BYTES && DT_PROBE_BYTES < path->control_bytes));
    status = dt_qp_post_write(path->probe, &write, 1);
    if (status == DT_OK)
        dt_qp_ring(path->probe);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * The group, texts
 */
void dt_path_group_release(struct dt_path_group *group)
{
    uint32_t references = dt_fetch_sub_acq_rel(&group->references, 1);

    DT_CHECK(references > 0);
    if (references == 1)
        group->release(group);
}

const char *dt_path_name(const struct dt_path *path)
{
    return path->nic->name;
}

bool dt_path_is_drained(const struct dt_path *path)
{
    return dt_load_acquire(&path->is_drained) || (path->nic && dt_load_acquire(&path->nic->is_drained));
}

void dt_path_describe_error(const struct dt_path *path, const struct dt_completion *bad, char *text,
                            size_t bytes)
{
    struct dt_work work = dt_work_decode(bad->wr_id);
    uint32_t peer_qpn =
        work.kind == DT_WORK_PROBE ? path->peer_probe.qpn : path->peer_qp[work.qp % DT_QPS_MAX].qpn;

    snprintf(text, bytes, "queue pair %u to %u: %s (status %u, vendor_err 0x%x)", bad->qpn, peer_qpn,
             dt_wc_status_text(bad->status), bad->status, bad->vendor_err);
}
