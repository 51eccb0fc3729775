/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/plugins/forward.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) ncclNet_v8_t ncclNetPlugin_v8;

const ncclNet_v8_t *forward_load(void)
{
    const char *name = getenv("DETOUR_FORWARD_TO");
    void *library = dlopen(name ? name : "libnccl-net-detour.so", RTLD_NOW | RTLD_LOCAL);
    const ncclNet_v8_t *net = library ? dlsym(library, "ncclNetPlugin_v8") : NULL;

    if (!net) {
        fprintf(stderr, "forward: %s\n", dlerror());
        exit(2);
    }
    return net;
}
