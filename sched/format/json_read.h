/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict reading of JSON documents (parsed by jansson). Every reader states what it expects; the first
 * expectation that is not met is reported in one line with the name of the input and the path of the value,
 * "profile.json: stages[2].f_ms is -1; it must be ...", and later readers have no effect.
 *
 * A `struct dt_json_at` is a place in the document. It lives on the stack of the code that visits the place
 * and points to its parent, so that the path can be printed without being stored.
 */
#ifndef DETOUR_SCHED_FORMAT_JSON_READ_H
#define DETOUR_SCHED_FORMAT_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "detour/sched_format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One document that is being read. */
struct dt_json_reader {
    const char *name; /* of the input, for error lines; borrowed */
    struct detour_error *error;
    enum detour_status status; /* DETOUR_OK until something was wrong */
};

struct dt_json_at {
    struct dt_json_reader *reader;
    const struct dt_json_at *parent; /* NULL at the top */
    const char *key;                 /* of an object's member, else NULL */
    size_t index;                    /* of an array's element */
    const json_t *value;             /* NULL: not there */
};

/*
 * Parses `text`; members that appear twice are refused. *root is the document's top, an object whose
 * reference the caller drops with json_decref((json_t *)root->value); NULL when parsing failed.
 */
bool dt_json_parse(struct dt_json_reader *reader, const char *text, size_t bytes, struct dt_json_at *root);

/* Reports `what is wrong` about the place: "PATH format...". Always returns false. */
bool dt_json_fail(const struct dt_json_at *at, enum detour_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The place is an object with no other members than `keys`, which ends with NULL. */
bool dt_json_object(const struct dt_json_at *at, const char *const *keys);

/* The place's member "version" is 1. */
bool dt_json_version(const struct dt_json_at *at);

/* The member `key` of an object. A missing one is an error, unless it is optional: then value is NULL. */
bool dt_json_member(const struct dt_json_at *at, const char *key, struct dt_json_at *member);
struct dt_json_at dt_json_optional(const struct dt_json_at *at, const char *key);

/* The place is an array of at most `count_max` elements. */
bool dt_json_array(const struct dt_json_at *at, size_t count_max, size_t *count);

/* The place is an array of exactly `count` elements; `why` explains that number. */
bool dt_json_array_of(const struct dt_json_at *at, size_t count, const char *why);

struct dt_json_at dt_json_element(const struct dt_json_at *at, size_t index);

/* A whole number in [min, max]; `what` names it in the error line ("a stage"). */
bool dt_json_int(const struct dt_json_at *at, const char *what, int64_t min, int64_t max, int64_t *value);

/* A number of milliseconds from 0 to max_ns, rounded to the nearest nanosecond. */
bool dt_json_time(const struct dt_json_at *at, int64_t max_ns, int64_t *time_ns);

/* Like dt_json_time() of the member `key`; when it is missing *time_ns is left alone. */
bool dt_json_time_optional(const struct dt_json_at *at, const char *key, int64_t max_ns, int64_t *time_ns);

bool dt_json_bool(const struct dt_json_at *at, bool *value);

/* One of `names` (ends with NULL); *index is its position. */
bool dt_json_choice(const struct dt_json_at *at, const char *const *names, size_t *index);

#ifdef __cplusplus
}
#endif

#endif
