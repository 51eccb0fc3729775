/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/ring_model.h"

#include <stdlib.h>

#include "base/check.h"

struct model {
    const struct dt_ring *ring;
    uint64_t depth;      /* of the arrivals that are remembered */
    int64_t *arrived_ns; /* [message % depth][replica that sends] */
    int64_t *free_ns;    /* [replica that sends]: the link's serial part */
};

static int64_t later(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static int64_t *arrival(const struct model *model, int32_t replica, uint64_t message)
{
    return &model->arrived_ns[message % model->depth * (uint64_t)model->ring->replicas + (uint64_t)replica];
}

static void send(const struct model *model, int32_t replica, uint64_t message, const int64_t *ended_ns)
{
    const struct dt_ring *ring = model->ring;
    const struct dt_ring_link *link = &ring->links[replica];
    int32_t before = (replica + ring->replicas - 1) % ring->replicas;
    int64_t at_ns = later(ended_ns[replica], ended_ns[(replica + 1) % ring->replicas]);

    at_ns = later(at_ns, model->free_ns[replica]);
    if (message >= ring->slices)
        at_ns = later(at_ns, *arrival(model, before, message - ring->slices));
    if (message >= ring->slots)
        at_ns = later(at_ns, *arrival(model, replica, message - ring->slots));
    model->free_ns[replica] = at_ns + link->serial_ns;
    *arrival(model, replica, message) = at_ns + link->serial_ns + link->latency_ns;
}

int64_t dt_ring_end_ns(const struct dt_ring *ring, const int64_t *ended_ns)
{
    uint64_t count = 2 * ((uint64_t)ring->replicas - 1) * ring->slices;
    uint64_t depth = 1 + (ring->slices > ring->slots ? ring->slices : ring->slots);
    struct model model = {.ring = ring, .depth = depth};
    int64_t end_ns = -1;

    DT_CHECK(ring->replicas >= 2 && ring->slices > 0 && ring->slots > 0);
    model.arrived_ns = calloc(depth * (uint64_t)ring->replicas, sizeof *model.arrived_ns);
    model.free_ns = calloc((size_t)ring->replicas, sizeof *model.free_ns);
    if (model.arrived_ns && model.free_ns) {
        for (uint64_t j = 0; j < count; j++)
            for (int32_t r = 0; r < ring->replicas; r++)
                send(&model, r, j, ended_ns);
        for (int32_t r = 0; r < ring->replicas; r++)
            end_ns = later(end_ns, *arrival(&model, r, count - 1));
    }
    free(model.arrived_ns);
    free(model.free_ns);
    return end_ns;
}
