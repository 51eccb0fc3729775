/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that owns the carriers: it sleeps until one is ready, or records were appended. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "transport/session/pair_state.h"

#define EVENTS_MAX 256

static char wake_tag;
static char listener_tag;

void dt_pairs_wake(struct dt_pairs *pairs)
{
    uint64_t one = 1;

    if (!dt_load_relaxed(&pairs->has_thread) || dt_exchange_acq_rel(&pairs->is_woken, 1u))
        return;
    (void)!write(pairs->wake_fd, &one,
                 sizeof one); /* the counter is never full: one write between two reads */
}

static int carrier_fd(const struct dt_pair *pair)
{
    struct dt_stream *stream = pair->carrier.stream;

    return stream && dt_load_relaxed(&pair->pairs->has_thread) ? stream->ops->fd(stream) : -1;
}

static uint32_t wanted_events(const struct dt_pair *pair)
{
    switch (pair->state) {
    case DT_PAIR_CONNECTING:
        return EPOLLOUT;
    case DT_PAIR_JOINING:
        return EPOLLIN | EPOLLRDHUP | (pair->carrier.out.used > 0 ? EPOLLOUT : 0u);
    case DT_PAIR_UP:
        return EPOLLIN | EPOLLRDHUP | (pair->is_blocked ? EPOLLOUT : 0u);
    default:
        return 0;
    }
}

void dt_pair_watch(struct dt_pair *pair)
{
    struct epoll_event event = {.events = wanted_events(pair), .data = {.ptr = pair}};
    int fd = carrier_fd(pair);

    if (fd < 0 || event.events == pair->watched)
        return;
    if (epoll_ctl(pair->pairs->epoll_fd, pair->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) {
        pair->watched = event.events;
    } else if (!pair->is_broken) {
        dt_info("watch-carrier", "cannot watch the control channel of process %016llx: %s",
                (unsigned long long)pair->identity, strerror(errno));
        pair->is_broken = pair->state == DT_PAIR_UP; /* it is replaced */
    }
}

void dt_pair_unwatch(struct dt_pair *pair)
{
    int fd = carrier_fd(pair);

    if (fd >= 0 && pair->watched)
        epoll_ctl(pair->pairs->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    pair->watched = 0;
}

/* Sleeps unless there is more to do, then marks what has become ready. Returns whether the listener has. */
static bool sleep_and_collect(struct dt_pairs *pairs, bool has_more)
{
    struct epoll_event event[EVENTS_MAX];
    int count = epoll_wait(pairs->epoll_fd, event, EVENTS_MAX, has_more ? 0 : -1);
    bool is_listener_ready = false;
    uint64_t ignored;

    for (int i = 0; i < count; i++) {
        if (event[i].data.ptr == &wake_tag) {
            (void)!read(pairs->wake_fd, &ignored, sizeof ignored);
            dt_exchange_acq_rel(&pairs->is_woken, 0u); /* later appends write again */
        } else if (event[i].data.ptr == &listener_tag) {
            is_listener_ready = true;
        } else {
            ((struct dt_pair *)event[i].data.ptr)->is_readable = true; /* only this thread frees pairs */
        }
    }
    return is_listener_ready;
}

static void *thread_main(void *arg)
{
    struct dt_pairs *pairs = arg;
    bool has_more = false;

    prctl(PR_SET_TIMERSLACK, 1ul);
    while (!dt_load_acquire(&pairs->is_stopping)) {
        bool is_listener_ready = sleep_and_collect(pairs, has_more);

        if (dt_pairs_progress(pairs) || is_listener_ready || has_more)
            has_more = pairs->listener.serve(pairs->listener.arg, dt_clock_now_ns());
    }
    dt_pairs_progress(pairs);
    return NULL;
}

static bool add(struct dt_pairs *pairs, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events, .data = {.ptr = tag}};

    return fd < 0 || epoll_ctl(pairs->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void close_files(struct dt_pairs *pairs)
{
    if (pairs->epoll_fd >= 0)
        close(pairs->epoll_fd);
    if (pairs->wake_fd >= 0)
        close(pairs->wake_fd);
    pairs->epoll_fd = pairs->wake_fd = -1;
}

enum dt_status dt_pairs_start(struct dt_pairs *pairs, const struct dt_pairs_listener *listener)
{
    int error = 0;

    DT_CHECK(!dt_load_relaxed(&pairs->has_thread) && !pairs->is_stopping);
    pairs->listener = *listener;
    pairs->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pairs->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pairs->epoll_fd < 0 || pairs->wake_fd < 0 || !add(pairs, pairs->wake_fd, EPOLLIN, &wake_tag) ||
        !add(pairs, listener->fd, EPOLLIN | EPOLLET, &listener_tag))
        error = errno;
    dt_store_release(&pairs->has_thread, error ? 0u : 1u);
    if (!error)
        error = dt_thread_start(&pairs->thread, "detour-pairs", thread_main, pairs);
    if (!error)
        return DT_OK;
    dt_store_release(&pairs->has_thread, 0u);
    close_files(pairs);
    dt_warn("pairs-thread", "cannot start the thread of the control channels: %s", strerror(error));
    return DT_SYSTEM;
}

bool dt_pairs_has_thread(struct dt_pairs *pairs)
{
    return dt_load_acquire(&pairs->has_thread);
}

void dt_pairs_stop(struct dt_pairs *pairs)
{
    if (!dt_load_acquire(&pairs->has_thread))
        return;
    dt_store_release(&pairs->is_stopping, 1u);
    dt_pairs_wake(pairs);
    pthread_join(pairs->thread, NULL);
    pthread_mutex_lock(&pairs->mutex);
    dt_list_for_each(node, &pairs->pairs)
    {
        dt_pair_unwatch(dt_container_of(node, struct dt_pair, node));
    }
    dt_store_release(&pairs->has_thread, 0u);
    close_files(pairs);
    pthread_mutex_unlock(&pairs->mutex);
}
