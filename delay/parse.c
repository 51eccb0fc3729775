/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of the rule language (rule.h): a table of keys, and consistency checks at the end. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "delay/read_value.h"
#include "delay/rule.h"
#include "delay/scan.h"

enum key {
    KEY_DEVICE,
    KEY_PEER,
    KEY_CONNECTION,
    KEY_ID,
    KEY_SIZE,
    KEY_FROM,
    KEY_TO,
    KEY_LATENCY,
    KEY_SERIAL,
    KEY_RATE,
    KEY_TRACE,
    KEY_REPLAY,
    KEY_DOWN,
    KEY_FLAP,
    KEY_FAIL,
    KEY_HANG,
    KEY_STATUS,
    KEY_SILENT,
    KEY_EVENT,
    KEY_PERSONALITY,
    KEY_ERROR,
    KEY_COUNT_OF,
    KEY_EVERY,
    KEY_PER,
    KEY_LINK,
    KEY_ITERATION,
    KEY_PROCESS,
    KEY_SEED,
    KEY_FOR,
    KEY_COUNT
};

#define KEY_BIT(key) (1u << (key))
#define EFFECT_KEYS  (KEY_BIT(KEY_PERSONALITY + 1) - KEY_BIT(KEY_LATENCY))
#define EFFECTS_TEXT                                                                          \
    "latency=, serial=, rate=, trace=, replay=, down, flap=, fail=, hang=, status=, silent, " \
    "event= or personality="
#define DIRECTION_TEXT                                                                                    \
    "a rule has no 'direction': it concerns the messages that its process sends; for one direction of a " \
    "link give it to the process that sends, with device= and peer=, or name a connection with id="
#define RULE_TEXT                                                                          \
    "a word of a rule (device=, peer=, connection=, id=, size=, from=, to=, seed=, or an " \
    "effect: " EFFECTS_TEXT ")"
#define CONNECTION_KEYS (KEY_BIT(KEY_DEVICE) | KEY_BIT(KEY_PEER) | KEY_BIT(KEY_CONNECTION) | KEY_BIT(KEY_ID))

struct parser {
    struct dt_scan scan;
    struct dt_delay_rule *rule;
    size_t start; /* of the rule */
    size_t key_at[KEY_COUNT];
    uint32_t seen;        /* keys */
    uint32_t allowed;     /* keys */
    const char *expected; /* instead of other words */
};

/* ------------------------------------------------------------------------------------------------------------
 * Keys
 */
static const struct {
    const char *text;
    bool has_value;
} keys[KEY_COUNT] = {
    [KEY_DEVICE] = {"device", true},
    [KEY_PEER] = {"peer", true},
    [KEY_CONNECTION] = {"connection", true},
    [KEY_ID] = {"id", true},
    [KEY_SIZE] = {"size", true},
    [KEY_FROM] = {"from", true},
    [KEY_TO] = {"to", true},
    [KEY_LATENCY] = {"latency", true},
    [KEY_SERIAL] = {"serial", true},
    [KEY_RATE] = {"rate", true},
    [KEY_TRACE] = {"trace", true},
    [KEY_REPLAY] = {"replay", true},
    [KEY_DOWN] = {"down", false},
    [KEY_FLAP] = {"flap", true},
    [KEY_FAIL] = {"fail", true},
    [KEY_HANG] = {"hang", true},
    [KEY_STATUS] = {"status", true},
    [KEY_SILENT] = {"silent", false},
    [KEY_EVENT] = {"event", true},
    [KEY_PERSONALITY] = {"personality", true},
    [KEY_ERROR] = {"error", true},
    [KEY_COUNT_OF] = {"count", true},
    [KEY_EVERY] = {"every", true},
    [KEY_PER] = {"per", true},
    [KEY_LINK] = {"link", true},
    [KEY_ITERATION] = {"iteration", true},
    [KEY_PROCESS] = {"process", true},
    [KEY_SEED] = {"seed", true},
    [KEY_FOR] = {"for", true},
};

static const enum dt_delay_effect effect_of[KEY_COUNT] = {
    [KEY_LATENCY] = DT_DELAY_LATENCY,
    [KEY_SERIAL] = DT_DELAY_SERIAL,
    [KEY_RATE] = DT_DELAY_RATE,
    [KEY_TRACE] = DT_DELAY_TRACE,
    [KEY_REPLAY] = DT_DELAY_REPLAY,
    [KEY_DOWN] = DT_DELAY_DOWN,
    [KEY_FLAP] = DT_DELAY_FLAP,
    [KEY_FAIL] = DT_DELAY_FAIL,
    [KEY_HANG] = DT_DELAY_HANG,
    [KEY_STATUS] = DT_DELAY_STATUS,
    [KEY_SILENT] = DT_DELAY_SILENT,
    [KEY_EVENT] = DT_DELAY_EVENT,
    [KEY_PERSONALITY] = DT_DELAY_PERSONALITY,
};

static bool parse_scope(struct dt_scan *scan, enum key key, struct dt_delay_scope *scope)
{
    switch (key) {
    case KEY_DEVICE:
        return dt_scan_name(scan, "the name of a device", scope->device, sizeof scope->device);
    case KEY_PEER:
        return dt_scan_name(scan, "the beginning of a peer's name", scope->peer, sizeof scope->peer);
    case KEY_CONNECTION:
        scope->has_connection = true;
        return dt_scan_u32(scan, "the number of a connection", &scope->connection);
    case KEY_ID:
        scope->has_id = true;
        return dt_delay_read_id(scan, &scope->id);
    default:
        return dt_delay_read_sizes(scan, scope);
    }
}

/* The fault of a device, and its count. */
static bool parse_fault(struct dt_scan *scan, enum key key, struct dt_delay_rule *rule)
{
    const struct dt_delay_keywords *keywords = key == KEY_FAIL          ? &dt_delay_calls
                                               : key == KEY_HANG        ? &dt_delay_hanging_calls
                                               : key == KEY_STATUS      ? &dt_delay_statuses
                                               : key == KEY_EVENT       ? &dt_delay_events
                                               : key == KEY_PERSONALITY ? &dt_delay_personalities
                                                                        : &dt_delay_errors;
    int value = 0;

    if (key == KEY_COUNT_OF)
        return dt_delay_read_count(scan, &rule->count);
    if (!dt_delay_read_keyword(scan, keywords, &value))
        return false;
    if (key == KEY_FAIL || key == KEY_HANG)
        rule->call = (enum dt_delay_call)value;
    else if (key == KEY_STATUS)
        rule->status = (enum dt_delay_status)value;
    else if (key == KEY_EVENT)
        rule->event = (enum dt_delay_event)value;
    else if (key == KEY_PERSONALITY)
        rule->personality = (enum dt_delay_personality)value;
    else
        rule->error = value;
    return true;
}

static bool parse_key_value(struct dt_scan *scan, enum key key, struct dt_delay_rule *rule)
{
    switch (key) {
    case KEY_FAIL:
    case KEY_HANG:
    case KEY_STATUS:
    case KEY_EVENT:
    case KEY_PERSONALITY:
    case KEY_ERROR:
    case KEY_COUNT_OF:
        return parse_fault(scan, key, rule);
    case KEY_FROM:
        return dt_scan_time(scan, &rule->from_ns);
    case KEY_TO:
        return dt_scan_time(scan, &rule->to_ns);
    case KEY_LATENCY:
    case KEY_SERIAL:
        return dt_delay_read_value(scan, &rule->value);
    case KEY_RATE:
        return dt_scan_rate(scan, &rule->bits_per_s);
    case KEY_TRACE:
    case KEY_REPLAY:
        return dt_scan_name(scan, "the name of a file", rule->file, sizeof rule->file);
    case KEY_FLAP:
        return dt_delay_read_flap(scan, rule);
    case KEY_EVERY:
        return dt_delay_read_every(scan, rule);
    case KEY_PER:
        return dt_scan_bytes(scan, &rule->per_bytes);
    case KEY_LINK:
        return dt_scan_name(scan, "the name of a link in the trace", rule->link, sizeof rule->link);
    case KEY_ITERATION:
        return dt_scan_time(scan, &rule->iteration_ns);
    case KEY_PROCESS:
        return dt_scan_u32(scan, "the number of a process in the record", &rule->process);
    case KEY_SEED:
        rule->has_seed = true;
        return dt_scan_number(scan, UINT64_MAX, "a whole number", &rule->seed);
    case KEY_FOR:
        return dt_delay_read_hold(scan, rule);
    default:
        return parse_scope(scan, key, &rule->scope);
    }
}

/* The key of the word at the position, or KEY_COUNT. */
static enum key find_key(struct dt_scan *scan)
{
    const char *word = scan->text + scan->at;
    size_t length = dt_scan_word(scan);

    for (int i = 0; i < KEY_COUNT; i++) {
        if (strlen(keys[i].text) == length && memcmp(word, keys[i].text, length) == 0)
            return (enum key)i;
    }
    scan->at = (size_t)(word - scan->text);
    return KEY_COUNT;
}

static bool at_end_of_word(const struct dt_scan *scan)
{
    return dt_scan_is_end(scan) || dt_scan_is_at_any(scan, " \t\r\n;");
}

/* A scope that users may expect and that rules do not have (rule.h). */
static bool is_direction(struct dt_scan scan)
{
    static const char direction[] = "direction";
    const char *word = scan.text + scan.at;

    return dt_scan_word(&scan) == strlen(direction) && memcmp(word, direction, strlen(direction)) == 0;
}

static bool parse_word(struct parser *p)
{
    struct dt_scan *scan = &p->scan;
    size_t at = scan->at;
    enum key key;

    if (is_direction(*scan))
        return dt_scan_fail(scan, at, DIRECTION_TEXT);
    key = find_key(scan);
    if (key == KEY_COUNT || !(p->allowed & KEY_BIT(key))) {
        scan->at = at;
        return dt_scan_expected(scan, p->expected);
    }
    if (p->seen & KEY_BIT(key))
        return dt_scan_fail(scan, at, "'%s' is given twice in one rule", keys[key].text);
    if (KEY_BIT(key) & EFFECT_KEYS && p->seen & EFFECT_KEYS)
        return dt_scan_fail(scan, at, "a rule has one effect; put '%s' into a rule of its own",
                            keys[key].text);
    p->seen |= KEY_BIT(key);
    p->key_at[key] = at;
    if (KEY_BIT(key) & EFFECT_KEYS)
        p->rule->effect = effect_of[key];
    if (keys[key].has_value) {
        if (!dt_scan_take(scan, '='))
            return dt_scan_expected(scan, "'=' and a value");
        if (!parse_key_value(scan, key, p->rule))
            return false;
    }
    return at_end_of_word(scan) || dt_scan_expected(scan, "a blank or ';' after the word");
}

/* ------------------------------------------------------------------------------------------------------------
 * A whole rule
 */

/* Keys that only certain effects use. */
static const struct {
    enum key key;
    uint32_t beside;
    const char *text;
} companions[] = {
    {KEY_EVERY, KEY_BIT(KEY_LATENCY) | KEY_BIT(KEY_SERIAL), "latency= or serial="},
    {KEY_PER, KEY_BIT(KEY_SERIAL), "serial="},
    {KEY_LINK, KEY_BIT(KEY_TRACE), "trace="},
    {KEY_ITERATION, KEY_BIT(KEY_TRACE), "trace="},
    {KEY_PROCESS, KEY_BIT(KEY_REPLAY), "replay="},
    {KEY_SEED, KEY_BIT(KEY_LATENCY) | KEY_BIT(KEY_SERIAL), "latency= or serial="},
    {KEY_ERROR, KEY_BIT(KEY_FAIL), "fail="},
    {KEY_COUNT_OF, KEY_BIT(KEY_FAIL) | KEY_BIT(KEY_HANG) | KEY_BIT(KEY_STATUS), "fail=, hang= or status="},
};

static bool check_companions(struct parser *p)
{
    for (size_t i = 0; i < DT_COUNT_OF(companions); i++) {
        if (p->seen & KEY_BIT(companions[i].key) && !(p->seen & companions[i].beside))
            return dt_scan_fail(&p->scan, p->key_at[companions[i].key], "'%s' needs %s beside it",
                                keys[companions[i].key].text, companions[i].text);
    }
    return true;
}

static bool check_device_effect(struct parser *p)
{
    static const uint32_t messages =
        KEY_BIT(KEY_PEER) | KEY_BIT(KEY_CONNECTION) | KEY_BIT(KEY_ID) | KEY_BIT(KEY_SIZE);

    if (!dt_delay_is_device_effect(p->rule->effect))
        return true;
    if (!(p->seen & KEY_BIT(KEY_DEVICE)))
        return dt_scan_fail(&p->scan, p->start, "a fault of a device needs device=NAME");
    for (int key = 0; key < KEY_COUNT; key++) {
        if (p->seen & messages & KEY_BIT(key))
            return dt_scan_fail(&p->scan, p->key_at[key],
                                "a device has a fault for all messages: '%s' cannot limit it",
                                keys[key].text);
    }
    return true;
}

static bool check_rule(struct parser *p)
{
    if (!(p->seen & EFFECT_KEYS))
        return dt_scan_fail(&p->scan, p->start, "the rule has no effect; expected one of " EFFECTS_TEXT);
    if (p->rule->to_ns <= p->rule->from_ns)
        return dt_scan_fail(&p->scan, p->key_at[KEY_TO], "to= must be later than from=");
    if (p->seen & KEY_BIT(KEY_PER) && p->rule->per_bytes == 0)
        return dt_scan_fail(&p->scan, p->key_at[KEY_PER], "per= must be above 0");
    if (p->seen & KEY_BIT(KEY_ITERATION) && p->rule->iteration_ns == 0)
        return dt_scan_fail(&p->scan, p->key_at[KEY_ITERATION], "iteration= must be above 0");
    return check_companions(p) && check_device_effect(p);
}

static void begin_rule(struct parser *p)
{
    p->start = p->scan.at;
    p->seen = 0;
    *p->rule = (struct dt_delay_rule){.scope = {.bytes_max = UINT64_MAX}, .to_ns = DT_NEVER_NS, .error = EIO};
}

static bool parse_rule(struct parser *p)
{
    begin_rule(p);
    for (;;) {
        char next;

        dt_scan_skip_blanks(&p->scan);
        next = dt_scan_peek(&p->scan);
        if (dt_scan_is_end(&p->scan) || next == ';' || next == '\n' || next == '#')
            return check_rule(p);
        if (!parse_word(p))
            return false;
    }
}

/* Skips separators and comments between rules. */
static void skip_to_rule(struct dt_scan *scan)
{
    for (;;) {
        dt_scan_skip_blanks(scan);
        if (dt_scan_peek(scan) == '#')
            dt_scan_skip_line(scan);
        else if (!dt_scan_take(scan, '\n') && !dt_scan_take(scan, ';'))
            return;
    }
}

enum dt_status dt_delay_parse(const char *text, size_t bytes, struct dt_delay_rule *rules, size_t rules_max,
                              size_t *count, struct dt_delay_error *error)
{
    struct parser p = {.scan = {text, bytes, 0, error}, .allowed = ~KEY_BIT(KEY_FOR), .expected = RULE_TEXT};

    *count = 0;
    for (skip_to_rule(&p.scan); !dt_scan_is_end(&p.scan); skip_to_rule(&p.scan)) {
        if (*count == rules_max) {
            dt_scan_fail(&p.scan, p.scan.at, "more than %zu rules", rules_max);
            return DT_INVALID;
        }
        p.rule = &rules[*count];
        if (!parse_rule(&p))
            return DT_INVALID;
        (*count)++;
    }
    return DT_OK;
}

/* One rule of these keys alone, which may lack an effect. */
static bool parse_words(struct parser *p)
{
    begin_rule(p);
    for (dt_scan_skip_blanks(&p->scan); !dt_scan_is_end(&p->scan); dt_scan_skip_blanks(&p->scan)) {
        if (!parse_word(p))
            return false;
    }
    return true;
}

enum dt_status dt_delay_parse_scope(const char *text, size_t bytes, struct dt_delay_scope *scope,
                                    struct dt_delay_error *error)
{
    struct dt_delay_rule rule;
    struct parser p = {.scan = {text, bytes, 0, error},
                       .rule = &rule,
                       .allowed = CONNECTION_KEYS,
                       .expected = "device=, peer=, connection= or id="};

    if (!parse_words(&p))
        return DT_INVALID;
    *scope = rule.scope;
    return DT_OK;
}

enum dt_status dt_delay_parse_hold(const char *text, size_t bytes, struct dt_delay_rule *rule,
                                   struct dt_delay_error *error)
{
    struct parser p = {.scan = {text, bytes, 0, error},
                       .rule = rule,
                       .allowed = CONNECTION_KEYS | KEY_BIT(KEY_FOR),
                       .expected = "device=, peer=, connection=, id= or for="};

    if (!parse_words(&p))
        return DT_INVALID;
    if (p.seen & KEY_BIT(KEY_FOR))
        return DT_OK;
    dt_scan_fail(&p.scan, p.scan.at, "a hold needs for=TIME, like for=30s");
    return DT_INVALID;
}
