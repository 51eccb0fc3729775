/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/device_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/listener.h"
#include "transport/service.h"

/* As many connections as one fault may concern: all that was said is read in one round. */
#define EVENTS_MAX 1024

/* What an epoll event belongs to, besides connections. */
static char wake_tag;
static char device_tag;
static char listener_tag;

static int channel_fd(const struct dt_line *line)
{
    struct dt_stream *stream = line->channel.stream;

    return stream ? stream->ops->fd(stream) : -1;
}

void dt_device_thread_watch(struct dt_nic *nic, struct dt_line *line)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = line}};
    int fd = channel_fd(line);

    if (line->state == DT_LINE_DIALLING)
        event.events = EPOLLOUT;
    if (fd >= 0 && epoll_ctl(nic->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 &&
        (errno != EEXIST || epoll_ctl(nic->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0))
        dt_info("cannot watch a control channel: %s", strerror(errno));
}

void dt_device_thread_forget(struct dt_nic *nic, struct dt_line *line)
{
    int fd = channel_fd(line);

    if (fd >= 0)
        epoll_ctl(nic->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void dt_device_thread_collect(struct dt_nic *nic)
{
    struct epoll_event event[EVENTS_MAX];
    int count = epoll_wait(nic->epoll_fd, event, EVENTS_MAX, 0);
    uint64_t ignored;

    for (int i = 0; i < count; i++) {
        if (event[i].data.ptr == &wake_tag) {
            (void)!read(nic->wake_fd, &ignored, sizeof ignored); /* it may have been read already */
            /* Whoever finds it set until here has said before what there is to be looked at from here on. */
            dt_exchange_acq_rel(&nic->is_woken, 0u);
        } else if (event[i].data.ptr == &device_tag) {
            nic->is_event_ready = true;
        } else if (event[i].data.ptr == &listener_tag) {
            nic->is_listener_ready = true;
        } else {
            ((struct dt_line *)event[i].data.ptr)->is_ready = true;
        }
    }
}

uint64_t dt_device_thread_later_ns(const struct dt_nic *nic, uint64_t now_ns)
{
    return nic->net->has_threads ? dt_clock_now_ns() : now_ns;
}

/* Sleeps until something is there to be collected, or until the time. True: the time has come. */
static bool sleep_until(struct dt_nic *nic, uint64_t until_ns)
{
    struct pollfd poll_fd = {nic->epoll_fd, POLLIN, 0};
    uint64_t now_ns = dt_clock_now_ns();
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec timeout = {(time_t)(left_ns / DT_NS_PER_S), (long)(left_ns % DT_NS_PER_S)};

    return ppoll(&poll_fd, 1, until_ns == DT_NEVER_NS ? NULL : &timeout, NULL) == 0;
}

/* A message is due at the deadline: sleep for most of the time, spin the rest (delay/timer.h). */
static void wait_exactly(struct dt_nic *nic, uint64_t deadline_ns)
{
    struct dt_delay_timer *timer = &nic->inject.timer;
    uint64_t until_ns = dt_delay_timer_sleep_until_ns(timer, deadline_ns);
    uint64_t began_ns = dt_clock_now_ns();
    uint64_t now_ns = began_ns;

    if (now_ns < until_ns) {
        /* What happens then looks around once more, and comes back for the rest. */
        if (sleep_until(nic, until_ns))
            dt_delay_timer_slept(timer, began_ns, until_ns, dt_clock_now_ns());
        return;
    }
    while (now_ns < deadline_ns) {
        dt_cpu_relax();
        now_ns = dt_clock_now_ns();
    }
    dt_delay_timer_spun(timer, now_ns - began_ns);
}

/* Until the deadline, or until something is there. Whoever holds a message wakes this thread if it has to. */
static void wait_until(struct dt_nic *nic, uint64_t deadline_ns)
{
    if (dt_clock_now_ns() < nic->hurry_until_ns)
        return;
    dt_store_seq_cst(&nic->inject.awake_ns, deadline_ns);
    if (dt_load_seq_cst(&nic->inject.has_news))
        return;
    if (nic->inject.held_ns <= deadline_ns && deadline_ns != DT_NEVER_NS)
        wait_exactly(nic, deadline_ns);
    else
        sleep_until(nic, deadline_ns);
}

/* The device may be opened after the thread was started. */
static void watch_device(struct dt_nic *nic, bool *is_watched)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &device_tag}};
    struct dt_device *device = dt_load_acquire(&nic->device);

    if (*is_watched || !device)
        return;
    *is_watched = true;
    if (epoll_ctl(nic->epoll_fd, EPOLL_CTL_ADD, dt_device_event_fd(device), &event) != 0)
        dt_info("cannot watch the events of %s: %s", nic->name, strerror(errno));
}

/* Asked to end, and nothing is staged any more that could be delivered, or it took too long. */
static bool is_over(struct dt_nic *nic, uint64_t now_ns)
{
    bool has_staged;

    if (!dt_load_acquire(&nic->is_stopping))
        return false;
    if (nic->stop_until_ns == 0)
        nic->stop_until_ns = dt_deadline_ns(now_ns, nic->net->params.linger_ms * DT_NS_PER_MS);
    pthread_mutex_lock(&nic->mutex);
    has_staged = dt_service_has_staged(nic);
    pthread_mutex_unlock(&nic->mutex);
    return !has_staged || now_ns >= nic->stop_until_ns;
}

/*
 * The listener may be there later, too. All threads hear of a stranger, once each: one that finds nothing to
 * do goes back to sleep.
 */
static void watch_listener(struct dt_nic *nic, bool *is_watched)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.ptr = &listener_tag}};
    const struct dt_listener *listener;
    int fd;

    if (*is_watched)
        return;
    pthread_mutex_lock(&nic->net->mutex);
    listener = nic->net->listener;
    pthread_mutex_unlock(&nic->net->mutex);
    fd = listener ? dt_listener_fd(listener) : -1;
    *is_watched = listener != NULL;
    if (fd >= 0 && epoll_ctl(nic->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        dt_info("cannot watch the listener: %s", strerror(errno));
}

static void *thread_main(void *arg)
{
    struct dt_nic *nic = arg;
    bool is_device_watched = false;
    bool is_listener_watched = false;

    prctl(PR_SET_TIMERSLACK, 1ul); /* no 50 us on top of each sleep */
    for (;;) {
        uint64_t deadline_ns;

        watch_device(nic, &is_device_watched);
        watch_listener(nic, &is_listener_watched);
        deadline_ns = dt_service_progress(nic, dt_clock_now_ns());
        if (is_over(nic, dt_clock_now_ns())) /* after the round, which may have taken the wake-up for it */
            return NULL;
        if (nic->stop_until_ns > 0)
            deadline_ns = dt_earlier_ns(deadline_ns, nic->stop_until_ns);
        wait_until(nic, deadline_ns);
    }
}

static bool open_files(struct dt_nic *nic)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &wake_tag}};

    nic->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    nic->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return nic->epoll_fd >= 0 && nic->wake_fd >= 0 &&
           epoll_ctl(nic->epoll_fd, EPOLL_CTL_ADD, nic->wake_fd, &event) == 0;
}

static void close_files(struct dt_nic *nic)
{
    if (nic->epoll_fd >= 0)
        close(nic->epoll_fd);
    if (nic->wake_fd >= 0)
        close(nic->wake_fd);
}

static int create_thread(struct dt_nic *nic)
{
    char name[DT_THREAD_NAME_MAX + 1];

    snprintf(name, sizeof name, "detour-%.8s", nic->name);
    return dt_thread_start(&nic->thread, name, thread_main, nic);
}

enum dt_status dt_nic_start(struct dt_nic *nic)
{
    enum dt_status status = DT_OK;

    pthread_mutex_lock(&nic->mutex);
    if (!nic->is_started) {
        int error = open_files(nic) ? create_thread(nic) : errno;

        if (error) {
            dt_warn("cannot start the thread of %s: %s", nic->name, strerror(error));
            close_files(nic);
            status = DT_SYSTEM;
        }
        nic->is_started = error == 0;
    }
    pthread_mutex_unlock(&nic->mutex);
    return status;
}

void dt_nic_wake(struct dt_nic *nic)
{
    uint64_t one = 1;

    if (!nic->is_started || dt_exchange_acq_rel(&nic->is_woken, 1u))
        return;
    /* The counter cannot be full: it is written once between two reads. */
    (void)!write(nic->wake_fd, &one, sizeof one);
}

void dt_nic_ask_to_stop(struct dt_nic *nic)
{
    dt_store_release(&nic->is_stopping, 1u);
    dt_nic_wake(nic);
}

void dt_nic_stop(struct dt_nic *nic)
{
    if (!nic->is_started || nic->is_joined)
        return;
    nic->is_joined = true;
    dt_nic_ask_to_stop(nic);
    pthread_join(nic->thread, NULL);
}

void dt_nic_close(struct dt_nic *nic)
{
    dt_nic_stop(nic);
    if (nic->is_started)
        close_files(nic);
}
