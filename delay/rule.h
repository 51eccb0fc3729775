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
 *   other    seed=N
 *
 *   TIME     a number with ns, us, ms, s, min or h; fractions are allowed: 0.375ms
 *   VALUE    TIME, uniform(TIME,TIME), normal(TIME,TIME), exponential(TIME), pareto(TIME,SHAPE)
 *   RATE     a number with bit, Kbit, Mbit, Gbit (per second) or B, KB, MB, GB (per second); decimal units
 *   BYTES    a number with nothing, K, M or G; powers of 1024
 *   CALL, ERRNO, STATUS, EVENT   keywords of keyword.h
 *   FILE     up to the next blank or semicolon, or between double quotes
 */
#ifndef DETOUR_DELAY_RULE_H
#define DETOUR_DELAY_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "delay/keyword.h"
#include "delay/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_NAME_BYTES 64
#define DT_DELAY_FILE_BYTES 256
#define DT_DELAY_TEXT_BYTES 896 /* a rule as text fits, its final zero included */

/* Whose messages, and which of them. What is not said matches everything. */
struct dt_delay_scope {
    char device[DT_DELAY_NAME_BYTES]; /* this end's device; "": any */
    char peer[DT_DELAY_NAME_BYTES];   /* how the peer's name ("host:pid (device)") begins; "": any */
    bool has_connection;
    bool has_id;
    uint32_t connection; /* its number: senders of a process are counted from 0 in the order of set-up */
    uint64_t id;         /* as the log shows it */
    uint64_t bytes_min;
    uint64_t bytes_max; /* included */
};

enum dt_delay_effect {
    DT_DELAY_NOTHING, /* not a rule */
    DT_DELAY_LATENCY, /* later by `value`; messages overlap */
    DT_DELAY_SERIAL,  /* one after the other, each `value`, or `value` per started `per_bytes` */
    DT_DELAY_RATE,    /* one after the other, at bits_per_s */
    DT_DELAY_TRACE,   /* latency by a file of times */
    DT_DELAY_REPLAY,  /* latency by a record, message by message */
    DT_DELAY_DOWN,    /* the device's link is down */
    DT_DELAY_FLAP,    /* down for down_ns, up for up_ns, and so on */
    DT_DELAY_FAIL,    /* a call of the device's fails */
    DT_DELAY_HANG,    /* a call does not return */
    DT_DELAY_STATUS,  /* completions say something else */
    DT_DELAY_SILENT,  /* completions do not come */
    DT_DELAY_EVENT,   /* an asynchronous event, once */
    DT_DELAY_EFFECT_COUNT
};

struct dt_delay_rule {
    struct dt_delay_scope scope;
    uint64_t from_ns; /* the window, counted from when the rule was put in force */
    uint64_t to_ns;   /* not included; DT_NEVER_NS: no end */
    enum dt_delay_effect effect;
    struct dt_delay_value value;
    bool has_every;
    struct dt_delay_value every; /* how long a drawn value holds */
    uint64_t per_bytes;          /* 0: per message */
    uint64_t bits_per_s;
    char file[DT_DELAY_FILE_BYTES];
    char link[DT_DELAY_NAME_BYTES]; /* of the trace; "": the only one in it */
    uint64_t iteration_ns;          /* 0: the trace counts in time */
    uint32_t process;               /* of the record */
    uint64_t down_ns;
    uint64_t up_ns;
    enum dt_delay_call call;     /* FAIL, HANG */
    int error;                   /* FAIL: an errno */
    enum dt_delay_status status; /* STATUS */
    enum dt_delay_event event;   /* EVENT */
    uint64_t count;              /* FAIL, HANG, STATUS: acts so often; 0: always */
    bool has_seed;
    uint64_t seed;
};

/* Where a text went wrong and what would be right: "line 1, column 9: expected ..., got '...'". */
struct dt_delay_error {
    unsigned line;   /* from 1 */
    unsigned column; /* from 1, in bytes */
    char text[256];
};

/*
 * Reads rules. DT_INVALID: *error says why, the outputs are undefined. Texts may hold any bytes. Empty texts
 * give no rules.
 */
enum dt_status dt_delay_parse(const char *text, size_t bytes, struct dt_delay_rule *rules, size_t rules_max,
                              size_t *count, struct dt_delay_error *error);

/* The rule in the language above: reading it again gives the same rule. */
void dt_delay_rule_print(const struct dt_delay_rule *rule, char text[DT_DELAY_TEXT_BYTES]);

/* Does the effect act on a device, not on messages? (flow.h and table.h) */
static inline bool dt_delay_is_device_effect(enum dt_delay_effect effect)
{
    return effect >= DT_DELAY_DOWN && effect <= DT_DELAY_EVENT;
}

#ifdef __cplusplus
}
#endif

#endif
