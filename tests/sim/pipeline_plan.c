/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pipeline_plan.h"

#include <string.h>

#include "pipeline/ring_model.h"
#include "tests/sim/pipeline_work.h"

/* ---- the stages and links ---- */

static bool is_of(int32_t slow, int32_t replica)
{
    return slow == replica || slow == DT_PIPELINE_SIM_EVERY_REPLICA ||
           replica == DT_PIPELINE_SIM_EVERY_REPLICA;
}

static void add_slow_links(const struct dt_pipeline_sim_settings *s, int32_t replica,
                           struct dt_pipeline_sim_model *model)
{
    for (uint32_t i = 0; i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];
        struct detour_link *link = &model->links[slow->link];
        int64_t delay_ns = (int64_t)slow->delay_ns;

        if (slow->is_dp || !is_of(slow->replica, replica))
            continue;
        *(slow->is_serial ? &link->forward_serial_ns : &link->forward_ns) += delay_ns;
        *(slow->is_serial ? &link->backward_serial_ns : &link->backward_ns) += delay_ns;
    }
}

static void add_slow_devices(const struct dt_pipeline_sim_settings *s, int32_t replica,
                             struct dt_pipeline_sim_model *model)
{
    for (uint32_t i = 0; i < s->sim.slow_device_count; i++) {
        const struct dt_pipeline_slow_device *slow = &s->slow_device[i];
        struct detour_stage *stage = &model->stages[slow->device];

        if (!is_of(slow->replica, replica))
            continue;
        stage->f_ns = stage->f_ns * slow->permille / 1000;
        stage->b_ns = stage->b_ns * slow->permille / 1000;
        stage->w_ns = stage->w_ns * slow->permille / 1000;
    }
}

/* Equal stages, one for each device, and links as the options have them. */
static void describe(const struct dt_pipeline_sim_settings *s, struct dt_pipeline_sim_model *model)
{
    int64_t serial_ns = (int64_t)(s->sim.message_bytes * UINT64_C(1000000000) / s->sim.rate_bytes_per_s);

    model->profile = (struct detour_profile){
        .stage_count = s->devices, .microbatch_count = s->microbatches, .device_count = s->devices};
    for (int32_t i = 0; i < s->devices; i++) {
        model->stages[i] =
            (struct detour_stage){.f_ns = s->f_ns, .b_ns = s->b_ns, .w_ns = s->w_ns, .device = i};
        model->links[i] = (struct detour_link){.forward_ns = (int64_t)s->sim.latency_ns,
                                               .backward_ns = (int64_t)s->sim.latency_ns,
                                               .forward_serial_ns = serial_ns,
                                               .backward_serial_ns = serial_ns};
    }
}

static void copy(const struct detour_profile *read, struct dt_pipeline_sim_model *model)
{
    model->profile = *read;
    memcpy(model->stages, read->stages, (size_t)read->stage_count * sizeof *read->stages);
    memcpy(model->links, read->links, (size_t)(read->stage_count - 1) * sizeof *read->links);
}

void dt_pipeline_sim_model_make(const struct dt_pipeline_sim_settings *s, bool has_delays, int32_t replica,
                                struct dt_pipeline_sim_model *model)
{
    if (s->input)
        copy(s->input->profile, model);
    else
        describe(s, model);
    model->profile.stages = model->stages;
    model->profile.links = model->links;
    if (!has_delays)
        return;
    add_slow_links(s, replica, model);
    add_slow_devices(s, replica, model);
}

/* ---- the gradients ---- */

/* From a replica of a device to the next one: of a slice of gradients. */
static struct dt_ring_link ring_link(const struct dt_pipeline_sim_settings *s,
                                     struct dt_pipeline_position from)
{
    uint64_t slice_bytes = dt_pipeline_sim_gradients(&s->sim, from).slice_bytes;
    struct dt_ring_link link = {.latency_ns = (int64_t)s->sim.latency_ns,
                                .serial_ns =
                                    (int64_t)(slice_bytes * UINT64_C(1000000000) / s->sim.rate_bytes_per_s)};

    for (uint32_t i = 0; i < s->sim.slow_count; i++) {
        const struct dt_pipeline_slow_link *slow = &s->slow[i];
        bool is_back = s->sim.replicas == 2; /* the ring's other connection between the same two */

        if (!slow->is_dp || slow->link != from.device || (slow->replica != from.replica && !is_back))
            continue;
        *(slow->is_serial ? &link.serial_ns : &link.latency_ns) +=
            (int64_t)dt_pipeline_sim_slice_delay_ns(&s->sim, slow);
    }
    return link;
}

/* The end of the last all-reduce; ended_ns: [replica * devices + device]. */
static int64_t rings_end_ns(const struct dt_pipeline_sim_settings *s, const int64_t *ended_ns)
{
    int64_t last_ns = 0;

    for (int32_t device = 0; device < s->devices; device++) {
        struct dt_pipeline_position position = {device, 0};
        struct dt_gradients_options gradients = dt_pipeline_sim_gradients(&s->sim, position);
        struct dt_ring_link links[DT_SIM_HOSTS_MAX];
        int64_t column_ns[DT_SIM_HOSTS_MAX];
        const struct dt_ring ring = {s->sim.replicas, dt_gradients_slices(&gradients), gradients.slots,
                                     links};

        for (; position.replica < s->sim.replicas; position.replica++) {
            links[position.replica] = ring_link(s, position);
            column_ns[position.replica] = ended_ns[dt_pipeline_rank_of(s->devices, position)];
        }
        int64_t end_ns = dt_ring_end_ns(&ring, column_ns);
        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    return last_ns;
}

/* ---- the schedules ---- */

static size_t find_variant(const struct dt_pipeline_sim_plan *plan, int32_t microbatches)
{
    size_t i = 0;

    while (i < plan->variant_count && plan->variants[i].profile.microbatch_count != microbatches)
        i++;
    return i;
}

/* The profile that schedules are made for. */
static void model_to_plan_for(const struct dt_pipeline_sim_settings *s, struct dt_pipeline_sim_model *model)
{
    dt_pipeline_sim_model_make(s, s->knows_delays, DT_PIPELINE_SIM_EVERY_REPLICA, model);
    for (int32_t i = 0; s->plans_free && i < s->devices; i++)
        model->links[i] = (struct detour_link){0};
}

static enum detour_status make_schedule(struct detour_arena *arena, const struct dt_pipeline_sim_settings *s,
                                        int32_t microbatches, struct detour_schedule **schedule,
                                        struct detour_program **program, struct detour_error *error)
{
    const struct detour_options options = {.algorithm = s->algorithm};
    struct dt_pipeline_sim_model model;
    struct detour_plan *made;
    enum detour_status status;

    model_to_plan_for(s, &model);
    model.profile.microbatch_count = microbatches;
    if (s->input && s->input->schedule) {
        *schedule = s->input->schedule;
    } else {
        status = detour_generate(arena, &model.profile, &options, &made, error);
        if (status != DETOUR_OK)
            return status;
        *schedule = made->schedule;
    }
    /* the order of its receives follows from the same times */
    return detour_program_create(arena, &model.profile, *schedule, program, error);
}

static enum detour_status add_variant(struct detour_arena *arena, const struct dt_pipeline_sim_settings *s,
                                      int32_t microbatches, struct dt_pipeline_sim_plan *plan,
                                      struct detour_error *error)
{
    struct dt_pipeline_sim_variant *variant = &plan->variants[plan->variant_count];
    struct detour_program *program;
    enum detour_status status;

    if (microbatches == s->microbatches || find_variant(plan, microbatches) < plan->variant_count)
        return DETOUR_OK;
    status = make_schedule(arena, s, microbatches, &plan->schedules[plan->variant_count], &program, error);
    if (status != DETOUR_OK)
        return status;
    variant->profile = plan->model.profile;
    variant->profile.microbatch_count = microbatches;
    variant->program = program;
    plan->variant_count++;
    return DETOUR_OK;
}

static enum detour_status add_variants(struct detour_arena *arena, const struct dt_pipeline_sim_settings *s,
                                       struct dt_pipeline_sim_plan *plan, struct detour_error *error)
{
    enum detour_status status = DETOUR_OK;

    for (size_t i = 0; i < s->sim.shares.set_count; i++)
        for (int32_t k = 0; status == DETOUR_OK && k < s->sim.replicas; k++)
            status = add_variant(arena, s, s->sim.shares.sets[i].counts[k], plan, error);
    return status;
}

/* ---- the prediction ---- */

/* A replica in the last iteration; its lower bound, if it is larger, replaces the one before. */
static enum detour_status predict_replica(struct detour_arena *arena,
                                          const struct dt_pipeline_sim_settings *s, int32_t replica,
                                          struct dt_pipeline_sim_plan *plan, int64_t *ended_ns,
                                          struct detour_error *error)
{
    int32_t microbatches = dt_pipeline_share_of(&s->sim.shares, s->sim.replicas, s->microbatches, replica,
                                                s->sim.iteration_count - 1)
                               .count;
    size_t variant = find_variant(plan, microbatches);
    struct detour_schedule *schedule =
        variant < plan->variant_count ? plan->schedules[variant] : plan->schedule;
    struct dt_pipeline_sim_model model;
    struct detour_report *report;
    int64_t lower_bound_ns;
    enum detour_status status;

    dt_pipeline_sim_model_make(s, true, replica, &model);
    model.profile.microbatch_count = microbatches;
    status = detour_simulate(arena, &model.profile, schedule, &report, error);
    for (int32_t i = 0; status == DETOUR_OK && i < s->devices; i++)
        ended_ns[i] = report->devices[i].last_finish_ns;
    if (status == DETOUR_OK)
        plan->makespan_ns = report->makespan_ns;
    if (status == DETOUR_OK)
        status = detour_lower_bound(arena, &model.profile, &lower_bound_ns, error);
    if (status == DETOUR_OK && lower_bound_ns > plan->lower_bound_ns)
        plan->lower_bound_ns = lower_bound_ns;
    return status;
}

static enum detour_status predict(struct detour_arena *arena, const struct dt_pipeline_sim_settings *s,
                                  struct dt_pipeline_sim_plan *plan, struct detour_error *error)
{
    int64_t ended_ns[DT_SIM_HOSTS_MAX];
    enum detour_status status = DETOUR_OK;

    for (int32_t replica = 0; status == DETOUR_OK && replica < s->sim.replicas; replica++)
        status = predict_replica(arena, s, replica, plan, &ended_ns[replica * s->devices], error);
    if (status == DETOUR_OK && s->sim.replicas > 1)
        plan->makespan_ns = rings_end_ns(s, ended_ns);
    return status;
}

enum detour_status dt_pipeline_sim_plan_make(struct detour_arena *arena,
                                             const struct dt_pipeline_sim_settings *s,
                                             struct dt_pipeline_sim_plan *plan, struct detour_error *error)
{
    enum detour_status status;

    plan->variant_count = 0;
    plan->lower_bound_ns = 0;
    dt_pipeline_sim_model_make(s, false, DT_PIPELINE_SIM_EVERY_REPLICA, &plan->model);
    status = make_schedule(arena, s, s->microbatches, &plan->schedule, &plan->program, error);
    if (status == DETOUR_OK)
        status = add_variants(arena, s, plan, error);
    return status == DETOUR_OK ? predict(arena, s, plan, error) : status;
}
