/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/record.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "detour/mitigate.h"

#define HEX_DIGITS   16
#define TEXT_OF(x)   #x
#define DIGITS_OF(x) TEXT_OF(x)

/* ---- The members of each record: one table for its reader and its writer. ---- */
enum kind { INT32, INT64, REAL, MS, HEX, TEXT };

struct member {
    const char *key;
    enum kind kind;
    size_t offset;
    int64_t low, high; /* INT32, INT64, MS (in ns) and REAL; TEXT: high is the size of the array */
};

#define MEMBER(type, name, kind, low, high)                 \
    {                                                       \
#name, kind, offsetof(struct type, name), low, high \
    }
#define NUMBER_MAX         (INT64_MAX / 2) /* further numbers are counted from there */
#define RANK(type, name)   MEMBER(type, name, INT32, -1, DT_RECORD_RANK_MAX)
#define COUNT(type, name)  MEMBER(type, name, INT64, 0, INT64_MAX)
#define STRING(type, name) MEMBER(type, name, TEXT, 0, (int64_t)sizeof(((struct type *)0)->name))
#define END                  \
    {                        \
        NULL, INT32, 0, 0, 0 \
    }

static const struct member link_members[] = {
    MEMBER(dt_observed_link, connection, HEX, 0, 0),
    RANK(dt_observed_link, from_rank),
    RANK(dt_observed_link, to_rank),
    MEMBER(dt_observed_link, path, INT32, -1, 63),
    STRING(dt_observed_link, peer),
    STRING(dt_observed_link, nic),
    STRING(dt_observed_link, peer_nic),
    MEMBER(dt_observed_link, verdict, INT32, 0, 63),
    MEMBER(dt_observed_link, cause, INT32, 0, 63),
    MEMBER(dt_observed_link, factor, REAL, 0, 1000000000),
    COUNT(dt_observed_link, delay_ns),
    COUNT(dt_observed_link, transfer_bytes),
    COUNT(dt_observed_link, samples),
    COUNT(dt_observed_link, since_ns),
    COUNT(dt_observed_link, messages),
    COUNT(dt_observed_link, bytes),
    COUNT(dt_observed_link, service_ns),
    END,
};

static const struct member observation_members[] = {
    STRING(dt_observation, host),
    STRING(dt_observation, page_host),
    STRING(dt_observation, process),
    MEMBER(dt_observation, pid, INT32, 1, INT32_MAX),
    RANK(dt_observation, rank),
    COUNT(dt_observation, time_ns),
    COUNT(dt_observation, window_ns),
    COUNT(dt_observation, iteration_ns),
    COUNT(dt_observation, compute_ns),
    COUNT(dt_observation, iterations),
    MEMBER(dt_observation, processor_share, REAL, 0, 1),
    MEMBER(dt_observation, number, INT64, 0, NUMBER_MAX),
    END,
};

static const struct member decided_link_members[] = {
    {"from", INT32, offsetof(struct dt_decided_link, from_rank), 0, DT_RECORD_RANK_MAX},
    {"to", INT32, offsetof(struct dt_decided_link, to_rank), 0, DT_RECORD_RANK_MAX},
    {"delay_ms", MS, offsetof(struct dt_decided_link, delay_ns), 0, 1000000000000000},
    END,
};

/* `kind` is written and read as its text. */
static const struct member decision_members[] = {
    MEMBER(dt_decision, number, INT64, 1, NUMBER_MAX),
    MEMBER(dt_decision, fence, INT64, 1, NUMBER_MAX),
    COUNT(dt_decision, time_ns),
    STRING(dt_decision, reason),
    STRING(dt_decision, host),
    RANK(dt_decision, from_rank),
    RANK(dt_decision, to_rank),
    MEMBER(dt_decision, connection, HEX, 0, 0),
    STRING(dt_decision, nic),
    MEMBER(dt_decision, hold_ns, INT64, 0, DT_RECORD_HOLD_NS_MAX),
    STRING(dt_decision, request),
    END,
};

/* As above. */
static const struct member request_members[] = {
    COUNT(dt_request, time_ns),
    STRING(dt_request, host),
    MEMBER(dt_request, hold_ns, INT64, 0, DT_RECORD_HOLD_NS_MAX),
    STRING(dt_request, reason),
    END,
};

static const struct member finding_members[] = {
    COUNT(dt_finding_record, time_ns),
    COUNT(dt_finding_record, since_ns),
    STRING(dt_finding_record, kind),
    MEMBER(dt_finding_record, ended, INT32, 0, 1),
    RANK(dt_finding_record, from_rank),
    RANK(dt_finding_record, to_rank),
    STRING(dt_finding_record, from_host),
    STRING(dt_finding_record, to_host),
    STRING(dt_finding_record, from_nic),
    STRING(dt_finding_record, to_nic),
    MEMBER(dt_finding_record, factor, REAL, 0, 1000000000),
    COUNT(dt_finding_record, delay_ns),
    STRING(dt_finding_record, reason),
    END,
};

static const struct member acknowledgement_members[] = {
    MEMBER(dt_acknowledgement, number, INT64, 1, NUMBER_MAX),
    MEMBER(dt_acknowledgement, fence, INT64, 1, NUMBER_MAX),
    COUNT(dt_acknowledgement, time_ns),
    STRING(dt_acknowledgement, host),
    MEMBER(dt_acknowledgement, status, INT32, 0, 255),
    STRING(dt_acknowledgement, text),
    END,
};

const char *dt_decision_kind_text(enum dt_decision_kind kind)
{
    static const char *const texts[] = {
#define DT_DECISION_TEXT(name, text) text,
        DT_DECISION_KINDS(DT_DECISION_TEXT)
#undef DT_DECISION_TEXT
    };

    return (size_t)kind < DT_COUNT_OF(texts) ? texts[kind] : "unknown";
}

bool dt_decision_is_near(const struct dt_decision *decision, int64_t number, int64_t time_ns)
{
    return decision->number <= number + DT_RECORD_AHEAD_MAX &&
           decision->fence <= time_ns / 1000000 + DT_RECORD_AHEAD_MAX;
}

static bool is_printable(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    return true;
}

/* ---- Writing. ---- */
static json_t *hex_json(uint64_t value)
{
    char text[HEX_DIGITS + 1];

    snprintf(text, sizeof text, "%0*" PRIx64, HEX_DIGITS, value);
    return json_string(text);
}

static json_t *member_json(const struct member *member, const char *at)
{
    switch (member->kind) {
    case INT32:
        return json_integer(*(const int32_t *)(const void *)at);
    case INT64:
        return json_integer(*(const int64_t *)(const void *)at);
    case REAL:
        return json_real(*(const double *)(const void *)at);
    case MS:
        return json_real((double)*(const int64_t *)(const void *)at / 1e6);
    case HEX:
        return hex_json(*(const uint64_t *)(const void *)at);
    case TEXT:
        return is_printable(at, strlen(at)) ? json_string(at) : NULL;
    }
    return NULL;
}

/* Adds the members of a struct to an object. False: out of memory, or a text that readers refuse. */
static bool add_members(json_t *object, const struct member *members, const void *from)
{
    for (const struct member *member = members; member->key; member++) {
        if (json_object_set_new(object, member->key,
                                member_json(member, (const char *)from + member->offset)))
            return false;
    }
    return true;
}

static bool add_list(json_t *object, const char *key, const struct member *members, const void *from,
                     size_t count, size_t bytes)
{
    json_t *list = json_array();

    if (json_object_set_new(object, key, list))
        return false;
    for (size_t i = 0; i < count; i++) {
        json_t *element = json_object();

        if (json_array_append_new(list, element) ||
            !add_members(element, members, (const char *)from + i * bytes))
            return false;
    }
    return true;
}

/* Of remedy. */
static bool add_numbers(json_t *object, const char *key, const int32_t *numbers, size_t count)
{
    json_t *list = json_array();

    if (json_object_set_new(object, key, list))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (json_array_append_new(list, json_integer(numbers[i])))
            return false;
    }
    return true;
}

static bool add_remedy(json_t *object, const struct dt_decision *decision)
{
    return decision->kind != DT_DECISION_REMEDY ||
           (!json_object_set_new(object, "step", json_integer(decision->step)) &&
            add_numbers(object, "microbatches", decision->counts, decision->replica_count) &&
            add_numbers(object, "nodes", decision->nodes, decision->node_count));
}

static json_t *begin(const char *type)
{
    return json_pack("{s:i, s:s}", "version", DT_RECORD_VERSION, "type", type);
}

static char *finish(json_t *object, bool is_complete)
{
    char *text = object && is_complete ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;

    json_decref(object);
    return text;
}

char *dt_observation_write(const struct dt_observation *observation)
{
    json_t *object = begin("observation");

    return finish(object, object && add_members(object, observation_members, observation) &&
                              add_list(object, "links", link_members, observation->links,
                                       observation->link_count, sizeof *observation->links));
}

char *dt_decision_write(const struct dt_decision *decision)
{
    json_t *object = begin("decision");
    const char *kind = dt_decision_kind_text((enum dt_decision_kind)decision->kind);
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_decision read;
    char *text = finish(object, object && !json_object_set_new(object, "kind", json_string(kind)) &&
                                    add_members(object, decision_members, decision) &&
                                    add_list(object, "links", decided_link_members, decision->links,
                                             decision->link_count, sizeof *decision->links) &&
                                    add_remedy(object, decision));

    if (!text || dt_decision_read(text, strlen(text), &read, reason) == DT_OK)
        return text;
    free(text);
    return NULL;
}

char *dt_request_write(const struct dt_request *request)
{
    json_t *object = begin("request");
    const char *kind = dt_decision_kind_text((enum dt_decision_kind)request->kind);

    return finish(object, object && !json_object_set_new(object, "kind", json_string(kind)) &&
                              add_members(object, request_members, request));
}

char *dt_finding_write(const struct dt_finding_record *finding)
{
    json_t *object = begin("finding");

    return finish(object, object && add_members(object, finding_members, finding));
}

char *dt_acknowledgement_write(const struct dt_acknowledgement *acknowledgement)
{
    json_t *object = begin("acknowledgement");

    return finish(object, object && add_members(object, acknowledgement_members, acknowledgement));
}

/* ---- Reading. ---- */
static bool refuse(char *reason, const char *key, const char *expected)
{
    snprintf(reason, DT_RECORD_REASON_BYTES, "%s: expected %s", key, expected);
    return false;
}

static bool read_number(const struct member *member, const json_t *value, char *at, char *reason)
{
    json_int_t number = json_integer_value(value);
    char expected[96];

    if (!json_is_integer(value) || number < member->low || number > member->high) {
        snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, member->low,
                 member->high);
        return refuse(reason, member->key, expected);
    }
    if (member->kind == INT32)
        *(int32_t *)(void *)at = (int32_t)number;
    else
        *(int64_t *)(void *)at = number;
    return true;
}

static bool read_real(const struct member *member, const json_t *value, char *at, char *reason)
{
    double number = json_number_value(value);
    double scale = member->kind == MS ? 1e6 : 1;

    if (!json_is_number(value) || !(number * scale >= (double)member->low) ||
        !(number * scale <= (double)member->high))
        return refuse(reason, member->key, "a number in its range");
    if (member->kind == MS)
        *(int64_t *)(void *)at = llround(number * scale);
    else
        *(double *)(void *)at = number;
    return true;
}

static bool read_hex(const struct member *member, const json_t *value, char *at, char *reason)
{
    const char *text = json_string_value(value);

    if (!text || json_string_length(value) != HEX_DIGITS || strspn(text, "0123456789abcdef") != HEX_DIGITS)
        return refuse(reason, member->key, "16 hexadecimal digits");
    *(uint64_t *)(void *)at = strtoull(text, NULL, 16);
    return true;
}

static bool read_text(const struct member *member, const json_t *value, char *at, char *reason)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    char expected[96];

    if (!text || length >= (size_t)member->high || !is_printable(text, length)) {
        snprintf(expected, sizeof expected, "a text of less than %" PRId64 " printable ASCII characters",
                 member->high);
        return refuse(reason, member->key, expected);
    }
    memcpy(at, text, length + 1);
    return true;
}

static bool read_members(const json_t *object, const struct member *members, void *to, char *reason)
{
    bool is_read = true;

    for (const struct member *member = members; is_read && member->key; member++) {
        const json_t *value = json_object_get(object, member->key);
        char *at = (char *)to + member->offset;

        if (!value)
            return refuse(reason, member->key, "a value; the member is missing");
        switch (member->kind) {
        case INT32:
        case INT64:
            is_read = read_number(member, value, at, reason);
            break;
        case REAL:
        case MS:
            is_read = read_real(member, value, at, reason);
            break;
        case HEX:
            is_read = read_hex(member, value, at, reason);
            break;
        case TEXT:
            is_read = read_text(member, value, at, reason);
            break;
        }
    }
    return is_read;
}

static bool read_list(const json_t *object, const struct member *members, void *to, size_t *count,
                      size_t bytes, char *reason)
{
    const json_t *list = json_object_get(object, "links");

    if (!json_is_array(list) || json_array_size(list) > DT_RECORD_LINKS_MAX)
        return refuse(reason, "links", "an array of at most " DIGITS_OF(DT_RECORD_LINKS_MAX) " elements");
    *count = json_array_size(list);
    for (size_t i = 0; i < *count; i++) {
        const json_t *element = json_array_get(list, i);

        if (!json_is_object(element))
            return refuse(reason, "links", "an array of objects");
        if (!read_members(element, members, (char *)to + i * bytes, reason))
            return false;
    }
    return true;
}

/* The object of a record of this type; NULL with *status and the reason. */
static json_t *parse(const char *text, size_t bytes, const char *type, char *reason, enum dt_status *status)
{
    json_error_t error;
    json_t *object = NULL;
    const char *found;

    *status = DT_INVALID;
    if (bytes >= DT_STORE_RECORD_BYTES) {
        refuse(reason, "the record", "less than " DIGITS_OF(DT_STORE_RECORD_BYTES) " bytes");
        return NULL;
    }
    object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!object && json_error_code(&error) == json_error_out_of_memory) {
        *status = DT_NO_MEMORY;
        refuse(reason, "memory", "more than there is");
        return NULL;
    }
    found = json_string_value(json_object_get(object, "type"));
    if (!json_is_object(object))
        refuse(reason, "the record", "a JSON object");
    else if (!json_is_integer(json_object_get(object, "version")) ||
             json_integer_value(json_object_get(object, "version")) != DT_RECORD_VERSION)
        refuse(reason, "version",
               DIGITS_OF(DT_RECORD_VERSION) "; a newer Detour may have written the record");
    else if (!found || strcmp(found, type) != 0)
        refuse(reason, "type", type);
    else
        return object;
    json_decref(object);
    return NULL;
}

static enum dt_status finish_reading(json_t *object, bool is_read)
{
    json_decref(object);
    return is_read ? DT_OK : DT_INVALID;
}

enum dt_status dt_observation_read(const char *text, size_t bytes, struct dt_observation *observation,
                                   char reason[DT_RECORD_REASON_BYTES])
{
    enum dt_status status;
    json_t *object = parse(text, bytes, "observation", reason, &status);

    if (!object)
        return status;
    if (!json_object_get(object, "page_host")) /* of an agent of an earlier version */
        json_object_set_new(object, "page_host", json_string(""));
    return finish_reading(object,
                          read_members(object, observation_members, observation, reason) &&
                              (dt_store_is_name(observation->host) || refuse(reason, "host", "a name")) &&
                              read_list(object, link_members, observation->links, &observation->link_count,
                                        sizeof *observation->links, reason));
}

static bool read_kind(const json_t *object, int32_t *found, char *reason)
{
    const char *text = json_string_value(json_object_get(object, "kind"));

    for (int32_t kind = 0; text && kind < DT_DECISION_KIND_COUNT; kind++) {
        if (strcmp(text, dt_decision_kind_text((enum dt_decision_kind)kind)) != 0)
            continue;
        *found = kind;
        return true;
    }
    return refuse(reason, "kind", "a kind of decision that this version knows");
}

static bool read_numbers(const json_t *object, const char *key, int64_t low, int64_t high, int32_t *numbers,
                         size_t *count, char *reason)
{
    const json_t *list = json_object_get(object, key);
    const struct member element = {key, INT32, 0, low, high};

    *count = json_array_size(list);
    if (!*count || *count > DT_RECORD_NODES_MAX)
        return refuse(reason, key, "an array of 1 to " DIGITS_OF(DT_RECORD_NODES_MAX) " integers");
    for (size_t i = 0; i < *count; i++) {
        if (!read_number(&element, json_array_get(list, i), (char *)&numbers[i], reason))
            return false;
    }
    return true;
}

static bool is_permutation(const struct dt_decision *decision, char *reason)
{
    bool is_used[DT_RECORD_NODES_MAX] = {false};

    for (size_t i = 0; i < decision->node_count; i++) {
        size_t node = (size_t)decision->nodes[i];

        if (node >= decision->node_count || is_used[node])
            return refuse(reason, "nodes", "each number from 0 to that of the elements once");
        is_used[node] = true;
    }
    return true;
}

static bool read_remedy(const json_t *object, struct dt_decision *decision, char *reason)
{
    static const struct member step = {"step", INT32, 0, DETOUR_STEP_S1, DETOUR_STEP_COUNT - 1};

    if (decision->kind != DT_DECISION_REMEDY)
        return true;
    if (!read_number(&step, json_object_get(object, "step"), (char *)&decision->step, reason) ||
        !read_numbers(object, "microbatches", 1, DT_RECORD_RANK_MAX, decision->counts,
                      &decision->replica_count, reason) ||
        !read_numbers(object, "nodes", 0, DT_RECORD_RANK_MAX, decision->nodes, &decision->node_count, reason))
        return false;
    if (decision->node_count % decision->replica_count)
        return refuse(reason, "nodes", "as many elements for each replica of \"microbatches\"");
    return is_permutation(decision, reason);
}

/* A device name becomes a word of a command. */
static bool is_word(const char *text)
{
    return !strchr(text, ' ');
}

enum dt_status dt_decision_read(const char *text, size_t bytes, struct dt_decision *decision,
                                char reason[DT_RECORD_REASON_BYTES])
{
    enum dt_status status;
    json_t *object = parse(text, bytes, "decision", reason, &status);

    if (!object)
        return status;
    return finish_reading(object, read_kind(object, &decision->kind, reason) &&
                                      read_members(object, decision_members, decision, reason) &&
                                      (is_word(decision->nic) || refuse(reason, "nic", "one word")) &&
                                      read_list(object, decided_link_members, decision->links,
                                                &decision->link_count, sizeof *decision->links, reason) &&
                                      read_remedy(object, decision, reason));
}

static bool is_hold_or_release(const struct dt_request *request, char *reason)
{
    if (request->kind == DT_DECISION_RELEASE)
        return true;
    if (request->kind != DT_DECISION_HOLD)
        return refuse(reason, "kind", "hold or release");
    return request->hold_ns > 0 || refuse(reason, "hold_ns", "the time of the hold");
}

enum dt_status dt_request_read(const char *text, size_t bytes, struct dt_request *request,
                               char reason[DT_RECORD_REASON_BYTES])
{
    enum dt_status status;
    json_t *object = parse(text, bytes, "request", reason, &status);

    if (!object)
        return status;
    return finish_reading(object, read_kind(object, &request->kind, reason) &&
                                      read_members(object, request_members, request, reason) &&
                                      is_hold_or_release(request, reason));
}

enum dt_status dt_finding_read(const char *text, size_t bytes, struct dt_finding_record *finding,
                               char reason[DT_RECORD_REASON_BYTES])
{
    enum dt_status status;
    json_t *object = parse(text, bytes, "finding", reason, &status);

    return object ? finish_reading(object, read_members(object, finding_members, finding, reason)) : status;
}

enum dt_status dt_acknowledgement_read(const char *text, size_t bytes,
                                       struct dt_acknowledgement *acknowledgement,
                                       char reason[DT_RECORD_REASON_BYTES])
{
    enum dt_status status;
    json_t *object = parse(text, bytes, "acknowledgement", reason, &status);

    return object ? finish_reading(object,
                                   read_members(object, acknowledgement_members, acknowledgement, reason))
                  : status;
}
