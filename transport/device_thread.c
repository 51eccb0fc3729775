/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/device_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/closing.h"
#include "transport/service.h"

/* As many connections as one fault may concern, so that one round reads all of their frames. */
#define EVENTS_MAX 1024

/* Tags of epoll events that do not belong to connections. */
static char wake_tag;
static char device_tag;

static int channel_fd(const struct dt_session *session)
{
    struct dt_stream *stream = session->channel.stream;

    return stream ? stream->ops->fd(stream) : -1;
}

/* A stream without a descriptor wakes the thread itself. */
static void set_poller(const struct dt_session *session, struct dt_poller *poller)
{
    struct dt_stream *stream = session->channel.stream;

    if (stream && stream->ops->set_poller)
        stream->ops->set_poller(stream, poller);
}

static struct dt_nic *nic_of(const struct dt_poller *poller)
{
    return dt_container_of(poller, const struct dt_nic_service, poller)->nic;
}

static void watch_session(struct dt_poller *poller, struct dt_session *session)
{
    const struct dt_nic *nic = nic_of(poller);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = session}};
    int fd = nic->is_started ? channel_fd(session) : -1;

    set_poller(session, poller);
    if (session->state == DT_SESSION_DIALING)
        event.events = EPOLLOUT;
    if (fd >= 0 && epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 &&
        (errno != EEXIST || epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0))
        dt_info("watch-channel", "cannot watch a control channel: %s", strerror(errno));
}

static void forget_session(struct dt_poller *poller, struct dt_session *session)
{
    const struct dt_nic *nic = nic_of(poller);
    int fd = nic->is_started ? channel_fd(session) : -1;

    set_poller(session, NULL);
    if (fd >= 0)
        epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void wake(struct dt_poller *poller)
{
    dt_nic_wake(nic_of(poller));
}

static bool is_running(const struct dt_poller *poller)
{
    return nic_of(poller)->is_started;
}

void dt_device_thread_init(struct dt_nic *nic)
{
    static const struct dt_poller_ops ops = {watch_session, forget_session, wake, is_running};

    DT_CHECK(!nic->is_started && !nic->service->is_joined);
    nic->service->nic = nic;
    nic->service->poller.ops = &ops;
}

void dt_device_thread_collect(struct dt_nic *nic)
{
    struct epoll_event event[EVENTS_MAX];
    int count = epoll_wait(nic->service->epoll_fd, event, EVENTS_MAX, 0);
    uint64_t ignored;

    for (int i = 0; i < count; i++) {
        if (event[i].data.ptr == &wake_tag) {
            (void)!read(nic->wake_fd, &ignored, sizeof ignored); /* it may have been read already */
            /* A thread that found the flag set has published its work before: this round sees it. */
            dt_exchange_acq_rel(&nic->is_woken, 0u);
        } else if (event[i].data.ptr == &device_tag) {
            nic->service->is_event_ready = true;
        } else {
            struct dt_session *session = event[i].data.ptr;

            DT_CHECK(session->poller == &nic->service->poller); /* a session is unwatched before it ends */
            session->is_ready = true;
            dt_store_release(&nic->has_work, 1u); /* the connection of the session may rest */
        }
    }
}

uint64_t dt_device_thread_later_ns(const struct dt_nic *nic, uint64_t now_ns)
{
    return nic->environment->has_threads ? dt_clock_now_ns() : now_ns;
}

/* Sleeps until a file is readable or until the time. True: the time has come. */
static bool sleep_until(struct dt_nic *nic, uint64_t until_ns)
{
    struct pollfd poll_fd = {nic->service->epoll_fd, POLLIN, 0};
    uint64_t now_ns = dt_clock_now_ns();
    uint64_t left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec timeout = {(time_t)(left_ns / DT_NS_PER_S), (long)(left_ns % DT_NS_PER_S)};

    return ppoll(&poll_fd, 1, until_ns == DT_NEVER_NS ? NULL : &timeout, NULL) == 0;
}

/* A message is due at the deadline: sleep for most of the time, spin the rest (delay/timer.h). */
static void wait_exactly(struct dt_nic *nic, uint64_t deadline_ns)
{
    struct dt_delay_timer *timer = &nic->service->inject.timer;
    uint64_t until_ns = dt_delay_timer_sleep_until_ns(timer, deadline_ns);
    uint64_t began_ns = dt_clock_now_ns();
    uint64_t now_ns = began_ns;

    DT_CHECK(until_ns <= deadline_ns && deadline_ns != DT_NEVER_NS);
    if (now_ns < until_ns) {
        /* The caller does a round, and comes back for the rest of the time. */
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

/* Until the deadline or a wake-up. A thread that holds back a message wakes this one if it is due earlier. */
static void wait_until(struct dt_nic *nic, uint64_t deadline_ns)
{
    if (dt_clock_now_ns() < nic->hurry_until_ns)
        return;
    dt_store_seq_cst(&nic->awake_ns, deadline_ns);
    if (dt_load_seq_cst(&nic->has_news))
        return;
    if (nic->service->inject.held_ns <= deadline_ns && deadline_ns != DT_NEVER_NS)
        wait_exactly(nic, deadline_ns);
    else
        sleep_until(nic, deadline_ns);
}

/* The device may be opened after the thread was started, and again later. */
static void watch_device(struct dt_nic *nic, struct dt_device **watched)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &device_tag}};
    struct dt_device *device = dt_load_acquire(&nic->device);

    if (*watched == device)
        return;
    if (*watched)
        epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_DEL, dt_device_event_fd(*watched), NULL);
    *watched = device;
    if (epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_ADD, dt_device_event_fd(device), &event) != 0)
        dt_info("watch-device", "cannot watch the events of %s: %s", nic->name, strerror(errno));
}

/* The thread was asked to end, and no staged message can be delivered any more, or the time is over. */
static bool is_over(struct dt_nic *nic, uint64_t now_ns)
{
    bool has_staged;

    if (!dt_load_acquire(&nic->service->is_stopping))
        return false;
    if (nic->service->stop_until_ns == 0)
        nic->service->stop_until_ns =
            dt_deadline_ns(now_ns, nic->environment->params.linger_ms * DT_NS_PER_MS);
    pthread_mutex_lock(&nic->mutex);
    has_staged = dt_closing_nic_has_staged(nic);
    pthread_mutex_unlock(&nic->mutex);
    return !has_staged || now_ns >= nic->service->stop_until_ns;
}

static void *thread_main(void *arg)
{
    struct dt_nic *nic = arg;
    struct dt_device *watched = NULL;

    dt_store_relaxed(&nic->service->tid, (int32_t)syscall(SYS_gettid));
    prctl(PR_SET_TIMERSLACK, 1ul); /* no 50 us on top of each sleep */
    for (;;) {
        uint64_t deadline_ns;

        watch_device(nic, &watched);
        deadline_ns = dt_service_progress(nic, dt_clock_now_ns());
        if (is_over(nic, dt_clock_now_ns())) /* after the round, which may have taken the wake-up for it */
            return NULL;
        if (nic->service->stop_until_ns > 0)
            deadline_ns = dt_earlier_ns(deadline_ns, nic->service->stop_until_ns);
        wait_until(nic, deadline_ns);
    }
}

static bool open_files(struct dt_nic *nic)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &wake_tag}};

    nic->service->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    nic->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return nic->service->epoll_fd >= 0 && nic->wake_fd >= 0 &&
           epoll_ctl(nic->service->epoll_fd, EPOLL_CTL_ADD, nic->wake_fd, &event) == 0;
}

static void close_files(struct dt_nic *nic)
{
    if (nic->service->epoll_fd >= 0)
        close(nic->service->epoll_fd);
    if (nic->wake_fd >= 0)
        close(nic->wake_fd);
}

static int create_thread(struct dt_nic *nic)
{
    char name[DT_THREAD_NAME_MAX + 1];

    snprintf(name, sizeof name, "detour-%.8s", nic->name);
    return dt_thread_start(&nic->service->thread, name, thread_main, nic);
}

enum dt_status dt_nic_start(struct dt_nic *nic)
{
    enum dt_status status = DT_OK;

    pthread_mutex_lock(&nic->mutex);
    if (!nic->is_started) {
        DT_CHECK(!nic->service->is_joined); /* a thread that was started is joined, and none started again */
        int error = open_files(nic) ? create_thread(nic) : errno;

        if (error) {
            dt_warn("device-thread", "cannot start the thread of %s: %s", nic->name, strerror(error));
            close_files(nic);
            status = DT_SYSTEM;
        }
        nic->is_started = error == 0;
    }
    pthread_mutex_unlock(&nic->mutex);
    return status;
}

void dt_nic_ask_to_stop(struct dt_nic *nic)
{
    dt_store_release(&nic->service->is_stopping, 1u);
    dt_nic_wake(nic);
}

void dt_nic_stop(struct dt_nic *nic)
{
    if (!nic->is_started || nic->service->is_joined)
        return;
    nic->service->is_joined = true;
    dt_nic_ask_to_stop(nic);
    pthread_join(nic->service->thread, NULL);
}

void dt_nic_close(struct dt_nic *nic)
{
    dt_nic_stop(nic);
    DT_CHECK(!nic->is_started || nic->service->is_joined);
    if (nic->is_started)
        close_files(nic);
}
