/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The carrier of a pair of processes (transport/session/pair.h): one TCP connection that either process may dial, at
 * the same time, again after a loss, and after an attempt that it gave up. Process 1 has the larger identity.
 *
 * A dialing process offers a round, larger than all that it knows. The process that is dialed accepts, or answers STALE
 * with its own round if that is not smaller. If both wait for an answer, the weaker offer is given up for the stronger
 * one (larger round, then larger identity); the process with the stronger offer parks the other's carrier until its own
 * attempt is decided.
 *
 * A PAIR frame stays readable after its sender has closed the carrier, and the frames of different carriers overtake
 * each other. BREAKS carriers break; GIVEUPS attempts end without an answer; with DEATH process 1 dies once. Each
 * process dials whenever it has no carrier (WANT0, WANT1: 0 never dials), so a livelock exhausts the DIALS carriers.
 *
 * To be shown: when nothing more can happen, both use the same carrier, or the process that lives knows that the other
 * is dead; no livelock. Planted bugs: ANYROUND (a PAIR frame of any round replaces the carrier in use), NOPARK (both
 * give their attempts up), KEEPBOTH (both keep their own attempt).
 */
#ifndef DIALS
#define DIALS 7
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef GIVEUPS
#define GIVEUPS 1
#endif
#ifndef WANT0
#define WANT0 1
#endif
#ifndef WANT1
#define WANT1 1
#endif

#define NONE 255
#define IDLE 0
#define JOINING 1 /* PAIR was sent */
#define UP 2
#define DEAD 3 /* the other process is */

typedef Carrier {
    byte dialer;
    byte offer;        /* the round in its PAIR frame */
    bool pair_pending; /* PAIR is not read yet */
    byte answer;       /* 0: none; 1: accepted; 2: STALE */
    byte answer_round;
    bool closed[2]     /* by which end; a broken carrier: by both */
}
typedef Process {
    byte state;
    byte carrier;
    byte parked;
    byte round; /* of the carrier in use, or the last one */
    byte offered;
    byte refusals
}
Carrier carrier[DIALS];
Process process[2];
byte dials, breaks = BREAKS, giveups = GIVEUPS;
bool dead1;

#define me process[self]
#define other (1 - self)
#define mine carrier[me.carrier]
#define MAX(a, b) ((a) > (b) -> (a) : (b))

inline drop_carrier() {
    if
    :: me.carrier != NONE -> mine.closed[self] = true; me.carrier = NONE
    :: else
    fi
}

inline accept(c) {
    me.carrier = c;
    me.round = MAX(MAX(me.round, me.offered), carrier[c].offer);
    carrier[c].answer = 1;
    carrier[c].answer_round = me.round;
    me.state = UP;
    me.refusals = 0
}

/* The attempt has ended without an answer. */
inline end_attempt() {
    drop_carrier();
    if
    :: me.parked != NONE -> accept(me.parked); me.parked = NONE
    :: else -> me.state = IDLE
    fi
}

inline dial() {
    if
    :: dead1 && other == 1 ->
        me.refusals++;
        if
        :: me.refusals == 2 -> me.state = DEAD
        :: else
        fi
    :: else ->
        assert(dials < DIALS); /* a livelock */
        me.offered = MAX(me.round, me.offered) + 1;
        me.carrier = dials;
        mine.dialer = self;
        mine.offer = me.offered;
        mine.pair_pending = true;
        me.state = JOINING;
        me.refusals = 0;
        dials++
    fi
}

inline park(c) {
    if
    :: me.parked != NONE -> carrier[me.parked].closed[self] = true
    :: else
    fi;
    me.parked = c
}

/* Whether the other process's offer is stronger than this one's: the larger round, then the larger identity. */
#define STRONGER(c) \
    (carrier[c].offer > mine.offer || (carrier[c].offer == mine.offer && other == 1))

inline answer_stale(c) {
    carrier[c].answer = 2;
    carrier[c].answer_round = me.round;
    carrier[c].closed[self] = true
}

inline take(c) {
    carrier[c].pair_pending = false;
    if
#ifdef ANYROUND
    :: me.state != JOINING -> drop_carrier(); accept(c)
#else
    :: carrier[c].offer <= me.round -> answer_stale(c)
    :: carrier[c].offer > me.round && me.state != JOINING -> drop_carrier(); accept(c)
#endif
#ifdef NOPARK
    :: carrier[c].offer > me.round && me.state == JOINING ->
        carrier[c].closed[self] = true;
        drop_carrier();
        me.state = IDLE
#else
#ifdef KEEPBOTH
    :: carrier[c].offer > me.round && me.state == JOINING -> park(c)
#else
    :: carrier[c].offer > me.round && me.state == JOINING && !STRONGER(c) -> park(c)
    :: carrier[c].offer > me.round && me.state == JOINING && STRONGER(c) -> drop_carrier(); accept(c)
#endif
#endif
    fi
}

inline read_answer() {
    if
    :: mine.answer == 1 ->
        me.round = mine.answer_round;
        me.state = UP;
        if
        :: me.parked != NONE -> carrier[me.parked].closed[self] = true; me.parked = NONE
        :: else
        fi
    :: else ->
        me.offered = MAX(me.offered, mine.answer_round);
        end_attempt()
    fi
}

#define lives (!(dead1 && self == 1))
#define TAKE(c) \
    :: atomic { lives && carrier[c].pair_pending && carrier[c].dialer == other -> take(c) }

proctype Run(byte self; bool wants) {
    do
    :: atomic { lives && wants && me.state == IDLE -> dial() }
    TAKE(0) TAKE(1) TAKE(2) TAKE(3) TAKE(4) TAKE(5) TAKE(6)
    :: atomic { lives && me.state == JOINING && mine.answer != 0 -> read_answer() }
    :: atomic { lives && me.state == JOINING && mine.answer == 0 && mine.closed[other] -> end_attempt() }
    :: atomic { lives && me.state == JOINING && giveups > 0 -> giveups--; end_attempt() }
    :: atomic { lives && me.state == UP && mine.closed[other] -> drop_carrier(); me.state = IDLE }
    :: atomic { timeout -> break }
    od
}

/* The bytes under way are lost with a carrier that breaks, or are read before its end is. */
#define BREAK(c) \
    :: atomic { \
        breaks > 0 && c < dials && !(carrier[c].closed[0] && carrier[c].closed[1]) -> \
        breaks--; \
        carrier[c].closed[0] = true; \
        carrier[c].closed[1] = true; \
        if \
        :: true \
        :: carrier[c].pair_pending = false \
        :: carrier[c].answer = 0 \
        fi \
    }

proctype Faults() {
    do
    BREAK(0) BREAK(1) BREAK(2) BREAK(3)
    :: atomic { timeout -> break }
    od
}

#ifdef DEATH
proctype Death() {
    byte c;

    atomic {
        dead1 = true;
        for (c : 0 .. DIALS - 1) {
            carrier[c].closed[1] = true;
            if
            :: carrier[c].dialer == 0 -> carrier[c].pair_pending = false
            :: else
            fi
        }
    }
}
#endif

init {
    byte c;

    atomic {
        for (c : 0 .. DIALS - 1) {
            carrier[c].dialer = NONE
        }
        process[0].carrier = NONE;
        process[1].carrier = NONE;
        process[0].parked = NONE;
        process[1].parked = NONE;
        run Run(0, WANT0);
        run Run(1, WANT1);
        run Faults();
#ifdef DEATH
        run Death();
#endif
    }
    _nr_pr == 1;
#ifdef DEATH
    assert(process[0].state == (WANT0 -> DEAD : IDLE))
#else
    assert(process[0].state == UP && process[1].state == UP);
    assert(process[0].carrier == process[1].carrier && process[0].round == process[1].round)
#endif
}
