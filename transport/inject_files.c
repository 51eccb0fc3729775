/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/inject_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

/* ------------------------------------------------------------------------------------------------------------
 * Files
 */
static enum dt_status read_open_file(int fd, size_t size, char **text, size_t *bytes)
{
    char *buffer = malloc(size + 1);
    size_t used = 0;
    ssize_t got = 1;

    if (!buffer)
        return DT_NO_MEMORY;
    while (used < size && got > 0) {
        got = read(fd, buffer + used, size - used);
        if (got > 0)
            used += (size_t)got;
        else if (got < 0 && errno == EINTR)
            got = 1;
    }
    if (got < 0) {
        free(buffer);
        return DT_SYSTEM;
    }
    buffer[used] = '\0';
    *text = buffer;
    *bytes = used;
    return DT_OK;
}

enum dt_status dt_inject_read_file(const char *name, char **text, size_t *bytes, char *error,
                                   size_t error_bytes)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not stop us */
    enum dt_status status = DT_OK;
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat) != 0) {
        snprintf(error, error_bytes, "%s: %s", name, strerror(errno));
        status = DT_NOT_FOUND;
    } else if (!S_ISREG(stat.st_mode) || stat.st_size > (off_t)DT_INJECT_FILE_BYTES_MAX) {
        snprintf(error, error_bytes, "%s: expected a regular file of at most %u MiB", name,
                 DT_INJECT_FILE_BYTES_MAX >> 20);
        status = DT_INVALID;
    } else {
        status = read_open_file(fd, (size_t)stat.st_size, text, bytes);
        if (status != DT_OK)
            snprintf(error, error_bytes, "%s: %s", name,
                     status == DT_SYSTEM ? strerror(errno) : dt_status_text(status));
    }
    if (fd >= 0)
        close(fd);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * JSON
 */

/* The functions of jansson that are used. */
struct json_table {
    void *library;
    json_t *(*loadb)(const char *, size_t, size_t, json_error_t *);
    size_t (*array_size)(const json_t *);
    json_t *(*array_get)(const json_t *, size_t);
    json_t *(*object_get)(const json_t *, const char *);
    const char *(*string_value)(const json_t *);
    double (*number_value)(const json_t *);
    void (*destroy)(json_t *);
};

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool open_json(struct json_table *json)
{
    void *library = dlopen("libjansson.so.4", RTLD_NOW | RTLD_LOCAL);

    json->library = library;
    if (!library)
        return false;
    if (find(library, "json_loadb", &json->loadb) && find(library, "json_array_size", &json->array_size) &&
        find(library, "json_array_get", &json->array_get) &&
        find(library, "json_object_get", &json->object_get) &&
        find(library, "json_string_value", &json->string_value) &&
        find(library, "json_number_value", &json->number_value) &&
        find(library, "json_delete", &json->destroy))
        return true;
    dlclose(library);
    return false;
}

/* Seconds as nanoseconds; false if it is no number or out of range. "inf" is a crash, for latencies. */
static bool to_ns(const struct json_table *json, const json_t *value, bool may_crash, uint64_t *ns)
{
    const char *text = json->string_value(value);
    double seconds = json->number_value(value);

    if (text && may_crash && strcmp(text, "inf") == 0) {
        *ns = DT_DELAY_CRASH;
        return true;
    }
    if (!json_is_number(value) || !(seconds >= 0) || seconds > 1e6)
        return false;
    *ns = (uint64_t)(seconds * 1e9 + 0.5);
    return true;
}

static const char *add_json_point(const struct json_table *json, const json_t *entry,
                                  struct dt_delay_trace *trace)
{
    const char *link = json->string_value(json->object_get(entry, "link"));
    uint64_t time_ns, latency_ns;
    const char *reason;

    if (!link)
        return "expected \"link\", a text";
    if (!to_ns(json, json->object_get(entry, "time"), false, &time_ns))
        return "expected \"time\", a number of seconds up to 1000000";
    if (!to_ns(json, json->object_get(entry, "latency"), true, &latency_ns))
        return "expected \"latency\", a number of seconds, or \"inf\"";
    return dt_delay_trace_add(trace, time_ns, link, latency_ns, &reason) == DT_OK ? NULL : reason;
}

static enum dt_status walk_json(const struct json_table *json, const json_t *root, const char *name,
                                struct dt_delay_trace *trace, char *error, size_t error_bytes)
{
    if (!json_is_array(root)) {
        snprintf(error, error_bytes, "%s: expected an array of {\"time\", \"link\", \"latency\"}", name);
        return DT_INVALID;
    }
    for (size_t i = 0; i < json->array_size(root); i++) {
        const char *reason = add_json_point(json, json->array_get(root, i), trace);

        if (!reason)
            continue;
        snprintf(error, error_bytes, "%s: $[%zu]: %s", name, i, reason);
        return DT_INVALID;
    }
    return DT_OK;
}

static enum dt_status parse_json(const char *name, const char *text, size_t bytes,
                                 struct dt_delay_trace *trace, char *error, size_t error_bytes)
{
    struct json_table json;
    json_error_t where;
    enum dt_status status;
    json_t *root;

    if (!open_json(&json)) {
        snprintf(error, error_bytes,
                 "%s: a JSON trace needs libjansson.so.4, which is not here; "
                 "the text form (TIME,LINK,LATENCY) does not",
                 name);
        return DT_UNSUPPORTED;
    }
    root = json.loadb(text, bytes, 0, &where);
    if (root) {
        status = walk_json(&json, root, name, trace, error, error_bytes);
        json.destroy(root);
    } else {
        snprintf(error, error_bytes, "%s: line %d, column %d: %s", name, where.line, where.column,
                 where.text);
        status = DT_INVALID;
    }
    dlclose(json.library);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * Traces and records
 */
static bool is_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '[' || *text == '{';
}

static enum dt_status parse_trace(const struct dt_delay_rule *rule, const char *text, size_t bytes,
                                  struct dt_delay_trace *trace, char *error, size_t error_bytes)
{
    struct dt_delay_error where;
    enum dt_status status;

    if (is_json(text)) {
        status = parse_json(rule->file, text, bytes, trace, error, error_bytes);
    } else {
        status = dt_delay_trace_parse(trace, text, bytes, rule->iteration_ns, &where);
        if (status != DT_OK)
            snprintf(error, error_bytes, "%s: %s", rule->file,
                     status == DT_INVALID ? where.text : dt_status_text(status));
    }
    if (status == DT_OK && dt_delay_trace_count(trace) == 0) {
        snprintf(error, error_bytes, "%s: the trace has no entry for %s%s", rule->file,
                 rule->link[0] ? "link " : "any link", rule->link);
        status = DT_INVALID;
    }
    return status;
}

static enum dt_status load_trace(const struct dt_delay_rule *rule, const char *text, size_t bytes,
                                 struct dt_delay_files *files, char *error, size_t error_bytes)
{
    enum dt_status status = dt_delay_trace_create(rule->link, &files->trace);

    if (status == DT_OK)
        return parse_trace(rule, text, bytes, files->trace, error, error_bytes);
    snprintf(error, error_bytes, "%s", dt_status_text(status));
    return status;
}

static enum dt_status load_replay(const struct dt_delay_rule *rule, const char *text, size_t bytes,
                                  struct dt_delay_files *files, char *error, size_t error_bytes)
{
    struct dt_delay_error where;
    enum dt_status status = dt_delay_replay_parse(text, bytes, rule->process, &files->replay, &where);

    if (status != DT_OK)
        snprintf(error, error_bytes, "%s: %s", rule->file,
                 status == DT_INVALID ? where.text : dt_status_text(status));
    return status;
}

enum dt_status dt_inject_load_files(const struct dt_delay_rule *rule, struct dt_delay_files *files,
                                    char *error, size_t error_bytes)
{
    enum dt_status status;
    size_t bytes;
    char *text;

    *files = (struct dt_delay_files){NULL, NULL};
    if (!rule->file[0])
        return DT_OK;
    status = dt_inject_read_file(rule->file, &text, &bytes, error, error_bytes);
    if (status != DT_OK)
        return status;
    if (rule->effect == DT_DELAY_TRACE)
        status = load_trace(rule, text, bytes, files, error, error_bytes);
    else
        status = load_replay(rule, text, bytes, files, error, error_bytes);
    free(text);
    if (status != DT_OK)
        dt_inject_free_files(files);
    return status;
}

void dt_inject_free_files(struct dt_delay_files *files)
{
    dt_delay_trace_destroy(files->trace);
    dt_delay_replay_destroy(files->replay);
    *files = (struct dt_delay_files){NULL, NULL};
}
