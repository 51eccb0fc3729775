/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/rank_time.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

#define FOREVER         UINT64_MAX
#define OWN_SHARE       0.6 /* of the growth of the iteration, which the gaps must explain */
#define OWN_SHARE_STAYS 0.4 /* once the computation is slow */
#define WHOLE_SHARE     0.3 /* of the growth of the gaps, which must lengthen the iteration */

/* ------------------------------------------------------------------------------------------------------------
 * Connections
 */
void dt_rank_time_init(struct dt_rank_time *rank)
{
    memset(rank, 0, sizeof *rank);
    dt_list_init(&rank->senders);
    dt_list_init(&rank->receivers);
    dt_monitor_init(&rank->compute);
    dt_monitor_init(&rank->whole);
}

static struct dt_rank_sender *sender_of(struct dt_list *node)
{
    return dt_container_of(node, struct dt_rank_sender, node);
}

static struct dt_rank_receiver *receiver_of(struct dt_list *node)
{
    return dt_container_of(node, struct dt_rank_receiver, node);
}

void dt_rank_time_add_sender(struct dt_rank_time *rank, struct dt_rank_sender *sender, uint32_t peer)
{
    memset(sender, 0, sizeof *sender);
    sender->peer = peer;
    dt_iteration_init(&sender->iteration);
    dt_list_push_back(&rank->senders, &sender->node);
    sender->counts = rank->counted < DT_RANK_TIME_SENDERS;
    rank->counted += sender->counts;
}

void dt_rank_time_add_receiver(struct dt_rank_time *rank, struct dt_rank_receiver *receiver, uint32_t peer)
{
    memset(receiver, 0, sizeof *receiver);
    receiver->peer = peer;
    dt_list_push_back(&rank->receivers, &receiver->node);
}

/* Gaps found otherwise from here on are not comparable with those before. */
static void forget(struct dt_rank_time *rank)
{
    dt_monitor_init(&rank->compute);
    dt_monitor_init(&rank->whole);
    rank->is_slow = false;
}

/* One that counted is gone: the first that does not takes its place. */
static void count_another(struct dt_rank_time *rank)
{
    dt_list_for_each(node, &rank->senders)
    {
        if (sender_of(node)->counts)
            continue;
        sender_of(node)->counts = true;
        return;
    }
    DT_CHECK(rank->counted > 0);
    rank->counted--;
}

void dt_rank_time_remove_sender(struct dt_rank_time *rank, struct dt_rank_sender *sender)
{
    dt_list_remove(&sender->node);
    if (sender->counts)
        count_another(rank);
    if (rank->clock == sender) {
        rank->clock = NULL;
        rank->iteration_ns = rank->compute_ns = 0;
    }
    forget(rank);
}

void dt_rank_time_remove_receiver(struct dt_rank_time *rank, struct dt_rank_receiver *receiver)
{
    dt_list_remove(&receiver->node);
    dt_list_for_each(node, &rank->senders)
    {
        if (sender_of(node)->input == receiver)
            sender_of(node)->input = NULL;
    }
    forget(rank);
}

/* The last message that had left by then; 0: none, or long ago. */
static uint64_t left_until(const struct dt_rank_sender *sender, uint64_t ns)
{
    uint64_t oldest = sender->left_count - dt_min_u64(sender->left_count, DT_RANK_TIME_FLIGHT);

    for (uint64_t number = sender->left_count; number > oldest; number--) {
        uint64_t left_ns = sender->left_ns[(number - 1) % DT_RANK_TIME_FLIGHT];

        if (left_ns <= ns)
            return left_ns;
    }
    return 0;
}

void dt_rank_time_wanted(struct dt_rank_sender *sender, uint64_t wanted_ns, uint64_t left_ns,
                         uint64_t messages)
{
    struct dt_iteration *iteration = &sender->iteration;
    uint64_t burst = iteration->mark_count;

    if (!sender->counts)
        return;
    if (dt_iteration_add(iteration, wanted_ns, messages))
        sender->ends_ns[iteration->iterations % DT_RANK_TIME_ENDS] = iteration->end_ns;
    if (iteration->mark_count > burst)
        sender->after_ns[burst % DT_ITERATION_MARKS] = left_until(sender, wanted_ns);
    sender->left_ns[sender->left_count++ % DT_RANK_TIME_FLIGHT] = left_ns;
}

void dt_rank_time_arrived(struct dt_rank_receiver *receiver, uint64_t arrived_ns, uint64_t messages)
{
    uint64_t last = receiver->count + DT_RANK_TIME_ARRIVALS - 1;
    uint64_t ns = dt_max_u64(arrived_ns, receiver->arrived_ns[last % DT_RANK_TIME_ARRIVALS]);

    for (uint64_t i = 0; i < dt_min_u64(messages, DT_RANK_TIME_ARRIVALS); i++)
        receiver->arrived_ns[(receiver->count + messages - 1 - i) % DT_RANK_TIME_ARRIVALS] = ns;
    receiver->count += messages;
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals
 */

/* How many messages had arrived at this time; of those that are forgotten, all. */
static uint64_t arrived_until(const struct dt_rank_receiver *receiver, uint64_t ns)
{
    uint64_t low = receiver->count - dt_min_u64(receiver->count, DT_RANK_TIME_ARRIVALS);
    uint64_t high = receiver->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (receiver->arrived_ns[middle % DT_RANK_TIME_ARRIVALS] <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* When a message arrived; 0: so long ago that it is forgotten. */
static uint64_t arrival_ns(const struct dt_rank_receiver *receiver, uint64_t number)
{
    return number + DT_RANK_TIME_ARRIVALS < receiver->count || number >= receiver->count
               ? 0
               : receiver->arrived_ns[number % DT_RANK_TIME_ARRIVALS];
}

/* ------------------------------------------------------------------------------------------------------------
 * The input of a sender
 */

/* The senders that count, during an update. */
struct compared {
    struct dt_rank_sender *sender[DT_RANK_TIME_SENDERS];
    uint64_t next_ns[DT_RANK_TIME_SENDERS]; /* when their next bursts were wanted; FOREVER: none is left */
    uint32_t count;
};

static void compare_first(struct dt_rank_time *rank, struct compared *compared)
{
    compared->count = 0;
    dt_list_for_each(node, &rank->senders)
    {
        if (compared->count == rank->counted)
            break;
        DT_CHECK(sender_of(node)->counts);
        compared->sender[compared->count++] = sender_of(node);
    }
}

/* Is the difference at most 1/share of what was sent? One message more or less says nothing. */
static bool is_like(uint64_t received, uint64_t sent, uint64_t share)
{
    uint64_t apart = received > sent ? received - sent : sent - received;

    return apart <= dt_max_u64(1, sent / share);
}

static uint64_t sent_between(const struct dt_rank_sender *sender, uint64_t from_ns, uint64_t to_ns)
{
    const struct dt_iteration *iteration = &sender->iteration;
    uint64_t sent = 0;

    for (uint64_t number = dt_iteration_oldest(iteration); number < iteration->mark_count; number++) {
        uint64_t ns = dt_iteration_burst_of(iteration, number)->wanted_ns;

        if (ns > from_ns && ns <= to_ns)
            sent += dt_iteration_messages(iteration, number);
    }
    return sent;
}

static uint64_t received_between(const struct dt_rank_receiver *receiver, uint64_t from_ns, uint64_t to_ns)
{
    return arrived_until(receiver, to_ns) - arrived_until(receiver, from_ns);
}

/* Another peer is preferred to the one that the messages go to. */
static struct dt_rank_receiver *find_input(struct dt_rank_time *rank, const struct dt_rank_sender *sender,
                                           uint64_t sent, uint64_t from_ns, uint64_t to_ns)
{
    struct dt_rank_receiver *found = NULL;

    dt_list_for_each(node, &rank->receivers)
    {
        struct dt_rank_receiver *receiver = receiver_of(node);

        if (!is_like(received_between(receiver, from_ns, to_ns), sent, 4))
            continue;
        if (!found || (found->peer == sender->peer && receiver->peer != sender->peer))
            found = receiver;
    }
    return found;
}

/* False: an input is another one than before. */
static bool choose_inputs(struct dt_rank_time *rank, const struct compared *compared, uint64_t from_ns,
                          uint64_t to_ns)
{
    bool is_same = true;

    for (uint32_t i = 0; i < compared->count; i++) {
        struct dt_rank_sender *sender = compared->sender[i];
        uint64_t sent = sent_between(sender, from_ns, to_ns);

        if (sent == 0 || (sender->input && is_like(received_between(sender->input, from_ns, to_ns), sent, 2)))
            continue;
        struct dt_rank_receiver *found = find_input(rank, sender, sent, from_ns, to_ns);
        if (found == sender->input)
            continue;
        sender->input = found;
        sender->offset = 0;
        sender->unanswered = INT64_MAX;
        is_same = false;
    }
    return is_same;
}

/* ------------------------------------------------------------------------------------------------------------
 * Gaps
 */

/* Messages that had arrived when the burst was wanted are enough for it, by the offset. False: the offset has
 * become larger. */
static bool learn_offset(struct dt_rank_sender *sender, uint64_t needed, uint64_t arrived)
{
    if (needed <= arrived + sender->offset)
        return true;
    sender->offset = needed - arrived;
    return false;
}

/*
 * The last answer, where all that was sent is answered: nothing can be computed before it. A slow device may
 * find everything answered at other places too, but does not wait for it there.
 */
static uint64_t last_answer_ns(struct dt_rank_sender *sender, uint64_t wanted_ns, uint64_t sent)
{
    uint64_t arrived = arrived_until(sender->input, wanted_ns), period = sender->iteration.period;
    int64_t unanswered = (int64_t)(sent - arrived);

    if (period == 0)
        return 0;
    if (unanswered < sender->unanswered) {
        sender->unanswered = unanswered;
        sender->answered_phase = sent % period;
    }
    return sent % period == sender->answered_phase && arrived > 0 ? arrival_ns(sender->input, arrived - 1)
                                                                  : 0;
}

/* Messages of the connection that were wanted before its next burst to be evaluated. */
static uint64_t sent_before(const struct dt_rank_sender *sender)
{
    const struct dt_iteration *iteration = &sender->iteration;

    return sender->next_burst < iteration->mark_count
               ? dt_iteration_burst_of(iteration, sender->next_burst)->first
               : iteration->message_count;
}

static uint64_t answers_ns(const struct compared *compared, uint64_t wanted_ns)
{
    uint64_t ns = 0;

    for (uint32_t i = 0; i < compared->count; i++) {
        struct dt_rank_sender *sender = compared->sender[i];

        if (sender->input && sender->offset > 0)
            ns = dt_max_u64(ns, last_answer_ns(sender, wanted_ns, sent_before(sender)));
    }
    return ns;
}

/* When the next burst of the sender was wanted; FOREVER: it has none until to_ns. */
static uint64_t next_ns(const struct dt_rank_sender *sender, uint64_t to_ns)
{
    uint64_t ns = sender->next_burst < sender->iteration.mark_count
                      ? dt_iteration_burst_of(&sender->iteration, sender->next_burst)->wanted_ns
                      : FOREVER;

    return ns <= to_ns ? ns : FOREVER;
}

static void find_next(struct compared *compared, uint64_t to_ns)
{
    for (uint32_t i = 0; i < compared->count; i++) {
        struct dt_rank_sender *sender = compared->sender[i];

        sender->next_burst = dt_max_u64(sender->next_burst, dt_iteration_oldest(&sender->iteration));
        compared->next_ns[i] = next_ns(sender, to_ns);
    }
}

/* The sender whose next burst is the earliest one of all; compared->count: there is no burst left. */
static uint32_t earliest(const struct compared *compared)
{
    uint64_t earliest_ns = FOREVER;
    uint32_t found = compared->count;

    for (uint32_t i = 0; i < compared->count; i++) {
        if (compared->next_ns[i] < earliest_ns) {
            earliest_ns = compared->next_ns[i];
            found = i;
        }
    }
    return found;
}

/* The sum of the gaps in (from_ns, to_ns]. False: an offset has changed, so the sum means nothing. */
static bool add_gaps(struct compared *compared, uint64_t from_ns, uint64_t to_ns, uint64_t *gaps_ns)
{
    uint64_t before_ns = from_ns;
    bool is_sound = true;

    *gaps_ns = 0;
    find_next(compared, to_ns);
    for (uint32_t i = earliest(compared); i < compared->count; i = earliest(compared)) {
        struct dt_rank_sender *sender = compared->sender[i];
        uint64_t number = sender->next_burst, wanted_ns = compared->next_ns[i], begin_ns = before_ns;

        if (wanted_ns > from_ns && sender->input) {
            uint64_t needed = dt_iteration_burst_of(&sender->iteration, number)->first +
                              dt_iteration_messages(&sender->iteration, number);

            is_sound &= learn_offset(sender, needed, arrived_until(sender->input, wanted_ns));
            if (needed > sender->offset)
                begin_ns = dt_max_u64(begin_ns, arrival_ns(sender->input, needed - sender->offset - 1));
            begin_ns = dt_max_u64(begin_ns, answers_ns(compared, wanted_ns));
            begin_ns = dt_max_u64(begin_ns, sender->after_ns[number % DT_ITERATION_MARKS]);
            if (wanted_ns > begin_ns)
                *gaps_ns += wanted_ns - begin_ns;
        }
        before_ns = dt_max_u64(before_ns, wanted_ns);
        sender->next_burst++;
        compared->next_ns[i] = next_ns(sender, to_ns);
    }
    return is_sound;
}

/* ------------------------------------------------------------------------------------------------------------
 * Iterations
 */
/*
 * False: no connection has a number of messages without doubt, so that the time of an iteration is unknown.
 * The healthy levels stay, for the time after the doubt.
 */
static bool choose_clock(struct dt_rank_time *rank, const struct compared *compared)
{
    const struct dt_iteration *all[DT_RANK_TIME_SENDERS];
    const struct dt_iteration *voted;

    for (uint32_t i = 0; i < compared->count; i++)
        all[i] = &compared->sender[i]->iteration;
    voted = dt_iteration_vote(all, compared->count);
    if (!voted) {
        rank->clock_iterations = 0;
        rank->iteration_ns = rank->compute_ns = 0;
        return false;
    }
    /* The present one remains while it agrees, so that no iteration is cut. */
    if (rank->clock && dt_iteration_is_known(&rank->clock->iteration) &&
        dt_iteration_ns(voted) < 2 * dt_iteration_ns(&rank->clock->iteration) &&
        dt_iteration_ns(&rank->clock->iteration) < 2 * dt_iteration_ns(voted))
        return true;
    for (uint32_t i = 0; i < compared->count; i++) {
        if (&compared->sender[i]->iteration == voted && compared->sender[i] != rank->clock) {
            rank->clock = compared->sender[i];
            rank->clock_iterations = 0;
            forget(rank);
        }
    }
    return true;
}

/* The number of the last iteration that has settled; 0: none. */
static uint64_t last_settled(const struct dt_rank_sender *clock, uint64_t now_ns)
{
    uint64_t number = clock->iteration.iterations;
    uint64_t oldest = number > DT_RANK_TIME_ENDS ? number - DT_RANK_TIME_ENDS : 0;

    while (number > oldest && clock->ends_ns[number % DT_RANK_TIME_ENDS] + DT_RANK_TIME_SETTLE_NS > now_ns)
        number--;
    return number > oldest ? number : 0;
}

/* In seconds, of the mean of the last `run` samples over the healthy level. */
static double growth(const struct dt_monitor *monitor, uint32_t run)
{
    double sum = 0;

    for (uint32_t i = 1; i <= run; i++)
        sum += monitor->history[(monitor->sample_count - i) % DT_MONITOR_HISTORY];
    return exp(sum / run) - exp(monitor->reference);
}

/* Both over the same samples: one of them may return to its healthy level sooner. */
static void judge(struct dt_rank_time *rank)
{
    double own_share = rank->is_slow ? OWN_SHARE_STAYS : OWN_SHARE;
    uint32_t run = rank->compute.run;
    double own, whole;

    rank->is_slow = dt_monitor_verdict(&rank->compute).is_slow && run > 0 && rank->whole.sample_count >= run;
    if (!rank->is_slow)
        return;
    own = growth(&rank->compute, run);
    whole = growth(&rank->whole, run);
    rank->is_slow = own >= own_share * whole && whole >= WHOLE_SHARE * own;
}

static void add_sample(struct dt_rank_time *rank, uint64_t began_ns)
{
    uint64_t number = rank->compute.sample_count;

    dt_monitor_add(&rank->compute, (double)rank->compute_ns / 1e9);
    dt_monitor_add(&rank->whole, (double)rank->iteration_ns / 1e9);
    if (rank->compute.sample_count > number)
        rank->began_ns[number % DT_MONITOR_HISTORY] = began_ns;
    judge(rank);
}

void dt_rank_time_update(struct dt_rank_time *rank, uint64_t now_ns, bool is_disturbed)
{
    uint64_t number, count, from_ns, to_ns, gaps_ns;
    struct compared compared;
    bool is_same;

    compare_first(rank, &compared);
    number = choose_clock(rank, &compared) ? last_settled(rank->clock, now_ns) : 0;
    if (number <= rank->clock_iterations)
        return;
    count = number - rank->clock_iterations;
    from_ns = rank->end_ns;
    to_ns = rank->clock->ends_ns[number % DT_RANK_TIME_ENDS];
    rank->iterations += rank->clock_iterations ? count : 1;
    is_same = rank->clock_iterations > 0 && to_ns > from_ns;
    rank->clock_iterations = number;
    rank->end_ns = to_ns;
    if (!is_same) { /* the first one of this clock, or after a doubt: where the next one begins is known now
                     */
        if (rank->clock->iteration.period != rank->clock_period)
            forget(rank);
        rank->clock_period = rank->clock->iteration.period;
        add_gaps(&compared, to_ns, to_ns, &gaps_ns);
        return;
    }
    rank->iteration_ns = (to_ns - from_ns) / count;
    is_same = choose_inputs(rank, &compared, from_ns, to_ns);
    if (!add_gaps(&compared, from_ns, to_ns, &gaps_ns) || !is_same) {
        rank->compute_ns = 0;
        forget(rank);
        return;
    }
    rank->compute_ns = gaps_ns / count;
    if (!is_disturbed)
        add_sample(rank, from_ns);
}

struct dt_verdict dt_rank_time_verdict(const struct dt_rank_time *rank)
{
    struct dt_verdict verdict = dt_monitor_verdict(&rank->compute);

    verdict.is_slow = rank->is_slow;
    return verdict;
}

uint64_t dt_rank_time_since_ns(const struct dt_rank_time *rank)
{
    uint64_t count = rank->compute.sample_count, since = dt_monitor_verdict(&rank->compute).since;
    uint64_t oldest = count > DT_MONITOR_HISTORY ? count - DT_MONITOR_HISTORY : 0;

    return rank->is_slow ? rank->began_ns[dt_max_u64(since, oldest) % DT_MONITOR_HISTORY] : 0;
}
