/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "cli/arg.h"
#include "obs/runtime_dir.h"

#define REASON_BYTES 256

static bool open_directory(struct dt_runtime_dir *dir)
{
    char reason[REASON_BYTES];

    return dt_runtime_dir_open(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), 0, dir, reason,
                               sizeof reason) == DT_OK;
}

bool dt_pipeline_claim_is(const char *checkpoints)
{
    char own[PATH_MAX], found[PATH_MAX];
    struct dt_runtime_dir dir;
    ssize_t bytes;
    int fd;

    if (!checkpoints || !realpath(checkpoints, own) || !open_directory(&dir))
        return false;
    fd = openat(dir.fd, DT_PIPELINE_CLAIM_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bytes = fd >= 0 ? read(fd, found, sizeof found) : -1;
    if (fd >= 0)
        close(fd);
    dt_runtime_dir_close(&dir);
    return bytes == (ssize_t)strlen(own) && memcmp(found, own, (size_t)bytes) == 0;
}

/* Ranks of one host write the same. */
static bool write_claim(const struct dt_runtime_dir *dir, const char *text)
{
    char temporary[64];

    snprintf(temporary, sizeof temporary, DT_PIPELINE_CLAIM_FILE ".%d", (int)getpid());
    if (!dt_runtime_dir_write(dir, temporary, text))
        return false;
    if (renameat(dir->fd, temporary, dir->fd, DT_PIPELINE_CLAIM_FILE) == 0)
        return true;
    unlinkat(dir->fd, temporary, 0);
    return false;
}

void dt_pipeline_claim_set(const char *checkpoints)
{
    char own[PATH_MAX] = "";
    struct dt_runtime_dir dir;

    if (!open_directory(&dir))
        return;
    if (checkpoints && !realpath(checkpoints, own))
        own[0] = '\0';
    if (!write_claim(&dir, own))
        dt_arg_refuse("detour pipeline",
                      "%s/" DT_PIPELINE_CLAIM_FILE " is not written: %s; a run with --resume will not take "
                      "the remedy that is in force then",
                      dir.path, strerror(errno));
    dt_runtime_dir_close(&dir);
}
