/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that fail on command, real ones included: what a cable, a firmware or a driver in trouble does, for
 * experiments and tests.
 *
 * The faults are brought about between Detour and the library (fault_layer.h), so every device can have them.
 * While a device has none, its data path is the library's own; a fault of the data path puts a function in
 * front of the one that it concerns, for as long as it is there.
 *
 * Which fault a device has, is a state: the caller says what it is to be from now on, as often as it changes.
 */
#ifndef DETOUR_VERBS_FAULT_H
#define DETOUR_VERBS_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DEVICE_FAULTS_MAX 16

enum dt_device_fault_kind {
    /*
     * The port has no link. What the retries of a real one would end with after seconds happens at once: all
     * connected queue pairs are in the error state, and no other can be connected (ENETDOWN). A PORT_ERROR
     * when it comes, a PORT_ACTIVE when it goes. Counts queue pairs.
     */
    DT_DEVICE_FAULT_DOWN,
    /* The same, with DEVICE_FATAL, and nothing can be made or changed any more (EIO): for good. */
    DT_DEVICE_FAULT_DEAD,
    DT_DEVICE_FAULT_FAIL, /* `call` answers `error` and does nothing. Counts calls */
    DT_DEVICE_FAULT_HANG, /* `call` (of those that make, change or query something) does not return until it
                             is gone. Counts calls */
    /*
     * The completion of a send that was a success says `status`. As after a real one, its queue pair is then
     * in the error state, and no further send of it succeeds; what it received before remains received. With
     * DT_DEVICE_STATUS_LOST it does not come at all, nor does any other of a send, or any that says that
     * something was flushed. Counts completions.
     */
    DT_DEVICE_FAULT_STATUS,
    DT_DEVICE_FAULT_SILENT, /* completion queues look empty. Counts polls */
    DT_DEVICE_FAULT_EVENT   /* `event` is raised, once; nothing else happens. Counts events */
};

enum dt_device_call {
    DT_DEVICE_CALL_POST_SEND, /* queue pairs of the `std` back end; `dv` posts without a call */
    DT_DEVICE_CALL_POST_RECV,
    DT_DEVICE_CALL_POLL_CQ, /* the CQ is then out of use: polling says -1 */
    DT_DEVICE_CALL_MODIFY_QP,
    DT_DEVICE_CALL_QUERY_QP,
    DT_DEVICE_CALL_CREATE_QP,
    DT_DEVICE_CALL_CREATE_CQ,
    DT_DEVICE_CALL_REG_MR
};

#define DT_DEVICE_STATUS_LOST UINT32_MAX

struct dt_device_fault {
    uint32_t id; /* the caller's: tells whether this fault is one that the device has already */
    enum dt_device_fault_kind kind;
    enum dt_device_call call;
    int error;
    uint32_t status;          /* enum dt_wc_status, or DT_DEVICE_STATUS_LOST */
    enum dt_event_type event; /* CQ_ERROR and QP_FATAL are those of the oldest connected queue pair */
    uint64_t limit;           /* FAIL, HANG, STATUS: acts so often; 0: always */
    uint64_t *fired;          /* how often it acted is added there [atomic] */
};

/*
 * From now on the device has these faults and no others; with a count of 0, none. Calls that hang in one that
 * is gone go on. Nobody touches `fired` of a fault that is gone any more. Returns whether
 * dt_device_break() has something to do. Does not block but for work of the device that is under way. One
 * thread at a time.
 */
bool dt_device_set_faults(struct dt_device *device, const struct dt_device_fault *faults, size_t count);

/* Brings queue pairs into the error state that a fault wants there. The control thread of the device. */
void dt_device_break(struct dt_device *device);

#ifdef __cplusplus
}
#endif

#endif
