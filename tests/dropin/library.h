// SPDX-License-Identifier: Apache-2.0
// The drop-in library as NCCL takes hold of libibverbs: dlopen of the bare file name, found by
// LD_LIBRARY_PATH, and dlvsym of each function. Nothing of it is linked.
#ifndef DETOUR_TESTS_DROPIN_LIBRARY_H
#define DETOUR_TESTS_DROPIN_LIBRARY_H

#ifdef __cplusplus
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/softrnic/ranks.h"

namespace detour_test
{
// NCCL tries the first name first.
inline void *OpenLibrary()
{
    void *library = dlopen("libibverbs.so", RTLD_NOW);

    if (!library)
        library = dlopen("libibverbs.so.1", RTLD_NOW);
    Require(library != nullptr, "%s", dlerror());
    return library;
}

// What NCCL asks for, with the versions it asks for (2.18 to 2.28; src/misc/ibvsymbols.cc), and the
// completion channel besides.
struct Verbs {
    void *library;

    ibv_device **(*get_device_list)(int *);
    void (*free_device_list)(ibv_device **);
    const char *(*get_device_name)(ibv_device *);
    ibv_context *(*open_device)(ibv_device *);
    int (*close_device)(ibv_context *);
    int (*get_async_event)(ibv_context *, ibv_async_event *);
    void (*ack_async_event)(ibv_async_event *);
    int (*query_device)(ibv_context *, ibv_device_attr *);
    int (*query_port)(ibv_context *, uint8_t, ibv_port_attr *);
    int (*query_gid)(ibv_context *, uint8_t, int, ibv_gid *);
    int (*query_qp)(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *);
    ibv_pd *(*alloc_pd)(ibv_context *);
    int (*dealloc_pd)(ibv_pd *);
    ibv_mr *(*reg_mr)(ibv_pd *, void *, size_t, int);
    ibv_mr *(*reg_mr_iova2)(ibv_pd *, void *, size_t, uint64_t, unsigned);
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *, uint64_t, size_t, uint64_t, int, int);
    int (*dereg_mr)(ibv_mr *);
    ibv_cq *(*create_cq)(ibv_context *, int, void *, ibv_comp_channel *, int);
    int (*destroy_cq)(ibv_cq *);
    ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *);
    int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int);
    int (*destroy_qp)(ibv_qp *);
    int (*fork_init)();
    const char *(*event_type_str)(ibv_event_type);
    int (*query_ece)(ibv_qp *, ibv_ece *);
    int (*set_ece)(ibv_qp *, ibv_ece *);
    ibv_comp_channel *(*create_comp_channel)(ibv_context *);
    int (*destroy_comp_channel)(ibv_comp_channel *);
    int (*get_cq_event)(ibv_comp_channel *, ibv_cq **, void **);
    void (*ack_cq_events)(ibv_cq *, unsigned);

    template <typename Function>
    void Find(Function **function, const char *name, const char *version = "IBVERBS_1.1")
    {
        *function = reinterpret_cast<Function *>(dlvsym(library, name, version));
        Require(*function != nullptr, "%s", dlerror());
    }

    Verbs() : library(OpenLibrary())
    {
        Find(&get_device_list, "ibv_get_device_list");
        Find(&free_device_list, "ibv_free_device_list");
        Find(&get_device_name, "ibv_get_device_name");
        Find(&open_device, "ibv_open_device");
        Find(&close_device, "ibv_close_device");
        Find(&get_async_event, "ibv_get_async_event");
        Find(&ack_async_event, "ibv_ack_async_event");
        Find(&query_device, "ibv_query_device");
        Find(&query_port, "ibv_query_port");
        Find(&query_gid, "ibv_query_gid");
        Find(&query_qp, "ibv_query_qp");
        Find(&alloc_pd, "ibv_alloc_pd");
        Find(&dealloc_pd, "ibv_dealloc_pd");
        Find(&reg_mr, "ibv_reg_mr");
        Find(&reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
        Find(&reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
        Find(&dereg_mr, "ibv_dereg_mr");
        Find(&create_cq, "ibv_create_cq");
        Find(&destroy_cq, "ibv_destroy_cq");
        Find(&create_qp, "ibv_create_qp");
        Find(&modify_qp, "ibv_modify_qp");
        Find(&destroy_qp, "ibv_destroy_qp");
        Find(&fork_init, "ibv_fork_init");
        Find(&event_type_str, "ibv_event_type_str");
        Find(&query_ece, "ibv_query_ece", "IBVERBS_1.10");
        Find(&set_ece, "ibv_set_ece", "IBVERBS_1.10");
        Find(&create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
        Find(&destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
        Find(&get_cq_event, "ibv_get_cq_event");
        Find(&ack_cq_events, "ibv_ack_cq_events");
        CheckWhichLibrary();
    }

    // A machine may have a libibverbs of its own.
    void CheckWhichLibrary() const
    {
        Dl_info info;

        Require(dladdr(reinterpret_cast<void *>(get_device_list), &info) != 0, "dladdr");
        Require(std::string(info.dli_fname).find(DROPIN_FOLDER) == 0, "taken from %s", info.dli_fname);
    }

    ibv_context *OpenFirst() const
    {
        int count = 0;
        ibv_device **list = get_device_list(&count);

        Require(list && count == 2, "%d devices", count);
        Require(std::string(get_device_name(list[0])) == "soft0", "%s", get_device_name(list[0]));
        ibv_context *context = open_device(list[0]);
        Require(context != nullptr, "open: %s", strerror(errno));
        free_device_list(list);
        return context;
    }
};
} // namespace detour_test
#endif

#endif
