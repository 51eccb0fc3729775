// SPDX-License-Identifier: Apache-2.0
// The calls that the contract suite makes on the software RNIC, answered by the system's libibverbs: linked
// in the place of softrnic/, it runs the same suite on the kernel's devices. Device 0 is rxa0, device 1 is
// rxb0, GID 0 is the device's IPv4 address: the one at index 0 is link-local and has no route to the peer
// here.
#include <dlfcn.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "softrnic/softrnic.h"

namespace
{
const char *const kDevices[] = {"rxa0", "rxb0"};

template <typename Function>
Function *Real(const char *name)
{
    static void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : nullptr;

    if (!function)
        throw std::runtime_error(std::string("libibverbs.so.1 has no ") + name);
    return reinterpret_cast<Function *>(function);
}

// Index of the first GID that is an IPv4 address; -1: none.
int FindIpv4Gid(ibv_context *context, ibv_gid *gid)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    for (int index = 0; index < 16; index++) {
        if (!Real<decltype(dt_soft_query_gid)>("ibv_query_gid")(context, 1, index, gid) &&
            !memcmp(gid->raw, prefix, sizeof prefix))
            return index;
    }
    return -1;
}
} // namespace

// The function of libibverbs, which has the type of the software RNIC's.
#define REAL(name) Real<decltype(dt_soft_##name)>("ibv_" #name)

extern "C" {
ibv_device **dt_soft_get_device_list(int *count)
{
    ibv_device **list = REAL(get_device_list)(count);

    for (int wanted = 0; list && wanted < 2; wanted++)
        for (int i = wanted; i < *count; i++)
            if (!strcmp(REAL(get_device_name)(list[i]), kDevices[wanted]))
                std::swap(list[i], list[wanted]);
    return list;
}

void dt_soft_free_device_list(ibv_device **list)
{
    REAL(free_device_list)(list);
}

ibv_context *dt_soft_open_device(ibv_device *device)
{
    return REAL(open_device)(device);
}

int dt_soft_close_device(ibv_context *context)
{
    return REAL(close_device)(context);
}

int dt_soft_query_gid(ibv_context *context, uint8_t, int, ibv_gid *gid)
{
    return FindIpv4Gid(context, gid) < 0 ? -1 : 0;
}

int dt_soft_get_async_event(ibv_context *context, ibv_async_event *event)
{
    return REAL(get_async_event)(context, event);
}

void dt_soft_ack_async_event(ibv_async_event *event)
{
    REAL(ack_async_event)(event);
}

ibv_pd *dt_soft_alloc_pd(ibv_context *context)
{
    return REAL(alloc_pd)(context);
}

int dt_soft_dealloc_pd(ibv_pd *pd)
{
    return REAL(dealloc_pd)(pd);
}

ibv_mr *dt_soft_reg_mr(ibv_pd *pd, void *addr, size_t bytes, int access)
{
    return REAL(reg_mr)(pd, addr, bytes, access);
}

int dt_soft_dereg_mr(ibv_mr *mr)
{
    return REAL(dereg_mr)(mr);
}

ibv_comp_channel *dt_soft_create_comp_channel(ibv_context *context)
{
    return REAL(create_comp_channel)(context);
}

int dt_soft_destroy_comp_channel(ibv_comp_channel *channel)
{
    return REAL(destroy_comp_channel)(channel);
}

ibv_cq *dt_soft_create_cq(ibv_context *context, int cqe, void *user, ibv_comp_channel *channel, int vector)
{
    return REAL(create_cq)(context, cqe, user, channel, vector);
}

int dt_soft_destroy_cq(ibv_cq *cq)
{
    return REAL(destroy_cq)(cq);
}

ibv_qp *dt_soft_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
    return REAL(create_qp)(pd, attr);
}

int dt_soft_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init)
{
    return REAL(query_qp)(qp, attr, mask, init);
}

int dt_soft_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    ibv_qp_attr copy = *attr;
    ibv_gid gid;

    if (mask & IBV_QP_AV)
        copy.ah_attr.grh.sgid_index = static_cast<uint8_t>(FindIpv4Gid(qp->context, &gid));
    return REAL(modify_qp)(qp, &copy, mask);
}

int dt_soft_destroy_qp(ibv_qp *qp)
{
    return REAL(destroy_qp)(qp);
}

const char *dt_soft_wc_status_str(ibv_wc_status status)
{
    return REAL(wc_status_str)(status);
}
}
