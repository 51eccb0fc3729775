/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a machine with Detour's eyes: what the plugin would find and choose here, by the functions that it
 * uses itself, and what of it will cost the user something. Every part can be asked alone; the machine's
 * files are read under a root, so that a fixture tree stands for a machine.
 *
 * Nothing is changed. Devices are opened, and may take a while. One thread; the log's sink is used meanwhile.
 */
#ifndef DETOUR_DOCTOR_DOCTOR_H
#define DETOUR_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"
#include "doctor/report.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_MEMLOCK_UNLIMITED UINT64_MAX

struct dt_doctor_options {
    const char *root;    /* in front of /sys, /proc and /dev; "" */
    dt_getenv_func *get; /* the environment */
    void *get_arg;
    char *const *environment; /* the same as "NAME=value"..., for names that mean nothing; NULL: not looked at */
    uint64_t memlock_bytes;   /* the limit on locked memory; DT_MEMLOCK_UNLIMITED */
    const char *nccl_library; /* NULL: libnccl.so.2, where the loader finds it */
};

/* Everything below, in this order. */
void dt_doctor_examine(const struct dt_doctor_options *options, struct dt_report *report);

/*
 * The settings, each with its value and where it comes from. False: one of them is wrong, and the plugin
 * would not start; *params then has the defaults.
 */
bool dt_doctor_settings(const struct dt_doctor_options *options, struct dt_report *report,
                        struct dt_params *params);

/* The ports of all devices, their GIDs and why one was chosen, rails, backups. */
void dt_doctor_devices(const struct dt_doctor_options *options, struct dt_report *report,
                       struct dt_verbs *verbs, const struct dt_params *params);

/* No library, or no device in it: what the kernel has. */
void dt_doctor_no_devices(const struct dt_doctor_options *options, struct dt_report *report);

/* The network interface for set-up. */
void dt_doctor_interface(struct dt_report *report, const struct dt_params *params);

/* Locked memory; and ptrace, for software RNICs. */
void dt_doctor_limits(const struct dt_doctor_options *options, struct dt_report *report, bool is_soft);

/* GPUs, and whether the RNICs reach their memory: `capabilities` are those that all of them have. */
void dt_doctor_gpu(const struct dt_doctor_options *options, struct dt_report *report, uint32_t capabilities);

/* NCCL's library, and whether it will load Detour. */
void dt_doctor_nccl(const struct dt_doctor_options *options, struct dt_report *report);

/* What is known of a version of NCCL, as ncclGetVersion() says it: 22705 is 2.27.5. */
void dt_doctor_nccl_version(struct dt_report *report, int version);

/* ------------------------------------------------------------------------------------------------------------
 * Between the parts
 */

/* The first line of a file below the root, without its end; false: there is none. */
bool dt_doctor_read_line(const struct dt_doctor_options *options, const char *path, char *line, size_t bytes);

/*
 * Captures log lines until dt_doctor_release_log(): warnings become findings of `topic` and `level`, lines
 * about skipped devices become warnings.
 */
void dt_doctor_capture_log(struct dt_report *report, const char *topic, enum dt_level level);
void dt_doctor_release_log(void);

#ifdef __cplusplus
}
#endif

#endif
