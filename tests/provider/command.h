/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the verbs ABI that are written to the device. Layouts: <rdma/ib_user_verbs.h>, and behind
 * each its driver's part of <rdma/mlx5-abi.h>.
 */
#ifndef DETOUR_TESTS_PROVIDER_COMMAND_H
#define DETOUR_TESTS_PROVIDER_COMMAND_H

#include "tests/provider/uverbs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One command: request and response without their headers. */
struct dt_uverbs_call {
    struct dt_uverbs_context *context;
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

/* Copies [offset, offset + bytes) of the request; what the caller did not send is 0. */
void dt_uverbs_get(const struct dt_uverbs_call *call, size_t offset, void *to, size_t bytes);
/* Copies into the response as far as the caller has room for it. */
void dt_uverbs_put(const struct dt_uverbs_call *call, size_t offset, const void *from, size_t bytes);

/* Handlers: 0 or an errno. */
typedef int dt_uverbs_handler(struct dt_uverbs_call *call);

dt_uverbs_handler dt_uverbs_get_context;
dt_uverbs_handler dt_uverbs_query_device;
dt_uverbs_handler dt_uverbs_query_device_ex;
dt_uverbs_handler dt_uverbs_query_port;
dt_uverbs_handler dt_uverbs_create_qp;
dt_uverbs_handler dt_uverbs_modify_qp;
dt_uverbs_handler dt_uverbs_query_qp;
dt_uverbs_handler dt_uverbs_destroy_qp;

/* The whole command with its header: 0 or an errno. The lock is held. */
int dt_uverbs_command(struct dt_uverbs_context *context, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
