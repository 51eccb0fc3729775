/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour control hold` and `detour control release`: a request to the controller of a job (record.h), and
 * the answers of its hosts.
 */
#ifndef DETOUR_CLI_CONTROL_REQUEST_H
#define DETOUR_CLI_CONTROL_REQUEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* `argv` has the word hold or release among its words. */
int dt_control_request_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
