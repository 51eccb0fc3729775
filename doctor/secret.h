/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a report for others must not have: passwords and tokens in variables, and the same values in a
 * log. A variable is taken for secret by its name (a known one, or one with a part between underscores such
 * as KEY, TOKEN, PASSWORD, SECRET or AUTH), or because its value is a URL with a user. Pure; any thread.
 */
#ifndef DETOUR_DOCTOR_SECRET_H
#define DETOUR_DOCTOR_SECRET_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the value of this variable is withheld; an empty one is not. */
bool dt_secret_is(const char *name, const char *value);

/*
 * Overwrites with '*', in `text`: the user and password of each URL, and each value of at least four
 * characters of a secret variable of `environment` ("NAME=value"..., NULL at the end; NULL: none). The length
 * stays.
 */
void dt_secret_mask(char *text, char *const *environment);

#ifdef __cplusplus
}
#endif

#endif
