/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control line of a connection: its control channel, for as long as both processes live, and a little
 * longer.
 *
 * A channel that ends without CLOSE decides nothing: a process that was killed with unread data resets it, as
 * does a firewall. So the side that dialled (the sender) dials the peer's listener again and says REJOIN:
 *
 *   refused, twice            nobody listens there: the peer's process is dead
 *   REJECT                    another process, or the peer's end is gone
 *   WELCOME                   the new channel takes the old one's place; what was repeated is said again
 *   no answer, unreachable    nothing is known: the management network is down. The job goes on, and the
 *                             dialling, at most once a second
 *
 * The receiver, which waits for that, dials the sender's own listener, too, with the same conclusions, but
 * the visit ends with the answer (a knock): it tells a dead process from one that has not come yet, and tells
 * a process that has not noticed.
 *
 * Nothing is lost or applied twice with a channel: what the ends say about paths is repeated until answered
 * and harmless when it comes twice (failover/path_table.h), and so are the two words of the line itself:
 * CLOSE is said until BYE comes. That is why a line outlives its connection: after a close it lingers, until
 * the peer has heard CLOSE, has closed too, or is dead, at most DETOUR_LINGER_MS. CLOSE answers everything
 * that a sender in the middle of a switch still asks: it is a RESUME for every epoch.
 *
 * A line belongs to Detour's thread (nic->mutex), before that to the set-up, but for its door (listener.h).
 */
#ifndef DETOUR_TRANSPORT_LINE_H
#define DETOUR_TRANSPORT_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "failover/repeat.h"
#include "transport/channel.h"
#include "transport/listener.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_line_state {
    DT_LINE_UP,       /* the channel carries frames */
    DT_LINE_PAUSE,    /* there is none: the next attempt is at retry_ns */
    DT_LINE_DIALLING, /* a new one is being established */
    DT_LINE_JOINING,  /* it is, and REJOIN is said */
    DT_LINE_OVER      /* both ends have said what they had to say, or the peer is dead */
};

struct dt_line {
    struct dt_channel channel; /* before the start the set-up's */
    struct dt_door door;
    struct dt_nic *nic;
    struct dt_address peer_address; /* the peer's listener; family NONE: it has none */
    struct dt_list node;            /* in nic->lines, once the connection is closed */
    uint32_t state;                 /* enum dt_line_state */
    bool has_door; /* the listener knows the door; its neighbours change the list node under net->mutex */
    bool is_started;
    bool is_ready;      /* the channel may have something to say */
    bool is_back;       /* a new channel has come since somebody looked */
    bool is_dead;       /* the peer is */
    bool has_peer_left; /* it said CLOSE */

    enum dt_status end;  /* of the lost channel */
    bool is_loss_said;   /* in the log */
    uint32_t refusals;   /* in a row */
    uint64_t delay_ns;   /* before the next attempt but one */
    uint64_t retry_ns;   /* PAUSE: the next */
    uint64_t attempt_ns; /* DIALLING, JOINING: given up then */
    uint64_t lost_ns;    /* the channel is, since then; 0: it is not */

    bool is_closing; /* CLOSE was said */
    bool is_heard;   /* and answered */
    uint64_t close_sequence;
    struct dt_repeat repeat; /* of CLOSE */
    uint64_t linger_ns;      /* until then at most */
};

/* NULL: out of memory. */
struct dt_line *dt_line_create(void);

/* Ends and frees it, without waiting for anything. Without nic->mutex. NULL is accepted. */
void dt_line_destroy(struct dt_line *line);

/*
 * The set-up is over: the channel is the line's, whose door, nic and peer_address are filled in. With
 * nic->mutex; dt_line_open_door() before, without it.
 */
void dt_line_open_door(struct dt_line *line);
void dt_line_start(struct dt_line *line);

/* Looks after the channel; returns when it wants to be looked at again. */
uint64_t dt_line_progress(struct dt_line *line, uint64_t now_ns);

/* Is there something to receive, as far as anybody knows? */
bool dt_line_is_ready(const struct dt_line *line);

/*
 * The next frame for the connection: PATH, CLOSE (which is answered already), or one that makes no sense.
 * DT_AGAIN: none now. DT_PROTOCOL: the peer does not speak our protocol; the line is over.
 */
enum dt_status dt_line_receive(struct dt_line *line, struct dt_frame *frame, uint64_t now_ns);

/* Receives what there is, for nobody: CLOSE is answered all the same. */
void dt_line_ignore(struct dt_line *line, uint64_t now_ns);

/* Where frames may be appended; NULL while there is no channel. What does not fit, or is lost, is the
 * sayer's to say again. */
static inline struct dt_writer *dt_line_out(struct dt_line *line)
{
    return line->state == DT_LINE_UP ? &line->channel.out : NULL;
}

/* Sends what was appended, as far as there is room. */
void dt_line_flush(struct dt_line *line);

/* The peer talks nonsense: the end. */
void dt_line_break(struct dt_line *line);

/* Says CLOSE until it is heard. The first call counts. */
void dt_line_say_close(struct dt_line *line, uint64_t sequence, uint64_t now_ns);

/* After CLOSE, without its connection: looks after itself. True: it is over, destroy it. */
bool dt_line_linger(struct dt_line *line, uint64_t now_ns, uint64_t *deadline_ns);

#ifdef __cplusplus
}
#endif

#endif
