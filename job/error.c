/* SPDX-License-Identifier: Apache-2.0 */
#include "job/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

bool dt_job_fail(struct dt_job_error *error, int exit_code, const char *format, ...)
{
    va_list args;

    if (error->exit_code)
        return false;
    error->exit_code = exit_code;
    error->when_ns = dt_clock_now_ns();
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return false;
}
