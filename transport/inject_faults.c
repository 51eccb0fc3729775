/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that are faults of a device (gate.h): from their words to verbs/fault.h, and in force in time. */
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "verbs/fault.h"

DT_STATIC_CHECK(DT_DELAY_RULES_MAX <= DT_DEVICE_FAULTS_MAX, "a device can have the faults of all rules");

static const enum dt_device_call call_of[DT_DELAY_CALL_COUNT] = {
    [DT_DELAY_CALL_POST_SEND] = DT_DEVICE_CALL_POST_SEND,
    [DT_DELAY_CALL_POST_RECV] = DT_DEVICE_CALL_POST_RECV,
    [DT_DELAY_CALL_POLL_CQ] = DT_DEVICE_CALL_POLL_CQ,
    [DT_DELAY_CALL_MODIFY_QP] = DT_DEVICE_CALL_MODIFY_QP,
    [DT_DELAY_CALL_QUERY_QP] = DT_DEVICE_CALL_QUERY_QP,
    [DT_DELAY_CALL_CREATE_QP] = DT_DEVICE_CALL_CREATE_QP,
    [DT_DELAY_CALL_DESTROY_QP] = DT_DEVICE_CALL_DESTROY_QP,
    [DT_DELAY_CALL_CREATE_CQ] = DT_DEVICE_CALL_CREATE_CQ,
    [DT_DELAY_CALL_REG_MR] = DT_DEVICE_CALL_REG_MR,
    [DT_DELAY_CALL_QUERY_PORT] = DT_DEVICE_CALL_QUERY_PORT,
    [DT_DELAY_CALL_QUERY_GID] = DT_DEVICE_CALL_QUERY_GID,
};

static const uint32_t status_of[DT_DELAY_STATUS_COUNT] = {
    [DT_DELAY_STATUS_RETRY_EXCEEDED] = DT_WC_RETRY_EXCEEDED,
    [DT_DELAY_STATUS_RNR_RETRY_EXCEEDED] = DT_WC_RNR_RETRY_EXCEEDED,
    [DT_DELAY_STATUS_RESPONSE_TIMEOUT] = DT_WC_RESPONSE_TIMEOUT,
    [DT_DELAY_STATUS_REMOTE_OPERATION] = DT_WC_REMOTE_OPERATION,
    [DT_DELAY_STATUS_REMOTE_ACCESS] = DT_WC_REMOTE_ACCESS,
    [DT_DELAY_STATUS_LOCAL_PROTECTION] = DT_WC_LOCAL_PROTECTION,
    [DT_DELAY_STATUS_LOCAL_QP_OPERATION] = DT_WC_LOCAL_QP_OPERATION,
    [DT_DELAY_STATUS_FLUSHED] = DT_WC_FLUSHED,
    [DT_DELAY_STATUS_FATAL] = DT_WC_FATAL,
    [DT_DELAY_STATUS_GENERAL] = DT_WC_GENERAL,
    [DT_DELAY_STATUS_LOST] = DT_DEVICE_STATUS_LOST,
};

static const enum dt_event_type event_of[DT_DELAY_EVENT_COUNT] = {
    [DT_DELAY_EVENT_PORT_ERROR] = DT_EVENT_PORT_ERROR, [DT_DELAY_EVENT_PORT_ACTIVE] = DT_EVENT_PORT_ACTIVE,
    [DT_DELAY_EVENT_GID_CHANGE] = DT_EVENT_GID_CHANGE, [DT_DELAY_EVENT_DEVICE_FATAL] = DT_EVENT_DEVICE_FATAL,
    [DT_DELAY_EVENT_CQ_ERROR] = DT_EVENT_CQ_ERROR,     [DT_DELAY_EVENT_QP_FATAL] = DT_EVENT_QP_FATAL,
};

static const enum dt_device_personality personality_of[DT_DELAY_PERSONALITY_COUNT] = {
    [DT_DELAY_PERSONALITY_MLX5] = DT_DEVICE_PERSONALITY_MLX5,
    [DT_DELAY_PERSONALITY_IONIC] = DT_DEVICE_PERSONALITY_IONIC,
    [DT_DELAY_PERSONALITY_BNXT] = DT_DEVICE_PERSONALITY_BNXT,
    [DT_DELAY_PERSONALITY_RXE] = DT_DEVICE_PERSONALITY_RXE,
    [DT_DELAY_PERSONALITY_MANA] = DT_DEVICE_PERSONALITY_MANA,
};

/* A trace is only in force here when the device crashes by it. */
static const enum dt_device_fault_kind kind_of[DT_DELAY_EFFECT_COUNT] = {
    [DT_DELAY_DOWN] = DT_DEVICE_FAULT_DOWN,
    [DT_DELAY_FLAP] = DT_DEVICE_FAULT_DOWN,
    [DT_DELAY_TRACE] = DT_DEVICE_FAULT_DEAD,
    [DT_DELAY_FAIL] = DT_DEVICE_FAULT_FAIL,
    [DT_DELAY_HANG] = DT_DEVICE_FAULT_HANG,
    [DT_DELAY_STATUS] = DT_DEVICE_FAULT_STATUS,
    [DT_DELAY_SILENT] = DT_DEVICE_FAULT_SILENT,
    [DT_DELAY_EVENT] = DT_DEVICE_FAULT_EVENT,
    [DT_DELAY_PERSONALITY] = DT_DEVICE_FAULT_PERSONALITY,
};

static void fill(struct dt_device_fault *fault, struct dt_delay_active *active)
{
    const struct dt_delay_rule *rule = &active->rule;

    *fault = (struct dt_device_fault){.id = active->number,
                                      .kind = kind_of[rule->effect],
                                      .call = call_of[rule->call],
                                      .error = rule->error,
                                      .status = status_of[rule->status],
                                      .event = event_of[rule->event],
                                      .personality = personality_of[rule->personality],
                                      .limit = rule->count,
                                      .fired = &active->messages};
}

static void release(struct dt_delay_active *const *active, size_t count)
{
    for (size_t i = 0; i < count; i++)
        dt_delay_active_release(active[i]);
}

static bool has(struct dt_delay_active *const *active, size_t count, const struct dt_delay_active *one)
{
    for (size_t i = 0; i < count; i++) {
        if (active[i] == one)
            return true;
    }
    return false;
}

static bool has_crashed(const struct dt_inject_nic *state)
{
    for (size_t i = 0; i < state->fault_count; i++) {
        if (state->fault[i]->rule.effect == DT_DELAY_TRACE)
            return true;
    }
    return false;
}

static void log_change(const struct dt_nic *nic, const struct dt_delay_active *active, const char *what)
{
    char text[DT_DELAY_TEXT_BYTES];

    dt_delay_rule_print(&active->rule, text);
    dt_info("inject-fault", "%s: by injection rule %u, %s: %s", nic->name, active->number, text, what);
}

static void log_changes(const struct dt_nic *nic, struct dt_delay_active *const *wanted, size_t count)
{
    const struct dt_inject_nic *state = &nic->service->inject;

    for (size_t i = 0; i < state->fault_count; i++) {
        if (!has(wanted, count, state->fault[i]))
            log_change(nic, state->fault[i], "over");
    }
    for (size_t i = 0; i < count; i++) {
        if (!has(state->fault, state->fault_count, wanted[i]))
            log_change(nic, wanted[i], "now");
    }
}

static void run_break(struct dt_task *task)
{
    struct dt_nic *nic = dt_container_of(task, struct dt_nic_service, inject.break_task)->nic;

    DT_CHECK(dt_load_relaxed(&nic->service->inject.is_breaking)); /* one task is queued at a time */
    dt_store_release(&nic->service->inject.is_breaking, 0u);
    dt_device_break(nic->device);
}

/* One task at a time: one that is still queued will find the newest state. */
static void submit_break(struct dt_nic *nic)
{
    if (dt_exchange_acq_rel(&nic->service->inject.is_breaking, 1u))
        return;
    nic->service->inject.break_task.run = run_break;
    dt_nic_submit(nic, &nic->service->inject.break_task);
}

/* Takes over the references. */
static void set_faults(struct dt_nic *nic, struct dt_device *device, struct dt_delay_active *const *wanted,
                       size_t count)
{
    struct dt_inject_nic *state = &nic->service->inject;
    struct dt_device_fault faults[DT_DELAY_RULES_MAX];
    bool has_work;

    DT_CHECK(count <= DT_DELAY_RULES_MAX && state->fault_count <= DT_DELAY_RULES_MAX);
    DT_CHECK(!has_crashed(state)); /* a device that has crashed keeps that fault */
    for (size_t i = 0; i < count; i++)
        fill(&faults[i], wanted[i]);
    log_changes(nic, wanted, count);
    has_work = dt_device_set_faults(device, faults, count);
    release(state->fault, state->fault_count);
    memcpy(state->fault, wanted, count * sizeof wanted[0]);
    state->fault_count = count;
    if (has_work)
        submit_break(nic);
}

uint64_t dt_inject_faults(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_inject_nic *state = &nic->service->inject;
    struct dt_device *device = dt_load_acquire(&nic->device);
    struct dt_delay_active *wanted[DT_DELAY_RULES_MAX];
    uint64_t next_ns;
    size_t count;

    if (!device || has_crashed(state))
        return DT_NEVER_NS;
    count = dt_delay_table_faults(nic->environment->inject->table, nic->name, now_ns, wanted, &next_ns);
    if (count == state->fault_count && memcmp(wanted, state->fault, count * sizeof wanted[0]) == 0)
        release(wanted, count);
    else
        set_faults(nic, device, wanted, count);
    return next_ns;
}

void dt_inject_opened(struct dt_nic *nic, struct dt_device *device)
{
    struct dt_inject *inject = nic->environment->inject;
    struct dt_inject_nic *state = &nic->service->inject;
    struct dt_delay_active *wanted[DT_DELAY_RULES_MAX];
    uint64_t next_ns;

    if (!inject->now_ns)
        return;
    pthread_mutex_lock(&nic->mutex);
    if (!state->is_over) {
        DT_CHECK(state->fault_count == 0); /* the device thread sets none without a device */
        state->device = device;
        set_faults(nic, device, wanted,
                   dt_delay_table_faults(inject->table, nic->name, inject->now_ns(inject->now_arg), wanted,
                                         &next_ns));
    }
    pthread_mutex_unlock(&nic->mutex);
}

void dt_inject_reopened(struct dt_nic *nic, struct dt_device *device)
{
    struct dt_inject_nic *state = &nic->service->inject;

    pthread_mutex_lock(&nic->mutex);
    if (!state->is_over) {
        if (state->device)
            dt_device_set_faults(state->device, NULL, 0);
        release(state->fault, state->fault_count);
        state->fault_count = 0;
        state->device = device;
    }
    pthread_mutex_unlock(&nic->mutex);
}

void dt_inject_faults_end(struct dt_nic *nic)
{
    struct dt_inject_nic *state = &nic->service->inject;

    pthread_mutex_lock(&nic->mutex);
    DT_CHECK(state->device || state->fault_count == 0);
    if (state->device)
        dt_device_set_faults(state->device, NULL, 0);
    release(state->fault, state->fault_count);
    state->fault_count = 0;
    state->is_over = true;
    pthread_mutex_unlock(&nic->mutex);
}
