/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule selects messages (scope) in a period (window) and affects them (effect). This header defines a rule
 * as data, its text form and the parser; flow.h applies rules to messages.
 *
 * A rule applies to messages that its own process sends, since only the sender can delay one. So a scope has
 * no direction=; the parser's error names the alternative: one direction of a link is device= and peer= at
 * the sending process, or id=, since a connection carries messages in one direction.
 *
 * The language, one rule per line or between semicolons, keys in any order, `#` starts a comment:
 *
 *   scope    device=NAME  peer=TEXT  connection=N  id=HEX  size=MIN..MAX
 *   window   from=TIME  to=TIME
 *   effect   latency=VALUE [every=VALUE]
 *            serial=VALUE [per=BYTES] [every=VALUE]
 *            rate=RATE
 *            trace=FILE [link=NAME] [iteration=TIME]
 *            replay=FILE [process=N]
 *            down
 *            flap=TIME/TIME
 *            fail=CALL [error=ERRNO] [count=N]
 *            hang=CALL [count=N]
 *            status=STATUS [count=N]
 *            silent
 *            event=EVENT
 *            personality=PROVIDER
 *   other    seed=N
 *
 * A hold (`detour hold`) is a rule of its own kind, and no part of this language: device=, peer=,
 * connection=, id= and for=TIME.
 *
 *   TIME     a number with ns, us, ms, s, min or h; fractions are allowed: 0.375ms
 *   VALUE    TIME, uniform(TIME,TIME), normal(TIME,TIME), exponential(TIME), pareto(TIME,SHAPE)
 *   RATE     a number with bit, Kbit, Mbit, Gbit (per second) or B, KB, MB, GB (per second); decimal units
 *   BYTES    a number with nothing, K, M or G; powers of 1024
 *   CALL, ERRNO, STATUS, EVENT, PROVIDER   keywords of keyword.h
 *   FILE     up to the next blank or semicolon, or between double quotes
 */
#ifndef DETOUR_DELAY_RULE_H
#define DETOUR_DELAY_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/status.h"
#include "delay/keyword.h"
#include "delay/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_NAME_BYTES 64
#define DT_DELAY_FILE_BYTES 256
#define DT_DELAY_TEXT_BYTES 896 /* a rule as text fits, its final zero included */

/* Of a hold: PyTorch ends a job whose collective does not finish within ten minutes. */
#define DT_DELAY_HOLD_NS_MAX (600 * DT_NS_PER_S)

/* The messages that a rule applies to. A key that is not given matches everything. */
struct dt_delay_scope {
    char device[DT_DELAY_NAME_BYTES]; /* this end's device; "": any */
    char peer[DT_DELAY_NAME_BYTES];   /* prefix of the peer's name, "host:pid (device)", but no part of a pid;
                                         "": any */
    bool has_connection;
    bool has_id;
    uint32_t connection; /* the senders of a process, counted from 0 in the order of set-up */
    uint64_t id;         /* as in the log */
    uint64_t bytes_min;
    uint64_t bytes_max; /* included */
};

enum dt_delay_effect {
    DT_DELAY_NOTHING,     /* not a rule */
    DT_DELAY_LATENCY,     /* delayed by `value`; messages overlap */
    DT_DELAY_SERIAL,      /* one after the other, each `value`, or `value` per started `per_bytes` */
    DT_DELAY_RATE,        /* one after the other, at bits_per_s */
    DT_DELAY_TRACE,       /* latency over time, from a file */
    DT_DELAY_REPLAY,      /* latency per message, from a record */
    DT_DELAY_HOLD,        /* not posted before the window ends; not a fault */
    DT_DELAY_DOWN,        /* the device's link is down */
    DT_DELAY_FLAP,        /* down for down_ns, up for up_ns, repeated */
    DT_DELAY_FAIL,        /* a call of the device fails */
    DT_DELAY_HANG,        /* a call does not return */
    DT_DELAY_STATUS,      /* completions have another status */
    DT_DELAY_SILENT,      /* completions are suppressed */
    DT_DELAY_EVENT,       /* an asynchronous event, once */
    DT_DELAY_PERSONALITY, /* the device behaves as with another provider */
    DT_DELAY_EFFECT_COUNT
};

struct dt_delay_rule {
    struct dt_delay_scope scope;
    uint64_t from_ns; /* the window, relative to the time at which the rule was added */
    uint64_t to_ns;   /* not included; DT_NEVER_NS: no end */
    enum dt_delay_effect effect;
    struct dt_delay_value value;
    bool has_every;
    struct dt_delay_value every; /* how long a drawn value holds */
    uint64_t per_bytes;          /* 0: per message */
    uint64_t bits_per_s;
    char file[DT_DELAY_FILE_BYTES];
    char link[DT_DELAY_NAME_BYTES]; /* of the trace; "": its only link */
    uint64_t iteration_ns;          /* 0: the trace is in units of time */
    uint32_t process;               /* of the record */
    uint64_t down_ns;
    uint64_t up_ns;
    enum dt_delay_call call;               /* FAIL, HANG */
    int error;                             /* FAIL: an errno */
    enum dt_delay_status status;           /* STATUS */
    enum dt_delay_event event;             /* EVENT */
    enum dt_delay_personality personality; /* PERSONALITY */
    uint64_t count;                        /* FAIL, HANG, STATUS: number of times it acts; 0: always */
    bool has_seed;
    uint64_t seed;
};

/* The position of an error and the expected text: "line 1, column 9: expected ..., got '...'". */
struct dt_delay_error {
    unsigned line;   /* from 1 */
    unsigned column; /* from 1, in bytes */
    char text[256];
};

/*
 * Parses rules. DT_INVALID: *error has the reason, and the outputs are undefined. The text may contain any
 * bytes; an empty text has no rules.
 */
enum dt_status dt_delay_parse(const char *text, size_t bytes, struct dt_delay_rule *rules, size_t rules_max,
                              size_t *count, struct dt_delay_error *error);

/*
 * Parses a scope of connections alone: device=, peer=, connection= and id=, each at most once; an empty text
 * is any connection. DT_INVALID: as above.
 */
enum dt_status dt_delay_parse_scope(const char *text, size_t bytes, struct dt_delay_scope *scope,
                                    struct dt_delay_error *error);

/*
 * Parses a hold: such a scope, and for=TIME, above 0 and at most DT_DELAY_HOLD_NS_MAX. DT_INVALID: as above.
 */
enum dt_status dt_delay_parse_hold(const char *text, size_t bytes, struct dt_delay_rule *rule,
                                   struct dt_delay_error *error);

/* True if both scopes select the same messages by the same words. */
bool dt_delay_scope_is_equal(const struct dt_delay_scope *a, const struct dt_delay_scope *b);

/* The rule in the language above. Parsing it gives the same rule. */
void dt_delay_rule_print(const struct dt_delay_rule *rule, char text[DT_DELAY_TEXT_BYTES]);

/* True if the effect acts on a device, not on messages (flow.h, table.h). */
static inline bool dt_delay_is_device_effect(enum dt_delay_effect effect)
{
    return effect >= DT_DELAY_DOWN && effect <= DT_DELAY_PERSONALITY;
}

#ifdef __cplusplus
}
#endif

#endif
