/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a device treats its messages. The paper is PipeMorph; docs/pipeline.md compares in detail.
 *
 *   nccl       A flow has a fixed number of slots. A send holds the device until its last slice has a slot,
 * so a slow link holds back the computation behind it: head-of-line blocking (section 3.2). A receive is
 *              posted when the program reaches it.
 *   hostpath   A send never holds the device (section 5.2, the sender's side). Receives as above.
 *   delegated  Receives of the whole iteration are posted at its beginning as well (section 5.2, both sides).
 */
#ifndef DETOUR_PIPELINE_MODE_H
#define DETOUR_PIPELINE_MODE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, text */
#define DT_PIPELINE_MODE_LIST(X)        \
    X(DT_PIPELINE_NCCL, "nccl")         \
    X(DT_PIPELINE_HOSTPATH, "hostpath") \
    X(DT_PIPELINE_DELEGATED, "delegated")

enum dt_pipeline_mode {
#define DT_PIPELINE_MODE_ENUM(name, text) name,
    DT_PIPELINE_MODE_LIST(DT_PIPELINE_MODE_ENUM)
#undef DT_PIPELINE_MODE_ENUM
        DT_PIPELINE_MODE_COUNT
};

/* "nccl", ...; NULL for other values. */
const char *dt_pipeline_mode_name(enum dt_pipeline_mode mode);

/* The mode of that name; false if there is none. */
bool dt_pipeline_mode_find(const char *name, enum dt_pipeline_mode *mode);

#ifdef __cplusplus
}
#endif

#endif
