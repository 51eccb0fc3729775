/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that comes in through a door of the plugin: frames and handles from the network, settings from
 * the environment, lines from the control socket. Each function takes any bytes and returns NULL, or what is
 * wrong with the answer; a crash is the sanitizers' to find.
 */
#ifndef DETOUR_TESTS_TRANSPORT_FUZZ_DOOR_FUZZ_H
#define DETOUR_TESTS_TRANSPORT_FUZZ_DOOR_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* First byte: which decoder. What decodes is in range, and encodes to what decodes to the same. */
const char *dt_fuzz_wire(const uint8_t *data, size_t bytes);

/* Lines NAME=VALUE. Settings that are accepted are inside their limits; a refusal gives its reason on one
 * line. */
const char *dt_fuzz_params(const uint8_t *data, size_t bytes);

/* What a client of the control socket sends, in pieces of the length given by the first byte. Each answer is
 * one line. */
const char *dt_fuzz_session(const uint8_t *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
