/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/line.h"

#include <stdlib.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/planted.h"
#include "transport/device_thread.h"
#include "transport/nic.h"

#define RETRY_NS_FIRST (5 * DT_NS_PER_MS)
#define RETRY_NS_MAX   DT_NS_PER_S
/* The sender dials at once; the receiver leaves it some time for that before it knocks. */
#define KNOCK_NS (5 * DT_NS_PER_MS)
/* A peer that lives is asked less often. */
#define KNOCK_NS_MAX DT_NS_PER_S
/* For a connection and an answer on it: TCP repeats a SYN after 1 s and 3 s. */
#define ATTEMPT_NS (5 * DT_NS_PER_S)
/* Of one peer, which may talk without end. */
#define FRAMES_PER_ROUND 64
/* Once may be a process that is just ending, or beginning. */
#define REFUSALS_MAX 2

struct dt_line *dt_line_create(void)
{
    struct dt_line *line = calloc(1, sizeof *line);

    if (!line)
        return NULL;
    dt_list_init(&line->node);
    dt_list_init(&line->door.node);
    dt_repeat_stop(&line->repeat);
    return line;
}

void dt_line_destroy(struct dt_line *line)
{
    if (!line)
        return;
    if (line->has_door) {
        pthread_mutex_lock(&line->nic->net->mutex);
        dt_listener_remove_door(line->nic->net->listener, &line->door);
        pthread_mutex_unlock(&line->nic->net->mutex);
    }
    dt_channel_free(dt_exchange_acq_rel(&line->door.incoming, (struct dt_channel *)NULL));
    dt_channel_close(&line->channel);
    free(line);
}

void dt_line_open_door(struct dt_line *line)
{
    struct dt_net *net = line->nic->net;

    pthread_mutex_lock(&net->mutex);
    line->has_door = net->listener != NULL;
    if (line->has_door)
        dt_listener_add_door(net->listener, &line->door);
    pthread_mutex_unlock(&net->mutex);
}

/* ------------------------------------------------------------------------------------------------------------
 * The channel comes and goes
 */
static void watch(struct dt_line *line)
{
    if (line->nic->is_started)
        dt_device_thread_watch(line->nic, line);
}

static void close_channel(struct dt_line *line)
{
    if (line->nic->is_started)
        dt_device_thread_forget(line->nic, line);
    dt_channel_close(&line->channel);
    line->is_ready = false;
}

void dt_line_start(struct dt_line *line)
{
    line->is_started = true;
    line->is_ready = true; /* something may have come in with the last message of the set-up */
    watch(line);
}

static void over(struct dt_line *line, bool is_dead)
{
    close_channel(line);
    line->state = DT_LINE_OVER;
    line->is_dead = is_dead;
}

static void die(struct dt_line *line, const char *why)
{
    dt_info("connection %016llx: the peer is dead: %s", (unsigned long long)line->door.connection_id, why);
    over(line, true);
}

/* The channel has ended. */
static void lose(struct dt_line *line, enum dt_status status, uint64_t now_ns)
{
    close_channel(line);
    if (line->has_peer_left) {
        line->state = DT_LINE_OVER;
        return;
    }
    if (DT_PLANTED(RESET_IS_DEATH) && status == DT_PEER_ERROR) {
        die(line, "reset");
        return;
    }
    line->state = DT_LINE_PAUSE;
    line->lost_ns = now_ns;
    line->delay_ns = RETRY_NS_FIRST;
    line->retry_ns = line->door.is_sender ? now_ns : now_ns + KNOCK_NS;
    line->refusals = 0;
    line->end = status;
    line->is_loss_said = false;
}

/* A channel is there; both ends agree on that, or will when they read it. */
static void restore(struct dt_line *line, uint64_t now_ns)
{
    line->state = DT_LINE_UP;
    line->is_ready = true;
    line->is_back = true;
    line->is_dead = false;
    if (line->lost_ns)
        dt_info("connection %016llx: the control channel is back after %llu us",
                (unsigned long long)line->door.connection_id,
                (unsigned long long)((now_ns - line->lost_ns) / DT_NS_PER_US));
    line->lost_ns = 0;
    dt_repeat_now(&line->repeat, now_ns);
}

/* Receiver: the sender has dialled again. */
static void take_incoming(struct dt_line *line, uint64_t now_ns)
{
    struct dt_channel *incoming = dt_load_relaxed(&line->door.incoming);

    if (incoming)
        incoming = dt_exchange_acq_rel(&line->door.incoming, (struct dt_channel *)NULL);
    if (!incoming)
        return;
    close_channel(line);
    dt_channel_move(&line->channel, incoming);
    free(incoming);
    dt_word_encode(DT_FRAME_WELCOME, &line->channel.out);
    watch(line);
    restore(line, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Dialling
 */

/* An attempt has come to nothing. */
static void miss(struct dt_line *line, uint64_t now_ns)
{
    close_channel(line);
    if (!line->is_loss_said && line->refusals == 0)
        dt_info("connection %016llx: the control channel is lost (%s), and the peer cannot be reached to "
                "replace it; data goes on without it",
                (unsigned long long)line->door.connection_id, dt_status_text(line->end));
    line->is_loss_said |= line->refusals == 0;
    line->state = DT_LINE_PAUSE;
    line->retry_ns = now_ns + line->delay_ns;
    line->delay_ns = dt_earlier_ns(2 * line->delay_ns, RETRY_NS_MAX);
}

static void refused(struct dt_line *line, uint64_t now_ns)
{
    if (++line->refusals >= REFUSALS_MAX)
        die(line, "the control channel ended without a goodbye, and nobody listens any more where it did");
    else
        miss(line, now_ns);
}

/* No answer, or one that makes no sense. */
static void unreached(struct dt_line *line, uint64_t now_ns)
{
    line->refusals = 0;
    miss(line, now_ns);
}

/* Receiver: the sender lives, and knows. */
static void answered(struct dt_line *line, uint64_t now_ns)
{
    close_channel(line);
    line->state = DT_LINE_PAUSE;
    line->refusals = 0;
    line->delay_ns = RETRY_NS_FIRST;
    line->retry_ns = now_ns + KNOCK_NS_MAX;
}

static void dial(struct dt_line *line, uint64_t now_ns)
{
    struct dt_network *network = line->nic->net->network;
    struct dt_stream *stream;

    if (network->ops->dial(network, &line->peer_address, &stream) != DT_OK) {
        unreached(line, now_ns);
        return;
    }
    if (line->door.is_sender)
        dt_store_relaxed(&line->door.round, line->door.round + 1);
    dt_channel_open(&line->channel, stream);
    line->state = DT_LINE_DIALLING;
    line->attempt_ns = now_ns + ATTEMPT_NS;
    watch(line);
}

static void say_rejoin(struct dt_line *line)
{
    struct dt_rejoin rejoin = {
        .connection_id = line->door.connection_id,
        .nonce = line->door.nonce,
        .round = dt_load_relaxed(&line->door.round),
        .is_sender = line->door.is_sender,
    };

    line->state = DT_LINE_JOINING;
    dt_rejoin_encode(&rejoin, &line->channel.out);
    watch(line);
}

static void look_dialling(struct dt_line *line, uint64_t now_ns)
{
    enum dt_status status = line->channel.stream->ops->state(line->channel.stream);

    if (status == DT_OK)
        say_rejoin(line);
    else if (status == DT_PEER_ERROR)
        refused(line, now_ns);
    else if (status != DT_AGAIN || now_ns >= line->attempt_ns)
        unreached(line, now_ns);
}

static void look_joining(struct dt_line *line, uint64_t now_ns)
{
    enum dt_status status = dt_channel_flush(&line->channel);
    struct dt_frame frame;

    if (status == DT_OK)
        status = dt_channel_receive(&line->channel, &frame);
    if (status == DT_AGAIN && now_ns < line->attempt_ns)
        return;
    if (status == DT_OK && frame.type == DT_FRAME_REJECT)
        die(line, "its process knows nothing of the connection any more");
    else if (status != DT_OK || frame.type != DT_FRAME_WELCOME)
        unreached(line, now_ns);
    else if (line->door.is_sender)
        restore(line, now_ns);
    else
        answered(line, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Frames
 */
static void say_close(struct dt_line *line)
{
    struct dt_close close = {line->close_sequence};

    dt_close_encode(&close, &line->channel.out);
}

void dt_line_say_close(struct dt_line *line, uint64_t sequence, uint64_t now_ns)
{
    if (line->is_closing)
        return;
    line->is_closing = true;
    line->close_sequence = sequence;
    dt_repeat_start(&line->repeat, now_ns);
    if (line->state != DT_LINE_UP)
        return;
    say_close(line);
    dt_line_flush(line);
}

void dt_line_flush(struct dt_line *line)
{
    if (line->state == DT_LINE_UP && line->channel.out.used > 0)
        dt_channel_flush(&line->channel); /* an end is noticed by who receives */
}

void dt_line_break(struct dt_line *line)
{
    over(line, false);
}

bool dt_line_is_ready(const struct dt_line *line)
{
    return line->is_ready || !line->nic->is_started || !dt_channel_has_fd(&line->channel);
}

/* BYE is for the line alone. What is left of many is heard in the next round. */
static enum dt_status receive_frame(struct dt_line *line, struct dt_frame *frame)
{
    enum dt_status status = dt_channel_receive(&line->channel, frame);

    for (int i = 1; status == DT_OK && frame->type == DT_FRAME_BYE; i++) {
        line->is_heard = true;
        dt_repeat_stop(&line->repeat);
        if (i == FRAMES_PER_ROUND)
            return DT_AGAIN;
        status = dt_channel_receive(&line->channel, frame);
    }
    line->is_ready &= status == DT_OK;
    return status;
}

enum dt_status dt_line_receive(struct dt_line *line, struct dt_frame *frame, uint64_t now_ns)
{
    enum dt_status status = DT_AGAIN;

    if (line->state == DT_LINE_UP)
        status = receive_frame(line, frame);
    if (status == DT_OK && frame->type == DT_FRAME_CLOSE) {
        line->has_peer_left = true;
        dt_word_encode(DT_FRAME_BYE, &line->channel.out);
        dt_line_flush(line);
    }
    if (status == DT_OK)
        return DT_OK;
    if (line->state != DT_LINE_UP)
        line->is_ready = false;
    if (status == DT_PROTOCOL)
        over(line, false);
    else if (status != DT_AGAIN)
        lose(line, status, now_ns);
    return status == DT_PROTOCOL ? DT_PROTOCOL : DT_AGAIN;
}

void dt_line_ignore(struct dt_line *line, uint64_t now_ns)
{
    struct dt_frame frame;

    for (int i = 0; i < FRAMES_PER_ROUND && dt_line_receive(line, &frame, now_ns) == DT_OK; i++)
        continue;
}

/* ------------------------------------------------------------------------------------------------------------
 * Driving
 */
static void look_up(struct dt_line *line, uint64_t now_ns)
{
    if (line->is_closing && !line->is_heard && dt_repeat_due(&line->repeat, now_ns) &&
        !DT_PLANTED(CLOSE_ONCE))
        say_close(line);
    dt_line_flush(line);
}

uint64_t dt_line_progress(struct dt_line *line, uint64_t now_ns)
{
    take_incoming(line, now_ns);
    if (dt_load_relaxed(&line->door.is_lost) && dt_exchange_acq_rel(&line->door.is_lost, 0u) &&
        line->state == DT_LINE_UP)
        lose(line, DT_CLOSED, now_ns);
    if (line->state == DT_LINE_PAUSE && now_ns >= line->retry_ns && line->peer_address.family)
        dial(line, now_ns);
    if (line->state == DT_LINE_DIALLING)
        look_dialling(line, now_ns);
    if (line->state == DT_LINE_JOINING)
        look_joining(line, now_ns);
    if (line->state == DT_LINE_UP)
        look_up(line, now_ns);
    switch ((enum dt_line_state)line->state) {
    case DT_LINE_UP:
        return line->is_closing && !line->is_heard ? line->repeat.next_ns : DT_NEVER_NS;
    case DT_LINE_PAUSE:
        return line->peer_address.family ? line->retry_ns : DT_NEVER_NS;
    case DT_LINE_DIALLING:
    case DT_LINE_JOINING:
        return line->attempt_ns;
    default:
        return DT_NEVER_NS;
    }
}

bool dt_line_linger(struct dt_line *line, uint64_t now_ns, uint64_t *deadline_ns)
{
    uint64_t wake_ns = dt_line_progress(line, now_ns);

    if (line->linger_ns == 0)
        line->linger_ns = dt_deadline_ns(now_ns, line->nic->net->params.linger_ms * DT_NS_PER_MS);
    if (dt_line_is_ready(line))
        dt_line_ignore(line, now_ns);
    if (line->is_heard || line->has_peer_left || line->state == DT_LINE_OVER || now_ns >= line->linger_ns) {
        /* Nobody watches it from here on. Closing it is not enough: a child may have a copy of it. */
        close_channel(line);
        return true; /* it wants nothing any more */
    }
    if (line->state == DT_LINE_UP && line->is_ready)
        wake_ns = now_ns;
    *deadline_ns = dt_earlier_ns(*deadline_ns, dt_earlier_ns(wake_ns, line->linger_ns));
    return false;
}
