/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/registration.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "transport/path/nic.h"

struct dt_registration {
    struct dt_task task;
    struct dt_nic *nic;
    struct dt_memory_source from; /* its descriptor is the registration's own */
    struct dt_memory *memory;     /* NULL: the region is given back to the device */
    uint32_t path;

    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t ended;
    enum dt_registration_state state;
    enum dt_status status;
    struct dt_mr *mr;
    bool is_counted; /* in nic->late_tasks */
};

/* [from] bit by state: the legal transitions. The task takes those of the lines BUSY to DONE and LATE to
 * ENDED. */
static const uint32_t transitions[] = {
    [DT_REGISTRATION_BUSY] =
        1u << DT_REGISTRATION_DONE | 1u << DT_REGISTRATION_LATE | 1u << DT_REGISTRATION_ABANDONED,
    [DT_REGISTRATION_DONE] = 0,
    [DT_REGISTRATION_LATE] = 1u << DT_REGISTRATION_ENDED | 1u << DT_REGISTRATION_ABANDONED,
    [DT_REGISTRATION_ABANDONED] = 0,
    [DT_REGISTRATION_ENDED] = 0,
};

static void set_state(struct dt_registration *registration, enum dt_registration_state state)
{
    DT_CHECK(transitions[registration->state] & 1u << state);
    registration->state = state;
}

static void release(struct dt_registration *registration)
{
    if (registration->from.fd >= 0)
        close(registration->from.fd);
    pthread_cond_destroy(&registration->ended);
    pthread_mutex_destroy(&registration->mutex);
    free(registration);
}

static bool init_locks(struct dt_registration *registration)
{
    pthread_condattr_t clock;
    bool is_made;

    if (pthread_condattr_init(&clock) != 0)
        return false;
    is_made = pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&registration->ended, &clock) == 0;
    pthread_condattr_destroy(&clock);
    if (!is_made)
        return false;
    if (pthread_mutex_init(&registration->mutex, NULL) == 0)
        return true;
    pthread_cond_destroy(&registration->ended);
    return false;
}

static struct dt_registration *create(struct dt_nic *nic, const struct dt_memory_source *from)
{
    struct dt_registration *registration = calloc(1, sizeof *registration);

    if (!registration)
        return NULL;
    registration->nic = nic;
    registration->from = *from;
    if (!init_locks(registration)) {
        free(registration);
        return NULL;
    }
    if (from->fd >= 0) {
        registration->from.fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
        if (registration->from.fd < 0) {
            release(registration);
            return NULL;
        }
    }
    return registration;
}

/* The end of its task. */
static void end(struct dt_registration *registration, enum dt_status status, struct dt_mr *mr)
{
    struct dt_nic *nic = registration->nic;
    enum dt_registration_state state;
    bool is_counted;

    pthread_mutex_lock(&registration->mutex);
    state = registration->state;
    is_counted = registration->is_counted;
    if (state == DT_REGISTRATION_BUSY) {
        registration->status = status;
        registration->mr = mr;
        set_state(registration, DT_REGISTRATION_DONE);
        pthread_cond_signal(&registration->ended);
    } else if (state == DT_REGISTRATION_LATE) {
        dt_memory_add_region(registration->memory, registration->path, mr);
        set_state(registration, DT_REGISTRATION_ENDED);
    }
    pthread_mutex_unlock(&registration->mutex); /* DONE or ENDED: the other thread may free it now */
    if (state == DT_REGISTRATION_BUSY)
        return;
    if (state == DT_REGISTRATION_ABANDONED) {
        if (mr)
            dt_mr_deregister(dt_nic_memory(nic), mr);
        release(registration);
    }
    if (is_counted)
        dt_fetch_sub_acq_rel(&nic->late_tasks, 1);
}

/* The device is gone: the registration waits for its return. False: not late, and the caller ends it. */
static bool hold_again(struct dt_registration *registration)
{
    struct dt_nic *nic = registration->nic;
    bool is_late, is_counted;

    pthread_mutex_lock(&registration->mutex); /* the memory may be deregistered at the same time */
    is_late = registration->state == DT_REGISTRATION_LATE;
    is_counted = is_late && registration->is_counted;
    if (is_late) {
        registration->is_counted = false;
        dt_nic_hold_failed(nic, &registration->task);
    }
    pthread_mutex_unlock(&registration->mutex);
    if (is_counted)
        dt_fetch_sub_acq_rel(&nic->late_tasks, 1);
    if (is_late)
        dt_nic_release_if_back(nic);
    return is_late;
}

/* The memory was deregistered while the task was queued, and may be other memory by now. */
static bool is_abandoned(struct dt_registration *registration)
{
    bool is;

    pthread_mutex_lock(&registration->mutex);
    is = registration->state == DT_REGISTRATION_ABANDONED;
    pthread_mutex_unlock(&registration->mutex);
    return is;
}

static void run_register(struct dt_task *task)
{
    struct dt_registration *registration = dt_container_of(task, struct dt_registration, task);
    struct dt_device *device = dt_nic_memory(registration->nic);
    struct dt_mr *mr = NULL;
    enum dt_status status = DT_SYSTEM; /* late at its opening, and then not opened */

    if (device && !is_abandoned(registration))
        status = dt_memory_register_on(device, &registration->from, &mr);
    if (status != DT_NOT_FOUND || !hold_again(registration))
        end(registration, status, mr);
}

static void run_deregister(struct dt_task *task)
{
    struct dt_registration *registration = dt_container_of(task, struct dt_registration, task);

    end(registration, dt_mr_deregister(dt_nic_memory(registration->nic), registration->mr), NULL);
}

static struct dt_registration *create_of(struct dt_nic *nic, const struct dt_memory_source *from,
                                         struct dt_memory *memory, uint32_t p)
{
    struct dt_registration *registration = create(nic, from);

    if (!registration)
        return NULL;
    registration->memory = memory;
    registration->path = p;
    registration->task.run = run_register;
    return registration;
}

struct dt_registration *dt_registration_start(struct dt_nic *nic, const struct dt_memory_source *from,
                                              struct dt_memory *memory, uint32_t p)
{
    struct dt_registration *registration = create_of(nic, from, memory, p);

    if (registration)
        dt_nic_submit(nic, &registration->task);
    return registration;
}

bool dt_registration_hold(struct dt_nic *nic, const struct dt_memory_source *from, struct dt_memory *memory,
                          uint32_t p)
{
    struct dt_registration *registration = create_of(nic, from, memory, p);

    if (!registration)
        return false;
    set_state(registration, DT_REGISTRATION_LATE);
    dt_memory_expect_region(memory, p, registration);
    dt_nic_hold(nic, &registration->task);
    return true;
}

/* Until it is DONE. Otherwise the caller leaves it in state `left`. */
static bool wait_or_leave(struct dt_registration *registration, uint64_t timeout_ns,
                          enum dt_registration_state left)
{
    uint64_t until_ns = dt_deadline_ns(dt_clock_now_ns(), timeout_ns);
    struct timespec until = {(time_t)(until_ns / DT_NS_PER_S), (long)(until_ns % DT_NS_PER_S)};
    int error = 0;
    bool is_done;

    pthread_mutex_lock(&registration->mutex);
    while (registration->state == DT_REGISTRATION_BUSY && !error)
        error = pthread_cond_timedwait(&registration->ended, &registration->mutex, &until);
    is_done = registration->state == DT_REGISTRATION_DONE;
    if (!is_done) {
        dt_fetch_add_acq_rel(&registration->nic->late_tasks, 1);
        registration->is_counted = true;
        set_state(registration, left);
    }
    pthread_mutex_unlock(&registration->mutex);
    return is_done;
}

bool dt_registration_wait(struct dt_registration *registration, uint64_t timeout_ns, enum dt_status *status,
                          struct dt_mr **mr)
{
    if (!wait_or_leave(registration, timeout_ns, DT_REGISTRATION_LATE))
        return false;
    *status = registration->status;
    *mr = registration->mr;
    release(registration);
    return true;
}

void dt_registration_abandon(struct dt_registration *registration)
{
    bool is_over; /* nothing refers to it any more */

    pthread_mutex_lock(&registration->mutex);
    is_over = registration->state == DT_REGISTRATION_ENDED ||
              dt_nic_withdraw(registration->nic, &registration->task);
    if (!is_over)
        set_state(registration, DT_REGISTRATION_ABANDONED);
    pthread_mutex_unlock(&registration->mutex);
    if (is_over)
        release(registration);
}

void dt_deregistration_run(struct dt_nic *nic, struct dt_mr *mr, uint64_t timeout_ns)
{
    static const struct dt_memory_source none = {.fd = -1};
    struct dt_registration *registration = create(nic, &none);

    if (!registration) {
        dt_mr_deregister(dt_nic_memory(nic), mr);
        return;
    }
    registration->mr = mr;
    registration->task.run = run_deregister;
    dt_nic_submit(nic, &registration->task);
    if (wait_or_leave(registration, timeout_ns, DT_REGISTRATION_ABANDONED))
        release(registration);
}
