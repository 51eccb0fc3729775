/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pause in the calls of connect and accept that have nothing to return yet. NCCL repeats them without a
 * pause, one service thread per rank. With more threads than processors, these loops keep the processor from
 * the threads that they wait for: the control thread that creates queue pairs, the device thread that awaits
 * an answer, the peer. Each of the eight hand-overs of a set-up then takes a scheduling period of several
 * milliseconds.
 *
 * The pauses take at most half of the time, however many set-ups are in progress: NCCL calls them in turn.
 */
#ifndef DETOUR_PLUGIN_PAUSE_H
#define DETOUR_PLUGIN_PAUSE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SETUP_PAUSE_NS 100000

/* All zero at first; shared by all threads of a process. */
struct dt_setup_pause {
    uint64_t ended_ns; /* when the last pause was over [atomic] */
};

/* The length of the pause that the calling thread makes now; 0: none. Counts it as made. Any thread. */
uint64_t dt_setup_pause_take(struct dt_setup_pause *pause, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
