/* SPDX-License-Identifier: Apache-2.0 */
/* Open descriptors and the objects behind them. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "tests/provider/command.h"
#include "tests/provider/events.h"
#include "tests/provider/queues.h"

#define PATH_PREFIX "/dev/infiniband/uverbs90"
#define FDS_MAX     64

pthread_mutex_t dt_uverbs_lock = PTHREAD_MUTEX_INITIALIZER;
struct dt_list dt_uverbs_contexts = {&dt_uverbs_contexts, &dt_uverbs_contexts};

static uint32_t waiting; /* atomic: commands that wait for the lock */
static struct {
    int fd; /* atomic; 0: free, otherwise the descriptor + 1 */
    uint32_t device;
} fds[FDS_MAX];

void dt_uverbs_enter(void)
{
    dt_fetch_add_acq_rel(&waiting, 1);
    pthread_mutex_lock(&dt_uverbs_lock);
    dt_fetch_sub_acq_rel(&waiting, 1);
}

void dt_uverbs_leave(void)
{
    pthread_mutex_unlock(&dt_uverbs_lock);
}

bool dt_uverbs_is_wanted(void)
{
    return dt_load_relaxed(&waiting) > 0;
}

void dt_uverbs_refuse(const char *format, ...)
{
    char line[256];
    va_list values;

    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    fprintf(stderr, "uverbs stand-in: refused: %s\n", line);
}

/* ------------------------------------------------------------------------------------------------------------
 * Descriptors
 */
int dt_uverbs_device_of(const char *path)
{
    size_t bytes = sizeof PATH_PREFIX - 1;

    if (!path || strncmp(path, PATH_PREFIX, bytes) != 0)
        return -1;
    for (uint32_t device = 0; device < DT_UVERBS_DEVICES; device++) {
        if (path[bytes] == (char)('0' + device) && !path[bytes + 1])
            return (int)device;
    }
    return -1;
}

int dt_uverbs_device_of_fd(int fd)
{
    for (size_t i = 0; fd >= 0 && i < FDS_MAX; i++) {
        if (dt_load_acquire(&fds[i].fd) == fd + 1)
            return (int)fds[i].device;
    }
    return -1;
}

static struct dt_uverbs_context *context_of(int fd)
{
    dt_list_for_each(node, &dt_uverbs_contexts)
    {
        struct dt_uverbs_context *context = dt_container_of(node, struct dt_uverbs_context, node);

        if (context->fd == fd)
            return context;
    }
    return NULL;
}

static void free_context(struct dt_uverbs_context *context)
{
    if (context->pages != MAP_FAILED)
        munmap(context->pages, DT_UVERBS_FILE_BYTES);
    free(context);
}

static struct dt_uverbs_context *new_context(uint32_t device, int fd)
{
    struct dt_uverbs_context *context = calloc(1, sizeof *context);

    if (!context)
        return NULL;
    context->device = device;
    context->fd = fd;
    context->events_fd = -1;
    for (int kind = 0; kind < DT_UVERBS_KINDS; kind++)
        dt_list_init(&context->objects[kind]);
    context->pages = mmap(NULL, DT_UVERBS_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (context->pages != MAP_FAILED)
        return context;
    free_context(context);
    return NULL;
}

/* Enters the descriptor; the lock is held. */
static int enter_fd(int fd, uint32_t device)
{
    for (size_t i = 0; i < FDS_MAX; i++) {
        if (fds[i].fd)
            continue;
        fds[i].device = device;
        dt_store_release(&fds[i].fd, fd + 1);
        return 0;
    }
    return EMFILE;
}

/* The first context starts the device's thread, and the last one ends it, without the other lock: one after
 * the other. */
static pthread_mutex_t life_lock = PTHREAD_MUTEX_INITIALIZER;

int dt_uverbs_open(uint32_t device)
{
    int fd = memfd_create("detour-uverbs", MFD_CLOEXEC);
    struct dt_uverbs_context *context;
    int error = ENOMEM;

    if (fd < 0)
        return -1;
    pthread_mutex_lock(&life_lock);
    dt_uverbs_enter();
    context = ftruncate(fd, (off_t)DT_UVERBS_FILE_BYTES) ? NULL : new_context(device, fd);
    if (context)
        error = enter_fd(fd, device);
    if (!error && dt_list_is_empty(&dt_uverbs_contexts))
        error = dt_uverbs_thread_start();
    if (!error)
        dt_list_push_back(&dt_uverbs_contexts, &context->node);
    else if (context)
        free_context(context);
    dt_uverbs_leave();
    pthread_mutex_unlock(&life_lock);
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static void destroy_all(struct dt_uverbs_context *context)
{
    static const enum dt_uverbs_kind order[] = {DT_UVERBS_QP, DT_UVERBS_CQ, DT_UVERBS_MR, DT_UVERBS_PD};

    for (size_t i = 0; i < DT_COUNT_OF(order); i++) {
        struct dt_list *list = &context->objects[order[i]];

        while (!dt_list_is_empty(list)) {
            int error =
                dt_uverbs_destroy(order[i], dt_container_of(list->next, struct dt_uverbs_object, node));

            DT_CHECK(!error);
        }
    }
}

void dt_uverbs_close(int fd)
{
    pthread_mutex_lock(&life_lock);
    dt_uverbs_enter();
    struct dt_uverbs_context *context = context_of(fd);
    bool is_last = false;

    for (size_t i = 0; i < FDS_MAX; i++) {
        if (fds[i].fd == fd + 1)
            dt_store_release(&fds[i].fd, 0);
    }
    if (context) {
        destroy_all(context);
        if (context->soft)
            dt_soft_close_device(context->soft);
        dt_uverbs_events_close(context);
        dt_list_remove(&context->node);
        free_context(context);
        is_last = dt_list_is_empty(&dt_uverbs_contexts);
    }
    dt_uverbs_leave();
    if (is_last)
        dt_uverbs_thread_stop();
    pthread_mutex_unlock(&life_lock);
}

void dt_uverbs_forget(void)
{
    /* The objects are the parent's; their memory stays, as the software RNIC's does. */
    pthread_mutex_init(&dt_uverbs_lock, NULL);
    pthread_mutex_init(&life_lock, NULL);
    dt_list_init(&dt_uverbs_contexts);
    memset(fds, 0, sizeof fds);
    waiting = 0;
}

ssize_t dt_uverbs_write(int fd, const void *data, size_t bytes)
{
    dt_uverbs_enter();
    struct dt_uverbs_context *context = context_of(fd);
    int error = context ? dt_uverbs_command(context, data, bytes) : EBADF;

    dt_uverbs_leave();
    if (!error)
        return (ssize_t)bytes;
    errno = error;
    return -1;
}

/* ------------------------------------------------------------------------------------------------------------
 * Objects
 */
void dt_uverbs_add(struct dt_uverbs_context *context, enum dt_uverbs_kind kind,
                   struct dt_uverbs_object *object)
{
    static uint32_t last_handle;

    object->context = context;
    object->handle = ++last_handle;
    dt_list_push_back(&context->objects[kind], &object->node);
}

void *dt_uverbs_find(struct dt_uverbs_context *context, enum dt_uverbs_kind kind, uint32_t handle)
{
    dt_list_for_each(node, &context->objects[kind])
    {
        struct dt_uverbs_object *object = dt_container_of(node, struct dt_uverbs_object, node);

        if (object->handle == handle)
            return object; /* the first member of the larger structs */
    }
    return NULL;
}

struct dt_uverbs_qp *dt_uverbs_qp_of_number(struct dt_uverbs_context *context, uint32_t number)
{
    dt_list_for_each(node, &context->objects[DT_UVERBS_QP])
    {
        struct dt_uverbs_object *object = dt_container_of(node, struct dt_uverbs_object, node);

        if (object->soft.qp->qp_num == number)
            return (struct dt_uverbs_qp *)object;
    }
    return NULL;
}

static int destroy_soft(enum dt_uverbs_kind kind, struct dt_uverbs_object *object)
{
    switch (kind) {
    case DT_UVERBS_PD:
        return dt_soft_dealloc_pd(object->soft.pd);
    case DT_UVERBS_MR:
        return dt_soft_dereg_mr(object->soft.mr);
    case DT_UVERBS_CQ:
        return dt_soft_destroy_cq(object->soft.cq);
    default:
        return dt_soft_destroy_qp(object->soft.qp);
    }
}

int dt_uverbs_destroy(enum dt_uverbs_kind kind, struct dt_uverbs_object *object)
{
    int error = destroy_soft(kind, object);

    if (error)
        return error;
    dt_list_remove(&object->node);
    free(object);
    return 0;
}
