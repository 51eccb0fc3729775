/* SPDX-License-Identifier: Apache-2.0 */
/* Detour's version: the one place it is written; the build reads it from here. */
#ifndef DETOUR_VERSION_H
#define DETOUR_VERSION_H

#define DETOUR_VERSION_STRING "0.1.0"

#endif
