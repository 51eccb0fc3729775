/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/gpu_writes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define REGIONS_MAX 64

struct piece {
    uint32_t device;
    uintptr_t at;
    uint64_t bytes;
};

static struct {
    struct {
        uintptr_t at;
        size_t bytes;
    } region[REGIONS_MAX];
    size_t region_count;
    struct piece *pieces;
    size_t count, room;
} sim;

void dt_gpu_writes_start(void)
{
    dt_gpu_writes_stop();
}

void dt_gpu_writes_stop(void)
{
    free(sim.pieces);
    memset(&sim, 0, sizeof sim);
}

void dt_gpu_writes_watch(const void *memory, size_t bytes)
{
    DT_CHECK(sim.region_count < REGIONS_MAX);
    sim.region[sim.region_count].at = (uintptr_t)memory;
    sim.region[sim.region_count++].bytes = bytes;
}

static bool is_watched(uintptr_t at)
{
    for (size_t i = 0; i < sim.region_count; i++)
        if (at - sim.region[i].at < sim.region[i].bytes)
            return true;
    return false;
}

void dt_gpu_writes_landed(uint32_t device, const void *to, uint64_t bytes)
{
    if (bytes == 0 || !is_watched((uintptr_t)to))
        return;
    if (sim.count == sim.room) {
        sim.room = sim.room ? 2 * sim.room : 64;
        sim.pieces = realloc(sim.pieces, sim.room * sizeof *sim.pieces);
        DT_CHECK(sim.pieces);
    }
    sim.pieces[sim.count++] = (struct piece){device, (uintptr_t)to, bytes};
}

void dt_gpu_writes_flush(uint32_t device)
{
    size_t kept = 0;

    for (size_t i = 0; i < sim.count; i++)
        if (sim.pieces[i].device != device)
            sim.pieces[kept++] = sim.pieces[i];
    sim.count = kept;
}

int dt_gpu_writes_pending(const void *memory, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)memory;

    for (size_t i = 0; i < sim.count; i++)
        if (sim.pieces[i].at < at + bytes && at < sim.pieces[i].at + sim.pieces[i].bytes)
            return (int)sim.pieces[i].device;
    return -1;
}
