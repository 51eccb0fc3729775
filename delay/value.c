/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/value.h"

#include <math.h>
#include <stdio.h>

#include "base/util.h"

static const struct {
    const char *text;
    unsigned parameters;
} shapes[] = {
#define DT_DELAY_SHAPE_ROW(name, text, count) {text, count},
    DT_DELAY_SHAPE_LIST(DT_DELAY_SHAPE_ROW)
#undef DT_DELAY_SHAPE_ROW
};

const char *dt_delay_shape_text(enum dt_delay_shape shape)
{
    return shapes[shape].text;
}

unsigned dt_delay_shape_parameters(enum dt_delay_shape shape)
{
    return shapes[shape].parameters;
}

/* In (0, 1], so that its logarithm is finite. */
static double draw_unit(struct dt_prng *prng)
{
    return (double)((dt_prng_next(prng) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller, "A note on the generation of random normal deviates", 1958. */
static double draw_normal(struct dt_prng *prng)
{
    double radius = sqrt(-2 * log(draw_unit(prng)));

    return radius * cos(2 * 3.14159265358979323846 * draw_unit(prng));
}

/* A NaN counts as zero. */
static uint64_t to_ns(double ns)
{
    if (!(ns > 0))
        return 0;
    return ns < (double)DT_DELAY_NS_MAX ? (uint64_t)llround(ns) : DT_DELAY_NS_MAX;
}

uint64_t dt_delay_draw(const struct dt_delay_value *value, struct dt_prng *prng)
{
    double a = (double)value->a;
    double b = (double)value->b;

    switch (value->shape) {
    case DT_DELAY_UNIFORM:
        return dt_prng_between(prng, value->a, value->b);
    case DT_DELAY_NORMAL:
        return to_ns(a + b * draw_normal(prng));
    case DT_DELAY_EXPONENTIAL:
        return to_ns(-a * log(draw_unit(prng)));
    case DT_DELAY_PARETO:
        return to_ns(a * pow(draw_unit(prng), -1000.0 / b));
    case DT_DELAY_CONSTANT:
    case DT_DELAY_SHAPE_COUNT:
        break;
    }
    return value->a;
}

/* ------------------------------------------------------------------------------------------------------------
 * Text
 */
int dt_delay_ns_print(uint64_t ns, char *to, size_t bytes)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } units[] = {{DT_NS_PER_S, "s"}, {DT_NS_PER_MS, "ms"}, {DT_NS_PER_US, "us"}, {1, "ns"}};
    size_t i = 0;

    while (ns % units[i].ns != 0)
        i++;
    return snprintf(to, bytes, "%llu%s", (unsigned long long)(ns / units[i].ns), units[i].text);
}

int dt_delay_value_print(const struct dt_delay_value *value, char *to, size_t bytes)
{
    char a[32];
    char b[32];

    dt_delay_ns_print(value->a, a, sizeof a);
    if (value->shape == DT_DELAY_CONSTANT)
        return snprintf(to, bytes, "%s", a);
    if (dt_delay_shape_parameters(value->shape) == 1)
        return snprintf(to, bytes, "%s(%s)", dt_delay_shape_text(value->shape), a);
    if (value->shape == DT_DELAY_PARETO)
        snprintf(b, sizeof b, "%llu.%03llu", (unsigned long long)(value->b / 1000),
                 (unsigned long long)(value->b % 1000));
    else
        dt_delay_ns_print(value->b, b, sizeof b);
    return snprintf(to, bytes, "%s(%s,%s)", dt_delay_shape_text(value->shape), a, b);
}
