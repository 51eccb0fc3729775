/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/executor_sim.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/prng.h"
#include "base/util.h"
#include "softrnic/softrnic.h"
#include "tests/sim/driver_sim.h"
#include "transport/net_state.h"

#define EXECUTORS_MAX DT_SOFT_NAMES_MAX

struct thread {
    struct dt_executor *executor;
    uint64_t free_ns; /* in a verb until then */
};

static struct {
    struct dt_prng prng;
    uint64_t job_ns_max;
    uint32_t task_count; /* of all executors */
    uint32_t count;
    struct thread thread[EXECUTORS_MAX];
} sim;

void dt_executor_sim_start(uint64_t seed, uint64_t job_ns_max)
{
    dt_prng_init_stream(&sim.prng, seed, 2);
    sim.job_ns_max = job_ns_max;
    sim.count = 0;
    sim.task_count = 0;
}

static struct thread *thread_of(const struct dt_executor *executor)
{
    for (uint32_t i = 0; i < sim.count; i++)
        if (sim.thread[i].executor == executor)
            return &sim.thread[i];
    DT_CHECK(false);
    return NULL;
}

static uint64_t now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

static void enter_verb(struct thread *thread)
{
    thread->free_ns = dt_max_u64(thread->free_ns, now_ns() + dt_prng_below(&sim.prng, sim.job_ns_max + 1));
}

uint64_t dt_executor_sim_next_ns(void)
{
    uint64_t next_ns = DT_NEVER_NS;

    if (!sim.task_count)
        return next_ns;
    for (uint32_t i = 0; i < sim.count; i++)
        if (!dt_executor_is_empty(sim.thread[i].executor) && sim.thread[i].free_ns > now_ns())
            next_ns = dt_earlier_ns(next_ns, sim.thread[i].free_ns);
    return next_ns;
}

static struct dt_nic *nic_of(const struct thread *thread)
{
    return dt_container_of(thread->executor, struct dt_nic, executor);
}

bool dt_executor_sim_has_some(const struct dt_net *net)
{
    if (!sim.task_count)
        return false;
    for (uint32_t i = 0; i < sim.count; i++)
        if (nic_of(&sim.thread[i])->net == net && !dt_executor_is_empty(sim.thread[i].executor) &&
            sim.thread[i].free_ns <= now_ns())
            return true;
    return false;
}

void dt_executor_sim_hang(const char *device, uint64_t until_ns)
{
    for (uint32_t i = 0; i < sim.count; i++) {
        struct thread *thread = &sim.thread[i];

        if (!strcmp(nic_of(thread)->info.name, device))
            thread->free_ns = dt_max_u64(thread->free_ns, until_ns);
    }
}

/* ---- transport/path/executor.h
 * -------------------------------------------------------------------------------
 */

enum dt_status dt_executor_init(struct dt_executor *executor, bool has_thread)
{
    DT_CHECK(!has_thread && sim.count < EXECUTORS_MAX);
    memset(executor, 0, sizeof *executor);
    dt_list_init(&executor->urgent);
    dt_list_init(&executor->tasks);
    sim.thread[sim.count++] = (struct thread){executor, 0};
    return DT_OK;
}

enum dt_status dt_executor_submit(struct dt_executor *executor, struct dt_task *task, bool is_urgent)
{
    if (dt_executor_is_empty(executor))
        enter_verb(thread_of(executor));
    dt_list_push_back(is_urgent ? &executor->urgent : &executor->tasks, &task->node);
    sim.task_count++;
    return DT_OK;
}

unsigned dt_executor_run(struct dt_executor *executor)
{
    struct thread *thread = thread_of(executor);
    unsigned count = 0;

    while (!dt_executor_is_empty(executor) && thread->free_ns <= now_ns()) {
        struct dt_task *task = dt_executor_pop(executor);

        DT_CHECK(sim.task_count > 0);
        sim.task_count--;
        task->run(task);
        executor->finished++;
        count++;
        if (!dt_executor_is_empty(executor))
            enter_verb(thread);
    }
    return count;
}

void dt_executor_stop(struct dt_executor *executor)
{
    struct thread *thread = thread_of(executor);
    struct dt_task *task;

    while ((task = dt_executor_pop(executor))) {
        DT_CHECK(sim.task_count > 0);
        sim.task_count--;
        task->run(task);
    }
    *thread = sim.thread[--sim.count];
}
