/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of settings, to find those that were mistyped: such a variable has no effect and causes no
 * message. Known are Detour's own settings, and those of NCCL that docs/environment.md lists.
 *
 * Pure; any thread.
 */
#ifndef DETOUR_DOCTOR_NAMES_H
#define DETOUR_DOCTOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Names that begin like this are all known: DETOUR_, and the areas of NCCL that the document lists
 * completely. NCCL has many other settings (NCCL_DEBUG, NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL), which are
 * neither known here nor wrong. X(prefix, whose settings they are)
 */
#define DT_NAME_AREAS(X)                \
    X("DETOUR_", "Detour")              \
    X("NCCL_IB_", "NCCL 2.20 to 2.32")  \
    X("NCCL_OOB_", "NCCL 2.20 to 2.32") \
    X("NCCL_SOCKET_", "NCCL 2.20 to 2.32")

/* Whose setting it would be by its prefix, as text for users; NULL: of no area whose names are all known. */
const char *dt_name_owner(const char *name, size_t bytes);

/* A setting has exactly this name. */
bool dt_name_is_known(const char *name, size_t bytes);

/*
 * The known name of the fewest edits (a character added, removed or replaced, or two neighbours swapped; case
 * does not count): the setting that was meant. NULL: each takes too many, which depends on the length behind
 * the prefix, so that a short name is not taken for another one.
 */
const char *dt_name_nearest(const char *name, size_t bytes);

/* All known names; NULL behind the last. */
const char *dt_name_at(size_t index);

#ifdef __cplusplus
}
#endif

#endif
