/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/read_value.h"

#include <string.h>

#include "delay/scan.h"

#define INTERVAL_NS_MIN DT_NS_PER_MS

static bool read_shape(struct dt_scan *scan, uint64_t *thousandths)
{
    if (!dt_scan_decimal(scan, 1000ull * 1000 * 1000 * 1000, "the shape of the distribution, like 1.5",
                         thousandths))
        return false;
    *thousandths /= 1000 * 1000;
    return *thousandths > 0 ||
           dt_scan_fail(scan, scan->at, "the shape of a Pareto distribution must be at least 0.001");
}

static bool read_delay_time(struct dt_scan *scan, uint64_t *ns)
{
    size_t at = scan->at;

    if (!dt_scan_time(scan, ns))
        return false;
    return *ns <= DT_DELAY_NS_MAX || dt_scan_fail(scan, at, "a delay of more than one hour is not possible");
}

/* After "normal": "(30ms, 10ms)". */
static bool read_parameters(struct dt_scan *scan, struct dt_delay_value *value)
{
    size_t at;

    if (!dt_scan_take(scan, '('))
        return dt_scan_expected(scan, "'(' and the parameters of the distribution");
    dt_scan_skip_blanks(scan);
    at = scan->at;
    if (!read_delay_time(scan, &value->a))
        return false;
    if (value->shape == DT_DELAY_PARETO && value->a == 0)
        return dt_scan_fail(scan, at, "the least value of a Pareto distribution must be above 0");
    dt_scan_skip_blanks(scan);
    if (dt_delay_shape_parameters(value->shape) == 2) {
        if (!dt_scan_take(scan, ','))
            return dt_scan_expected(scan, "',' and the second parameter");
        dt_scan_skip_blanks(scan);
        at = scan->at;
        if (!(value->shape == DT_DELAY_PARETO ? read_shape(scan, &value->b)
                                              : read_delay_time(scan, &value->b)))
            return false;
        if (value->shape == DT_DELAY_UNIFORM && value->b < value->a)
            return dt_scan_fail(scan, at, "the second time of uniform() must not be below the first");
        dt_scan_skip_blanks(scan);
    }
    return dt_scan_take(scan, ')') || dt_scan_expected(scan, "')'");
}

bool dt_delay_read_value(struct dt_scan *scan, struct dt_delay_value *value)
{
    size_t start = scan->at;
    size_t length = dt_scan_word(scan);

    memset(value, 0, sizeof *value);
    for (int i = 0; i < DT_DELAY_SHAPE_COUNT; i++) {
        const char *name = dt_delay_shape_text((enum dt_delay_shape)i);

        if (strlen(name) == length && memcmp(scan->text + start, name, length) == 0) {
            value->shape = (enum dt_delay_shape)i;
            return read_parameters(scan, value);
        }
    }
    scan->at = start;
    if (length > 0 && !(scan->text[start] >= '0' && scan->text[start] <= '9'))
        return dt_scan_expected(
            scan, "a time like 30ms, or constant, uniform, normal, exponential or pareto with (...)");
    return read_delay_time(scan, &value->a);
}

bool dt_delay_read_sizes(struct dt_scan *scan, struct dt_delay_scope *scope)
{
    size_t start = scan->at;
    bool has_dots;

    scope->bytes_min = 0;
    scope->bytes_max = UINT64_MAX;
    if (dt_scan_peek(scan) != '.') {
        /* The number would consume the first point. */
        size_t end = start;

        while (end < scan->bytes && scan->text[end] != '.')
            end++;
        struct dt_scan head = {scan->text, end, start, scan->error};

        if (!dt_scan_bytes(&head, &scope->bytes_min))
            return false;
        scan->at = head.at;
    }
    has_dots = dt_scan_take(scan, '.');
    if (!has_dots || !dt_scan_take(scan, '.'))
        return dt_scan_expected(scan, "'..' (size=MIN..MAX; either may be left out)");
    if (dt_scan_peek(scan) >= '0' && dt_scan_peek(scan) <= '9') {
        if (!dt_scan_bytes(scan, &scope->bytes_max))
            return false;
        if (scope->bytes_max < scope->bytes_min)
            return dt_scan_fail(scan, start, "the first size must not be above the second");
    }
    return true;
}

bool dt_delay_read_id(struct dt_scan *scan, uint64_t *id)
{
    size_t start = scan->at;
    size_t length = dt_scan_word(scan);

    *id = 0;
    for (size_t i = 0; i < length && length == 16; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, scan->text[start + i] | 0x20);

        if (!digit || !*digit)
            length = 0;
        else
            *id = *id << 4 | (uint64_t)(digit - digits);
    }
    scan->at = length == 16 ? scan->at : start;
    return length == 16 || dt_scan_expected(scan, "16 hexadecimal digits, as the log shows a connection");
}

bool dt_delay_read_flap(struct dt_scan *scan, struct dt_delay_rule *rule)
{
    size_t start = scan->at;

    if (!dt_scan_time(scan, &rule->down_ns))
        return false;
    if (!dt_scan_take(scan, '/'))
        return dt_scan_expected(scan, "'/' and the time that the link is up (flap=DOWN/UP)");
    if (!dt_scan_time(scan, &rule->up_ns))
        return false;
    return (rule->down_ns >= INTERVAL_NS_MIN && rule->up_ns >= INTERVAL_NS_MIN) ||
           dt_scan_fail(scan, start, "both times of flap=DOWN/UP must be at least 1ms");
}

bool dt_delay_read_every(struct dt_scan *scan, struct dt_delay_rule *rule)
{
    size_t start = scan->at;

    rule->has_every = true;
    if (!dt_delay_read_value(scan, &rule->every))
        return false;
    return rule->every.shape != DT_DELAY_CONSTANT || rule->every.a >= INTERVAL_NS_MIN ||
           dt_scan_fail(scan, start, "every= must be at least 1ms");
}

bool dt_delay_read_hold(struct dt_scan *scan, struct dt_delay_rule *rule)
{
    size_t start = scan->at;

    rule->effect = DT_DELAY_HOLD;
    if (!dt_scan_time(scan, &rule->to_ns))
        return false;
    if (rule->to_ns == 0)
        return dt_scan_fail(scan, start, "for= must be above 0");
    return rule->to_ns <= DT_DELAY_HOLD_NS_MAX ||
           dt_scan_fail(scan, start, "a hold lasts at most 10min; a further hold prolongs it");
}

bool dt_delay_read_keyword(struct dt_scan *scan, const struct dt_delay_keywords *keywords, int *value)
{
    size_t start = scan->at;
    size_t length = dt_scan_word(scan);

    if (dt_delay_keyword_find(keywords, scan->text + start, length, value))
        return true;
    scan->at = start;
    return dt_scan_expected(scan, keywords->expected);
}

bool dt_delay_read_count(struct dt_scan *scan, uint64_t *count)
{
    size_t start = scan->at;

    if (!dt_scan_number(scan, UINT32_MAX, "how often, a whole number", count))
        return false;
    return *count > 0 || dt_scan_fail(scan, start, "count= must be above 0");
}
