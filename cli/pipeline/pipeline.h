/* SPDX-License-Identifier: Apache-2.0 */
/* `detour pipeline`. */
#ifndef DETOUR_CLI_PIPELINE_PIPELINE_H
#define DETOUR_CLI_PIPELINE_PIPELINE_H

#ifdef __cplusplus
extern "C" {
#endif

int dt_pipeline_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
