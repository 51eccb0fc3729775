/* SPDX-License-Identifier: Apache-2.0 */
/* The keywords with which rules name a device's calls, completions and events (rule.h). */
#ifndef DETOUR_DELAY_KEYWORD_H
#define DETOUR_DELAY_KEYWORD_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_delay_call {
    DT_DELAY_CALL_POST_SEND,
    DT_DELAY_CALL_POST_RECV,
    DT_DELAY_CALL_POLL_CQ,
    DT_DELAY_CALL_MODIFY_QP,
    DT_DELAY_CALL_QUERY_QP,
    DT_DELAY_CALL_CREATE_QP,
    DT_DELAY_CALL_DESTROY_QP,
    DT_DELAY_CALL_CREATE_CQ,
    DT_DELAY_CALL_REG_MR,
    DT_DELAY_CALL_QUERY_PORT,
    DT_DELAY_CALL_QUERY_GID,
    DT_DELAY_CALL_COUNT
};

/* Error completions, named as in the InfiniBand Architecture Specification; LOST: no completion at all. */
enum dt_delay_status {
    DT_DELAY_STATUS_RETRY_EXCEEDED,
    DT_DELAY_STATUS_RNR_RETRY_EXCEEDED,
    DT_DELAY_STATUS_RESPONSE_TIMEOUT,
    DT_DELAY_STATUS_REMOTE_OPERATION,
    DT_DELAY_STATUS_REMOTE_ACCESS,
    DT_DELAY_STATUS_LOCAL_PROTECTION,
    DT_DELAY_STATUS_LOCAL_QP_OPERATION,
    DT_DELAY_STATUS_FLUSHED,
    DT_DELAY_STATUS_FATAL,
    DT_DELAY_STATUS_GENERAL,
    DT_DELAY_STATUS_LOST,
    DT_DELAY_STATUS_COUNT
};

enum dt_delay_event {
    DT_DELAY_EVENT_PORT_ERROR,
    DT_DELAY_EVENT_PORT_ACTIVE,
    DT_DELAY_EVENT_GID_CHANGE,
    DT_DELAY_EVENT_DEVICE_FATAL,
    DT_DELAY_EVENT_CQ_ERROR,
    DT_DELAY_EVENT_QP_FATAL,
    DT_DELAY_EVENT_COUNT
};

/* Providers of rdma-core, as verbs/fault.h describes them. */
enum dt_delay_personality {
    DT_DELAY_PERSONALITY_MLX5,
    DT_DELAY_PERSONALITY_IONIC,
    DT_DELAY_PERSONALITY_BNXT,
    DT_DELAY_PERSONALITY_RXE,
    DT_DELAY_PERSONALITY_MANA,
    DT_DELAY_PERSONALITY_COUNT
};

/* A list of keywords. Those of dt_delay_errors are errnos, the others values of the enums above. */
struct dt_delay_keywords {
    const char *expected; /* the list, for error messages */
    size_t count;
    struct {
        const char *text;
        int value;
    } entry[12];
};

extern const struct dt_delay_keywords dt_delay_calls;
extern const struct dt_delay_keywords
    dt_delay_hanging_calls; /* calls that may hang: not those of the data path */
extern const struct dt_delay_keywords dt_delay_statuses;
extern const struct dt_delay_keywords dt_delay_events;
extern const struct dt_delay_keywords dt_delay_personalities;
extern const struct dt_delay_keywords dt_delay_errors;

/* False: `text` is not in the list. */
bool dt_delay_keyword_find(const struct dt_delay_keywords *keywords, const char *text, size_t length,
                           int *value);

/* Never NULL; "?" for a value that is not in the list. */
const char *dt_delay_keyword_text(const struct dt_delay_keywords *keywords, int value);

#ifdef __cplusplus
}
#endif

#endif
