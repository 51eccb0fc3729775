/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pipeline/rank.h"

/* A microbatch has at most these actions on a stage: each kind once. */
#define ACTION_KINDS (DETOUR_ACTION_RELOAD + 1)

#define RECORDS_PER_FRAME \
    ((DT_JOB_FRAME_BYTES_MAX - sizeof(struct dt_pipeline_records_head)) / sizeof(struct dt_pipeline_record))

/* ---- The rank. ---- */

static bool send_frame(int fd, const struct dt_pipeline_records_head *head,
                       const struct dt_executor_span *spans, const struct detour_action *actions)
{
    size_t bytes = sizeof *head + head->count * sizeof(struct dt_pipeline_record);
    char *payload = malloc(bytes);

    if (!payload)
        return false;
    memcpy(payload, head, sizeof *head);
    for (size_t i = 0; i < head->count; i++) {
        const struct dt_pipeline_record record = {spans[i], actions[i]};

        memcpy(payload + sizeof *head + i * sizeof record, &record, sizeof record);
    }
    bool sent = dt_job_frame_send(fd, DT_PIPELINE_FRAME_RECORDS, payload, bytes);
    free(payload);
    return sent;
}

bool dt_pipeline_timeline_send(int fd, const struct dt_executor *executor,
                               const struct detour_program *program, int32_t device, bool has_own_clock)
{
    const struct dt_executor_span *spans = dt_executor_spans(executor);
    const struct detour_action *actions = &program->actions[program->first[device]];
    size_t count = program->first[device + 1] - program->first[device];
    struct dt_pipeline_records_head head = {.has_own_clock = has_own_clock,
                                            .begin_ns = dt_executor_get_account(executor).start_ns};

    for (size_t i = 0; i < count; i += head.count) {
        head.count = (uint32_t)(count - i < RECORDS_PER_FRAME ? count - i : RECORDS_PER_FRAME);
        if (!send_frame(fd, &head, &spans[i], &actions[i]))
            return false;
    }
    return true;
}

/* ---- The launcher. ---- */

size_t dt_pipeline_timeline_records_max(int32_t stage_count, int32_t microbatch_count)
{
    return ACTION_KINDS * (size_t)stage_count * (size_t)microbatch_count;
}

bool dt_pipeline_timeline_take(struct dt_pipeline_timeline *timeline, unsigned device, const void *payload,
                               size_t bytes, size_t records_max)
{
    struct dt_pipeline_timeline_device *to;
    struct dt_pipeline_records_head head;
    struct dt_pipeline_record *grown;

    if (device >= DT_PIPELINE_RANKS_MAX || bytes < sizeof head)
        return false;
    to = &timeline->devices[device];
    memcpy(&head, payload, sizeof head);
    if (head.count == 0 || bytes != sizeof head + head.count * sizeof *grown ||
        head.count > records_max - to->count)
        return false;
    grown = realloc(to->records, (to->count + head.count) * sizeof *grown);
    if (!grown)
        return false;
    to->records = grown;
    memcpy(&grown[to->count], (const char *)payload + sizeof head, head.count * sizeof *grown);
    to->count += head.count;
    to->has_own_clock = head.has_own_clock;
    to->begin_ns = head.begin_ns;
    return true;
}

void dt_pipeline_timeline_free(struct dt_pipeline_timeline *timeline)
{
    for (size_t i = 0; i < DT_PIPELINE_RANKS_MAX; i++)
        free(timeline->devices[i].records);
    memset(timeline, 0, sizeof *timeline);
}

/* ---- What the records say. ---- */

/* When the messages of a stage and microbatch were made and sent. [0] activation, [1] gradient. */
struct crossing {
    int64_t ready_ns[2];
    int64_t depart_ns[2];
    bool is_sent[2];
};

struct reader {
    const struct dt_pipeline_timeline *timeline;
    const struct detour_profile *profile;
    struct crossing *crossings; /* [stage][microbatch] that makes the message */
    struct detour_schedule *schedule;
    struct detour_message *messages;
    size_t message_count;
    struct detour_error *error;
};

static bool refuse(struct reader *reader, enum detour_status status, const char *text)
{
    reader->error->status = status;
    snprintf(reader->error->text, sizeof reader->error->text, "%s", text);
    return false;
}

/* When the shared clock began to count: the first device's begin. */
static uint64_t origin_ns(const struct reader *reader, int32_t device)
{
    const struct dt_pipeline_timeline_device *devices = reader->timeline->devices;
    uint64_t first_ns = devices[device].begin_ns;

    for (int32_t i = 0; i < reader->profile->device_count && !devices[device].has_own_clock; i++)
        if (!devices[i].has_own_clock && devices[i].begin_ns < first_ns)
            first_ns = devices[i].begin_ns;
    return first_ns;
}

static struct crossing *crossing_of(const struct reader *reader, int32_t stage, int32_t microbatch)
{
    return &reader->crossings[(size_t)stage * (size_t)reader->profile->microbatch_count + (size_t)microbatch];
}

static bool is_of_profile(const struct reader *reader, const struct detour_action *action, int32_t device)
{
    return action->stage >= 0 && action->stage < reader->profile->stage_count && action->microbatch >= 0 &&
           action->microbatch < reader->profile->microbatch_count && action->kind < ACTION_KINDS &&
           reader->profile->stages[action->stage].device == device;
}

static bool is_operation(int kind)
{
    return kind <= DETOUR_ACTION_BW;
}

/* The operation as it was executed; it makes the message to the next stage, F, or to the one before. */
static void add_operation(struct reader *reader, const struct detour_action *action, int64_t start_ns,
                          int64_t end_ns)
{
    struct detour_schedule *s = reader->schedule;

    s->ops[s->op_count++] = (struct detour_op){.start_ns = start_ns,
                                               .finish_ns = end_ns,
                                               .microbatch = action->microbatch,
                                               .stage = action->stage,
                                               .kind = action->kind};
    if (action->kind != DETOUR_ACTION_W)
        crossing_of(reader, action->stage, action->microbatch)->ready_ns[action->kind != DETOUR_ACTION_F] =
            end_ns;
}

/* The F of an activation that is copied to the host; it lies before its OFFLOAD. */
static void mark_offloaded(struct reader *reader, const struct detour_action *action, size_t first)
{
    struct detour_schedule *s = reader->schedule;

    for (size_t i = s->op_count; i-- > first;) {
        if (s->ops[i].kind != DETOUR_OP_F || s->ops[i].stage != action->stage ||
            s->ops[i].microbatch != action->microbatch)
            continue;
        s->ops[i].flags |= DETOUR_OP_OFFLOADED;
        return;
    }
}

static bool read_device(struct reader *reader, int32_t device)
{
    const struct dt_pipeline_timeline_device *from = &reader->timeline->devices[device];
    uint64_t begin_ns = origin_ns(reader, device);

    reader->schedule->first[device] = reader->schedule->op_count;
    for (size_t i = 0; i < from->count; i++) {
        const struct detour_action *action = &from->records[i].action;
        int64_t start_ns = (int64_t)(from->records[i].span.start_ns - begin_ns);
        int64_t end_ns = (int64_t)(from->records[i].span.end_ns - begin_ns);

        if (!is_of_profile(reader, action, device))
            return refuse(reader, DETOUR_INVALID, "a device has executed an action that it does not have");
        bool is_gradient = action->kind == DETOUR_ACTION_SEND_B;
        if (is_operation(action->kind))
            add_operation(reader, action, start_ns, end_ns);
        if (action->kind == DETOUR_ACTION_OFFLOAD)
            mark_offloaded(reader, action, reader->schedule->first[device]);
        if (action->kind == DETOUR_ACTION_SEND_F || is_gradient) {
            struct crossing *crossing = crossing_of(reader, action->stage, action->microbatch);
            crossing->depart_ns[is_gradient] = start_ns;
            crossing->is_sent[is_gradient] = true;
        }
    }
    reader->schedule->first[device + 1] = reader->schedule->op_count;
    return true;
}

static int64_t later_ns(int64_t a_ns, int64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static bool add_message(struct reader *reader, const struct detour_action *action, int64_t arrive_ns)
{
    bool is_gradient = action->kind == DETOUR_ACTION_RECV_B;
    int32_t from = action->stage + (is_gradient ? 1 : -1);

    if (from < 0 || from >= reader->profile->stage_count ||
        !crossing_of(reader, from, action->microbatch)->is_sent[is_gradient])
        return refuse(reader, DETOUR_INVALID, "a device has received a message that none has sent");
    const struct crossing *crossing = crossing_of(reader, from, action->microbatch);
    int64_t ready_ns = crossing->ready_ns[is_gradient];
    int64_t depart_ns = later_ns(crossing->depart_ns[is_gradient], ready_ns);
    reader->messages[reader->message_count++] =
        (struct detour_message){.ready_ns = ready_ns,
                                .depart_ns = depart_ns,
                                .arrive_ns = later_ns(arrive_ns, depart_ns),
                                .from_stage = from,
                                .to_stage = action->stage,
                                .microbatch = action->microbatch};
    return true;
}

static bool read_messages(struct reader *reader, int32_t device)
{
    const struct dt_pipeline_timeline_device *from = &reader->timeline->devices[device];
    uint64_t begin_ns = origin_ns(reader, device);

    for (size_t i = 0; i < from->count; i++) {
        const struct detour_action *action = &from->records[i].action;

        if ((action->kind == DETOUR_ACTION_RECV_F || action->kind == DETOUR_ACTION_RECV_B) &&
            !add_message(reader, action, (int64_t)(from->records[i].span.end_ns - begin_ns)))
            return false;
    }
    return true;
}

static size_t count_kinds(const struct reader *reader, int from, int to)
{
    size_t count = 0;

    for (int32_t d = 0; d < reader->profile->device_count; d++)
        for (size_t i = 0; i < reader->timeline->devices[d].count; i++) {
            int kind = reader->timeline->devices[d].records[i].action.kind;
            count += kind >= from && kind <= to;
        }
    return count;
}

static bool read_all(struct reader *reader)
{
    reader->schedule->op_count = 0;
    for (int32_t d = 0; d < reader->profile->device_count; d++)
        if (!read_device(reader, d))
            return false;
    reader->schedule->timed = true;
    for (int32_t d = 0; d < reader->profile->device_count; d++)
        if (!read_messages(reader, d))
            return false;
    return true;
}

enum detour_status dt_pipeline_timeline_measure(const struct dt_pipeline_timeline *timeline,
                                                const struct detour_profile *profile,
                                                struct detour_arena *arena, struct detour_measured *measured,
                                                struct detour_error *error)
{
    struct reader reader = {.timeline = timeline, .profile = profile, .error = error};
    size_t cells = (size_t)profile->stage_count * (size_t)profile->microbatch_count;

    error->status = DETOUR_OK;
    enum detour_status status = detour_schedule_create(
        arena, profile, count_kinds(&reader, DETOUR_ACTION_F, DETOUR_ACTION_BW), &reader.schedule, error);
    if (status)
        return status;
    reader.crossings = calloc(cells, sizeof *reader.crossings);
    reader.messages =
        calloc(count_kinds(&reader, DETOUR_ACTION_SEND_F, DETOUR_ACTION_RECV_B) + 1, sizeof *reader.messages);
    if (!reader.crossings || !reader.messages)
        refuse(&reader, DETOUR_NO_MEMORY, "out of memory");
    else if (read_all(&reader))
        *measured = (struct detour_measured){reader.schedule, reader.message_count, reader.messages};
    free(reader.crossings);
    if (error->status)
        free(reader.messages);
    return error->status;
}
