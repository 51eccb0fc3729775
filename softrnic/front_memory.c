/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "softrnic/front.h"

/* Of Linux 5.14; older kernels answer EINVAL. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* ---- protection domains ---------------------------------------------------------------------------------
 */

static void destroy_pd(struct dt_front_object *object)
{
    int error = dt_soft_dealloc_pd(&dt_container_of(object, struct dt_front_pd, object)->pd);

    DT_CHECK(!error);
}

struct ibv_pd *dt_soft_alloc_pd(struct ibv_context *context)
{
    static uint32_t last_number; /* atomic; of the process, so that no two devices share one */
    struct dt_front_pd *pd = calloc(1, sizeof *pd);

    if (!pd)
        return NULL;
    pd->pd.context = context;
    pd->number = dt_fetch_add_relaxed(&last_number, 1) + 1;
    pd->pd.handle = pd->number;
    dt_front_add_object(context, &pd->object, destroy_pd);
    return &pd->pd;
}

int dt_soft_dealloc_pd(struct ibv_pd *public_pd)
{
    struct dt_front_pd *pd = dt_front_pd_of(public_pd);

    if (dt_load_acquire(&pd->objects))
        return EBUSY;
    dt_front_remove_object(public_pd->context, &pd->object);
    free(pd);
    return 0;
}

/* ---- memory regions -------------------------------------------------------------------------------------
 */

/*
 * Do the mappings in /proc/self/maps, which are in ascending order, cover [start, end) with read access, and
 * write access if needed? 0 or EFAULT.
 */
static int check_maps(uintptr_t start, uintptr_t end, bool needs_write)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];

    if (!maps)
        return 0; /* unknown: assume the best */
    while (start < end && fgets(line, sizeof line, maps)) {
        uintptr_t from, to;
        char rights[5];

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, rights) == 3 && from <= start &&
            start < to && rights[0] == 'r' && (rights[1] == 'w' || !needs_write))
            start = to;
    }
    fclose(maps);
    return start < end ? EFAULT : 0;
}

/*
 * A real RNIC's driver pins the pages and so detects at registration whether they exist and are writable. The
 * engine would crash on them later. 0 or EFAULT.
 */
static int fault_in(void *addr, size_t length, unsigned access)
{
    uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)addr & ~(page_bytes - 1);
    uintptr_t end = ((uintptr_t)addr + length + page_bytes - 1) & ~(page_bytes - 1);
    bool needs_write = access & IBV_ACCESS_LOCAL_WRITE;

    if (madvise((void *)start, end - start, needs_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    /* An old kernel, device memory, or a missing right. */
    return errno == EINVAL ? check_maps(start, end, needs_write) : EFAULT;
}

static void destroy_mr(struct dt_front_object *object)
{
    int error = dt_soft_dereg_mr(&dt_container_of(object, struct dt_front_mr, object)->mr);

    DT_CHECK(!error);
}

static struct ibv_mr *fail(struct ibv_mr *mr, int error)
{
    free(dt_front_mr_of(mr));
    errno = error;
    return NULL;
}

struct ibv_mr *dt_soft_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                    unsigned int access)
{
    struct dt_soft_device *device = dt_front_context_of(pd->context)->device;
    struct dt_front_mr *front_mr = calloc(1, sizeof *front_mr);
    struct ibv_mr *mr;
    uint32_t key;
    int error;

    if (!front_mr)
        return NULL;
    mr = &front_mr->mr;
    /* Before the pages are touched: a length that wraps around, or is nothing. */
    if (length == 0 || (uintptr_t)addr > UINTPTR_MAX - length ||
        (uintptr_t)addr + length > UINTPTR_MAX - 65536)
        return fail(mr, EINVAL);
    error = fault_in(addr, length, access);
    if (error)
        return fail(mr, error);
    dt_driver_lock(device);
    error = dt_rnic_mr_register(device->rnic, dt_front_pd_of(pd)->number, addr, length, iova, access, &key);
    dt_driver_unlock(device);
    if (error)
        return fail(mr, error);
    mr->context = pd->context;
    mr->pd = pd;
    mr->addr = addr;
    mr->length = length;
    mr->handle = key;
    mr->lkey = key;
    mr->rkey = key;
    dt_front_enter_user(&dt_front_pd_of(pd)->objects);
    dt_front_add_object(pd->context, &front_mr->object, destroy_mr);
    return mr;
}

struct ibv_mr *dt_soft_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
    return dt_soft_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

struct ibv_mr *dt_soft_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return dt_soft_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

int dt_soft_dereg_mr(struct ibv_mr *mr)
{
    struct dt_soft_device *device = dt_front_context_of(mr->context)->device;

    dt_driver_lock(device);
    int error = dt_rnic_mr_deregister(device->rnic, mr->lkey);
    dt_driver_unlock(device);
    if (error)
        return error;
    dt_front_leave_user(&dt_front_pd_of(mr->pd)->objects);
    dt_front_remove_object(mr->context, &dt_front_mr_of(mr)->object);
    free(dt_front_mr_of(mr));
    return 0;
}
