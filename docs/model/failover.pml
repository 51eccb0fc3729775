/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detour failover: one connection, PATHS paths, CTS rings of N slots, M messages.
 *
 * The two ends exchange facts about one epoch of one path; an epoch is one set of queue pairs at both ends.
 * Nothing is numbered per connection, so nobody has to win a race.
 *
 *   sender's end of path p:    UP -> DOWN -> SETTLED -> OPENING -> UP (next epoch)
 *   receiver's end of path p:  UP -> FENCING -> FENCED -> UP (next epoch)
 *
 *   SWITCH{p,e}  S->R  I send nothing more on epoch e of p: fence it
 *   RESUME{p,e}  R->S  it is fenced, and this is what I have (a snapshot)
 *   OPEN{p,e}    S->R  my queue pairs for epoch e
 *   OPENED{p,e}  R->S  mine, connected to yours
 *   HEARD{p,e}   S->R  settled, stop repeating RESUME (a SWITCH that asks for no answer)
 *   CLOSE        R->S  I am closing, and this is what I have          (-DCLOSE)
 *
 * README.md beside this file says what is left out and why that loses nothing, which bounds are checked and
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

#define UP      0
#define DOWN    1               /* sender: in ERR, waits for RESUME */
#define FENCED  1               /* receiver */
#define SETTLED 2               /* sender: RESUME applied */
#define OPENING 3
#define FENCING 4               /* receiver, with SLOWFENCE: told to ERR, the proof is not there yet */

#define NONE    0               /* loc: not posted; p + 1: posted on path p; from DONE on: done */
#define DONE    4               /* with GONE DONE + p + 1: acknowledged on p, epoch not settled */

/* the sender */
byte sst[PATHS], sep[PATHS];    /* state and epoch of each path */
byte loc[M];
byte ring[N * PATHS];           /* a CTS ring per path: number + 1, 0 for worthless */
/* the receiver */
byte rst[PATHS], rep[PATHS];
byte done;                      /* receives complete */
byte got[M * PATHS];            /* shares that arrived, by path */
byte said[PATHS];               /* content of RESUME */
bool heard[PATHS];              /* the sender knows: RESUME need not be repeated unasked */
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
byte m_switch[PATHS], m_resume[PATHS], m_open[PATHS], m_opened[PATHS], m_heard[PATHS];
bool m_close;
byte faults = FAULTS, adv = ADV;
bool failed;                    /* the connection ended with an error */
bool bad_once, bad_right, bad_early, bad_fresh;
#ifdef GONE
byte cq[PATHS];                 /* executed, completion not polled yet */
bool gone;
#define FAILOK gone
#else
#define FAILOK false
#endif
#ifdef IMMFILTER
byte stamp[M], s_epoch, r_epoch;
#endif
hidden byte i, x;

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
#define TIDY(p) if :: heard[p] && sst[p] == SETTLED && sep[p] == rep[p] -> \
        m_switch[p] = 0; m_resume[p] = 0; m_heard[p] = 0; m_opened[p] = 0; m_open[p] = 0 \
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

/* ------------------------------------------------------------------------- sender */

#ifdef ONERING
#define RING(p,s)  ring[SLOT(s)]
#define CTSOK(p)   (sst[p] == UP)           /* even with a perfect fence */
#else
#define RING(p,s)  ring[N * (p) + SLOT(s)]
#define CTSOK(p)   (sst[p] != OPENING)      /* even with no fence at all */
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
#define MAYPOST(p) (sst[p] != OPENING)
#else
#define MAYPOST(p) (sst[p] == UP)
#endif

/* any path that is up may carry any message, also while another one is being settled */
#define POST(s,p) \
    :: d_step { RUN && MAYPOST(p) && FIRST(s) && HAVECTS(s) -> \
        loc[s] = p + 1; acked[s] = 0; STAMP(s); PUT(p,s) }

#ifdef GONE
#define HELD(s)    (HAS(done,s) || HAS(cq[0],s) || HAS(cq[1],s) || gone)
#define ACKDONE(s) DONE + loc[s]
#else
#define HELD(s)    HAS(done,s)
#define ACKDONE(s) DONE
#endif
#define ACK(s,p) \
    :: d_step { RUN && loc[s] == p + 1 && acked[s] == FULL && sst[p] <= DOWN -> \
        bad_early = bad_early || !HELD(s); loc[s] = ACKDONE(s); acked[s] = 0; FORGET(s) }

#ifdef TRUSTSENDER
#define known(p) 0               /* what was not acknowledged did not arrive */
#else
#define known(p) said[p]
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
#ifdef GONE
        :: loc[i] == DONE + p + 1 ->
            loc[i] = DONE;
#ifndef BLINDTRUST
            if
            :: HAS(said[p], i)
            :: else -> failed = true        /* acknowledged by a device that took it along */
            fi
#endif
#endif
        :: else
        fi
    }
    sst[p] = SETTLED;
    TIDY(p);
#ifdef IMMFILTER
    s_epoch++;
#endif
}

#ifdef ANYRESUME
#define RESUMED(p) (m_resume[p] != 0 && sst[p] != SETTLED)
#else
#define RESUMED(p) (HAS(m_resume[p], sep[p]) && sst[p] != SETTLED)
#endif
#ifdef ANYOPENED
#define ISOPEN(p)  (m_opened[p] != 0 && sst[p] != UP)
#else
#define ISOPEN(p)  (HAS(m_opened[p], sep[p]) && sst[p] == OPENING)
#endif
#ifdef OPENEARLY
#define MAYOPEN(p) (sst[p] == SETTLED || sst[p] == DOWN)
#else
#define MAYOPEN(p) (sst[p] == SETTLED)
#endif
#define EMPTY(c)   do :: nempty(c) -> c?x :: empty(c) -> break od

#define S_PATH(p) \
    /* error completion, event, stall, order: at any time */ \
    :: d_step { RUN && SYM(p) && faults > 0 && sep[p] < K - 1 && (sst[p] == UP || sst[p] == OPENING) -> \
        faults--; sst[p] = DOWN; ADD(m_switch[p], sep[p]) } \
    /* retry exceeded against a fenced end */ \
    :: d_step { RUN && sst[p] == UP && ON(p) && (closed || rep[p] > sep[p] || rst[p] == FENCED) -> \
        sst[p] = DOWN; ADD(m_switch[p], sep[p]) } \
    :: d_step { REPEAT(RUN && sst[p] == DOWN && QUIET(p, sep[p])) -> ADD(m_switch[p], sep[p]) } \
    :: d_step { REPEAT(RUN && sst[p] == OPENING && QUIETO(p, sep[p])) -> ADD(m_open[p], sep[p]) } \
    :: d_step { RUN && RESUMED(p) -> TAKE(m_resume[p], sep[p]); settle(p) } \
    :: d_step { RUN && HAS(m_resume[p], sep[p]) && sst[p] == SETTLED && !HAS(m_heard[p], sep[p]) -> \
        TAKE(m_resume[p], sep[p]); ADD(m_heard[p], sep[p]) } \
    :: d_step { RUN && ISOPEN(p) -> TAKE(m_opened[p], sep[p]); sst[p] = UP } \
    /* recovery: fresh queue pairs, the old ones and what was under way to them are gone */ \
    :: d_step { RUN && MAYOPEN(p) && sep[p] < K - 1 && !SALL -> \
        sep[p] = sep[p] + 1; sst[p] = OPENING; EMPTY(cts##p); ADD(m_open[p], sep[p]); \
        STALE(m_resume[p], sep[p]); STALE(m_opened[p], sep[p]) }

active proctype Sender() {
end: do
    BY_BOTH(POST)
    BY_BOTH(ACK)
    BY_PATH(S_PATH)
#ifdef CLOSE
    :: d_step { RUN && m_close -> m_close = false;
        loc[0] = DONE; loc[1] = DONE; loc[2 % M] = DONE; loc[3 % M] = DONE }
#endif
    od
}

/* ----------------------------------------------------------------------- receiver */

/* posted: its slot is free; on whichever living path; again when that path was fenced */
#define PUBLISH(s,p) \
    :: d_step { R_RUN && SYM(p) && rst[p] == UP && ctsp[s] == 0 && !HAS(done,s) && (s < N || HAS(done,s - N)) && \
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
inline proven(p) {
    rst[p] = FENCED;
#ifdef GONE
    done = done | cq[p]; cq[p] = 0;
#endif
#ifndef SAIDEARLY
    said[p] = done;
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

/* the proof of a fence may take its time: until it is there nothing is said, and what succeeds counts */
#ifdef SLOWFENCE
inline fence(p) {
    rst[p] = FENCING;
#ifdef SAIDEARLY
    said[p] = done
#endif
}
#define FENCED_NOW(p) skip
#define PROOF(p) \
    :: d_step { R_RUN && rst[p] == FENCING -> proven(p); BOUNCE(p); ADD(m_resume[p], rep[p]) }
#define ACCEPTING(p) (rst[p] == UP || rst[p] == FENCING)
#else
inline fence(p) { proven(p) }
#define FENCED_NOW(p) BOUNCE(p); ADD(m_resume[p], rep[p])
#define PROOF(p)
#define ACCEPTING(p) (rst[p] == UP)
#endif

#define R_PATH(p) \
    :: d_step { R_RUN && SYM(p) && faults > 0 && rep[p] < K - 1 && rst[p] == UP -> \
        faults--; fence(p); FENCED_NOW(p) } \
    :: d_step { R_RUN && rst[p] == UP && nempty(cts##p) && sep[p] == rep[p] && (sst[p] == DOWN || sst[p] == SETTLED) -> \
        fence(p); FENCED_NOW(p) } \
    PROOF(p) \
    :: d_step { REPEAT(R_RUN && rst[p] == FENCED && !heard[p] && QUIET(p, rep[p]) && !HAS(m_heard[p], rep[p])) -> \
        ADD(m_resume[p], rep[p]) } \
    :: d_step { R_RUN && HAS(m_heard[p], rep[p]) && !heard[p] -> TAKE(m_heard[p], rep[p]); heard[p] = true; TIDY(p) } \
    :: d_step { R_RUN && HAS(m_switch[p], rep[p]) && rst[p] != FENCING -> \
        TAKE(m_switch[p], rep[p]); heard[p] = true; \
        if :: rst[p] == UP -> fence(p); FENCED_NOW(p) :: else -> ADD(m_resume[p], rep[p]) fi; \
        TIDY(p) } \
    /* an epoch I never saw opened counts as fenced */ \
    :: d_step { R_RUN && HAS(m_switch[p], rep[p] + 1) -> TAKE(m_switch[p], rep[p] + 1); \
        bad_fresh = bad_fresh || rst[p] != FENCED; \
        rep[p] = rep[p] + 1; said[p] = done; heard[p] = true; ADD(m_resume[p], rep[p]); \
        STALE(m_switch[p], rep[p]); STALE(m_open[p], rep[p]); STALE(m_heard[p], rep[p]); STALE(m_resume[p], rep[p]) } \
    :: d_step { R_RUN && HAS(m_open[p], rep[p] + 1) -> TAKE(m_open[p], rep[p] + 1); \
        bad_fresh = bad_fresh || rst[p] != FENCED; \
        rep[p] = rep[p] + 1; rst[p] = UP; heard[p] = false; DROP(p); ADD(m_opened[p], rep[p]); \
        STALE(m_switch[p], rep[p]); STALE(m_open[p], rep[p]); STALE(m_heard[p], rep[p]); STALE(m_resume[p], rep[p]) } \
    :: d_step { R_RUN && HAS(m_open[p], rep[p]) && rst[p] != FENCING -> TAKE(m_open[p], rep[p]); \
        if :: rst[p] == UP -> ADD(m_opened[p], rep[p]) \
        :: else -> ADD(m_resume[p], rep[p]) fi }

active proctype Receiver() {
end: do
    BY_BOTH(PUBLISH)
    BY_PATH(R_PATH)
#ifdef GONE
    :: d_step { R_RUN && cq[0] -> done = done | cq[0]; cq[0] = 0 }
    :: d_step { R_RUN && cq[1] -> done = done | cq[1]; cq[1] = 0 }
    :: d_step { R_RUN && faults > 0 && rst[0] == UP && rep[0] < K - 1 && cq[0] ->
        faults--; gone = true; cq[0] = 0; proven(0); BOUNCE(0); ADD(m_resume[0], rep[0]) }
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
#define ACCEPTS(p) ACCEPTING(p)
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
#ifdef GONE
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
    :: loc[s] == p + 1 && sst[p] == UP -> ADD(acked[s], j)
    :: else                                 /* nobody there to take the ACK */
    fi
}

#define DATA(p) :: d_step { !failed && !closed && ACCEPTS(p) && nempty(data##p) -> data##p?s; execute(s, p, 0); s = 0 }
#define DATAB(p) :: d_step { !failed && !closed && ACCEPTS(p) && nempty(data##p##b) -> data##p##b?s; execute(s, p, 1); s = 0 }
#define CTS(p) :: d_step { RUN && CTSOK(p) && nempty(cts##p) -> cts##p?s; RING(p,s) = (loc[s] < DONE -> s + 1 : 0); s = 0 }

/* what the requester no longer repeats may be lost; so may an ACK for one in ERR */
#define LOSEDATA(p)  :: d_step { RUN && sst[p] == DOWN && nempty(data##p) -> data##p?s; s = 0 }
#define LOSEDATAB(p) :: d_step { RUN && sst[p] == DOWN && nempty(data##p##b) -> data##p##b?s; s = 0 }
#define LOSECTS(p)   :: d_step { RUN && nempty(cts##p) && \
        (sst[p] == DOWN || sst[p] == SETTLED || (sst[p] == UP && rst[p] == FENCED)) -> cts##p?s; s = 0 }
#define LOSEACK(s,p) :: d_step { RUN && sst[p] == DOWN && loc[s] == p + 1 && acked[s] -> acked[s] = 0 }

/* the adversary on the control messages */
#define LOSE1(v,e) :: d_step { RUN && adv > 0 && HAS(v,e) -> adv--; v = v & ~B(e) }
#if K > 2
#define LOSE(v) LOSE1(v,0) LOSE1(v,1) LOSE1(v,2)
#else
#define LOSE(v) LOSE1(v,0) LOSE1(v,1)
#endif
#define MEDDLE(p) LOSE(m_switch[p]) LOSE(m_resume[p]) LOSE(m_open[p]) LOSE(m_opened[p]) LOSE(m_heard[p]) \
    :: d_step { RUN && adv > 0 && sst[p] == DOWN && !HAS(m_switch[p], sep[p]) -> adv--; ADD(m_switch[p], sep[p]) } \
    :: d_step { RUN && adv > 0 && sst[p] == OPENING && !HAS(m_open[p], sep[p]) -> adv--; ADD(m_open[p], sep[p]) } \
    :: d_step { R_RUN && adv > 0 && rst[p] == FENCED && !HAS(m_resume[p], rep[p]) -> adv--; ADD(m_resume[p], rep[p]) }

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
    :: timeout -> assert(FINAL); assert(!failed || FAILOK); break
    od
}

#ifdef LTL
ltl once  { [] !(bad_once || bad_right) }
ltl early { [] !(bad_early || bad_fresh) }
ltl live  { <> (FINAL) }
#endif
