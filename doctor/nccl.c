/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's library, what is known of its version, and whether it will load Detour. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "doctor/doctor.h"

#define PLUGIN_FILE "libnccl-net-detour.so"

/* ------------------------------------------------------------------------------------------------------------
 * Versions. Read from NCCL's sources, release by release; the last one that was read is NEWEST.
 */
#define NEWEST 23007

static const struct {
    int first, last; /* in the form of ncclGetVersion() */
    enum dt_level level;
    const char *text;
    const char *advice;
} facts[] = {
    {0, 22002, DT_LEVEL_PROBLEM,
     "it does not know ncclNet v8, the interface that Detour has: it will not be used",
     "NCCL 2.20.3 or later"},
    {22003, 22099, DT_LEVEL_OK, "NCCL_NET_PLUGIN=detour finds the plugin, a path does not", NULL},
    {22602, 22707, DT_LEVEL_WARNING,
     "it discards errors of a plugin: a job whose connections are lost hangs without an error",
     "NCCL 2.28.3 or later; until then watch the log for lines with \"NET/Detour\" and WARN, and let the "
     "job's launcher "
     "have a timeout"},
    {22703, 22704, DT_LEVEL_WARNING, "it does not take a path in NCCL_NET_PLUGIN",
     "NCCL_NET_PLUGIN=detour, without a path"},
    {22803, 22907, DT_LEVEL_WARNING,
     "it forgets the plugin's name with the last communicator: later ones of the same process use another "
     "network",
     "NCCL_NET_PLUGIN_REF_COUNT=1, or NCCL 2.30.3 or later"},
    {NEWEST + 1, INT_MAX, DT_LEVEL_OK, "it is newer than what Detour has been compared with (2.30.7)", NULL},
};

static void version_text(int version, char text[32])
{
    snprintf(text, 32, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void dt_doctor_nccl_version(struct dt_report *report, int version)
{
    char text[32];
    bool is_known = false;

    version_text(version, text);
    for (size_t i = 0; i < DT_COUNT_OF(facts); i++) {
        if (version < facts[i].first || version > facts[i].last)
            continue;
        dt_report_add_finding(report, facts[i].level, "nccl", facts[i].advice, "NCCL %s: %s", text,
                              facts[i].text);
        is_known = true;
    }
    if (!is_known)
        dt_report_add_finding(report, DT_LEVEL_OK, "nccl", NULL,
                              "NCCL %s: loads ncclNet v8 plugins and reports their errors", text);
}

/* ------------------------------------------------------------------------------------------------------------
 * The library
 */
static const char *path_of(void *library, const char *otherwise)
{
    struct link_map *map = NULL;

    return !dlinfo(library, RTLD_DI_LINKMAP, &map) && map && map->l_name[0] ? map->l_name : otherwise;
}

static void examine_library(const struct dt_doctor_options *options, struct dt_report *report)
{
    const char *name = options->nccl_library ? options->nccl_library : "libnccl.so.2";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "ncclGetVersion") : NULL;
    int (*get_version)(int *version);
    int version = 0;

    memcpy(&get_version, &symbol, sizeof get_version);
    if (!library && options->nccl_library)
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "nccl", "name the file of NCCL's library", "%s",
                              dlerror());
    else if (!library)
        dt_report_add_finding(
            report, DT_LEVEL_OK, "nccl", NULL,
            "the loader finds no libnccl.so.2; a framework may bring its own: --nccl FILE examines it");
    else if (!get_version || get_version(&version) != 0)
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "nccl", "name the file of NCCL's library",
                              "%s reports no version: it is not NCCL", path_of(library, name));
    else {
        dt_report_add_finding(report, DT_LEVEL_OK, "nccl", NULL, "the library is %s", path_of(library, name));
        dt_doctor_nccl_version(report, version);
    }
    if (library && !get_version)
        dlclose(library); /* NCCL itself does not expect to be unloaded */
}

/* ------------------------------------------------------------------------------------------------------------
 * The plugin, as NCCL looks for it
 */

/* In LD_LIBRARY_PATH and the loader's own folders, but not where only this program looks (its run path): libc
 * has none. */
static bool find_plugin(char path[PATH_MAX])
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    Dl_serinfo size;
    Dl_serinfo *folders = NULL;
    bool is_found = false;

    if (libc && !dlinfo(libc, RTLD_DI_SERINFOSIZE, &size))
        folders = malloc(size.dls_size);
    if (folders && !dlinfo(libc, RTLD_DI_SERINFOSIZE, folders) && !dlinfo(libc, RTLD_DI_SERINFO, folders)) {
        for (unsigned i = 0; i < folders->dls_cnt && !is_found; i++) {
            snprintf(path, PATH_MAX, "%s/%s", folders->dls_serpath[i].dls_name, PLUGIN_FILE);
            is_found = access(path, R_OK) == 0;
        }
    }
    free(folders);
    if (libc)
        dlclose(libc);
    return is_found;
}

static void examine_plugin(const struct dt_doctor_options *options, struct dt_report *report)
{
    const char *plugin = options->get(options->get_arg, "NCCL_NET_PLUGIN");
    const char *net = options->get(options->get_arg, "NCCL_NET");
    char path[PATH_MAX];

    if (!plugin || !*plugin)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "plugin",
                              "NCCL_NET_PLUGIN=detour in the job's environment",
                              "NCCL_NET_PLUGIN is not set: NCCL does not look for Detour");
    else if (!strstr(plugin, "detour"))
        dt_report_add_finding(report, DT_LEVEL_WARNING, "plugin", "NCCL_NET_PLUGIN=detour",
                              "NCCL_NET_PLUGIN=%s: NCCL uses another plugin", plugin);
    else
        dt_report_add_finding(report, DT_LEVEL_OK, "plugin", NULL, "NCCL_NET_PLUGIN=%s", plugin);
    if (net && *net && strcasecmp(net, "Detour") != 0)
        dt_report_add_finding(report, DT_LEVEL_WARNING, "plugin", "NCCL_NET=Detour, or unset it",
                              "NCCL_NET=%s: NCCL takes no other network, Detour neither", net);
    if (plugin && strchr(plugin, '/'))
        return; /* not looked for by the loader */
    if (find_plugin(path))
        dt_report_add_finding(report, DT_LEVEL_OK, "plugin", NULL, "the plugin is %s", path);
    else
        dt_report_add_finding(report, DT_LEVEL_WARNING, "plugin",
                              "LD_LIBRARY_PATH with the folder of " PLUGIN_FILE
                              ", in every process of the job",
                              PLUGIN_FILE " is in none of the loader's folders: NCCL continues without it");
}

void dt_doctor_nccl(const struct dt_doctor_options *options, struct dt_report *report)
{
    examine_library(options, report);
    examine_plugin(options, report);
}
