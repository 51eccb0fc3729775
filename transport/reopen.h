/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that died and comes back, by a driver reset or hot plug, is opened again and used again
 * (dt_device_reopen()). While it is dead its device thread looks whether the system has it again. Once every
 * path over it has left the old queue pairs, with the proof of its fence, the control thread opens it; then
 * the paths are made new as after any other failure, after the memory that was registered meanwhile.
 *
 * The context of before is closed once its last queue pair is destroyed, which DETOUR_LATE_MS delays: at the
 * next removal, and every DT_REOPEN_OLD_NS until none is left.
 *
 * Device thread.
 */
#ifndef DETOUR_TRANSPORT_REOPEN_H
#define DETOUR_TRANSPORT_REOPEN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REOPEN_PERIOD_NS (100 * 1000000ull)
/* After the device was there and refused. */
#define DT_REOPEN_REFUSED_NS (5 * 1000000000ull)
/* How often the contexts of before are looked at while the device works. */
#define DT_REOPEN_OLD_NS (5 * 1000000000ull)

struct dt_nic;

/* When to call it again. Without nic->mutex. */
uint64_t dt_reopen_progress(struct dt_nic *nic, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
