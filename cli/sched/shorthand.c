/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched`: profiles without a file (--uniform) and delays without a file (--delay). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/command.h"
#include "cli/sched/sched.h"

/* A decimal number at *at, which it moves past; false if there is none. */
static bool take_number(const char **at, double *value)
{
    char *end;

    *value = strtod(*at, &end);
    if (end == *at || !(*value >= 0 && *value <= 1e15)) /* nor NaN */
        return false;
    *at = end;
    return true;
}

static bool take_char(const char **at, char expected)
{
    if (**at != expected)
        return false;
    (*at)++;
    return true;
}

/* The JSON profile of "SxN:F,B,W"; NULL with errno: EINVAL when the text is not of that form. */
static char *uniform_json(const char *text)
{
    double stages, microbatches, ms[3];
    const char *at = text;
    char *json = NULL;
    size_t bytes = 0;

    if (!take_number(&at, &stages) || !take_char(&at, 'x') || !take_number(&at, &microbatches) ||
        !take_char(&at, ':') || !take_number(&at, &ms[0]) || !take_char(&at, ',') ||
        !take_number(&at, &ms[1]) || !take_char(&at, ',') || !take_number(&at, &ms[2]) || *at || stages < 1 ||
        stages > DETOUR_STAGES_MAX) {
        errno = EINVAL;
        return NULL;
    }
    FILE *out = open_memstream(&json, &bytes);
    if (!out)
        return NULL;
    fprintf(out, "{\"version\": 1, \"microbatches\": %.15g, \"stages\": [", microbatches);
    for (int i = 0; i < (int)stages; i++)
        fprintf(out, "%s{\"f_ms\": %.15g, \"b_ms\": %.15g, \"w_ms\": %.15g}", i ? ", " : "", ms[0], ms[1],
                ms[2]);
    fputs("], \"links\": [", out);
    for (int i = 0; i + 1 < (int)stages; i++)
        fprintf(out, "%s{\"forward_ms\": 0}", i ? ", " : "");
    fputs("]}", out);
    if (fclose(out) == 0)
        return json;
    free(json);
    return NULL;
}

int dt_sched_make_uniform(struct dt_sched_run *run, struct detour_profile **profile)
{
    const char *text = run->options->uniform;
    char *json = uniform_json(text);
    char name[80];
    int code = DT_EXIT_OK;

    if (!json && errno != EINVAL)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    if (!json)
        return dt_sched_say(
            run->options, DT_EXIT_USAGE,
            "--uniform %s: expected STAGESxMICROBATCHES:F,B,W with times in milliseconds and up to "
            "%d stages, as in 8x32:9,10,6",
            text, DETOUR_STAGES_MAX);
    snprintf(name, sizeof name, "--uniform %s", text);
    if (detour_profile_from_json(run->arena, name, json, strlen(json), profile, &run->error))
        code = dt_sched_fail(run, NULL);
    free(json);
    return code;
}

/* The number of the link at *at: a number, "first" or "last". */
static bool take_link(const char **at, int32_t link_count, double *link)
{
    if (!strncmp(*at, "first", 5) || !strncmp(*at, "last", 4)) {
        bool is_first = **at == 'f';

        *link = is_first ? 0 : link_count - 1;
        *at += is_first ? 5 : 4;
        return link_count > 0;
    }
    return take_number(at, link) && *link < link_count && *link == (int32_t)*link;
}

/* A unit of time in milliseconds. */
static bool take_unit(const char **at, double *ms)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"ms", 1}, {"us", 1e-3}, {"s", 1e3}};

    for (size_t i = 0; i < DT_COUNT_OF(units); i++) {
        if (!strcmp(*at, units[i].name)) {
            *ms *= units[i].ms;
            return true;
        }
    }
    return false;
}

static int add_delay(struct dt_sched_run *run, const char *text, struct detour_profile **profile)
{
    struct detour_profile *slower;
    const char *at = text;
    double link, delay_ms;
    char json[128], name[80];

    if (!take_link(&at, (*profile)->stage_count - 1, &link) || !take_char(&at, '=') ||
        !take_number(&at, &delay_ms) || !take_unit(&at, &delay_ms))
        return dt_sched_say(run->options, DT_EXIT_USAGE,
                            "--delay %s: expected LINK=TIME; LINK is first, last or a number below %" PRId32
                            ", TIME has the unit us, ms or s, as in last=60ms",
                            text, (*profile)->stage_count - 1);
    snprintf(name, sizeof name, "--delay %s", text);
    snprintf(json, sizeof json, "{\"version\": 1, \"links\": [{\"link\": %.0f, \"delay_ms\": %.15g}]}", link,
             delay_ms);
    if (detour_delays_from_json(run->arena, *profile, NULL, name, json, strlen(json), &slower, &run->error))
        return dt_sched_fail(run, NULL);
    *profile = slower;
    return DT_EXIT_OK;
}

int dt_sched_add_delays(struct dt_sched_run *run, struct detour_profile **profile)
{
    int code = DT_EXIT_OK;

    for (int i = 0; code == DT_EXIT_OK && i < run->options->delay_count; i++)
        code = add_delay(run, run->options->delay[i], profile);
    return code;
}
