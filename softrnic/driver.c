/* SPDX-License-Identifier: Apache-2.0 */
#include "softrnic/driver_state.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* Event sources served between two rounds over the devices. */
#define SOURCES_MAX 64

struct dt_driver_state dt_driver_state = {
    .replaced = {&dt_driver_state.replaced, &dt_driver_state.replaced},
    .open_lock = PTHREAD_MUTEX_INITIALIZER,
    .options = {.device_count = 2},
    .lock = PTHREAD_MUTEX_INITIALIZER,
};
DT_STATIC_CHECK(DT_SOFT_DEVICES_MAX <= DT_LOCAL_WIRES_MAX, "every device has its place on the wire");

/* ---- locks ----------------------------------------------------------------------------------------------
 */

/* The helper thread gives its lock back between two rounds; `waiting` makes it step aside. */
void dt_driver_lock_helper(void)
{
    dt_fetch_add_acq_rel(&dt_driver_state.waiting, 1);
    pthread_mutex_lock(&dt_driver_state.lock);
    dt_fetch_sub_acq_rel(&dt_driver_state.waiting, 1);
}

static void kick(void *arg)
{
    uint64_t one = 1;

    (void)arg;
    if (!dt_exchange_acq_rel(&dt_driver_state.is_kicked, 1)) {
        ssize_t ignored = write(dt_driver_state.kick_fd, &one, sizeof one);

        (void)ignored; /* the counter cannot be full: it is written once between two reads */
    }
}

static void kick_ready(struct dt_source *source, uint32_t events, uint64_t now_ns)
{
    uint64_t count;
    ssize_t ignored = read(dt_driver_state.kick_fd, &count, sizeof count);

    (void)source;
    (void)events;
    (void)now_ns;
    (void)ignored;
    /* A kick up to here is part of this one: its cause is served after this, before any sleep. */
    dt_exchange_acq_rel(&dt_driver_state.is_kicked, 0);
}

uint64_t dt_driver_lock(struct dt_soft_device *device)
{
    pthread_mutex_lock(&device->lock);
    return dt_clock_now_ns();
}

static uint64_t device_deadline_ns(const struct dt_soft_device *device)
{
    return dt_earlier_ns(dt_rnic_deadline_ns(device->rnic), dt_local_wire_deadline_ns(device->wire));
}

void dt_driver_unlock(struct dt_soft_device *device)
{
    uint64_t deadline_ns = device_deadline_ns(device);
    bool is_news = deadline_ns < device->expected_ns;

    if (is_news)
        device->expected_ns = deadline_ns;
    pthread_mutex_unlock(&device->lock);
    if (is_news)
        kick(NULL);
}

/* ---- stepping -------------------------------------------------------------------------------------------
 */

static void deliver(void *arg, const struct dt_packet *packet, struct dt_received *received, uint64_t now_ns)
{
    dt_rnic_receive(arg, packet, received, now_ns);
}

/* One step; true if something had arrived. The RNIC's lock is held. */
static bool step(struct dt_soft_device *device, uint64_t now_ns)
{
    bool any = dt_local_wire_receive(device->wire, deliver, device->rnic, now_ns);

    dt_local_wire_progress(device->wire, now_ns);
    dt_rnic_progress(device->rnic, now_ns);
    return any;
}

void dt_driver_charge(struct dt_soft_device *device)
{
    uint64_t ns = dt_load_relaxed(&device->verbs_ns);
    struct timespec left = {(time_t)(ns / DT_NS_PER_S), (long)(ns % DT_NS_PER_S)};

    while (ns && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void dt_driver_ring(struct dt_soft_device *device, struct dt_rnic_qp *qp)
{
    uint64_t now_ns = dt_driver_lock(device);

    dt_rnic_doorbell(qp, now_ns);
    dt_driver_unlock(device);
}

void dt_driver_poll(struct dt_soft_device *device, bool will_go_on)
{
    uint64_t now_ns = dt_clock_now_ns();

    if (will_go_on)
        dt_store_relaxed(&device->polled_ns, now_ns);
    if (pthread_mutex_trylock(&device->lock))
        return;
    if (step(device, now_ns))
        device->arrived_ns = now_ns;
    bool is_idle = now_ns - device->arrived_ns > DT_DRIVER_PATIENCE_NS;
    if (is_idle && now_ns - device->nudged_ns > DT_DRIVER_NUDGE_NS) {
        device->nudged_ns = now_ns;
        dt_local_wire_nudge(device->wire);
    }
    dt_driver_unlock(device);
    /* A real RNIC works while its host polls; this one's peer may need the CPU on which we spin. */
    if (is_idle && now_ns - dt_load_relaxed(&device->yielded_ns) > DT_DRIVER_YIELD_NS) {
        sched_yield();
        dt_store_relaxed(&device->yielded_ns, dt_clock_now_ns());
    }
}

void dt_driver_leave(struct dt_soft_device *device)
{
    pthread_mutex_lock(&device->lock);
    bool is_watched = device->expected_ns == 0;
    dt_store_relaxed(&device->polled_ns, 0);
    if (is_watched)
        device->expected_ns = DT_NEVER_NS;
    dt_driver_unlock(device);
    if (is_watched)
        kick(NULL);
}

/* ---- the helper thread ----------------------------------------------------------------------------------
 */

/* One event at a time, since a source may free another one. */
static void serve_sources(uint64_t now_ns)
{
    struct epoll_event event;

    for (int i = 0; i < SOURCES_MAX && epoll_wait(dt_driver_state.epoll_fd, &event, 1, 0) == 1; i++) {
        struct dt_source *source = event.data.ptr;

        source->ready(source, event.events, now_ns);
    }
}

/* Does an application thread poll it, so that the helper thread need not? The RNIC's lock is held. */
static bool is_polled(const struct dt_soft_device *device, uint64_t now_ns)
{
    uint64_t polled_ns = dt_load_relaxed(&device->polled_ns);

    if (polled_ns + DT_DRIVER_WATCH_NS <= now_ns)
        return false;
    return polled_ns + DT_DRIVER_PATIENCE_NS > now_ns || !dt_local_wire_has_unread(device->wire);
}

/* Serves one device; returns when to look again: now_ns when there is more to do at once. */
static uint64_t serve_device(struct dt_soft_device *device, uint64_t now_ns)
{
    uint64_t look_ns;

    pthread_mutex_lock(&device->lock);
    if (is_polled(device, now_ns)) {
        if (device->peers_wake_us)
            dt_local_wire_awake(device->wire);
        device->peers_wake_us = false;
        device->expected_ns = 0;
        look_ns = now_ns + DT_DRIVER_WATCH_NS;
    } else {
        bool any = step(device, now_ns);

        device->peers_wake_us = true;
        device->expected_ns = device_deadline_ns(device);
        look_ns = any || !dt_local_wire_sleep(device->wire) ? now_ns : device->expected_ns;
    }
    dt_local_wire_reap(device->wire);
    pthread_mutex_unlock(&device->lock);
    return look_ns;
}

static uint64_t serve_all(uint64_t now_ns)
{
    uint64_t look_ns;

    serve_sources(now_ns);
    dt_local_host_progress(dt_driver_state.host, now_ns);
    look_ns = dt_local_host_deadline_ns(dt_driver_state.host);
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX; i++)
        if (dt_driver_state.devices[i])
            look_ns = dt_earlier_ns(look_ns, serve_device(dt_driver_state.devices[i], now_ns));
    return look_ns;
}

static void sleep_until(uint64_t look_ns, uint64_t now_ns)
{
    struct pollfd polled = {.fd = dt_driver_state.epoll_fd, .events = POLLIN};
    uint64_t wait_ns = look_ns - now_ns;
    struct timespec timeout = {.tv_sec = (time_t)(wait_ns / DT_NS_PER_S),
                               .tv_nsec = (long)(wait_ns % DT_NS_PER_S)};

    ppoll(&polled, 1, look_ns == DT_NEVER_NS ? NULL : &timeout, NULL);
}

static void *helper_main(void *arg)
{
    (void)arg;
    /* Deadlines of a paced link are some microseconds away; the usual slack is 50. */
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    while (!dt_load_acquire(&dt_driver_state.stop)) {
        pthread_mutex_lock(&dt_driver_state.lock);
        uint64_t now_ns = dt_clock_now_ns();
        uint64_t look_ns = serve_all(now_ns);
        pthread_mutex_unlock(&dt_driver_state.lock);
        now_ns = dt_clock_now_ns();
        /* The round may have taken the kick of stop() together with an earlier one. */
        if (dt_load_acquire(&dt_driver_state.stop))
            break;
        if (dt_load_relaxed(&dt_driver_state.waiting))
            sched_yield();
        else if (look_ns > now_ns)
            sleep_until(look_ns, now_ns);
    }
    return NULL;
}

/* ---- starting and stopping ------------------------------------------------------------------------------
 */

int dt_driver_configure(const struct dt_soft_options *options)
{
    int error = 0;

    if (options->device_count < 1 || options->device_count > DT_SOFT_DEVICES_MAX)
        return EINVAL;
    pthread_mutex_lock(&dt_driver_state.open_lock);
    if (dt_driver_state.is_running &&
        (options->device_count != dt_driver_state.options.device_count ||
         options->rate_bytes_per_s != dt_driver_state.options.rate_bytes_per_s ||
         options->no_process_vm != dt_driver_state.options.no_process_vm ||
         options->always_fetch != dt_driver_state.options.always_fetch))
        error = EBUSY;
    else
        dt_driver_state.options = *options;
    pthread_mutex_unlock(&dt_driver_state.open_lock);
    return error;
}

uint32_t dt_driver_device_count(void)
{
    pthread_mutex_lock(&dt_driver_state.open_lock);
    uint32_t count = dt_driver_state.options.device_count;
    pthread_mutex_unlock(&dt_driver_state.open_lock);
    return count;
}

uint64_t dt_driver_rate_bytes_per_s(void)
{
    pthread_mutex_lock(&dt_driver_state.open_lock);
    uint64_t rate_bytes_per_s = dt_driver_state.options.rate_bytes_per_s;
    pthread_mutex_unlock(&dt_driver_state.open_lock);
    return rate_bytes_per_s;
}

static uint64_t draw_instance(void)
{
    while (dt_driver_state.instance == 0)
        if (getrandom(&dt_driver_state.instance, sizeof dt_driver_state.instance, 0) !=
            (ssize_t)sizeof dt_driver_state.instance)
            dt_driver_state.instance = 0;
    return dt_driver_state.instance;
}

uint64_t dt_driver_instance(void)
{
    pthread_mutex_lock(&dt_driver_state.open_lock);
    uint64_t instance = draw_instance();
    pthread_mutex_unlock(&dt_driver_state.open_lock);
    return instance;
}

/*
 * Where Yama restricts reading another process's memory (kernel.yama.ptrace_scope 1), a process can permit
 * one process with all its descendants: the launcher, so that its other children can read. EINVAL elsewhere.
 */
static void let_siblings_read(void)
{
    pid_t launcher = getppid();

    if (launcher > 1)
        prctl(PR_SET_PTRACER, (unsigned long)launcher, 0, 0, 0);
}

static int start(void)
{
    struct dt_local_host_options options = {
        .instance = draw_instance(), .no_process_vm = dt_driver_state.options.no_process_vm, .kick = kick};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &dt_driver_state.kick_source};
    int error;

    DT_CHECK(!dt_driver_state.is_running);
    options.prefers_copy = !dt_driver_state.options.always_fetch && !dt_driver_state.options.no_process_vm &&
                           dt_driver_copies_are_faster();
    dt_driver_state.kick_source.ready = kick_ready;
    dt_driver_state.stop = 0;
    dt_driver_state.is_kicked = 0;
    dt_driver_state.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    dt_driver_state.kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    options.epoll_fd = dt_driver_state.epoll_fd;
    if (dt_driver_state.epoll_fd < 0 || dt_driver_state.kick_fd < 0 ||
        epoll_ctl(dt_driver_state.epoll_fd, EPOLL_CTL_ADD, dt_driver_state.kick_fd, &event)) {
        error = errno;
        goto err_close;
    }
    error = dt_local_host_create(&options, &dt_driver_state.host);
    if (error)
        goto err_close;
    if (!options.no_process_vm)
        let_siblings_read();
    error = dt_thread_start(&dt_driver_state.thread, "detour-rnic", helper_main, NULL);
    if (error)
        goto err_host;
    dt_driver_state.is_running = true;
    return 0;

err_host:
    dt_local_host_destroy(dt_driver_state.host);
err_close:
    if (dt_driver_state.kick_fd >= 0)
        close(dt_driver_state.kick_fd);
    if (dt_driver_state.epoll_fd >= 0)
        close(dt_driver_state.epoll_fd);
    return error;
}

static void stop(void)
{
    DT_CHECK(dt_driver_state.is_running);
    dt_store_release(&dt_driver_state.stop, 1);
    kick(NULL);
    pthread_join(dt_driver_state.thread, NULL);
    dt_local_host_destroy(dt_driver_state.host);
    close(dt_driver_state.kick_fd);
    close(dt_driver_state.epoll_fd);
    dt_driver_state.is_running = false;
}

/* ---- devices --------------------------------------------------------------------------------------------
 */

static void destroy_device(struct dt_soft_device *device)
{
    DT_CHECK(!device->open_count && dt_list_is_empty(&device->contexts));
    if (device->rnic)
        dt_rnic_destroy(device->rnic);
    if (device->wire)
        dt_local_wire_destroy(device->wire);
    if (device->faults)
        dt_faults_destroy(device->faults);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static int make_engine(struct dt_soft_device *device, const struct dt_driver_callbacks *callbacks)
{
    struct dt_rnic_options options = {.rate_bytes_per_s = dt_driver_state.options.rate_bytes_per_s,
                                      .number_seed =
                                          (uint32_t)(dt_driver_state.instance >> 32) + device->index,
                                      .context = device,
                                      .event = callbacks->event,
                                      .notify = callbacks->notify};

    device->faults = dt_faults_create(dt_driver_state.instance + device->index);
    if (!device->faults)
        return ENOMEM;
    device->wire = dt_local_wire_create(dt_driver_state.host, device->index, device->faults);
    if (!device->wire)
        return ENOMEM;
    options.wire = dt_local_wire_base(device->wire);
    dt_local_wire_gid(device->wire, options.gid);
    device->rnic = dt_rnic_create(&options);
    return device->rnic ? 0 : ENOMEM;
}

static int make_device(uint32_t index, const struct dt_driver_callbacks *callbacks,
                       struct dt_soft_device **out)
{
    struct dt_soft_device *device = calloc(1, sizeof *device);
    pthread_mutexattr_t adaptive;

    if (!device)
        return ENOMEM;
    device->index = index;
    snprintf(device->name, sizeof device->name, "soft%u", index);
    dt_list_init(&device->contexts);
    dt_list_init(&device->node);
    pthread_mutexattr_init(&adaptive);
    pthread_mutexattr_settype(&adaptive, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&device->lock, &adaptive);
    pthread_mutexattr_destroy(&adaptive);
    int error = make_engine(device, callbacks);
    if (error) {
        destroy_device(device);
        return error;
    }
    *out = device;
    return 0;
}

static void announce_kind(void)
{
    if (!dt_driver_state.is_announced)
        dt_info("soft-in-use",
                "software RNIC: %u device(s) in this process, reaching processes of this host; for tests "
                "and trials, not for production",
                dt_driver_state.options.device_count);
    dt_driver_state.is_announced = true;
}

/* The helper's lock is held: a dead device that was plugged in again leaves its place on the wire. */
static void make_way(uint32_t index)
{
    struct dt_soft_device *device = dt_driver_state.devices[index];
    bool is_back;

    if (!device)
        return;
    pthread_mutex_lock(&device->lock);
    is_back = device->is_back;
    if (is_back)
        dt_local_wire_unplug(device->wire);
    pthread_mutex_unlock(&device->lock);
    if (!is_back)
        return;
    dt_driver_state.devices[index] = NULL;
    dt_list_push_back(&dt_driver_state.replaced, &device->node);
}

/* The open lock is held. */
static int open_device(uint32_t index, const struct dt_driver_callbacks *callbacks,
                       struct dt_soft_device **device)
{
    int error = 0;

    if (index >= dt_driver_state.options.device_count)
        return ENODEV;
    if (!dt_driver_state.is_running)
        error = start();
    if (error)
        return error;
    announce_kind();
    dt_driver_lock_helper();
    make_way(index);
    if (!dt_driver_state.devices[index])
        error = make_device(index, callbacks, &dt_driver_state.devices[index]);
    if (!error) {
        *device = dt_driver_state.devices[index];
        (*device)->open_count++;
    }
    pthread_mutex_unlock(&dt_driver_state.lock);
    /* The helper thread must serve the device now: peers may already have sent packets. */
    kick(NULL);
    return error;
}

/* The open lock is held: ends the thread with the last device. */
static void stop_if_idle(void)
{
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX; i++)
        if (dt_driver_state.devices[i])
            return;
    if (dt_driver_state.is_running && dt_list_is_empty(&dt_driver_state.replaced))
        stop();
}

int dt_driver_open(uint32_t index, const struct dt_driver_callbacks *callbacks,
                   struct dt_soft_device **device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, dt_driver_watch_forks);
    pthread_mutex_lock(&dt_driver_state.open_lock);
    int error = open_device(index, callbacks, device);
    if (error)
        stop_if_idle();
    pthread_mutex_unlock(&dt_driver_state.open_lock);
    return error;
}

void dt_driver_close(struct dt_soft_device *device)
{
    pthread_mutex_lock(&dt_driver_state.open_lock);
    dt_driver_lock_helper();
    DT_CHECK(device->open_count > 0);
    DT_CHECK(dt_driver_state.devices[device->index] == device || !dt_list_is_empty(&device->node));
    if (--device->open_count == 0) {
        if (dt_driver_state.devices[device->index] == device)
            dt_driver_state.devices[device->index] = NULL;
        else
            dt_list_remove(&device->node);
        /* dt_driver_find may have handed the lock to another thread, which uses the device until it unlocks.
         */
        pthread_mutex_lock(&device->lock);
        pthread_mutex_unlock(&device->lock);
        destroy_device(device);
    }
    pthread_mutex_unlock(&dt_driver_state.lock);
    stop_if_idle();
    pthread_mutex_unlock(&dt_driver_state.open_lock);
}

struct dt_soft_device *dt_driver_find(const char *name, uint64_t *now_ns)
{
    struct dt_soft_device *found = NULL;

    dt_driver_lock_helper();
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX && !found; i++)
        if (dt_driver_state.devices[i] && strcmp(dt_driver_state.devices[i]->name, name) == 0)
            found = dt_driver_state.devices[i];
    if (found)
        *now_ns = dt_driver_lock(found);
    pthread_mutex_unlock(&dt_driver_state.lock);
    return found;
}

bool dt_driver_is_present(uint32_t index)
{
    struct dt_soft_device *device;
    bool is_present = true;

    if (index >= DT_SOFT_DEVICES_MAX)
        return false;
    dt_driver_lock_helper();
    device = dt_driver_state.devices[index];
    if (device) {
        pthread_mutex_lock(&device->lock);
        is_present = device->is_back || !dt_rnic_is_fatal(device->rnic);
        pthread_mutex_unlock(&device->lock);
    }
    pthread_mutex_unlock(&dt_driver_state.lock);
    return is_present;
}
