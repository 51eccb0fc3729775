/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/metrics_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0644 /* node_exporter is another user */

void dt_metrics_label(FILE *out, const char *name, const char *value)
{
    fprintf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            putc('\\', out);
        putc(*value >= ' ' && *value <= '~' ? *value : '?', out);
    }
    putc('"', out);
}

void dt_metrics_label_number(FILE *out, const char *name, int64_t number)
{
    char text[24] = "";

    if (number >= 0)
        snprintf(text, sizeof text, "%" PRId64, number);
    dt_metrics_label(out, name, text);
}

void dt_metrics_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* ---- The file. ---- */

/* A name in the same folder that no collector takes: it begins with a dot and has no known ending. */
static bool temporary_name(const char *path, char name[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int folder_bytes = slash ? (int)(slash + 1 - path) : 0;
    int bytes =
        snprintf(name, PATH_MAX, "%.*s.%s.%d", folder_bytes, path, path + folder_bytes, (int)getpid());

    return bytes < PATH_MAX;
}

static bool refuse(int error, char *reason, size_t reason_bytes)
{
    snprintf(reason, reason_bytes, "%s", strerror(error ? error : EIO));
    return false;
}

bool dt_metrics_save(const char *path, dt_metrics_write_func *write_metrics, void *arg, char *reason,
                     size_t reason_bytes)
{
    char name[PATH_MAX];
    bool is_made, is_written;
    FILE *out;
    int error, fd;

    if (!temporary_name(path, name))
        return refuse(ENAMETOOLONG, reason, reason_bytes);
    unlink(name); /* of a process of the same number that was killed */
    fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        error = errno;
        if (fd >= 0)
            close(fd);
        return refuse(error, reason, reason_bytes);
    }
    is_made = write_metrics(arg, out, reason, reason_bytes);
    errno = 0;
    is_written = !fflush(out) && !ferror(out);
    is_written = !fclose(out) && is_written && is_made && !rename(name, path);
    error = errno;
    if (!is_written)
        unlink(name);
    return is_written || (is_made && refuse(error, reason, reason_bytes));
}
