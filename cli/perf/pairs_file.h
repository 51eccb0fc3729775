/* SPDX-License-Identifier: Apache-2.0 */
/* `detour perf --pairs FILE.json`: a validation plan as `detour mitigate --validation --json` prints it. */
#ifndef DETOUR_CLI_PERF_PAIRS_FILE_H
#define DETOUR_CLI_PERF_PAIRS_FILE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name of a plan is that of a file: it ends with ".json". */
bool dt_perf_pairs_is_file(const char *plan);

/*
 * The links of the passes of the document, as a list ("0-1,2-3"), which takes the place of the file's name in
 * the options: so the digest by which ranks compare their options has the content, and each command reads the
 * file once. The passes are made anew. malloc'ed; NULL: one line on standard error has the reason.
 */
char *dt_perf_pairs_read_file(const char *path);

#ifdef __cplusplus
}
#endif

#endif
