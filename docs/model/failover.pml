/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detour failover: one connection, PATHS paths, CTS rings of N slots, M messages.
 *
 * The two ends of each path run on the product's own table, failover/path_table.h, which is included below:
 * states, events, actions and messages. This file adds what happens around it: messages, the RC
 * transport, the control channel, and everything that can go wrong.
 *
 * README.md beside this file states what is left out and why that loses nothing, which bounds are checked and
 * what each mutation plants. tests/model/check.py has the cases and runs them.
 *
 * Checked
 *   once   no packet executes on a complete message (second delivery, late write)
 *   right  it executes on the open receive that owns the slot
 *   early  a send reported done is held by the receiver
 *   fresh  a path is opened again only after its fence
 *   live   when nothing more can happen, all messages are complete at both ends
 *          (-DNP, pan -l: there is no cycle, so that point is always reached)
 */
#ifndef PATHS
#define PATHS 2                 /* 2..3 */
#endif
#ifndef M
#define M 3                     /* messages, 2..4 */
#endif
#ifndef N
#define N 2                     /* slots of a CTS ring */
#endif
#ifndef K
#define K 2                     /* epochs of a path: 0..K-1, at most 4 */
#endif
#ifndef QPS
#define QPS 1                   /* queue pairs of a path, 1..2; a message has a share on each */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef ADV
#define ADV 1
#endif

#define B(x)     (1 << (x))
#define HAS(v,b) ((v) & B(b))
#define ADD(v,b) v = v | B(b)
#define ALL      (B(M) - 1)
#define FULL     (B(QPS) - 1)
#define SLOT(s)  ((s) % N)

/* repetition by path and by message */
#if PATHS > 2
#define BY_PATH(X)    X(0) X(1) X(2)
#define PATHS_OF(X,s) X(s,0) X(s,1) X(s,2)
#else
#define BY_PATH(X)    X(0) X(1)
#define PATHS_OF(X,s) X(s,0) X(s,1)
#endif
#if M == 2
#define BY_BOTH(X) PATHS_OF(X,0) PATHS_OF(X,1)
#elif M == 3
#define BY_BOTH(X) PATHS_OF(X,0) PATHS_OF(X,1) PATHS_OF(X,2)
#else
#define BY_BOTH(X) PATHS_OF(X,0) PATHS_OF(X,1) PATHS_OF(X,2) PATHS_OF(X,3)
#endif

#include "../../failover/path_table.h"

/* ---- the table's words as constants; an action or message that is new in the table is missing here */
#define NAME_S(state, repeats, text) S_##state,
#define NAME_R(state, repeats, text) R_##state,
#define NAME_E(event, text) E_##event,
mtype = { DT_SENDER_STATES(NAME_S) DT_RECEIVER_STATES(NAME_R) DT_PATH_EVENTS(NAME_E) E_none };

#define A(action) A_##action
#define A_NEXT_EPOCH 1
#define A_FENCE      2
#define A_KEEP       4
#define A_DISCARD    8
#define A_SNAPSHOT   16
#define A_SETTLE     32
#define A_CREATE     64
#define A_CONNECT    128
#define A_PROBE      256
#define A_LISTEN     512
#define A_USE        1024
#define A_STOP       2048

#define W_NONE   0
#define W_SWITCH 1
#define W_SETTLED  2
#define W_RESUME 3
#define W_OPEN   4
#define W_OPENED 5
#define W_USED   6
#define W_STOP   7

#define NONE    0               /* loc: not posted; p + 1: posted on path p; from DONE on: done */
#define DONE    4               /* with UNPOLLED DONE + p + 1: acknowledged on p, epoch not settled */

/* the sender */
mtype sst[PATHS];
byte sep[PATHS];    /* state and epoch of each path */
byte loc[M];
byte ring[N * PATHS];           /* a CTS ring per path: number + 1, 0 for worthless */
/* the receiver */
mtype rst[PATHS];
byte rep[PATHS];
byte done;                      /* receives complete */
byte got[M * PATHS];            /* shares that arrived, by path */
byte reported[PATHS];           /* content of RESUME */
byte ctsp[M];                   /* path + 1 that carried the CTS of an open receive */
bool closed;
/* between them */
chan data0 = [2 * N] of { byte };   /* by path, and by queue pair */
chan data1 = [2 * N] of { byte };
chan cts0 = [M] of { byte };
chan cts1 = [M] of { byte };
#if PATHS > 2
chan data2 = [2 * N] of { byte };
chan cts2 = [M] of { byte };
#endif
#if QPS > 1
chan data0b = [2 * N] of { byte };
chan data1b = [2 * N] of { byte };
#endif
byte acked[M];                  /* shares executed, ACK on its way */
byte m_switch[PATHS], m_resume[PATHS], m_open[PATHS], m_opened[PATHS], m_settled[PATHS], m_used[PATHS], m_stop[PATHS];
bool m_close;
byte faults = FAULTS, adv = ADV;
bool failed;                    /* the connection ended with an error */
bool bad_once, bad_right, bad_early, bad_fresh;
#if defined(GONE) || defined(DISCARDS)
#define UNPOLLED
byte cq[PATHS];                 /* executed, completion not polled yet */
bool gone;
#endif
#ifdef GONE
#define FAILOK gone
#else
#define FAILOK false
#endif
#ifdef FATAL
bool rdead[PATHS];              /* the receiver's device reported that it died: its queue pair goes on for good */
byte m_stopped[PATHS];          /* by epoch: SWITCH with the sender's own proof was sent */
/* destruction proves nothing: the sender's proof is in hand, and all its packets have arrived or are lost */
#ifdef TRUSTDEAD
#define PROVABLE(p) true
#else
#define PROVABLE(p) (!rdead[p] || (HAS(m_stopped[p], rep[p]) && empty(data##p)))
#endif
#define DEAD(p)    rdead[p]
#define STOPPED(p) if :: sst[p] == S_WAITING -> ADD(m_stopped[p], sep[p]) :: else fi
#define REVIVE(p)  rdead[p] = false     /* a new epoch is of another context of the device */
#else
#define PROVABLE(p) true
#define DEAD(p)    false
#define STOPPED(p) skip
#define REVIVE(p)  skip
#endif
#ifdef IMMFILTER
byte stamp[M], s_epoch, r_epoch;
#endif
hidden byte i, x;
hidden short act;
hidden byte word, sent_before, sends;
hidden mtype ev, from;

#define SALL  (loc[0] >= DONE && loc[1] >= DONE && loc[2 % M] >= DONE && loc[3 % M] >= DONE)
#define FINAL ((SALL && done == ALL) || failed)
#define RUN   (!(FINAL))                    /* afterwards only late packets move */
#define R_RUN (!(FINAL) && !closed)
#define BAD   (bad_once || bad_right || bad_early || bad_fresh)
#define SYM(p) (p == 0 || faults < FAULTS || ctsp[0] != 0 || done != 0)

#if defined(ANYRESUME) || defined(ANYOPENED) || defined(STICKY)
#define STALE(v,e) skip
#else
#define STALE(v,e) v = v & ~(B(e) - 1)      /* epochs before e */
#endif
#ifdef STICKY
#define TAKE(v,e) skip
#else
#define TAKE(v,e) v = v & ~B(e)
#endif
/* both know the epoch is over: what is still under way about it has no effect any more */
#if defined(ANYRESUME) || defined(ANYOPENED) || defined(STICKY)
#define TIDY(p) skip
#else
#define TIDY(p) if :: rst[p] == R_ACKED && sst[p] == S_SETTLED && sep[p] == rep[p] -> \
        m_switch[p] = 0; m_resume[p] = 0; m_settled[p] = 0; m_opened[p] = 0; m_open[p] = 0; m_used[p] = 0; m_stop[p] = 0 \
        :: else fi
#endif
/* neither the question nor an answer to it is under way */
#define QUIET(p,e)  (!HAS(m_switch[p],e) && !HAS(m_resume[p],e))
#define QUIETO(p,e) (!HAS(m_open[p],e) && !HAS(m_opened[p],e) && !HAS(m_resume[p],e))
#ifdef NOREPEAT
#define REPEAT(c) false
#else
#define REPEAT(c) (c)
#endif

/* sets of states */
#define S_MENDING(p)  (sst[p] == S_OPENING || sst[p] == S_CONNECTING || sst[p] == S_PROBING)
#define S_DRAINS(p)   (sst[p] == S_DOWN || sst[p] == S_UNFENCED || sst[p] == S_RESUMED) /* no proof yet */
#define S_OVER(p)     (sst[p] == S_SETTLED || sst[p] == S_ENDED || sst[p] == S_CREATING)
#define S_ASKS(p)     (sst[p] == S_DOWN || sst[p] == S_UNFENCED || sst[p] == S_WAITING)
#define R_DRAINS(p)   (rst[p] == R_DOWN || rst[p] == R_UNFENCED)
#define R_OVER(p)     (rst[p] == R_FENCED || rst[p] == R_ACKED)
#define R_TAKES(p)    (rst[p] == R_UP || rst[p] == R_READY || rst[p] == R_STOPPING)
#define R_AT_WORK(p)  (rst[p] == R_UP || rst[p] == R_READY)
#define R_IS_OPEN(p)  (rep[p] == sep[p] && R_TAKES(p))

/* Which end a frame reaches. TCPGONE: the control channel is gone for good, and frames go in band, over a path that
 * is up at its sender and open at the other end. TCPALONE: they do not. */
#define IN_USE(p)  (sst[p] == S_UP && rst[p] == R_UP && rep[p] == sep[p])
#define LISTENS(p) (sst[p] == S_UP && R_IS_OPEN(p))
#if PATHS > 2
#define ONE_IN_USE (IN_USE(0) || IN_USE(1) || IN_USE(2))
#define ONE_LISTENS (LISTENS(0) || LISTENS(1) || LISTENS(2))
#else
#define ONE_IN_USE (IN_USE(0) || IN_USE(1))
#define ONE_LISTENS (LISTENS(0) || LISTENS(1))
#endif
#if defined(TCPGONE) && defined(TCPALONE)
#define TO_SENDER   false
#define TO_RECEIVER false
#elif defined(TCPGONE)
#define TO_SENDER   ONE_IN_USE
#define TO_RECEIVER ONE_LISTENS
#else
#define TO_SENDER   true
#define TO_RECEIVER true
#endif

/* ------------------------------------------------------------------------- sender */

#ifdef ONERING
#define RING(p,s)  ring[SLOT(s)]
#define CTSOK(p)   (sst[p] == S_UP)         /* even with a perfect fence */
#else
#define RING(p,s)  ring[N * (p) + SLOT(s)]
#define CTSOK(p)   (sst[p] != S_OPENING && sst[p] != S_CONNECTING)    /* even with no fence at all */
#endif
#if PATHS > 2
#define HAVECTS(s) (RING(0,s) == s + 1 || RING(1,s) == s + 1 || RING(2,s) == s + 1)
#define FORGET(s)  FORGETP(0,s); FORGETP(1,s); FORGETP(2,s)
#define ON(p)      (loc[0] == p + 1 || loc[1] == p + 1 || loc[2 % M] == p + 1 || loc[3 % M] == p + 1)
#else
#define HAVECTS(s) (RING(0,s) == s + 1 || RING(1,s) == s + 1)
#define FORGET(s)  FORGETP(0,s); FORGETP(1,s)
#define ON(p)      (loc[0] == p + 1 || loc[1] == p + 1 || loc[2 % M] == p + 1 || loc[3 % M] == p + 1)
#endif
#define FORGETP(p,s) if :: RING(p,s) == s + 1 -> RING(p,s) = 0 :: else fi

/* the first message that is not out: new ones in order, a rewind before them */
#define S_INIT(p) sst[p] = S_UP;
#define R_INIT(p) rst[p] = R_UP;

#define FIRST(s) (loc[s] == NONE && (s < 1 || loc[(s + M - 1) % M] != NONE) && \
        (s < 2 || loc[(s + M - 2) % M] != NONE) && (s < 3 || loc[(s + M - 3) % M] != NONE))

#if QPS > 1
#define PUT(p,s) data##p!s; data##p##b!s
#else
#define PUT(p,s) data##p!s
#endif
#ifdef IMMFILTER
#define STAMP(s) stamp[s] = s_epoch
#else
#define STAMP(s) skip
#endif

#ifdef NOSENDERFENCE
#define MAYPOST(p) (!S_MENDING(p))
#else
#define MAYPOST(p) (sst[p] == S_UP)
#endif

/* any path that is up may carry any message, also while another one is being settled */
#define POST(s,p) \
    :: d_step { RUN && MAYPOST(p) && FIRST(s) && HAVECTS(s) -> \
        loc[s] = p + 1; acked[s] = 0; STAMP(s); PUT(p,s) }

#ifdef UNPOLLED
#define HELD(s)    (HAS(done,s) || HAS(cq[0],s) || HAS(cq[1],s) || gone)
#define ACKDONE(s) DONE + loc[s]
#else
#define HELD(s)    HAS(done,s)
#define ACKDONE(s) DONE
#endif
/* not once it has sent SWITCH: then RESUME decides */
#ifdef LATEACK
#define COUNTS(p) (sst[p] == S_UP || S_DRAINS(p))
#else
#define COUNTS(p) (sst[p] == S_UP)
#endif
#define ACK(s,p) \
    :: d_step { RUN && loc[s] == p + 1 && acked[s] == FULL && COUNTS(p) -> \
        bad_early = bad_early || !HELD(s); loc[s] = ACKDONE(s); acked[s] = 0; FORGET(s) }

#ifdef TRUSTSENDER
#define known(p) 0               /* what was not acknowledged did not arrive */
#else
#define known(p) reported[p]
#endif
/* RESUME{p,e} decides the messages last posted on epoch e of p, and no others */
inline settle(p) {
    for (i : 0 .. M - 1) {
        if
#ifdef REWINDALL
        :: loc[i] != NONE && loc[i] < DONE ->
#else
        :: loc[i] == p + 1 ->
#endif
            if
            :: HAS(known(p), i) -> loc[i] = DONE; FORGET(i)
            :: else -> loc[i] = NONE
            fi;
            acked[i] = 0
#ifdef UNPOLLED
        :: loc[i] == DONE + p + 1 ->
            loc[i] = DONE;
#ifndef BLINDTRUST
            if
            :: HAS(reported[p], i)
            :: else -> failed = true        /* acknowledged by a device that took it along */
            fi
#endif
#endif
        :: else
        fi
    }
#ifdef IMMFILTER
    s_epoch++;
#endif
}

#ifdef ANYRESUME
#define RESUMED(p) (TO_SENDER && m_resume[p] != 0 && sst[p] != S_RESUMED && !S_OVER(p))
#else
#define RESUMED(p) (TO_SENDER && HAS(m_resume[p], sep[p]) && sst[p] != S_RESUMED)  /* there it has no row, and waits */
#endif
#ifdef ANYOPENED
#define ISOPEN(p)  (TO_SENDER && m_opened[p] != 0 && (sst[p] == S_OPENING || S_ASKS(p)))
#else
#define ISOPEN(p)  (TO_SENDER && HAS(m_opened[p], sep[p]) && (sst[p] == S_OPENING || sst[p] == S_UP))
#endif
#ifdef OPENEARLY
#define MAYOPEN(p) (sst[p] == S_SETTLED || S_ASKS(p))
#define EARLY(p) :: ev == E_RECOVER && S_ASKS(p) -> sst[p] = S_CREATING
#else
#define MAYOPEN(p) (sst[p] == S_SETTLED)
#define EARLY(p)
#endif
#ifdef ANYOPENED
#define WRONGLY(p) :: ev == E_RECV_OPENED && S_ASKS(p) -> sst[p] = S_CONNECTING
#else
#define WRONGLY(p)
#endif
#define EMPTY(c)   do :: nempty(c) -> c?x :: empty(c) -> break od
#define EMPTY_CTS(p) EMPTY(cts##p)

#define S_ROW(state, event, next, actions, words) \
    :: sst[p] == S_##state && ev == E_##event -> sst[p] = S_##next; act = actions; word = W_##words
#define S_WAS(state, repeats, text) :: sst[p] == S_##state -> sent_before = W_##repeats
#define S_NOW(state, repeats, text) :: sst[p] == S_##state -> sends = W_##repeats

inline sender_row() {
    act = 0; word = W_NONE; sent_before = W_NONE; sends = W_NONE;
    if DT_SENDER_STATES(S_WAS) :: else fi;
    from = sst[p];
    if DT_SENDER_TABLE(S_ROW) EARLY(p) WRONGLY(p) :: else fi;
    if :: sst[p] != from -> if DT_SENDER_STATES(S_NOW) :: else fi :: else fi;
    if :: word == W_NONE && sends != sent_before -> word = sends :: else fi
}

inline sender_acts() {
    if
    :: act & A_NEXT_EPOCH ->
        sep[p] = sep[p] + 1;
        if :: p == 0 -> EMPTY(cts0) :: p == 1 -> EMPTY(cts1)
#if PATHS > 2
        :: p == 2 -> EMPTY(cts2)
#endif
        fi;
        STALE(m_resume[p], sep[p]); STALE(m_opened[p], sep[p]); STALE(m_stop[p], sep[p])
    :: else
    fi;
    if :: act & A_SETTLE -> settle(p) :: else fi;
    if
#ifdef LATEACK
    :: sst[p] == S_WAITING || S_OVER(p) ->      /* proven: no acknowledgement comes any more */
#else
    :: !COUNTS(p) ->                            /* no acknowledgement counts any more */
#endif
        for (i : 0 .. M - 1) { if :: loc[i] == p + 1 -> acked[i] = 0 :: else fi }
    :: else
    fi;
    if
    :: word == W_SWITCH -> ADD(m_switch[p], sep[p])
    :: word == W_SETTLED -> ADD(m_settled[p], sep[p])
    :: word == W_OPEN -> ADD(m_open[p], sep[p])
    :: word == W_USED -> ADD(m_used[p], sep[p])
    :: else
    fi;
    if :: sst[p] != S_UP && !S_MENDING(p) -> m_stop[p] = 0 :: else fi;    /* no row reads it */
    STOPPED(p)
}

/* One event; with -DFINE each of the steps that follow it by themselves is an event of its own. */
inline sender_step() {
    sender_row();
    sender_acts();
#ifndef FINE
    if :: sst[p] == S_CREATING -> ev = E_CREATED; sender_row(); sender_acts() :: else fi;
    if :: sst[p] == S_CONNECTING -> ev = E_CONNECTED; sender_row(); sender_acts() :: else fi;
    if :: sst[p] == S_PROBING && R_IS_OPEN(p) -> ev = E_STABLE; sender_row(); sender_acts() :: else fi;
#endif
    TIDY(p);
    p = 0; ev = E_none; from = E_none; act = 0; word = 0; sent_before = 0; sends = 0
}

#define S_PATH(q) \
    /* error completion, event, stall, order: at any time */ \
    :: RUN && SYM(q) && faults > 0 && sep[q] < K - 1 && (sst[q] == S_UP || S_MENDING(q)) -> \
        faults--; p = q; ev = E_FAULT \
    /* retry exceeded against a fenced end; a probe without an answer */ \
    :: RUN && sst[q] == S_UP && ON(q) && (closed || rep[q] > sep[q] || R_OVER(q)) -> p = q; ev = E_FAULT \
    :: RUN && sst[q] == S_PROBING && !R_IS_OPEN(q) -> p = q; ev = E_FAILED \
    :: RUN && sst[q] == S_PROBING && R_IS_OPEN(q) -> p = q; ev = E_STABLE \
    :: RUN && sst[q] == S_CREATING -> p = q; ev = E_CREATED \
    :: RUN && sst[q] == S_CONNECTING -> p = q; ev = E_CONNECTED \
    :: RUN && (sst[q] == S_CREATING || sst[q] == S_CONNECTING) && faults > 0 && sep[q] < K - 1 -> \
        faults--; p = q; ev = E_FAILED \
    /* the own proof comes early, late, or after its time */ \
    :: RUN && (S_DRAINS(q) || sst[q] == S_ENDED) -> p = q; ev = E_FENCED \
    :: RUN && (sst[q] == S_DOWN || sst[q] == S_RESUMED) -> p = q; ev = E_UNFENCED \
    :: RUN && MAYOPEN(q) && sep[q] < K - 1 && !SALL -> p = q; ev = E_RECOVER \
    :: RUN && HAS(m_stop[q], sep[q]) && (sst[q] == S_UP || S_MENDING(q)) -> \
        TAKE(m_stop[q], sep[q]); p = q; ev = E_RECV_STOP \
    :: RUN && RESUMED(q) -> TAKE(m_resume[q], sep[q]); p = q; ev = E_RECV_RESUME \
    :: RUN && ISOPEN(q) -> TAKE(m_opened[q], sep[q]); p = q; ev = E_RECV_OPENED

/* a state that repeats something, while neither that nor an answer is under way */
#define S_REPEAT(p) \
    :: d_step { REPEAT(RUN && S_ASKS(p) && QUIET(p, sep[p])) -> ADD(m_switch[p], sep[p]) } \
    :: d_step { REPEAT(RUN && sst[p] == S_OPENING && QUIETO(p, sep[p])) -> ADD(m_open[p], sep[p]) }

active proctype Sender() {
    byte p;
    d_step { BY_PATH(S_INIT) skip };
end: do
    BY_BOTH(POST)
    BY_BOTH(ACK)
    BY_PATH(S_REPEAT)
    :: atomic { if BY_PATH(S_PATH) fi; d_step { sender_step() } }
#ifdef CLOSE
    :: d_step { RUN && m_close -> m_close = false;
        loc[0] = DONE; loc[1] = DONE; loc[2 % M] = DONE; loc[3 % M] = DONE }
#endif
    od
}

/* ----------------------------------------------------------------------- receiver */

/* posted: its slot is free; on whichever living path; again when that path was fenced */
#define PUBLISH(s,p) \
    :: d_step { R_RUN && SYM(p) && rst[p] == R_UP && ctsp[s] == 0 && !HAS(done,s) && (s < N || HAS(done,s - N)) && \
        (s == 0 || ctsp[(s + M - 1) % M] != 0 || HAS(done,(s + M - 1) % M)) -> \
        cts##p!s; ctsp[s] = p + 1 }

#ifdef SAMEPSN
#define DROP(p) skip
#elif QPS > 1
#define DROP(p) do :: nempty(data##p) -> data##p?x :: nempty(data##p##b) -> data##p##b?x \
        :: empty(data##p) && empty(data##p##b) -> break od
#else
#define DROP(p) EMPTY(data##p)
#endif
#ifdef NOFENCE
#define BOUNCE(p) skip
#else
#define BOUNCE(p) DROP(p)       /* for a dead queue pair: no matter when they come */
#endif

/* every queue of every queue pair of p has flushed: nothing comes in, all that came counts */
inline forget() {
#ifdef GONE
    done = done | cq[p]; cq[p] = 0;
#endif
#ifdef DISCARDS
    cq[p] = 0;                                  /* completions in the error state, which are never polled */
#endif
#ifdef IMMFILTER
    r_epoch++;
#endif
    for (i : 0 .. M - 1) {
#ifndef NOREPUBLISH
        if
        :: ctsp[i] == p + 1 -> ctsp[i] = 0
        :: else
        fi;
#endif
#ifndef KEEPPARTS
        got[p * M + i] = 0
#endif
    }
}

#define R_ROW(state, event, next, actions, words) \
    :: rst[p] == R_##state && ev == E_##event -> rst[p] = R_##next; act = actions; word = W_##words
#define R_WAS(state, repeats, text) :: rst[p] == R_##state -> sent_before = W_##repeats
#define R_NOW(state, repeats, text) :: rst[p] == R_##state -> sends = W_##repeats
#define BY_P(X) if :: p == 0 -> X(0) :: p == 1 -> X(1) BY_P2(X) fi
#if PATHS > 2
#define BY_P2(X) :: p == 2 -> X(2)
#else
#define BY_P2(X)
#endif
#ifdef SAIDEARLY
#define SNAPSHOT_AT A_FENCE
#else
#define SNAPSHOT_AT A_SNAPSHOT
#endif

inline receiver_row() {
    act = 0; word = W_NONE; sent_before = W_NONE; sends = W_NONE;
    if DT_RECEIVER_STATES(R_WAS) :: else fi;
    from = rst[p];
    if DT_RECEIVER_TABLE(R_ROW) :: else fi;
    if :: rst[p] != from -> if DT_RECEIVER_STATES(R_NOW) :: else fi :: else fi;
    if :: word == W_NONE && sends != sent_before -> word = sends :: else fi
}

inline receiver_acts() {
    if
    :: act & A_NEXT_EPOCH ->
        bad_fresh = bad_fresh || !(from == R_FENCED || from == R_ACKED);
        rep[p] = rep[p] + 1;
        REVIVE(p);
        STALE(m_switch[p], rep[p]); STALE(m_open[p], rep[p]); STALE(m_settled[p], rep[p]); STALE(m_resume[p], rep[p]);
        STALE(m_used[p], rep[p])
    :: else
    fi;
#if defined(DISCARDS) && !defined(NODRAIN)
    if :: act & A_FENCE -> done = done | cq[p]; cq[p] = 0 :: else fi;   /* polled before modify_qp to ERR */
#endif
    if :: act & A_DISCARD -> forget(); if :: DEAD(p) -> skip :: else -> BY_P(BOUNCE) fi :: else fi;
    if :: act & SNAPSHOT_AT -> reported[p] = done :: else fi;
    if :: act & A_LISTEN -> BY_P(DROP) :: else fi;
    if
    :: word == W_RESUME -> ADD(m_resume[p], rep[p])
    :: word == W_OPENED -> ADD(m_opened[p], rep[p])
    :: word == W_STOP -> ADD(m_stop[p], rep[p])
    :: else
    fi
}

inline receiver_step() {
    receiver_row();
    receiver_acts();
#ifndef FINE
    if :: rst[p] == R_CREATING -> ev = E_CREATED; receiver_row(); receiver_acts() :: else fi;
#endif
    TIDY(p);
    p = 0; ev = E_none; from = E_none; act = 0; word = 0; sent_before = 0; sends = 0
}

/* ASKS: a receiver has the sender stop first. DISCARDS: it waits for SWITCH without limit, and its device does not die. */
#if defined(ASKS) || (defined(DISCARDS) && !defined(NOASK))
#define R_DOUBT E_SUSPECT
#else
#define R_DOUBT E_FAULT
#endif
#define R_FAULT(q) \
    :: R_RUN && SYM(q) && faults > 0 && rep[q] < K - 1 && R_AT_WORK(q) -> faults--; p = q; ev = R_DOUBT
/* the device dies as well, or SWITCH does not arrive in time */
#ifdef ASKS
#define R_EXPIRES(q) :: R_RUN && rst[q] == R_STOPPING -> p = q; ev = E_FAULT
#else
#define R_EXPIRES(q)
#endif
#define R_PATH(q) \
    R_FAULT(q) R_EXPIRES(q) \
    /* a clear-to-send that is never used */ \
    :: R_RUN && rst[q] == R_UP && nempty(cts##q) && sep[q] == rep[q] && (S_ASKS(q) || S_OVER(q)) -> \
        p = q; ev = R_DOUBT \
    /* the proof comes early or late */ \
    :: R_RUN && R_DRAINS(q) && PROVABLE(q) -> p = q; ev = E_FENCED \
    :: R_RUN && rst[q] == R_DOWN -> p = q; ev = E_UNFENCED \
    :: R_RUN && rst[q] == R_CREATING -> p = q; ev = E_CREATED \
    :: R_RUN && rst[q] == R_CREATING && faults > 0 && rep[q] < K - 1 -> faults--; p = q; ev = E_FAILED \
    /* its port is back: it asks for OPEN */ \
    :: R_RUN && rst[q] == R_ACKED && adv > 0 && rep[q] < K - 1 -> adv--; p = q; ev = E_RECOVER \
    :: R_RUN && TO_RECEIVER && HAS(m_settled[q], rep[q]) -> TAKE(m_settled[q], rep[q]); p = q; ev = E_RECV_SETTLED \
    :: R_RUN && TO_RECEIVER && HAS(m_used[q], rep[q]) -> TAKE(m_used[q], rep[q]); p = q; ev = E_RECV_USED \
    :: R_RUN && TO_RECEIVER && HAS(m_switch[q], rep[q]) && (R_TAKES(q) || R_OVER(q)) -> \
        TAKE(m_switch[q], rep[q]); p = q; ev = E_RECV_SWITCH \
    :: R_RUN && TO_RECEIVER && HAS(m_open[q], rep[q]) && (R_TAKES(q) || R_OVER(q)) -> \
        TAKE(m_open[q], rep[q]); p = q; ev = E_RECV_OPEN \
    :: R_RUN && TO_RECEIVER && HAS(m_switch[q], rep[q] + 1) && R_OVER(q) -> \
        TAKE(m_switch[q], rep[q] + 1); p = q; ev = E_RECV_SWITCH_NEXT \
    :: R_RUN && TO_RECEIVER && HAS(m_open[q], rep[q] + 1) && R_OVER(q) -> \
        TAKE(m_open[q], rep[q] + 1); p = q; ev = E_RECV_OPEN_NEXT

#define R_REPEAT(p) \
    :: d_step { REPEAT(R_RUN && rst[p] == R_FENCED && QUIET(p, rep[p]) && !HAS(m_settled[p], rep[p])) -> \
        ADD(m_resume[p], rep[p]) } \
    :: d_step { REPEAT(R_RUN && rst[p] == R_STOPPING && !HAS(m_stop[p], rep[p]) && !HAS(m_switch[p], rep[p])) -> \
        ADD(m_stop[p], rep[p]) } \
    :: d_step { REPEAT(R_RUN && rst[p] == R_READY && !HAS(m_opened[p], rep[p]) && !HAS(m_used[p], rep[p])) -> \
        ADD(m_opened[p], rep[p]) }

active proctype Receiver() {
    byte p;
    d_step { BY_PATH(R_INIT) skip };
end: do
    BY_BOTH(PUBLISH)
    BY_PATH(R_REPEAT)
    :: atomic { if BY_PATH(R_PATH) fi; d_step { receiver_step() } }
#ifdef FATAL
    :: d_step { R_RUN && faults > 0 && rst[0] == R_UP && rep[0] < K - 1 ->
        faults--; rdead[0] = true; ev = E_FAULT; receiver_step() }
    :: d_step { R_RUN && R_DRAINS(0) && !rdead[0] -> rdead[0] = true }
#endif
#ifdef UNPOLLED
    :: d_step { R_RUN && cq[0] -> done = done | cq[0]; cq[0] = 0 }
    :: d_step { R_RUN && cq[1] -> done = done | cq[1]; cq[1] = 0 }
#endif
#ifdef GONE
    /* the device is gone, with completions that were not polled; its fence is proven by that */
    :: d_step { R_RUN && faults > 0 && rst[0] == R_UP && rep[0] < K - 1 && cq[0] ->
        faults--; gone = true; cq[0] = 0; ev = E_FAULT; receiver_row(); receiver_acts();
        ev = E_FENCED; receiver_step() }
#endif
#ifdef CLOSE
    :: d_step { R_RUN && done == ALL -> closed = true;
#ifndef SILENTCLOSE
        m_close = true
#endif
        }
#endif
    od
}

/* -------------------------------------------------------------------- the network */

#ifdef NOFENCE
#define ACCEPTS(p) true
#else
#define ACCEPTS(p) (R_TAKES(p) || R_DRAINS(p) || DEAD(p))
#endif

/* the responder of p executes share j of message s */
inline execute(s, p, j) {
#ifdef IMMFILTER
    if
    :: stamp[s] < r_epoch                   /* "an immediate of an older epoch" */
    :: else ->
#endif
    bad_once = bad_once || HAS(done, s);
    bad_right = bad_right || !(s < N || HAS(done, (s + M - N) % M));
#ifdef UNPOLLED
    ADD(cq[p], s);
#else
    ADD(got[p * M + s], j);
    if
#ifdef KEEPPARTS
    :: (got[s] | got[M + s]) == FULL ->
#else
    :: got[p * M + s] == FULL ->
#endif
        ADD(done, s); ctsp[s] = 0; got[s] = 0; got[M + s] = 0
#if PATHS > 2
        ; got[2 * M + s] = 0
#endif
    :: else
    fi;
#endif
#ifdef IMMFILTER
    fi;
#endif
    if
    :: loc[s] == p + 1 && (sst[p] == S_UP || S_DRAINS(p)) -> ADD(acked[s], j)
    :: else                                 /* no requester for the ACK */
    fi
}

#define DATA(p) :: d_step { !failed && !closed && ACCEPTS(p) && nempty(data##p) -> data##p?s; execute(s, p, 0); s = 0 }
#define DATAB(p) :: d_step { !failed && !closed && ACCEPTS(p) && nempty(data##p##b) -> data##p##b?s; execute(s, p, 1); s = 0 }
#define CTS(p) :: d_step { RUN && CTSOK(p) && nempty(cts##p) -> cts##p?s; RING(p,s) = (loc[s] < DONE -> s + 1 : 0); s = 0 }

/* what the requester no longer repeats may be lost; so may an ACK for one in ERR */
#define LOSEDATA(p)  :: d_step { RUN && S_ASKS(p) && nempty(data##p) -> data##p?s; s = 0 }
#define LOSEDATAB(p) :: d_step { RUN && S_ASKS(p) && nempty(data##p##b) -> data##p##b?s; s = 0 }
#define LOSECTS(p)   :: d_step { RUN && nempty(cts##p) && \
        (S_ASKS(p) || sst[p] == S_RESUMED || S_OVER(p) || (sst[p] == S_UP && R_OVER(p))) -> cts##p?s; s = 0 }
#define LOSEACK(s,p) :: d_step { RUN && S_DRAINS(p) && loc[s] == p + 1 && acked[s] -> acked[s] = 0 }

/* the adversary on the control messages */
#define LOSE1(v,e) :: d_step { RUN && adv > 0 && HAS(v,e) -> adv--; v = v & ~B(e) }
#if K > 2
#define LOSE(v) LOSE1(v,0) LOSE1(v,1) LOSE1(v,2)
#else
#define LOSE(v) LOSE1(v,0) LOSE1(v,1)
#endif
#ifdef DISCARDS
#define LOSESTOP(p) LOSE(m_stop[p])
#else
#define LOSESTOP(p)                         /* the receiver may stop to wait at any time: the same as a loss */
#endif
#define MEDDLE(p) LOSE(m_switch[p]) LOSE(m_resume[p]) LOSE(m_open[p]) LOSE(m_opened[p]) LOSE(m_settled[p]) LOSE(m_used[p]) LOSESTOP(p) \
    :: d_step { RUN && adv > 0 && S_ASKS(p) && !HAS(m_switch[p], sep[p]) -> adv--; ADD(m_switch[p], sep[p]) } \
    :: d_step { RUN && adv > 0 && sst[p] == S_OPENING && !HAS(m_open[p], sep[p]) -> adv--; ADD(m_open[p], sep[p]) } \
    :: d_step { R_RUN && adv > 0 && rst[p] == R_FENCED && !HAS(m_resume[p], rep[p]) -> adv--; ADD(m_resume[p], rep[p]) }

active proctype Network() {
    byte s;
end: do
    BY_PATH(DATA) BY_PATH(CTS) BY_PATH(LOSEDATA) BY_PATH(LOSECTS)
#if QPS > 1
    BY_PATH(DATAB) BY_PATH(LOSEDATAB)
#endif
    BY_BOTH(LOSEACK)
#if ADV > 0
    BY_PATH(MEDDLE)
#endif
    od
}

active proctype Watch() {
    do
    :: BAD -> assert(!bad_once); assert(!bad_right); assert(!bad_early); assert(!bad_fresh)
#ifdef TCPGONE
    :: timeout -> assert(FINAL || !ONE_IN_USE); break
#else
    :: timeout -> assert(FINAL); assert(!failed || FAILOK); break
#endif
    od
}

#ifdef LTL
ltl once  { [] !(bad_once || bad_right) }
ltl early { [] !(bad_early || bad_fresh) }
ltl live  { <> (FINAL) }
#endif
