/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files for commands that read documents. */
#ifndef DETOUR_CLI_FILE_H
#define DETOUR_CLI_FILE_H

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The rest of a stream, malloc'ed; NULL with errno set. Stops soon after `bytes_max`: *bytes is larger then,
 * so that the reader of the document refuses it by its own limit.
 */
char *dt_file_read(FILE *stream, size_t bytes_max, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
