/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A busy host at the other end of a connection delays its messages as a slow link does. Therefore a receiver
 * writes into its CTS entries (protocol/cts.h) how long its two threads, NCCL's and the device's, ran and
 * waited for a processor in about the last second, and the sender's judgement (health.h) counts these waits
 * as it counts its own threads'.
 */
#ifndef DETOUR_TRANSPORT_PEER_PROCESSOR_H
#define DETOUR_TRANSPORT_PEER_PROCESSOR_H

#include <stdint.h>

#include "detect/processor.h"
#include "transport/health.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PROCESSOR_ENDS_THREADS 2 /* that serve an end of a connection */

struct dt_receiver;

/* The threads that serve this end of the connection, as far as they are known; returns their number. Under
 * the mutex of `health`. */
uint32_t dt_processor_threads(struct dt_busy *busy, const struct dt_connection *connection, uint64_t now_ns,
                              const struct dt_processor_thread *threads[DT_PROCESSOR_ENDS_THREADS]);

/*
 * The receiver's next CTS entries carry the present values, which change when a thread's times are read
 * again (busy.h): a visit before that takes no lock and has no effect. A thread that is known for the first
 * time is published after DT_BUSY_EVERY_NS at the latest. Device thread, at a visit.
 */
void dt_peer_processor_publish(struct dt_health_net *health, struct dt_receiver *receiver, uint64_t now_ns);

/* The receiver's threads, from the bytes of a CTS entry; of about one second. */
void dt_peer_processor_read(uint32_t bytes, struct dt_processor_thread threads[DT_PROCESSOR_ENDS_THREADS]);

#ifdef __cplusplus
}
#endif

#endif
