/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/numa.h"

#include <dlfcn.h>
#include <pthread.h>

/* libnuma's functions, or NULL. */
static int (*numa_available)(void);
static int (*numa_run_on_node)(int node);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* numa_run_on_node() fills an internal cache */

static void load(void)
{
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL); /* for the life of the process */

    if (!library)
        return;
    *(void **)&numa_available = dlsym(library, "numa_available");
    *(void **)&numa_run_on_node = dlsym(library, "numa_run_on_node");
    if (!numa_available || numa_available() < 0)
        numa_run_on_node = NULL;
}

void dt_numa_run_on(int node)
{
    if (node < 0)
        return;
    pthread_once(&once, load);
    if (!numa_run_on_node)
        return;
    pthread_mutex_lock(&mutex);
    numa_run_on_node(node); /* fails in a container without processors of the node: no effect */
    pthread_mutex_unlock(&mutex);
}
