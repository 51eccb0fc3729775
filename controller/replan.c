/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/replan.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "controller/delay.h"

#define REPLAN_PERMILLE 200 /* of the largest delay: a smaller change is none */

/* Whether a schedule can do something about it: a busy processor delays everything. */
static bool is_for_schedule(const struct dt_situation *situation, const struct dt_slow_link *link)
{
    for (size_t i = 0; i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (finding->number == link->finding && finding->state != DT_FINDING_ENDED)
            return finding->kind == DT_FINDING_LINK || finding->kind == DT_FINDING_NIC;
    }
    return false;
}

/* The place of the link between the same ranks; `count`: there is none. */
static size_t place_of(const struct dt_decided_link *links, size_t count, const struct dt_decided_link *of)
{
    size_t i = 0;

    while (i < count && (links[i].from_rank != of->from_rank || links[i].to_rank != of->to_rank))
        i++;
    return i;
}

/* A part of the delay is not seen, either: unseen.h. */
static void see(struct dt_replan *replan, const struct dt_decided_link *links, size_t count, uint64_t now_ns)
{
    for (size_t i = 0; i < replan->link_count; i++) {
        struct dt_unseen *unseen = &replan->unseen[i];
        size_t at = place_of(links, count, &replan->links[i]);

        replan->is_recheck |= dt_unseen_is_over(*unseen, now_ns);
        if (dt_unseen_is_over(*unseen, now_ns) ||
            (at < count && links[at].delay_ns >= replan->links[i].delay_ns / 2))
            *unseen = (struct dt_unseen){0};
    }
}

/* Adds the adopted links that this controller's judge has not found slow. */
static size_t add_unseen(const struct dt_replan *replan, const struct dt_situation *situation,
                         struct dt_decided_link *links, size_t count, uint64_t now_ns)
{
    for (size_t i = 0; i < replan->link_count; i++) {
        size_t at = place_of(links, count, &replan->links[i]);

        if (at == DT_RECORD_LINKS_MAX || !dt_unseen_stays(replan->unseen[i], now_ns) ||
            dt_delay_is_refuted(situation, &replan->links[i], 0))
            continue;
        links[at] = replan->links[i];
        count += at == count;
    }
    return count;
}

static size_t wanted_links(struct dt_replan *replan, const struct dt_situation *situation,
                           uint64_t delay_min_ns, uint64_t now_ns,
                           struct dt_decided_link links[DT_RECORD_LINKS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < situation->slow_count && count < DT_RECORD_LINKS_MAX; i++) {
        const struct dt_slow_link *slow = &situation->slow[i];

        if (slow->delay_ns >= delay_min_ns && is_for_schedule(situation, slow) &&
            dt_delay_of(slow, &links[count]))
            count++;
    }
    see(replan, links, count, now_ns);
    return add_unseen(replan, situation, links, count, now_ns);
}

static int64_t delay_of(const struct dt_decided_link *links, size_t count, const struct dt_decided_link *of)
{
    size_t at = place_of(links, count, of);

    return at < count ? links[at].delay_ns : 0;
}

/* By how much the delay of a link of `left` is above that in `right`, at most. */
static int64_t largest_rise_ns(const struct dt_decided_link *left, size_t left_count,
                               const struct dt_decided_link *right, size_t right_count)
{
    int64_t largest_ns = 0;

    for (size_t i = 0; i < left_count; i++) {
        int64_t rise_ns = left[i].delay_ns - delay_of(right, right_count, &left[i]);

        largest_ns = rise_ns > largest_ns ? rise_ns : largest_ns;
    }
    return largest_ns;
}

enum change { SAME, WORSE, BETTER };

/* From the links that are decided to those that are wanted now. */
static enum change compare(const struct dt_replan *replan, const struct dt_decided_link *links, size_t count)
{
    int64_t longest_ns = largest_rise_ns(links, count, NULL, 0);
    int64_t decided_ns = largest_rise_ns(replan->links, replan->link_count, NULL, 0);
    int64_t least_ns = (longest_ns > decided_ns ? longest_ns : decided_ns) / 1000 * REPLAN_PERMILLE;

    if (largest_rise_ns(links, count, replan->links, replan->link_count) > least_ns)
        return WORSE;
    return largest_rise_ns(replan->links, replan->link_count, links, count) > least_ns ? BETTER : SAME;
}

static void set_links(struct dt_replan *replan, const struct dt_decided_link *links, size_t count,
                      uint64_t now_ns)
{
    struct dt_unseen unseen[DT_RECORD_LINKS_MAX] = {{0}};

    DT_CHECK(count <= DT_RECORD_LINKS_MAX);
    for (size_t i = 0; i < count; i++) {
        size_t at = place_of(replan->links, replan->link_count, &links[i]);

        if (at < replan->link_count)
            unseen[i] = replan->unseen[at];
    }
    memcpy(replan->unseen, unseen, count * sizeof *unseen);
    memcpy(replan->links, links, count * sizeof *links);
    replan->link_count = count;
    replan->is_rising = false;
    replan->replanned_ns = now_ns;
    replan->has_replanned = true;
    replan->is_owed = replan->is_recheck = false;
}

static void describe_replan(const struct dt_replan *replan, const struct dt_situation *situation,
                            struct dt_decision *decision)
{
    *decision = (struct dt_decision){
        .kind = DT_DECISION_REPLAN, .from_rank = -1, .to_rank = -1, .link_count = replan->link_count};
    memcpy(decision->links, replan->links, replan->link_count * sizeof *replan->links);
    snprintf(decision->reason, sizeof decision->reason, "no link is slow any more");
    for (size_t i = 0; decision->link_count && i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (finding->state == DT_FINDING_ENDED ||
            (finding->kind != DT_FINDING_LINK && finding->kind != DT_FINDING_NIC))
            continue;
        snprintf(decision->reason, sizeof decision->reason, "%s", finding->reason);
        break;
    }
}

static void look_for_start(struct dt_replan *replan, uint32_t job_starts)
{
    if (replan->job_starts && job_starts != replan->job_starts)
        replan->is_owed = replan->link_count > 0;
    replan->job_starts = job_starts;
}

static bool is_due(struct dt_replan *replan, const struct dt_decide_options *options, enum change change,
                   uint64_t now_ns)
{
    uint64_t after_ns = change == WORSE ? options->confirm_ns : options->clear_ns;

    if (change == SAME) {
        replan->is_rising = false;
        return false;
    }
    if (!replan->is_rising) {
        replan->is_rising = true;
        replan->since_ns = now_ns;
    }
    return now_ns >= dt_deadline_ns(replan->since_ns, after_ns) &&
           (!replan->has_replanned || now_ns >= dt_deadline_ns(replan->replanned_ns, options->replan_gap_ns));
}

bool dt_replan_decide(struct dt_replan *replan, const struct dt_decide_options *options,
                      const struct dt_situation *situation, uint64_t now_ns, struct dt_decision *decision)
{
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    size_t count = wanted_links(replan, situation, (uint64_t)options->delay_min_ns, now_ns, links);

    look_for_start(replan, situation->job_starts);
    if (is_due(replan, options, compare(replan, links, count), now_ns)) {
        const bool is_recheck = replan->is_recheck;

        set_links(replan, links, count, now_ns);
        describe_replan(replan, situation, decision);
        if (!count && is_recheck)
            snprintf(decision->reason, sizeof decision->reason,
                     "this controller has measured no slow link in its recheck time");
        return true;
    }
    if (!replan->is_owed)
        return false;
    replan->is_owed = false;
    describe_replan(replan, situation, decision);
    snprintf(decision->reason, sizeof decision->reason, "the job has started again: the re-plan in force");
    return true;
}

void dt_replan_adopt(struct dt_replan *replan, const struct dt_decision *decision, struct dt_unseen unseen,
                     uint64_t now_ns)
{
    set_links(replan, decision->links, decision->link_count, now_ns);
    if (!unseen.until_ns)
        return;
    for (size_t i = 0; i < replan->link_count; i++)
        replan->unseen[i] = unseen;
}
