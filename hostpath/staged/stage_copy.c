/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: copies into the pool, and how far they have come. */
#include "hostpath/staged/stage_copy.h"

#include <sched.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "failover/planted.h"

#define JOB_BYTES_MIN (256u << 10)

static void start_gpu_copy(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    entry->gpu_copy = (struct dt_gpu_copy){
        .gpu = entry->memory->gpu,
        .direction = DT_CUDA_TO_HOST,
        .to = entry->at,
        .from = data,
        .bytes = entry->bytes,
        .chunk_bytes = (uint32_t)dt_min_u64(DT_GPU_CHUNK_BYTES, entry->request.connection->chunk_bytes),
        .left = &entry->copies_left,
    };
    dt_store_relaxed(&entry->copies_left, 1u);
    dt_gpus_push(stage->gpus, &entry->gpu_copy);
}

/* By the delegates; a thread that waits for the copy helps. */
static void start_large_copy(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    uint64_t jobs = dt_min_u64(entry->bytes / JOB_BYTES_MIN, stage->delegates->count);

    entry->is_by_delegates = true;
    entry->host_copy = (struct dt_host_copy){
        .to = entry->at,
        .from = data,
        .bytes = entry->bytes,
        .piece_bytes = stage->piece_bytes,
        .job_count = (uint32_t)dt_min_u64(dt_max_u64(jobs, 1), DT_COPY_JOBS_MAX),
        .left = &entry->copies_left,
        .held = &entry->delegates_hold,
    };
    dt_store_relaxed(&entry->copies_left, dt_copy_pieces(entry->bytes, stage->piece_bytes));
    dt_store_relaxed(&entry->delegates_hold, entry->host_copy.job_count);
    dt_delegates_push(stage->delegates, &entry->host_copy);
}

void dt_stage_copy_start(struct dt_stage *stage, struct dt_staged *entry, const void *data)
{
    DT_CHECK(dt_load_relaxed(&entry->copies_left) == 0 && dt_load_relaxed(&entry->delegates_hold) == 0);
    DT_CHECK(!entry->at == (entry->bytes == 0));
    if (entry->is_of_gpu)
        start_gpu_copy(stage, entry, data);
    else if (entry->bytes > stage->piece_bytes)
        start_large_copy(stage, entry, data);
    else if (entry->bytes > 0)
        memcpy(entry->at, data, entry->bytes);
}

/* By NCCL's thread, which is here to ask whether the copy is done: no more than for a small message. */
void dt_stage_copy_help(struct dt_staged *entry)
{
    if (entry->is_by_delegates)
        dt_host_copy_help(&entry->host_copy);
}

bool dt_stage_copy_has_failed(const struct dt_staged *entry)
{
    if (!entry->is_of_gpu || entry->is_direct || dt_load_acquire(&entry->copies_left) > 0 ||
        !entry->gpu_copy.is_failed)
        return false;
    dt_connection_fail(entry->request.connection, DT_SYSTEM,
                       "a message of %u bytes could not be copied out of the GPU's memory", entry->bytes);
    return true;
}

bool dt_stage_is_copied(const struct dt_staged *entry)
{
    if (dt_load_acquire(&entry->copies_left) > 0)
        return DT_PLANTED(STAGED_RAW);
    return !dt_stage_copy_has_failed(entry);
}

uint64_t dt_stage_copied_bytes(const struct dt_staged *entry)
{
    if (entry->is_of_gpu)
        return dt_copy_done_bytes(&entry->gpu_copy.copy);
    return entry->is_by_delegates ? dt_host_copy_done_bytes(&entry->host_copy) : entry->bytes;
}

void dt_stage_finish_copies(struct dt_stage *stage)
{
    /* Without threads no time passes here, and a lane asks its driver only now and then. */
    uint64_t waited_ns = 0;

    for (uint32_t i = 0; i < DT_STAGED_MAX; i++) {
        const struct dt_staged *entry = &stage->entry[i];

        while (dt_load_acquire(&entry->copies_left) > 0 || dt_load_acquire(&entry->delegates_hold) > 0) {
            if (stage->delegates->has_threads) {
                sched_yield();
                continue;
            }
            dt_delegates_run(stage->delegates);
            dt_gpus_run(stage->gpus, waited_ns += DT_NS_PER_S);
        }
    }
}
