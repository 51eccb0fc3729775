/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/keyword.h"

#include <errno.h>
#include <string.h>

const struct dt_delay_keywords dt_delay_calls = {
    "a call: post_send, post_recv, poll_cq, modify_qp, query_qp, create_qp, destroy_qp, create_cq, reg_mr, "
    "query_port or query_gid",
    11,
    {{"post_send", DT_DELAY_CALL_POST_SEND},
     {"post_recv", DT_DELAY_CALL_POST_RECV},
     {"poll_cq", DT_DELAY_CALL_POLL_CQ},
     {"modify_qp", DT_DELAY_CALL_MODIFY_QP},
     {"query_qp", DT_DELAY_CALL_QUERY_QP},
     {"create_qp", DT_DELAY_CALL_CREATE_QP},
     {"destroy_qp", DT_DELAY_CALL_DESTROY_QP},
     {"create_cq", DT_DELAY_CALL_CREATE_CQ},
     {"reg_mr", DT_DELAY_CALL_REG_MR},
     {"query_port", DT_DELAY_CALL_QUERY_PORT},
     {"query_gid", DT_DELAY_CALL_QUERY_GID}}};

const struct dt_delay_keywords dt_delay_hanging_calls = {
    "a call that may hang: modify_qp, query_qp, create_qp, destroy_qp, create_cq, reg_mr, query_port or "
    "query_gid",
    8,
    {{"modify_qp", DT_DELAY_CALL_MODIFY_QP},
     {"query_qp", DT_DELAY_CALL_QUERY_QP},
     {"create_qp", DT_DELAY_CALL_CREATE_QP},
     {"destroy_qp", DT_DELAY_CALL_DESTROY_QP},
     {"create_cq", DT_DELAY_CALL_CREATE_CQ},
     {"reg_mr", DT_DELAY_CALL_REG_MR},
     {"query_port", DT_DELAY_CALL_QUERY_PORT},
     {"query_gid", DT_DELAY_CALL_QUERY_GID}}};

const struct dt_delay_keywords dt_delay_statuses = {
    "a status: retry_exceeded, rnr_retry_exceeded, response_timeout, remote_operation, remote_access, "
    "local_protection, local_qp_operation, flushed, fatal, general or lost",
    11,
    {{"retry_exceeded", DT_DELAY_STATUS_RETRY_EXCEEDED},
     {"rnr_retry_exceeded", DT_DELAY_STATUS_RNR_RETRY_EXCEEDED},
     {"response_timeout", DT_DELAY_STATUS_RESPONSE_TIMEOUT},
     {"remote_operation", DT_DELAY_STATUS_REMOTE_OPERATION},
     {"remote_access", DT_DELAY_STATUS_REMOTE_ACCESS},
     {"local_protection", DT_DELAY_STATUS_LOCAL_PROTECTION},
     {"local_qp_operation", DT_DELAY_STATUS_LOCAL_QP_OPERATION},
     {"flushed", DT_DELAY_STATUS_FLUSHED},
     {"fatal", DT_DELAY_STATUS_FATAL},
     {"general", DT_DELAY_STATUS_GENERAL},
     {"lost", DT_DELAY_STATUS_LOST}}};

const struct dt_delay_keywords dt_delay_events = {
    "an event: port_error, port_active, gid_change, device_fatal, cq_error or qp_fatal",
    6,
    {{"port_error", DT_DELAY_EVENT_PORT_ERROR},
     {"port_active", DT_DELAY_EVENT_PORT_ACTIVE},
     {"gid_change", DT_DELAY_EVENT_GID_CHANGE},
     {"device_fatal", DT_DELAY_EVENT_DEVICE_FATAL},
     {"cq_error", DT_DELAY_EVENT_CQ_ERROR},
     {"qp_fatal", DT_DELAY_EVENT_QP_FATAL}}};

const struct dt_delay_keywords dt_delay_personalities = {"a provider: mlx5, ionic, bnxt, rxe or mana",
                                                         5,
                                                         {{"mlx5", DT_DELAY_PERSONALITY_MLX5},
                                                          {"ionic", DT_DELAY_PERSONALITY_IONIC},
                                                          {"bnxt", DT_DELAY_PERSONALITY_BNXT},
                                                          {"rxe", DT_DELAY_PERSONALITY_RXE},
                                                          {"mana", DT_DELAY_PERSONALITY_MANA}}};

const struct dt_delay_keywords dt_delay_errors = {
    "an errno: EIO, EINVAL, ENOMEM, EAGAIN, EBUSY, ENODEV, ENOSPC, ENETDOWN, ENETUNREACH or ETIMEDOUT",
    10,
    {{"EIO", EIO},
     {"EINVAL", EINVAL},
     {"ENOMEM", ENOMEM},
     {"EAGAIN", EAGAIN},
     {"EBUSY", EBUSY},
     {"ENODEV", ENODEV},
     {"ENOSPC", ENOSPC},
     {"ENETDOWN", ENETDOWN},
     {"ENETUNREACH", ENETUNREACH},
     {"ETIMEDOUT", ETIMEDOUT}}};

bool dt_delay_keyword_find(const struct dt_delay_keywords *keywords, const char *text, size_t length,
                           int *value)
{
    for (size_t i = 0; i < keywords->count; i++) {
        if (strlen(keywords->entry[i].text) != length || memcmp(keywords->entry[i].text, text, length) != 0)
            continue;
        *value = keywords->entry[i].value;
        return true;
    }
    return false;
}

const char *dt_delay_keyword_text(const struct dt_delay_keywords *keywords, int value)
{
    for (size_t i = 0; i < keywords->count; i++) {
        if (keywords->entry[i].value == value)
            return keywords->entry[i].text;
    }
    return "?";
}
