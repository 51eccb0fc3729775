/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/own_plugin.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"

#define PLUGIN_FILE "libnccl-net-detour.so"

const char *dt_own_plugin_find(char *path, size_t bytes)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (length > 0) {
        self[length] = '\0';
        slash = strrchr(self, '/');
        int needed = snprintf(path, bytes, "%.*s/../lib/" PLUGIN_FILE, (int)(slash - self), self);
        if ((size_t)needed < bytes && access(path, R_OK) == 0)
            return path;
    }
    snprintf(path, bytes, "%s", PLUGIN_FILE);
    return path;
}

/* Whether the kernel has an RDMA device. */
static bool has_rdma_device(void)
{
    DIR *folder = opendir("/sys/class/infiniband");
    struct dirent *entry;
    bool found = false;

    if (!folder)
        return false;
    while (!found && (entry = readdir(folder)))
        found = entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

enum dt_status dt_own_plugin_prepare(const char **note, char *error, size_t error_bytes)
{
    static struct dt_params params;
    enum dt_status status = dt_params_load(&params, dt_getenv_process, NULL, error, error_bytes);

    if (status != DT_OK)
        return status;
    if (strcmp(params.verbs, "auto") != 0 && strcmp(params.verbs, "system") != 0 &&
        strcmp(params.verbs, "soft") != 0) {
        snprintf(error, error_bytes, "DETOUR_VERBS=%s: expected system, soft or auto", params.verbs);
        return DT_INVALID;
    }
    if (strcmp(params.verbs, "auto") != 0 || has_rdma_device())
        return DT_OK;
    setenv("DETOUR_VERBS", "soft", 1);
    *note = "no RDMA device here: using the software RNIC (DETOUR_VERBS=soft)";
    return DT_OK;
}
