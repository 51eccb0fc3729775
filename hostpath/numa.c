/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/numa.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/* libnuma's functions, or NULL. */
static int (*numa_available)(void);
static int (*numa_run_on_node)(int node);
static void (*numa_tonode_memory)(void *start, size_t size, int node);
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL); /* for the life of the process */

    if (!library)
        return;
    *(void **)&numa_available = dlsym(library, "numa_available");
    *(void **)&numa_run_on_node = dlsym(library, "numa_run_on_node");
    *(void **)&numa_tonode_memory = dlsym(library, "numa_tonode_memory");
    if (!numa_available || numa_available() < 0 || !numa_run_on_node || !numa_tonode_memory) {
        numa_run_on_node = NULL;
        numa_tonode_memory = NULL;
    }
}

int dt_numa_node_of(const char *pci_path)
{
    char name[512];
    FILE *file;
    int node = -1;

    if (!*pci_path || snprintf(name, sizeof name, "%s/numa_node", pci_path) >= (int)sizeof name)
        return -1;
    file = fopen(name, "re");
    if (!file)
        return -1;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    fclose(file);
    return node;
}

void dt_numa_run_on(int node)
{
    if (node < 0)
        return;
    pthread_once(&once, load);
    if (numa_run_on_node)
        numa_run_on_node(node); /* in a container with other processors it stays where it was */
}

void dt_numa_place(void *addr, size_t bytes, int node)
{
    if (node < 0)
        return;
    pthread_once(&once, load);
    if (numa_tonode_memory)
        numa_tonode_memory(addr, bytes, node);
}
