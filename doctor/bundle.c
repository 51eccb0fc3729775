/* SPDX-License-Identifier: Apache-2.0 */
/* The file of `detour doctor --report`: the facts of a machine that explain its findings. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/util.h"
#include "doctor/doctor.h"
#include "doctor/secret.h"

/* The end of a log shows how a job ended; the beginning shows the devices. */
#define LOG_PART_BYTES ((size_t)512 * 1024)
#define PORTS_MAX      255 /* the InfiniBand specification's 8 bits */

#define WITHHELD "(set; withheld)"

static json_t *system_fact(const struct dt_doctor_options *options)
{
    struct utsname names;
    char line[256];
    json_t *fact = json_object();

    if (uname(&names) == 0) {
        json_object_set_new(fact, "kernel", json_string(names.release));
        json_object_set_new(fact, "machine", json_string(names.machine));
    }
    if (dt_doctor_read_line(options, "/proc/driver/nvidia/version", line, sizeof line))
        json_object_set_new(fact, "nvidia", json_string(line));
    if (dt_doctor_read_line(options, "/etc/os-release", line, sizeof line))
        json_object_set_new(fact, "system", json_string(line));
    /* Where the kernel's own drivers were replaced, as by MLNX_OFED. */
    if (dt_doctor_read_line(options, "/sys/module/ib_core/version", line, sizeof line))
        json_object_set_new(fact, "ib_core", json_string(line));
    return fact;
}

static json_t *public_value(const char *name, const char *value)
{
    return json_string(dt_secret_is(name, value) ? WITHHELD : value);
}

/* Names that Detour and NCCL own; no other variable, since those may be secret. */
static json_t *environment_fact(const struct dt_doctor_options *options)
{
    json_t *fact = json_object();

    for (char *const *entry = options->environment; entry && *entry; entry++) {
        const char *value = strchr(*entry, '=');
        char name[128];

        if (!value || (strncmp(*entry, "NCCL_", 5) != 0 && strncmp(*entry, "DETOUR_", 7) != 0))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(value - *entry), *entry);
        json_object_set_new(fact, name, public_value(name, value + 1));
    }
    return fact;
}

/* The examination shows the user the values in force; the report goes to others. */
static void withhold_settings(json_t *settings)
{
    size_t index;
    json_t *fact;

    json_array_foreach(settings, index, fact)
    {
        const char *name = json_string_value(json_object_get(fact, "name"));
        const char *value = json_string_value(json_object_get(fact, "value"));

        if (name && value)
            json_object_set_new(fact, "value", public_value(name, value));
    }
}

/* Adds the first line of each of these files of an RNIC; their names begin with `folder`. */
static unsigned add_files(const struct dt_doctor_options *options, const char *name, const char *folder,
                          const char *const *files, size_t count, json_t *fact)
{
    unsigned found = 0;

    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX], line[256], key[64];

        snprintf(key, sizeof key, "%s%s", folder, files[i]);
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/%s", name, key);
        if (dt_doctor_read_line(options, path, line, sizeof line)) {
            json_object_set_new(fact, key, json_string(line));
            found++;
        }
    }
    return found;
}

/* Properties of an RNIC in the kernel that the examination does not read. Ports have numbers from 1 on. */
static json_t *rnic_fact(const struct dt_doctor_options *options, const char *name)
{
    static const char *const files[] = {"hca_type",      "board_id",      "fw_ver",
                                        "device/vendor", "device/device", "device/numa_node"};
    static const char *const of_port[] = {"state", "rate", "phys_state", "link_layer"};
    json_t *fact = json_pack("{s:s}", "name", name);
    unsigned port = 0;
    char folder[32];

    add_files(options, name, "", files, DT_COUNT_OF(files), fact);
    do {
        snprintf(folder, sizeof folder, "ports/%u/", ++port);
    } while (add_files(options, name, folder, of_port, DT_COUNT_OF(of_port), fact) && port < PORTS_MAX);
    return fact;
}

static void add_rnics(const struct dt_doctor_options *options, struct dt_report *report)
{
    char path[PATH_MAX];
    DIR *folder;

    snprintf(path, sizeof path, "%s/sys/class/infiniband", options->root);
    folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] != '.')
            dt_report_add_fact(report, "rnics", rnic_fact(options, entry->d_name));
    }
    if (folder)
        closedir(folder);
}

/*
 * The files of the libraries of this process: which libibverbs and which provider the examination has used. A
 * package's file has the version in its name, to which the name that is loaded links.
 */
static int add_library(struct dl_phdr_info *info, size_t bytes, void *list)
{
    char path[PATH_MAX];

    (void)bytes;
    if (info->dlpi_name && info->dlpi_name[0] == '/')
        json_array_append_new(list, json_string(realpath(info->dlpi_name, path) ? path : info->dlpi_name));
    return 0;
}

/* Up to LOG_PART_BYTES from here on, as text that JSON takes, without secrets. */
static json_t *log_part(const struct dt_doctor_options *options, FILE *file)
{
    char *text = malloc(LOG_PART_BYTES + 1);
    size_t bytes = text ? fread(text, 1, LOG_PART_BYTES, file) : 0;
    json_t *part;

    for (size_t i = 0; i < bytes; i++) {
        if (((signed char)text[i] < ' ' && text[i] != '\n' && text[i] != '\t') || text[i] == 0x7f)
            text[i] = '?';
    }
    if (text) {
        text[bytes] = '\0';
        dt_secret_mask(text, options->environment);
    }
    part = json_stringn(text ? text : "", bytes);
    free(text);
    return part;
}

/* NULL with errno set: it cannot be read, or is none. */
static FILE *open_regular(const char *path)
{
    FILE *file = fopen(path, "re");
    struct stat status;

    if (file && (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode))) {
        fclose(file);
        errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
        return NULL;
    }
    return file;
}

bool dt_doctor_bundle_log(const struct dt_doctor_options *options, struct dt_report *report, const char *path)
{
    FILE *file = open_regular(path);
    json_t *fact = file ? json_pack("{s:s, s:o}", "file", path, "beginning", log_part(options, file)) : NULL;
    long here = file ? ftell(file) : 0;

    if (!file)
        return false;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > here) {
        long end = ftell(file), from = end - (long)LOG_PART_BYTES;

        if (fseek(file, from > here ? from : here, SEEK_SET) == 0)
            json_object_set_new(fact, "end", log_part(options, file));
        json_object_set_new(fact, "bytes", json_integer(end));
    }
    fclose(file);
    dt_report_add_fact(report, "logs", fact);
    return true;
}

void dt_doctor_bundle(const struct dt_doctor_options *options, struct dt_report *report)
{
    json_object_set_new(report->document, "system", system_fact(options));
    json_object_set_new(report->document, "environment", environment_fact(options));
    withhold_settings(json_object_get(report->document, "settings"));
    json_object_set_new(report->document, "rnics", json_array());
    json_object_set_new(report->document, "logs", json_array());
    json_object_set_new(report->document, "libraries", json_array());
    dl_iterate_phdr(add_library, json_object_get(report->document, "libraries"));
    add_rnics(options, report);
}
