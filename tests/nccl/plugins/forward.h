/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that stands before another one: ncclNet v8 functions that pass every call on. A double changes the
 * members it is about. The plugin behind is named by DETOUR_FORWARD_TO (a path or a soname).
 */
#ifndef DETOUR_TESTS_NCCL_PLUGINS_FORWARD_H
#define DETOUR_TESTS_NCCL_PLUGINS_FORWARD_H

#include "plugin/nccl_net_v8.h"

/* Loads the plugin behind and returns its functions. Ends the process when there is none. */
const ncclNet_v8_t *forward_load(void);

/* What the double exports, filled by its constructor. */
extern ncclNet_v8_t ncclNetPlugin_v8;

#endif
