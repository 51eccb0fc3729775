/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that rules name, read outside the data path: rule files, traces (delay/trace.h, also as JSON) and
 * records. JSON is read by jansson, which is loaded when it is needed, so that the plugin loads without it.
 */
#ifndef DETOUR_TRANSPORT_INJECT_FILES_H
#define DETOUR_TRANSPORT_INJECT_FILES_H

#include <stddef.h>

#include "base/status.h"
#include "delay/table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_INJECT_FILE_BYTES_MAX (256u << 20)

/* A whole file, followed by a zero byte; *text is to be freed. On errors one line goes to `error`. */
enum dt_status dt_inject_read_file(const char *name, char **text, size_t *bytes, char *error,
                                   size_t error_bytes);

/* What a trace or replay rule needs; nothing for other rules. On errors one line goes to `error`. */
enum dt_status dt_inject_load_files(const struct dt_delay_rule *rule, struct dt_delay_files *files,
                                    char *error, size_t error_bytes);
void dt_inject_free_files(struct dt_delay_files *files);

#ifdef __cplusplus
}
#endif

#endif
