/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/provider/tree.h"

#include <endian.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "softrnic/driver.h"
#include "softrnic/gid.h"
#include "tests/provider/uverbs.h"

static char folder[PATH_MAX / 2];
static pid_t owner;
static bool is_made;

void dt_uverbs_tree_begin(void)
{
    const char *parent = getenv("TMPDIR");
    uint64_t drawn = 0;
    ssize_t bytes = getrandom(&drawn, sizeof drawn, 0);

    (void)bytes; /* the name has the process' number too */
    is_made = false;
    snprintf(folder, sizeof folder, "%s/detour-uverbs-%d-%016" PRIx64, parent && *parent ? parent : "/tmp",
             (int)getpid(), drawn);
    setenv("SYSFS_PATH", folder, 1);
}

/* One file with its line; makes the folders on its path. */
__attribute__((format(printf, 2, 3))) static void put(const char *name, const char *format, ...)
{
    char path[PATH_MAX];
    va_list values;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + 1; *slash; slash++) {
        if (*slash != '/')
            continue;
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "we");
    if (!file) {
        perror(path);
        return;
    }
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    fputc('\n', file);
    fclose(file);
}

static void put_gid(const char *name, const uint8_t gid[16])
{
    char text[40];
    int length = 0;

    for (int i = 0; i < 16; i += 2)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%02x%02x", i ? ":" : "", gid[i],
                           gid[i + 1]);
    put(name, "%s", text);
}

static const char *below(const char *name, uint32_t device)
{
    static char path[256];

    snprintf(path, sizeof path, "class/infiniband/mlx5_%u/%s", device, name);
    return path;
}

static void put_device(uint32_t device)
{
    char name[64];
    uint8_t gid[16];
    uint64_t guid = dt_driver_instance() << 8 | (device + 1);

    snprintf(name, sizeof name, "class/infiniband_verbs/uverbs90%u/ibdev", device);
    put(name, "mlx5_%u", device);
    snprintf(name, sizeof name, "class/infiniband_verbs/uverbs90%u/abi_version", device);
    put(name, "1"); /* MLX5_IB_UVERBS_ABI_VERSION */
    snprintf(name, sizeof name, "class/infiniband_verbs/uverbs90%u/dev", device);
    put(name, "%d:%u", DT_UVERBS_MAJOR, DT_UVERBS_MINOR + device);
    put(below("node_type", device), "1: CA");
    put(below("node_guid", device), "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
        (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff, (unsigned)guid & 0xffff);
    /* A ConnectX-5: libmlx5 selects its devices by these values. */
    put(below("device/modalias", device), "pci:v000015B3d00001017sv000015B3sd00000000bc02sc00i00");
    put(below("device/numa_node", device), "-1");
    dt_gid_make(dt_driver_instance(), device, gid);
    put_gid(below("ports/1/gids/0", device), gid);
    put(below("ports/1/gid_attrs/types/0", device), "RoCE v2");
    put(below("ports/1/pkeys/0", device), "0xffff");
}

void dt_uverbs_tree_make(void)
{
    if (is_made)
        return;
    is_made = true;
    owner = getpid();
    put("class/infiniband_verbs/abi_version", "6"); /* IB_USER_VERBS_ABI_VERSION */
    for (uint32_t device = 0; device < DT_UVERBS_DEVICES; device++)
        put_device(device);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    (void)at;
    return remove(path);
}

void dt_uverbs_tree_end(void)
{
    if (is_made && owner == getpid())
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
