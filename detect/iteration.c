/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/iteration.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

#define FIND_FIRST     24   /* bursts before the first search */
#define FIND_MAX       256  /* bursts between two searches */
#define FIND_FIRST_MAX 64   /* the same, until a period is found */
#define REPEATS_MIN    3    /* repetitions required */
#define REPEATS        6    /* repetitions compared, where as many are remembered */
#define COMPARED_MIN   48   /* pauses compared at least, where as many are remembered */
#define CORRELATED     0.5  /* a weaker correlation is no rhythm */
#define AS_GOOD        0.92 /* of the best correlation: a smaller lag with so much is the period */
#define STAYS          0.7  /* of the best correlation: the present period remains */
#define EVEN_DEVIATION 0.15 /* of the logarithms of pauses that are all alike */
#define SAME_TIME      0.02
#define STRANGE_MAX    2
#define PART_PERIODS   8   /* of a period in which a part of it is looked for */
#define PART_MIN       128 /* pauses, for that */
#define PART_TIMES     3   /* searches in a row that find it */
#define PART_CLEAR     0.9 /* correlation of the whole period, for that, and of one of two bursts */
#define WHOLE_REPEATS  6   /* repetitions of a lag that refutes a shorter one */
#define WHOLE_NOISE    0.8 /* of the noise of the shorter one, at most */
#define WHOLE_FAR      4.0 /* standard deviations by which a place of it is from its repetition */
#define PART_LEAST     3   /* bursts: two may be the rhythm of microbatches on a slow link */
#define OWN_NOISE      1.2 /* of the noise of a rhythm: its parts have more */
#define SAME_NOISE     1.1 /* of the noise of a multiple: the rhythm has less */

void dt_iteration_init(struct dt_iteration *it)
{
    memset(it, 0, sizeof *it);
    it->find_at = it->find_step = FIND_FIRST;
}

uint64_t dt_iteration_messages(const struct dt_iteration *it, uint64_t number)
{
    uint64_t end =
        number + 1 < it->mark_count ? dt_iteration_burst_of(it, number + 1)->first : it->message_count;

    return end - dt_iteration_burst_of(it, number)->first;
}

/* Before this burst; 0: it is the oldest one. */
static uint64_t pause_before(const struct dt_iteration *it, uint64_t number)
{
    return number > dt_iteration_oldest(it) ? dt_iteration_burst_of(it, number)->wanted_ns -
                                                  dt_iteration_burst_of(it, number - 1)->wanted_ns
                                            : 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * The period
 */

/* Of the last `count` values with those `lag` earlier; *deviation is the one of all of them. */
static double correlation(const double *values, uint32_t count, uint32_t lag, double *deviation)
{
    double mean = 0, variance = 0, sum = 0;

    for (uint32_t i = 0; i < count; i++)
        mean += values[i] / count;
    for (uint32_t i = 0; i < count; i++)
        variance += (values[i] - mean) * (values[i] - mean) / count;
    for (uint32_t i = lag; i < count; i++)
        sum += (values[i] - mean) * (values[i - lag] - mean);
    *deviation = sqrt(variance);
    return variance > 0 ? sum / (count - lag) / variance : 0;
}

/* Of values[0..count): the lag, or 0. The present one, if not 0, stays while it is nearly as good. */
static uint32_t find_lag(const double *values, uint32_t count, uint32_t present)
{
    double found[DT_ITERATION_MARKS / REPEATS_MIN + 1], best = 0, deviation = 0;
    uint32_t lags = count / REPEATS_MIN;

    for (uint32_t lag = 1; lag <= lags; lag++) {
        uint32_t compared = (uint32_t)dt_max_u64(COMPARED_MIN, (uint64_t)REPEATS * lag);

        compared = (uint32_t)dt_min_u64(compared, count);
        found[lag] = correlation(values + count - compared, compared, lag, &deviation);
        best = fmax(best, found[lag]);
    }
    correlation(values, count, 1, &deviation);
    if (best < CORRELATED)
        return deviation < EVEN_DEVIATION ? 1 : 0;
    if (present && present <= lags && found[present] >= STAYS * best)
        return present;
    for (uint32_t lag = 1; lag <= lags; lag++) {
        if (found[lag] >= AS_GOOD * best)
            return lag;
    }
    return 0;
}

/* The mean square of the differences between values that are `lag` apart. */
static double noise_of(const double *values, uint32_t count, uint32_t lag)
{
    double noise = 0;

    for (uint32_t i = lag; i < count; i++)
        noise += (values[i] - values[i - lag]) * (values[i] - values[i - lag]) / (count - lag);
    return noise;
}

/*
 * Whether the place of a period of `whole` values that begins at `first` has another value than `lag` places
 * before. With enough repetitions their own variance counts, and the largest and the smallest difference do
 * not: one late message is no rhythm.
 */
static bool is_other(const double *values, uint32_t count, uint32_t first, uint32_t whole, uint32_t lag,
                     double noise)
{
    double sum = 0, squares = 0, largest = -INFINITY, smallest = INFINITY;
    uint32_t repeats = 0;

    for (uint32_t i = first; i < count; i += whole, repeats++) {
        double difference = values[i] - values[i - lag];

        sum += difference;
        squares += difference * difference;
        largest = fmax(largest, difference);
        smallest = fmin(smallest, difference);
    }
    if (repeats >= WHOLE_REPEATS - 1) {
        noise = fmax(noise, 2 * (squares - sum * sum / repeats) / (repeats - 1));
        sum -= largest + smallest;
        repeats -= 2;
    }
    return sum * sum > WHOLE_FAR * WHOLE_FAR * noise * repeats;
}

/* The same for any place of the period. */
static bool has_other(const double *values, uint32_t count, uint32_t whole, uint32_t lag)
{
    double noise = noise_of(values, count, whole);

    for (uint32_t place = 0; place < whole; place++) {
        if (is_other(values, count, lag + place, whole, lag, noise))
            return true;
    }
    return false;
}

/*
 * After an irregular start the period may be a multiple of the iteration. The smallest lag of which it
 * consists by repetition alone; 0: none.
 */
static uint32_t find_part(const double *values, uint32_t count, uint32_t whole)
{
    uint32_t compared = (uint32_t)dt_max_u64(PART_MIN, (uint64_t)PART_PERIODS * whole);
    double deviation;

    compared = (uint32_t)dt_min_u64(compared, count);
    values += count - compared;
    if (whole > compared / REPEATS_MIN || correlation(values, compared, whole, &deviation) < PART_CLEAR)
        return 0;
    if (!has_other(values, compared, whole, 2)) /* a slow link makes pauses alike, or alternate */
        return 0;
    for (uint32_t lag = 3; lag <= whole / 2; lag++) {
        if (whole % lag == 0 && !has_other(values, compared, whole, lag))
            return lag;
    }
    return 0;
}

/* A period of `lag` values is refuted by one of `whole`: that one explains them better, and not all of its
 * places repeat after `lag`. */
static bool is_refuted(const double *values, uint32_t count, uint32_t lag, uint32_t whole)
{
    return whole <= count / WHOLE_REPEATS &&
           noise_of(values, count, whole) <= WHOLE_NOISE * noise_of(values, count, lag) &&
           has_other(values, count, whole, lag);
}

/*
 * On a slow link most pauses of an iteration are alike or alternate, so that a few of them correlate about as
 * well as the iteration. The shortest lag that explains each of its places, if it refutes this one.
 */
static uint32_t find_whole(const double *values, uint32_t count, uint32_t lag)
{
    double least = INFINITY;
    uint32_t whole = lag;

    for (uint32_t longer = lag + 1; longer <= count / WHOLE_REPEATS; longer++) {
        double noise = noise_of(values, count, longer);

        if (noise < least) {
            least = noise;
            whole = longer;
        }
    }
    if (whole == lag || !is_refuted(values, count, lag, whole))
        return lag;
    for (uint32_t part = lag + 1; part <= whole / 2; part++) {
        if (whole % part == 0 && !has_other(values, count, whole, part))
            return part;
    }
    return whole;
}

/* Messages of the `lag` bursts before this one. */
static uint64_t messages_before(const struct dt_iteration *it, uint64_t number, uint32_t lag)
{
    return dt_iteration_burst_of(it, number)->first - dt_iteration_burst_of(it, number - lag)->first;
}

/*
 * Messages in `lag` bursts, which most places have: a busy processor merges and splits bursts, and messages
 * may have been missed. Of the last REPEATS repetitions; 0: no number is that of most places.
 */
static uint64_t messages_of(const struct dt_iteration *it, uint32_t lag)
{
    uint64_t end = it->mark_count, begin = dt_iteration_oldest(it) + lag, most = 0;
    uint32_t same = 0;

    if (end > begin + (uint64_t)REPEATS * lag)
        begin = end - (uint64_t)REPEATS * lag;
    /* Boyer and Moore: the only number that more than half of them can have. */
    for (uint64_t last = begin; last < end; last++) {
        uint64_t messages = messages_before(it, last, lag);

        if (same == 0)
            most = messages;
        same = messages == most ? same + 1 : same - 1;
    }
    same = 0;
    for (uint64_t last = begin; last < end; last++)
        same += messages_before(it, last, lag) == most;
    return begin < end && 2 * same > end - begin ? most : 0;
}

/* The present iteration began with the burst after the longest pause of the last `lag` ones. */
static void begin_anew(struct dt_iteration *it, uint32_t lag, uint64_t messages)
{
    uint64_t begin = it->mark_count - 1;

    for (uint64_t number = it->mark_count - lag; number < it->mark_count; number++) {
        if (pause_before(it, number) > pause_before(it, begin))
            begin = number;
    }
    it->period = messages;
    it->period_marks = lag;
    it->begin_mark = begin;
    it->begin_message = dt_iteration_burst_of(it, begin)->first;
    it->away = 0;
    it->pause_ns = pause_before(it, begin);
    it->strange = 0;
}

/* The period becomes a part of it that PART_TIMES searches in a row have found. */
static void shrink(struct dt_iteration *it, const double *pauses, uint32_t count)
{
    uint32_t part = it->period ? find_part(pauses, count, it->period_marks) : 0;
    uint64_t messages = part ? messages_of(it, part) : 0;

    if (part && messages * (it->period_marks / part) != it->period)
        part = 0;
    it->part_times = part && part == it->part ? it->part_times + 1 : 0;
    it->part = part;
    if (part)
        it->find_step = PART_MIN;
    if (it->part_times + 1 >= PART_TIMES)
        begin_anew(it, part, messages);
}

/*
 * A slow link may make the pauses of all microbatches alike, or alternate, and a busy processor may make them
 * irregular: while the iterations begin where they are expected, their number of messages only becomes a
 * multiple, since the one before may have been that of a part of the iteration, or a number that refutes the
 * present one. (A link that splits bursts changes their number, and then no comparison of bursts is valid.)
 */
static bool may_become(const struct dt_iteration *it, const double *pauses, uint32_t count, uint32_t lag,
                       uint64_t messages)
{
    if (!it->period || it->strange >= STRANGE_MAX || messages % it->period == 0)
        return true;
    return messages_of(it, it->period_marks) == it->period &&
           is_refuted(pauses, count, it->period_marks, lag);
}

/* Whether its parts repeat clearly worse: it is more than a repetition of one of them. */
static bool is_rhythm(const double *values, uint32_t count, uint32_t lag)
{
    double noise = noise_of(values, count, lag);

    for (uint32_t part = 1; part <= lag / 2; part++) {
        if (lag % part == 0 && noise_of(values, count, part) < OWN_NOISE * noise)
            return false;
    }
    return true;
}

/*
 * While a busy processor makes pauses irregular, a multiple of the iteration may correlate best. A part of
 * the lag that is a rhythm and repeats as well as the whole lag; 0: none.
 */
static uint32_t find_rhythm(const double *values, uint32_t count, uint32_t lag)
{
    double noise = noise_of(values, count, lag);

    for (uint32_t part = PART_LEAST; part <= lag / 2; part++) {
        if (lag % part == 0 && noise_of(values, count, part) <= SAME_NOISE * noise &&
            is_rhythm(values, count, part))
            return part;
    }
    return 0;
}

static void find(struct dt_iteration *it)
{
    double pauses[DT_ITERATION_MARKS];
    uint64_t oldest = dt_iteration_oldest(it);
    uint64_t messages;
    uint32_t count = 0, lag, part;
    double deviation;

    for (uint64_t number = oldest + 1; number < it->mark_count; number++)
        pauses[count++] = log((double)pause_before(it, number));
    lag = find_lag(pauses, count, it->strange < STRANGE_MAX ? it->period_marks : 0);
    lag = lag ? find_whole(pauses, count, lag) : 0;
    part = lag ? find_rhythm(pauses, count, lag) : 0;
    lag = part ? part : lag;
    if (lag == 2 && correlation(pauses, count, lag, &deviation) < PART_CLEAR)
        lag = 0; /* noise, or microbatches */
    messages = lag ? messages_of(it, lag) : 0;
    if (messages == 0 || !may_become(it, pauses, count, lag, messages)) {
        it->find_step = dt_min_u64(it->find_step * 2, it->period ? FIND_MAX : FIND_FIRST_MAX);
        lag = 0;
    } else if (messages == it->period) {
        it->find_step = FIND_MAX;
    } else if (lag != it->candidate) {
        /* Until it is confirmed: by other pauses, if it replaces a period. */
        it->find_step = it->period ? PART_MIN : dt_max_u64(FIND_FIRST / 2, lag);
    } else {
        begin_anew(it, lag, messages);
        it->find_step = FIND_MAX;
    }
    it->candidate = lag;
    shrink(it, pauses, count);
    it->is_doubtful = it->period && find_rhythm(pauses, count, it->period_marks);
    if (it->is_doubtful)
        it->find_step = dt_min_u64(it->find_step, PART_MIN);
    it->find_at = it->mark_count + it->find_step;
}

/* ------------------------------------------------------------------------------------------------------------
 * The iterations
 */
static bool end_at(struct dt_iteration *it, uint64_t number, uint64_t message)
{
    const struct dt_iteration_burst *begin = dt_iteration_burst_of(it, it->begin_mark);
    const struct dt_iteration_burst *end = dt_iteration_burst_of(it, number);

    if (it->strange >= STRANGE_MAX) /* perhaps iterations have another number of messages now */
        it->find_at = dt_min_u64(it->find_at, it->mark_count + FIND_FIRST);
    it->pause_ns = (3 * it->pause_ns + pause_before(it, number)) / 4;
    it->begin_ns = begin->wanted_ns;
    it->end_ns = end->wanted_ns;
    it->begin_mark = number;
    it->begin_message = message;
    it->iterations++;
    return true;
}

/*
 * The expected message came without the usual pause. If messages were missed, the longest pause nearby is the
 * begin of the iteration, and is as far away the next time; otherwise it is one that a busy processor made.
 */
static bool end_near(struct dt_iteration *it, uint64_t expected, uint64_t around)
{
    uint64_t best = it->mark_count - 1, own = best;

    for (uint64_t number = best; number > it->begin_mark; number--) {
        const struct dt_iteration_burst *burst = dt_iteration_burst_of(it, number);

        if (burst->first + around < expected)
            break;
        if (burst->first <= expected + around && pause_before(it, number) > pause_before(it, best))
            best = number;
        if (burst->first >= expected)
            own = number;
    }
    uint64_t before = own - 1; /* the message may be inside of a burst */
    if (dt_iteration_burst_of(it, own)->first > expected && before > it->begin_mark)
        own = before;
    int64_t away = (int64_t)(dt_iteration_burst_of(it, best)->first - expected);
    bool is_moved = best != own && away == it->away;
    uint64_t message = dt_max_u64(expected, dt_iteration_burst_of(it, own)->first);

    if (own + 1 < it->mark_count) { /* the last begin in a burst of several iterations */
        uint64_t behind = dt_iteration_burst_of(it, own + 1)->first;
        message += behind > message ? (behind - 1 - message) / it->period * it->period : 0;
    }
    it->strange = best == own && message == expected ? 0 : it->strange + 1;
    it->away = is_moved || best == own ? 0 : away;
    return is_moved ? end_at(it, best, dt_iteration_burst_of(it, best)->first) : end_at(it, own, message);
}

/* The newest burst may be the first of an iteration. */
static bool try_end(struct dt_iteration *it)
{
    uint64_t newest = it->mark_count - 1, first = dt_iteration_burst_of(it, newest)->first;
    uint64_t expected = it->begin_message + it->period;
    uint64_t around = it->period_marks == 1 ? it->period / 2 : it->period / dt_min_u64(8, it->period_marks);

    if (it->begin_mark < dt_iteration_oldest(it)) { /* iterations have become longer than what is kept */
        it->period = 0;
        return false;
    }
    if (newest == it->begin_mark || first < expected)
        return false;
    if (first == expected && 2 * pause_before(it, newest) >= it->pause_ns) {
        it->strange = 0;
        it->away = 0;
        return end_at(it, newest, expected);
    }
    return first >= expected + around && end_near(it, expected, around);
}

bool dt_iteration_add(struct dt_iteration *it, uint64_t wanted_ns, uint64_t messages)
{
    bool is_new = it->mark_count == 0 || wanted_ns >= it->last_ns + DT_ITERATION_PAUSE_NS;
    bool is_ended = false;

    if (is_new) {
        it->marks[it->mark_count++ % DT_ITERATION_MARKS] =
            (struct dt_iteration_burst){.wanted_ns = wanted_ns, .first = it->message_count};
        is_ended = it->period && try_end(it);
        if (it->mark_count >= it->find_at)
            find(it);
    }
    it->message_count += messages;
    it->last_ns = dt_max_u64(it->last_ns, wanted_ns);
    return is_ended;
}

/* ------------------------------------------------------------------------------------------------------------
 * The connections of a process
 */
static uint32_t votes_for(const struct dt_iteration *const *connections, uint32_t count, double ns)
{
    uint32_t votes = 0;

    for (uint32_t i = 0; i < count; i++)
        votes += fabs((double)dt_iteration_ns(connections[i]) - ns) <= SAME_TIME * ns;
    return votes;
}

const struct dt_iteration *dt_iteration_vote(const struct dt_iteration *const *connections, uint32_t count)
{
    const struct dt_iteration *best = NULL;
    uint32_t best_votes = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t ns = dt_iteration_is_known(connections[i]) ? dt_iteration_ns(connections[i]) : 0;
        uint32_t votes = ns ? votes_for(connections, count, (double)ns) : 0;

        if (votes > best_votes || (votes && votes == best_votes && ns > dt_iteration_ns(best))) {
            best = connections[i];
            best_votes = votes;
        }
    }
    return best;
}
