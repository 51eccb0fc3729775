/* SPDX-License-Identifier: Apache-2.0 */
/* The decision about a schedule, as a member of its JSON. */
#include "sched/format/format.h"

static const struct {
    const char *name;
    const char *text;
} verdicts[] = {
    [DETOUR_ADAPT_KEEP_UNCHANGED] = {"unchanged", "keep: the links are as planned"},
    [DETOUR_ADAPT_KEEP_UNCONFIRMED] = {"unconfirmed", "keep: the change is not confirmed yet"},
    [DETOUR_ADAPT_KEEP_NO_GAIN] = {"no-gain", "keep: no schedule found that pays for the change"},
    [DETOUR_ADAPT_CHANGE] = {"change", "change: the new schedule pays for the change"},
};

enum { VERDICT_COUNT = sizeof(verdicts) / sizeof(verdicts[0]) };

const char *detour_adapt_verdict_text(enum detour_adapt_verdict verdict)
{
    return (unsigned)verdict < VERDICT_COUNT ? verdicts[verdict].text : "?";
}

/* The conditions for a change. */
static json_t *rules_json(const struct detour_adapt_options *options, bool is_replan)
{
    json_t *object = json_object();

    dt_json_put(&object, "gain_percent", json_real(options->gain_permille_min / 10.0));
    dt_json_put(&object, "switch_cost_ms", dt_json_ms(options->switch_cost_ns));
    if (is_replan)
        return object;
    dt_json_put(&object, "horizon_iterations", json_integer(options->horizon_iterations));
    dt_json_put(&object, "change_ms", dt_json_ms(options->change_ns_min));
    dt_json_put(&object, "change_percent", json_real(options->change_permille_min / 10.0));
    dt_json_put(&object, "allow_offload", json_boolean(options->allow_offload));
    return object;
}

static json_t *started_json(const struct dt_write *w, const size_t *started)
{
    json_t *array = json_array();

    for (int32_t d = 0; d < w->p->device_count; d++)
        dt_json_append(&array, json_integer((json_int_t)started[d]));
    return array;
}

json_t *dt_json_adapt(const struct dt_write *w, const struct detour_adapt_note *note)
{
    const struct detour_adaptation *made = note->adaptation;
    bool sought = made->candidate_makespan_ns > 0;
    int64_t gain_ns = made->present_makespan_ns - made->candidate_makespan_ns;
    json_t *object = json_object();

    dt_json_put(&object, "decision", json_string(made->verdict == DETOUR_ADAPT_CHANGE ? "change" : "keep"));
    dt_json_put(&object, "verdict",
                json_string((unsigned)made->verdict < VERDICT_COUNT ? verdicts[made->verdict].name : "?"));
    dt_json_put(&object, "reason", json_string(detour_adapt_verdict_text(made->verdict)));
    if (note->started) {
        dt_json_put(&object, "now_ms", dt_json_ms(note->now_ns));
        dt_json_put(&object, "started", started_json(w, note->started));
    }
    dt_json_put(&object, "planned_makespan_ms", dt_json_ms(made->planned_makespan_ns));
    dt_json_put(&object, "present_makespan_ms", dt_json_ms(made->present_makespan_ns));
    dt_json_put(&object, "candidate_makespan_ms",
                sought ? dt_json_ms(made->candidate_makespan_ns) : json_null());
    dt_json_put(&object, "gain_ms", sought ? dt_json_ms(gain_ns) : json_null());
    dt_json_put(&object, "gain_percent",
                sought && made->present_makespan_ns > 0
                    ? json_real(100.0 * (double)gain_ns / (double)made->present_makespan_ns)
                    : json_null());
    if (note->options)
        dt_json_put(&object, "needed", rules_json(note->options, note->started != NULL));
    dt_json_put(&object, "offloaded", json_integer(made->offloaded));
    return object;
}
