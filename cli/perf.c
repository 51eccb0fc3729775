/* SPDX-License-Identifier: Apache-2.0 */
/* `detour perf`: reads the options and the environment, then launches or joins. */
#include "cli/perf.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "cli/command.h"
#include "cli/perf_launch.h"
#include "cli/perf_options.h"
#include "cli/perf_report.h"

#define PLUGIN_FILE "libnccl-net-detour.so"

static int say(const char *text)
{
    fprintf(stderr, "detour perf: %s\n", text);
    return DT_EXIT_USAGE;
}

/* Detour's own plugin: beside this program (../lib), as built and as installed, else wherever the loader
 * looks. */
static void find_plugin(char *path, size_t bytes)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (length > 0) {
        self[length] = '\0';
        slash = strrchr(self, '/');
        int needed = snprintf(path, bytes, "%.*s/../lib/" PLUGIN_FILE, (int)(slash - self), self);
        if ((size_t)needed < bytes && access(path, R_OK) == 0)
            return;
    }
    snprintf(path, bytes, "%s", PLUGIN_FILE);
}

/* Does the kernel show an RDMA device? */
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

/*
 * Checks Detour's settings, and chooses the software RNIC where there is no other: inside NCCL `auto` means
 * real devices only, but a test on a machine without any is better run than refused. Returns an exit code.
 */
static int choose_verbs(const char **note)
{
    static struct dt_params params;
    char error[512];

    if (dt_params_load(&params, dt_getenv_process, NULL, error, sizeof error) != DT_OK)
        return say(error);
    if (strcmp(params.verbs, "auto") != 0 && strcmp(params.verbs, "system") != 0 &&
        strcmp(params.verbs, "soft") != 0) {
        snprintf(error, sizeof error, "DETOUR_VERBS=%s: expected system, soft or auto", params.verbs);
        return say(error);
    }
    if (strcmp(params.verbs, "auto") != 0 || has_rdma_device())
        return DT_EXIT_OK;
    setenv("DETOUR_VERBS", "soft", 1);
    *note = "no RDMA device here: using the software RNIC (DETOUR_VERBS=soft)";
    return DT_EXIT_OK;
}

int dt_perf_command(int argc, char **argv)
{
    static struct dt_perf_report report;
    struct dt_perf_options options;
    struct dt_perf_error error = {0};
    char own_plugin[PATH_MAX + sizeof PLUGIN_FILE];
    const char *note = NULL;
    int code = dt_perf_options_parse(argc, argv, &options);

    if (code == DT_EXIT_OK)
        code = choose_verbs(&note);
    if (code != DT_EXIT_OK)
        return code;
    find_plugin(own_plugin, sizeof own_plugin);
    const char *plugin_path = options.plugin_path ? options.plugin_path : own_plugin;
    if (options.rank > 0)
        return dt_perf_join(&options, plugin_path);
    if (!dt_perf_report_init(&report, &options, argc, argv, &error))
        return say(error.text);
    report.note = note;
    return dt_perf_launch(&options, plugin_path, &report);
}
