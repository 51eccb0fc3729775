/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/series.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

#define DEVIATION_MIN   0.002 /* the resolution of clocks */
#define FLOOR           0.005 /* a standard error is not smaller: levels wander slowly */
#define DEVIATION_SHARE 0.02  /* weight of one report in the running deviation */
#define CLIP            2     /* deviations */
#define END_PART        0.4   /* of the rise that began it */
#define END_WINDOW      4     /* reports that end it, at least */
#define FASTER          0.03
#define MEDIAN_VARIANCE 1.57   /* of a median, in variances of a mean */
#define SCALE_MEDIAN    1.4826 /* standard deviation by median absolute deviation, of a normal distribution */
#define SCALE_MEAN      1.2533 /* the same by mean absolute deviation */

static const uint8_t lengths[DT_SERIES_WINDOWS] = {1, 2, 4, 5, 7, 16, 32, 64, 128};

DT_STATIC_CHECK(DT_SERIES_HISTORY >= 128, "the longest window");

void dt_series_init(struct dt_series *series)
{
    memset(series, 0, sizeof *series);
}

bool dt_series_is_learned(const struct dt_series *series)
{
    return series->refined > 0;
}

static uint32_t slot(uint64_t number)
{
    return (uint32_t)(number % DT_SERIES_HISTORY);
}

/* Reports that a window may contain. */
static uint64_t available(const struct dt_series *series)
{
    uint64_t count = series->count - series->start;

    return count < DT_SERIES_HISTORY ? count : DT_SERIES_HISTORY;
}

/* Of a few values; sorts them by insertion. */
static double median(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        double value = values[i];
        uint32_t j = i;

        for (; j > 0 && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* The first reports, which the ring holds as they came, become the reference; later ones are relative to it.
 */
static void learn(struct dt_series *series)
{
    double values[DT_SERIES_LEARN], samples = 0;

    for (uint32_t i = 0; i < DT_SERIES_LEARN; i++)
        values[i] = series->excess[i];
    double shift = median(values, DT_SERIES_LEARN);
    for (uint32_t i = 0; i < DT_SERIES_LEARN; i++)
        values[i] = fabs(series->excess[i] - shift);
    series->deviation = fmax(SCALE_MEDIAN * median(values, DT_SERIES_LEARN), DEVIATION_MIN);
    for (uint32_t i = 0; i < DT_SERIES_LEARN; i++)
        samples += series->weight[i];
    series->typical = samples / DT_SERIES_LEARN;
    series->reference += shift;
    series->refined = DT_SERIES_LEARN;
    series->start = series->count;
}

static void refine(struct dt_series *series, double excess)
{
    double reach = 3 * series->deviation;

    if (series->refined >= DT_SERIES_REFINE || series->is_slow)
        return;
    series->refined++;
    series->reference += fmax(-reach, fmin(reach, excess)) / (double)series->refined;
}

static void remember(struct dt_series *series, double excess, double weight, uint64_t time_ns)
{
    for (uint32_t w = 0; w < DT_SERIES_WINDOWS; w++) {
        uint64_t length = lengths[w];

        series->sums[w] += weight * excess;
        series->weights[w] += weight;
        if (series->count - series->start >= length) {
            uint32_t old = slot(series->count - length);

            series->sums[w] -= (double)series->weight[old] * series->excess[old];
            series->weights[w] -= series->weight[old];
        }
    }
    series->excess[slot(series->count)] = (float)excess;
    series->weight[slot(series->count)] = (float)weight;
    series->time_ns[slot(series->count)] = time_ns;
    series->count++;
}

/* By the differences between successive reports, so that a slow phase or a drift does not look like noise. */
static void follow_deviation(struct dt_series *series, double excess, double weight)
{
    if (available(series) == 0)
        return;
    uint32_t before = slot(series->count - 1);
    double distance =
        fabs(excess - series->excess[before]) / sqrt(1 / weight + 1 / (double)series->weight[before]);

    distance = SCALE_MEAN * fmin(distance, 4 * series->deviation);
    series->deviation += DEVIATION_SHARE * (distance - series->deviation);
    series->deviation = fmax(series->deviation, DEVIATION_MIN);
}

void dt_series_add(struct dt_series *series, double value, uint64_t samples, uint64_t time_ns)
{
    DT_CHECK(samples > 0);
    if (!dt_series_is_learned(series)) {
        if (series->count == 0)
            series->reference = value;
        series->excess[series->count] = (float)(value - series->reference);
        series->weight[series->count] = (float)samples;
        if (++series->count == DT_SERIES_LEARN)
            learn(series);
        return;
    }
    double excess = (float)(value - series->reference);
    double weight = (float)fmin(1, (double)samples / series->typical);

    follow_deviation(series, excess, weight);
    remember(series, excess, weight, time_ns);
    refine(series, excess);
}

static double standard_error(const struct dt_series *series, double weights)
{
    double of_reference = MEDIAN_VARIANCE / (double)series->refined;

    return sqrt(series->deviation * series->deviation * (1 / weights + of_reference) + FLOOR * FLOOR);
}

/*
 * A mean that a burst has raised is not typical of its window: of few reports all must be near it, of many
 * most. The noise of single reports hides a small rise of many reports, so the bounds fall. A report that is
 * above the reference without doubt is near enough: delays of a slow link may differ by a factor of ten. Such
 * delays raise the deviation of the series too, so the noise of one report is not more than `error`, the one
 * of a mean of `length` reports of the kind (0: unknown), allows.
 */
static bool is_typical(const struct dt_series *series, uint64_t length, double mean, double error)
{
    double part = length <= 5 ? 0.6 : 0.4, share = length <= 5 ? 1 : length <= 16 ? 0.75 : 0.625;
    double of_kind = error > 0 ? error * sqrt((double)length) : INFINITY;
    double certain = fmax(DT_SERIES_ONE_RISE, DT_SERIES_ERRORS * fmin(series->deviation, of_kind));
    double bound = fmin(part * mean, certain);
    uint64_t high = 0;

    for (uint64_t i = series->count - length; i < series->count; i++)
        high += series->excess[slot(i)] > bound;
    return (double)high >= share * (double)length;
}

bool dt_series_window(const struct dt_series *series, uint32_t window, double *mean)
{
    if (available(series) < lengths[window] || !(series->weights[window] > 0))
        return false;
    *mean = series->sums[window] / series->weights[window];
    return true;
}

/*
 * Does the last report last `span_ns`, by the time since the one before it? Agents report at multiples of
 * their period, so that the reports of iterations come up to a period early.
 */
static bool is_long(const struct dt_series *series, uint64_t span_ns)
{
    if (available(series) < 2 || span_ns == 0)
        return false;
    uint64_t lasted_ns = series->time_ns[slot(series->count - 1)] - series->time_ns[slot(series->count - 2)];

    return lasted_ns >= span_ns - span_ns / 8;
}

/*
 * The mean of the last reports without bursts: a report that is more than CLIP deviations above their median
 * counts as if it were just that. A mean that noise alone leaves below the bound is not lifted over it by one
 * burst.
 */
static double clipped_mean(const struct dt_series *series, uint64_t length)
{
    double values[DT_SERIES_HISTORY], sum = 0, weights = 0;

    for (uint64_t i = 0; i < length; i++)
        values[i] = series->excess[slot(series->count - length + i)];
    double top = median(values, (uint32_t)length) + CLIP * series->deviation;
    for (uint64_t i = series->count - length; i < series->count; i++) {
        double weight = series->weight[slot(i)];

        sum += weight * fmin(top, series->excess[slot(i)]);
        weights += weight;
    }
    return sum / weights;
}

/* Does a window of two reports or more last `span_ns`, and is a mean typical of it? */
static bool is_phase(const struct dt_series *series, uint64_t length, double mean, double error,
                     uint64_t span_ns)
{
    uint64_t first_ns = series->time_ns[slot(series->count - length)];
    uint64_t last_ns = series->time_ns[slot(series->count - 1)];
    /* Reports are of the time before them: `length` of them last one interval more than their difference. */
    uint64_t lasted_ns = (last_ns - first_ns) / (length - 1) * length;

    return lasted_ns >= span_ns && is_typical(series, length, mean, error);
}

static bool is_above(const struct dt_series *series, uint32_t w, double error, uint64_t span_ns)
{
    uint64_t length = lengths[w];
    double bound = fmax(length == 1 ? DT_SERIES_ONE_RISE : DT_SERIES_RISE,
                        DT_SERIES_ERRORS * fmax(error, standard_error(series, series->weights[w])));
    double mean;

    if (!dt_series_window(series, w, &mean) || mean < bound)
        return false;
    if (length == 1)
        return is_long(series, span_ns);
    return is_phase(series, length, mean, error, span_ns) && clipped_mean(series, length) >= bound;
}

/* The first of the reports up to the present from which on all but a few are above half of the rise. */
static uint64_t first_above(const struct dt_series *series, uint64_t length, double mean)
{
    uint64_t first = series->count - length;

    while (first + 1 < series->count && series->excess[slot(first)] <= mean / 2)
        first++;
    return series->time_ns[slot(first)];
}

static void begin(struct dt_series *series, uint32_t w)
{
    series->is_slow = true;
    series->window = lengths[w];
    series->began_rise = series->sums[w] / series->weights[w];
    series->rise = series->began_rise;
    series->since_ns = first_above(series, series->window, series->began_rise);
}

static uint32_t window_of(uint32_t length)
{
    uint32_t w = 0;

    while (lengths[w] < length)
        w++;
    return w;
}

static void end(struct dt_series *series)
{
    series->is_slow = false;
    series->start = series->count;
    memset(series->sums, 0, sizeof series->sums);
    memset(series->weights, 0, sizeof series->weights);
}

/* The report after the one that alone has made the series slow. */
static bool confirm(struct dt_series *series)
{
    if (series->excess[slot(series->count - 1)] < series->began_rise / 2) {
        end(series);
        return false;
    }
    series->window = 2;
    return true;
}

/* A longer window estimates the rise better, and the end waits until the window is full of what comes after.
 */
static void watch_end(struct dt_series *series)
{
    uint32_t w = window_of(series->window < END_WINDOW ? END_WINDOW : series->window);

    if (available(series) < lengths[w] || !(series->weights[w] > 0))
        return;
    series->rise = series->sums[w] / series->weights[w];
    if (series->rise < fmin(END_PART * series->began_rise, DT_SERIES_END))
        end(series);
}

/* The last window is full, healthy, and faster than the reference. */
static void follow(struct dt_series *series)
{
    uint32_t w = DT_SERIES_WINDOWS - 1;

    if (available(series) < DT_SERIES_HISTORY || !(series->weights[w] > 0))
        return;
    double mean = series->sums[w] / series->weights[w];

    if (mean > -FASTER)
        return;
    series->reference += mean;
    series->start = series->count;
    memset(series->sums, 0, sizeof series->sums);
    memset(series->weights, 0, sizeof series->weights);
}

bool dt_series_judge(struct dt_series *series, const struct dt_series_errors *errors, uint64_t span_ns)
{
    if (!dt_series_is_learned(series) || available(series) == 0)
        return true;
    if (dt_series_is_early(series))
        return confirm(series);
    if (series->is_slow) {
        watch_end(series);
        return true;
    }
    for (uint32_t w = errors ? 0 : 1; w < DT_SERIES_WINDOWS; w++) {
        if ((!errors || errors->one[w] > 0) && is_above(series, w, errors ? errors->one[w] : 0, span_ns)) {
            begin(series, w);
            return true;
        }
    }
    follow(series);
    return true;
}

static bool are_above(const struct dt_series *one, const struct dt_series *other, uint32_t w,
                      const struct dt_series_errors *errors, uint64_t span_ns)
{
    uint64_t length = lengths[w];
    double mean, other_mean;

    if (!dt_series_window(one, w, &mean) || !dt_series_window(other, w, &other_mean))
        return false;
    double own = hypot(standard_error(one, one->weights[w]), standard_error(other, other->weights[w])) / 2;
    double bound = fmax(DT_SERIES_RISE, DT_SERIES_ERRORS * fmax(errors->both[w], own));

    mean = (mean + other_mean) / 2;
    return mean >= bound && is_phase(one, length, mean, errors->one[w], span_ns) &&
           is_phase(other, length, mean, errors->one[w], span_ns) &&
           (clipped_mean(one, length) + clipped_mean(other, length)) / 2 >= bound;
}

void dt_series_judge_both(struct dt_series *one, struct dt_series *other,
                          const struct dt_series_errors *errors, uint64_t span_ns)
{
    if (!dt_series_is_learned(one) || !dt_series_is_learned(other) || one->is_slow || other->is_slow)
        return;
    for (uint32_t w = 1; w < DT_SERIES_WINDOWS; w++) {
        if (errors->both[w] > 0 && are_above(one, other, w, errors, span_ns)) {
            begin(one, w);
            begin(other, w);
            return;
        }
    }
}

struct dt_series_level dt_series_level_since(const struct dt_series *series, uint64_t since_ns)
{
    double sum = 0, weights = 0;

    for (uint64_t back = 1; back <= available(series); back++) {
        uint32_t at = slot(series->count - back);

        if (series->time_ns[at] < since_ns)
            break;
        sum += (double)series->weight[at] * series->excess[at];
        weights += series->weight[at];
    }
    if (!(weights > 0))
        return (struct dt_series_level){0};
    return (struct dt_series_level){sum / weights, standard_error(series, weights)};
}

struct dt_series_level dt_series_lower_of_two(const struct dt_series *series)
{
    if (!dt_series_is_learned(series) || available(series) < 2)
        return (struct dt_series_level){0};
    uint32_t last = slot(series->count - 1), before = slot(series->count - 2);
    double weight = fmin((double)series->weight[last], (double)series->weight[before]);

    return (struct dt_series_level){fmin((double)series->excess[last], (double)series->excess[before]),
                                    standard_error(series, weight)};
}
