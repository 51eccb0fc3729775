/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of completion statuses and device events. */
#include <infiniband/verbs.h>

#include "base/check.h"
#include "base/util.h"
#include "verbs/device.h"
#include "verbs/queue.h"

/* The enum is libibverbs' in order, so a status is passed on without a look at it. */
DT_STATIC_CHECK((int)DT_WC_SUCCESS == IBV_WC_SUCCESS, "first");
DT_STATIC_CHECK((int)DT_WC_LOCAL_PROTECTION == IBV_WC_LOC_PROT_ERR, "protection");
DT_STATIC_CHECK((int)DT_WC_FLUSHED == IBV_WC_WR_FLUSH_ERR, "flush");
DT_STATIC_CHECK((int)DT_WC_REMOTE_ACCESS == IBV_WC_REM_ACCESS_ERR, "remote access");
DT_STATIC_CHECK((int)DT_WC_RETRY_EXCEEDED == IBV_WC_RETRY_EXC_ERR, "retry");
DT_STATIC_CHECK((int)DT_WC_RNR_RETRY_EXCEEDED == IBV_WC_RNR_RETRY_EXC_ERR, "RNR retry");
DT_STATIC_CHECK((int)DT_WC_REMOTE_ABORTED == IBV_WC_REM_ABORT_ERR, "abort");
DT_STATIC_CHECK((int)DT_WC_FATAL == IBV_WC_FATAL_ERR, "fatal");
DT_STATIC_CHECK((int)DT_WC_GENERAL == IBV_WC_GENERAL_ERR, "last");

static const struct {
    const char *text;
    enum dt_wc_class class_of;
} status_table[] = {
#define STATUS_ROW(name, text, class_of) {text, class_of},
    DT_WC_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

const char *dt_wc_status_text(uint32_t status)
{
    return status < DT_COUNT_OF(status_table) ? status_table[status].text : "unknown completion status";
}

/*
 * Providers whose meaning of a status differs. By the InfiniBand specification, a local QP operation error is
 * an invalid work queue element; the software RNIC and ConnectX report it for that alone, and the element
 * would be invalid on any path. Linux' soft-RoCE reports it when its own link is down (tests/vm/ shows it);
 * the meaning of other providers is not known, so there it counts as a failure of the path.
 */
static const struct {
    enum dt_provider provider;
    enum dt_wc_status status;
    enum dt_wc_class class_of;
} exceptions[] = {
    {DT_PROVIDER_SOFT, DT_WC_LOCAL_QP_OPERATION, DT_WC_CLASS_CALLER},
    {DT_PROVIDER_MLX, DT_WC_LOCAL_QP_OPERATION, DT_WC_CLASS_CALLER},
};

enum dt_wc_class dt_wc_status_class(enum dt_provider provider, uint32_t status)
{
    for (size_t i = 0; i < DT_COUNT_OF(exceptions); i++) {
        if (exceptions[i].provider == provider && (uint32_t)exceptions[i].status == status)
            return exceptions[i].class_of;
    }
    return status < DT_COUNT_OF(status_table) ? status_table[status].class_of : DT_WC_CLASS_TRANSPORT;
}

const char *dt_event_type_text(enum dt_event_type type)
{
    switch (type) {
    case DT_EVENT_PORT_ACTIVE:
        return "PORT_ACTIVE";
    case DT_EVENT_PORT_ERROR:
        return "PORT_ERROR";
    case DT_EVENT_GID_CHANGE:
        return "GID_CHANGE";
    case DT_EVENT_DEVICE_FATAL:
        return "DEVICE_FATAL";
    case DT_EVENT_CQ_ERROR:
        return "CQ_ERROR";
    case DT_EVENT_QP_FATAL:
        return "QP_FATAL";
    case DT_EVENT_OTHER:
        break;
    }
    return "OTHER";
}
