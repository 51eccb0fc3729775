/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/peer_processor.h"

#include <string.h>

#include "base/check.h"
#include "transport/message/receiver.h"
#include "transport/net_state.h"
#include "transport/protocol/cts.h"
#include "transport/service_state.h"

#define WHOLE 255.0

DT_STATIC_CHECK(DT_CTS_PROCESSOR_BYTES == 2 * DT_PROCESSOR_ENDS_THREADS &&
                    DT_CTS_PROCESSOR_BYTES == sizeof(uint32_t),
                "two bytes for each thread, copied as one word");

uint32_t dt_processor_threads(struct dt_busy *busy, const struct dt_connection *c, uint64_t now_ns,
                              const struct dt_processor_thread *threads[DT_PROCESSOR_ENDS_THREADS])
{
    const int32_t tids[DT_PROCESSOR_ENDS_THREADS] = {dt_load_relaxed(&c->meter.owner_tid),
                                                     dt_load_relaxed(&c->nic->service->tid)};
    uint32_t count = 0;

    for (uint32_t i = 0; i < DT_PROCESSOR_ENDS_THREADS; i++) {
        threads[count] = dt_busy_sums(busy, tids[i], now_ns);
        count += threads[count] != NULL;
    }
    return count;
}

static uint8_t part_of(double seconds, double window_s)
{
    double part = window_s > 0 ? WHOLE * seconds / window_s + 0.5 : 0;

    return part < WHOLE ? (uint8_t)part : (uint8_t)WHOLE;
}

void dt_peer_processor_publish(struct dt_health_net *health, struct dt_receiver *r, uint64_t now_ns)
{
    const struct dt_processor_thread *threads[DT_PROCESSOR_ENDS_THREADS];
    uint8_t bytes[DT_CTS_PROCESSOR_BYTES] = {0};
    uint64_t due_ns = dt_deadline_ns(now_ns, DT_BUSY_EVERY_NS);
    uint32_t word, count;

    if (!health->busy.read || now_ns < r->processor_due_ns)
        return;
    pthread_mutex_lock(&health->mutex);
    count = dt_processor_threads(&health->busy, &r->connection, now_ns, threads);
    for (uint32_t i = 0; i < count; i++) {
        bytes[2 * i] = part_of(threads[i]->run_s, threads[i]->window_s);
        bytes[2 * i + 1] = part_of(threads[i]->wait_s, threads[i]->window_s);
        if (threads[i]->last_ns) /* it may be older than this visit: read for another connection */
            due_ns = dt_earlier_ns(due_ns, dt_deadline_ns(threads[i]->last_ns, DT_BUSY_EVERY_NS));
    }
    pthread_mutex_unlock(&health->mutex);
    r->processor_due_ns = due_ns;
    memcpy(&word, bytes, sizeof word);
    dt_store_relaxed(&r->processor, word);
}

void dt_peer_processor_read(uint32_t word, struct dt_processor_thread threads[DT_PROCESSOR_ENDS_THREADS])
{
    uint8_t bytes[DT_CTS_PROCESSOR_BYTES];

    memcpy(bytes, &word, sizeof word);
    for (uint32_t i = 0; i < DT_PROCESSOR_ENDS_THREADS; i++)
        threads[i] = (struct dt_processor_thread){
            .run_s = bytes[2 * i] / WHOLE, .wait_s = bytes[2 * i + 1] / WHOLE, .window_s = 1};
}
