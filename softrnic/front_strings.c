/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "softrnic/front.h"

static const char *text_of(const char *const *texts, size_t count, int index)
{
    return index >= 0 && (size_t)index < count && texts[index] ? texts[index] : "unknown";
}

const char *dt_soft_node_type_str(enum ibv_node_type node_type)
{
    static const char *const texts[] = {
        [IBV_NODE_CA] = "channel adapter",
        [IBV_NODE_SWITCH] = "switch",
        [IBV_NODE_ROUTER] = "router",
        [IBV_NODE_RNIC] = "RDMA NIC",
    };

    return text_of(texts, DT_COUNT_OF(texts), (int)node_type);
}

const char *dt_soft_port_state_str(enum ibv_port_state port_state)
{
    static const char *const texts[] = {
        [IBV_PORT_NOP] = "no state change", [IBV_PORT_DOWN] = "down",
        [IBV_PORT_INIT] = "initializing",   [IBV_PORT_ARMED] = "armed",
        [IBV_PORT_ACTIVE] = "active",       [IBV_PORT_ACTIVE_DEFER] = "active, deferred",
    };

    return text_of(texts, DT_COUNT_OF(texts), (int)port_state);
}

const char *dt_soft_event_type_str(enum ibv_event_type event)
{
    static const char *const texts[] = {
        [IBV_EVENT_CQ_ERR] = "CQ error",
        [IBV_EVENT_QP_FATAL] = "QP fatal error",
        [IBV_EVENT_QP_REQ_ERR] = "QP request error",
        [IBV_EVENT_QP_ACCESS_ERR] = "QP access error",
        [IBV_EVENT_COMM_EST] = "communication established",
        [IBV_EVENT_SQ_DRAINED] = "send queue drained",
        [IBV_EVENT_PATH_MIG] = "path migrated",
        [IBV_EVENT_PATH_MIG_ERR] = "path migration error",
        [IBV_EVENT_DEVICE_FATAL] = "device fatal error",
        [IBV_EVENT_PORT_ACTIVE] = "port active",
        [IBV_EVENT_PORT_ERR] = "port error",
        [IBV_EVENT_LID_CHANGE] = "LID change",
        [IBV_EVENT_PKEY_CHANGE] = "P_Key change",
        [IBV_EVENT_SM_CHANGE] = "subnet manager change",
        [IBV_EVENT_SRQ_ERR] = "SRQ error",
        [IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ limit reached",
        [IBV_EVENT_QP_LAST_WQE_REACHED] = "last element of the receive queue reached",
        [IBV_EVENT_CLIENT_REREGISTER] = "client reregistration",
        [IBV_EVENT_GID_CHANGE] = "GID change",
        [IBV_EVENT_WQ_FATAL] = "WQ fatal error",
    };

    return text_of(texts, DT_COUNT_OF(texts), (int)event);
}

const char *dt_soft_wc_status_str(enum ibv_wc_status status)
{
    static const char *const texts[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "work request flushed",
        [IBV_WC_MW_BIND_ERR] = "memory window bind error",
        [IBV_WC_BAD_RESP_ERR] = "bad response",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry count exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "receiver-not-ready retry count exceeded",
        [IBV_WC_LOC_RDD_VIOL_ERR] = "local RDD violation",
        [IBV_WC_REM_INV_RD_REQ_ERR] = "remote invalid RD request",
        [IBV_WC_REM_ABORT_ERR] = "remote aborted",
        [IBV_WC_INV_EECN_ERR] = "invalid EE context number",
        [IBV_WC_INV_EEC_STATE_ERR] = "invalid EE context state",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout",
        [IBV_WC_GENERAL_ERR] = "general error",
        [IBV_WC_TM_ERR] = "tag matching error",
        [IBV_WC_TM_RNDV_INCOMPLETE] = "tag matching rendezvous incomplete",
    };

    return text_of(texts, DT_COUNT_OF(texts), (int)status);
}
