/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "doctor/doctor.h"
#include "doctor/names.h"

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static json_t *value_of(const struct dt_param_info *info, const struct dt_params *params)
{
    const char *field = (const char *)params + info->offset;
    uint64_t number;

    if (!info->unit)
        return json_string(field);
    memcpy(&number, field, sizeof number);
    return json_integer((json_int_t)number);
}

static void list_settings(const struct dt_doctor_options *options, struct dt_report *report,
                          const struct dt_params *params)
{
    size_t count;
    const struct dt_param_info *table = dt_param_table(&count);

    for (size_t i = 0; i < count; i++) {
        const char *source = dt_param_source(&table[i], options->get, options->get_arg);

        dt_report_add_fact(report, "settings",
                           json_pack("{s:s, s:o, s:s*, s:s}", "name", table[i].name, "value",
                                     value_of(&table[i], params), "unit", table[i].unit, "source",
                                     source ? source : "default"));
    }
}

/* Variables that are named like settings and are none: a mistyped one has no effect and causes no message. */
static void look_for_unknown(const struct dt_doctor_options *options, struct dt_report *report)
{
    for (char *const *entry = options->environment; entry && *entry; entry++) {
        size_t bytes = strcspn(*entry, "=");
        const char *owner = dt_name_owner(*entry, bytes);
        const char *nearest = dt_name_nearest(*entry, bytes);
        char advice[128];

        if (!owner || dt_name_is_known(*entry, bytes))
            continue;
        if (nearest)
            snprintf(advice, sizeof advice, "%s, if that is meant; or unset it", nearest);
        else
            snprintf(advice, sizeof advice, "correct or unset it; docs/environment.md lists the names");
        dt_report_add_finding(report, DT_LEVEL_WARNING, "settings", advice,
                              "%.*s is no setting of %s: it has no effect", (int)bytes, *entry, owner);
    }
}

bool dt_doctor_settings(const struct dt_doctor_options *options, struct dt_report *report,
                        struct dt_params *params)
{
    char error[DT_PARAM_TEXT_BYTES + 128];
    bool is_right;

    dt_doctor_capture_log(report, "settings", DT_LEVEL_WARNING);
    is_right = dt_params_load(params, options->get, options->get_arg, error, sizeof error) == DT_OK;
    dt_doctor_release_log();
    if (is_right && strcmp(params->verbs, "system") && strcmp(params->verbs, "soft") &&
        strcmp(params->verbs, "auto")) {
        snprintf(error, sizeof error, "DETOUR_VERBS=%s: expected system, soft or auto", params->verbs);
        is_right = false;
    }
    if (is_right) {
        dt_report_add_finding(report, DT_LEVEL_OK, "settings", NULL, "all are in their ranges");
        list_settings(options, report, params);
    } else {
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "settings",
                              "correct it: with it the plugin does not start", "%s", error);
        (void)dt_params_load(params, nothing, NULL, error, sizeof error);
    }
    look_for_unknown(options, report);
    return is_right;
}
