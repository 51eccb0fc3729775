/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/client/api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/seam/seam.h"

static void *function(void *library, const char *name)
{
    void *address = dlsym(library, name);

    if (!address) {
        fprintf(stderr, "nccl-rank: %s\n", dlerror());
        exit(2);
    }
    return address;
}

void nccl_open(struct nccl_api *api, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    char error[512];

    if (!library) {
        fprintf(stderr, "nccl-rank: %s\n", dlerror());
        exit(2);
    }
    if (nh_seam_install(error, sizeof error)) {
        fprintf(stderr, "nccl-rank: %s\n", error);
        exit(2);
    }
#define TAKE(result, name, arguments)                 \
    {                                                 \
        void *address = function(library, #name);     \
        memcpy(&api->name, &address, sizeof address); \
    }
    NCCL_FUNCTIONS(TAKE)
#undef TAKE
}
