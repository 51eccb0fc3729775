/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched`: files in, text out, errors as one line with an exit code. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/file.h"
#include "cli/sched/sched.h"

int dt_sched_say(const struct dt_sched_options *options, int code, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s: ", options->command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return code;
}

/* An error of the machine, or of the input. */
static int exit_code(enum detour_status status)
{
    switch (status) {
    case DETOUR_NO_MEMORY:
    case DETOUR_STOPPED:
    case DETOUR_IO:
    case DETOUR_INTERNAL:
        return DT_EXIT_FAILED;
    default:
        return DT_EXIT_USAGE;
    }
}

const char *dt_sched_name_of(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

int dt_sched_fail(struct dt_sched_run *run, const char *path)
{
    return dt_sched_say(run->options, exit_code(run->error.status), "%s%s%s",
                        path ? dt_sched_name_of(path) : "", path ? ": " : "", run->error.text);
}

int dt_sched_read_file(struct dt_sched_run *run, const char *path, char **data, size_t *bytes)
{
    bool is_stdin = !strcmp(path, "-");

    if (is_stdin && run->stdin_used)
        return dt_sched_say(run->options, DT_EXIT_USAGE, "only one file can come from standard input");
    run->stdin_used = run->stdin_used || is_stdin;
    FILE *stream = is_stdin ? stdin : fopen(path, "rb");

    if (!stream)
        return dt_sched_say(run->options, DT_EXIT_USAGE, "%s: %s", path, strerror(errno));
    *data = dt_file_read(stream, DETOUR_INPUT_BYTES_MAX, bytes);
    int error = errno;

    if (!is_stdin)
        fclose(stream);
    if (!*data)
        return dt_sched_say(run->options, error == ENOMEM ? DT_EXIT_FAILED : DT_EXIT_USAGE, "%s: %s",
                            dt_sched_name_of(path), strerror(error));
    return DT_EXIT_OK;
}

int dt_sched_read_profile(struct dt_sched_run *run, const char *path, struct detour_profile **profile)
{
    size_t bytes;
    char *data;

    int code = dt_sched_read_file(run, path, &data, &bytes);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_profile_from_json(run->arena, dt_sched_name_of(path), data, bytes, profile, &run->error))
        code = dt_sched_fail(run, NULL);
    free(data);
    return code;
}

static int read_schedule(struct dt_sched_run *run, const char *path)
{
    size_t bytes;
    char *data;

    int code = dt_sched_read_file(run, path, &data, &bytes);
    if (code != DT_EXIT_OK)
        return code;
    enum detour_status status =
        run->repairs ? detour_plan_read_repaired(run->arena, run->profile, dt_sched_name_of(path), data,
                                                 bytes, &run->plan, &run->repair, &run->error)
                     : detour_plan_read(run->arena, run->profile, dt_sched_name_of(path), data, bytes,
                                        &run->plan, &run->planned, &run->error);
    if (status)
        code = dt_sched_fail(run, NULL);
    free(data);
    return code;
}

int dt_sched_read_inputs(struct dt_sched_run *run)
{
    struct detour_profile *profile;

    int code = run->options->uniform ? dt_sched_make_uniform(run, &profile)
                                     : dt_sched_read_profile(run, run->options->profile_path, &profile);
    if (code == DT_EXIT_OK)
        code = dt_sched_add_delays(run, &profile);
    if (code != DT_EXIT_OK)
        return code;
    run->profile = profile;
    return run->options->schedule_path ? read_schedule(run, run->options->schedule_path) : DT_EXIT_OK;
}

int dt_sched_write(struct dt_sched_run *run, const char *data, size_t bytes)
{
    return dt_sched_write_file(run, run->options->out_path, data, bytes);
}

int dt_sched_write_file(struct dt_sched_run *run, const char *path, const char *data, size_t bytes)
{
    bool is_stdout = !path || !strcmp(path, "-");
    FILE *stream = is_stdout ? stdout : fopen(path, "wb");

    if (!stream)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    bool failed = fwrite(data, 1, bytes, stream) != bytes;
    failed = fflush(stream) != 0 || failed;
    int error = errno;

    if (!is_stdout && fclose(stream) != 0 && !failed) {
        error = errno;
        failed = true;
    }
    if (failed)
        return dt_sched_say(run->options, DT_EXIT_FAILED,
                            "%s: writing failed: %s; what is there is incomplete",
                            is_stdout ? "standard output" : path, strerror(error));
    return DT_EXIT_OK;
}
