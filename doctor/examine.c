/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "doctor/doctor.h"

static void examine_devices(const struct dt_doctor_options *options, struct dt_report *report,
                            const struct dt_params *params)
{
    char reason[512] = "";
    struct dt_verbs_options verbs_options = {
        .kind = strcmp(params->verbs, "soft") == 0 ? DT_VERBS_SOFT : DT_VERBS_SYSTEM,
        .reason = reason,
        .reason_bytes = sizeof reason,
    };
    struct dt_verbs *verbs;
    enum dt_status status;

    dt_verbs_options_take(&verbs_options, params);
    dt_doctor_capture_log(report, "devices", DT_LEVEL_WARNING);
    status = dt_verbs_open(&verbs_options, &verbs);
    dt_doctor_release_log();
    if (status != DT_OK) {
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "devices",
                              "Debian: libibverbs1 and ibverbs-providers; or DETOUR_IBV_LIB", "%s", reason);
        dt_doctor_gpu(options, report, 0);
        return;
    }
    dt_doctor_devices(options, report, verbs, params);
    dt_verbs_close(verbs);
}

void dt_doctor_examine(const struct dt_doctor_options *options, struct dt_report *report)
{
    struct dt_params params;

    (void)dt_doctor_settings(options, report, &params);
    examine_devices(options, report, &params);
    dt_doctor_interface(options, report, &params);
    dt_doctor_limits(options, report, strcmp(params.verbs, "soft") == 0);
    dt_doctor_nccl(options, report);
}
