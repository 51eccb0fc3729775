/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software RNIC's verbs, made to misbehave on command, one device at a time: what a driver or firmware
 * in trouble does. A layer between verbs/ and the software RNIC, with the interface of verbs/table.h.
 */
#ifndef DETOUR_TESTS_SIM_VERBS_SIM_H
#define DETOUR_TESTS_SIM_VERBS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_verbs_fault {
    DT_VERBS_MODIFY_FAILS = 1,   /* modify_qp to ERR: EIO, and nothing happens */
    DT_VERBS_MODIFY_LIES = 2,    /* modify_qp to ERR: 0, and nothing happens */
    DT_VERBS_MODIFY_DENIES = 4,  /* modify_qp to ERR: EIO, and it happens */
    DT_VERBS_CREATE_FAILS = 8,   /* create_qp, and modify_qp towards RTS: EIO */
    DT_VERBS_NO_FLUSH = 16,      /* no completion of flushed work is ever delivered */
    DT_VERBS_CQ_SILENT = 32,     /* completions are held back */
    DT_VERBS_CQ_LOST = 64,       /* completions are thrown away: they never left the device */
    DT_VERBS_EVENTS_HELD = 128,  /* asynchronous events are held back */
    DT_VERBS_HALF_SILENT = 256,  /* completions of every second queue are held back */
    DT_VERBS_RECEIVES_LATE = 512 /* completions are held back in queues for receives alone */
};

/* No device misbehaves. Each takes `qp_wr_max` work requests per queue; 0: as many as it can. */
void dt_verbs_sim_start(uint32_t qp_wr_max);

/* As dt_verbs_open(), for one host. */
enum dt_status dt_verbs_sim_open(uint32_t device_count, struct dt_verbs **verbs);

/* Until the next start these devices (bits) do not register this memory. */
void dt_verbs_sim_refuse(const void *memory, size_t bytes, uint32_t device_mask);

/* From now on the device has these faults (mask of enum dt_verbs_fault; 0: none). */
void dt_verbs_sim_set(uint32_t device, uint32_t faults);
uint32_t dt_verbs_sim_get(uint32_t device);

/* The device moves its queue pairs for data to ERR, without an event. */
void dt_verbs_sim_fail_qps(uint32_t device);

/* There may be an event of the device; until then the device is not polled. */
void dt_verbs_sim_event(uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
