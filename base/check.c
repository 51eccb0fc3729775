/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void dt_check_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "detour: broken invariant at %s:%d: %s\n", file, line, expression);
    abort();
}
