/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examines a machine for Detour: the devices and settings that the plugin would find and choose, with the
 * plugin's own functions, and the problems among them. Every part can run alone; the machine's files are read
 * under a root directory, so that tests use a fixture tree.
 *
 * Nothing is changed. Opening devices can take seconds. One thread; the log's sink is replaced during the
 * examination.
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
    char *const
        *environment;       /* the same as "NAME=value"..., for unknown names (names.h); NULL: not checked */
    uint64_t memlock_bytes; /* the limit on locked memory; DT_MEMLOCK_UNLIMITED */
    const char *nccl_library; /* NULL: libnccl.so.2, where the loader finds it */
};

/* Runs all parts below, in this order. */
void dt_doctor_examine(const struct dt_doctor_options *options, struct dt_report *report);

/*
 * The settings, each with its value and source. False: one is invalid, so the plugin would not start; *params
 * then has the defaults.
 */
bool dt_doctor_settings(const struct dt_doctor_options *options, struct dt_report *report,
                        struct dt_params *params);

/* The ports of all devices, their GIDs and the reason for the chosen one, rails, backups. */
void dt_doctor_devices(const struct dt_doctor_options *options, struct dt_report *report,
                       struct dt_verbs *verbs, const struct dt_params *params);

/* No library, or no device in it: the devices of the kernel. */
void dt_doctor_no_devices(const struct dt_doctor_options *options, struct dt_report *report);

/* The network interface for set-up, and whether it is a port of an RNIC in use: call it after
 * dt_doctor_devices(). */
void dt_doctor_interface(const struct dt_doctor_options *options, struct dt_report *report,
                         const struct dt_params *params);
/* The second half of it, for an interface of this name. */
void dt_doctor_control(const struct dt_doctor_options *options, struct dt_report *report,
                       const char *interface);

/* Locked memory; and ptrace, for software RNICs. */
void dt_doctor_limits(const struct dt_doctor_options *options, struct dt_report *report, bool is_soft);

/* GPUs, and whether the RNICs reach their memory; `capabilities`: common to all RNICs. */
void dt_doctor_gpu(const struct dt_doctor_options *options, struct dt_report *report, uint32_t capabilities);

/* NCCL's library, and whether it will load Detour. */
void dt_doctor_nccl(const struct dt_doctor_options *options, struct dt_report *report);

/* Known properties of a version of NCCL, in the form of ncclGetVersion(): 22705 is 2.27.5. */
void dt_doctor_nccl_version(struct dt_report *report, int version);

/*
 * Adds the facts by which this machine can be examined elsewhere: kernel, driver, libraries of this process,
 * firmware of the RNICs, and the variables of Detour and NCCL. No other variable is read, since it might be
 * secret, and of those that may hold a password or a token (secret.h) the report has the names alone, in the
 * environment and among the settings.
 */
void dt_doctor_bundle(const struct dt_doctor_options *options, struct dt_report *report);
/* After it: adds the first and the last 512 KiB of a log, secrets overwritten; false with errno set: it
 * cannot be read, or is no file. */
bool dt_doctor_bundle_log(const struct dt_doctor_options *options, struct dt_report *report,
                          const char *path);

/* ------------------------------------------------------------------------------------------------------------
 * Shared by the parts
 */

/* The first line of a file below the root, without its newline; false: none. */
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
