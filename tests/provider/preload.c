/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the C library by which libibverbs and libmlx5 reach a device, for LD_PRELOAD. Each looks
 * whether the path or the descriptor is the stand-in's and passes everything else on to the C library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "base/atomics.h"
#include "tests/provider/tree.h"
#include "tests/provider/uverbs.h"

#define EXPORTED __attribute__((visibility("default")))

/* ------------------------------------------------------------------------------------------------------------
 * The C library's own
 */
#define NAMES(X) X(open) X(stat) X(fstat) X(ioctl) X(write) X(close) X(socket)

static struct {
#define FIELD(name) void *name;
    NAMES(FIELD)
#undef FIELD
} library;

/* The next function of that name behind this library; the first call may come before the constructor. */
static void *next_of(void **place, const char *name)
{
    void *function = dt_load_acquire(place);

    if (!function) {
        function = dlsym(RTLD_NEXT, name);
        if (!function)
            abort();
        dt_store_release(place, function);
    }
    return function;
}

#define NEXT(name) ((__typeof__(&(name)))next_of(&library.name, #name))

/* ------------------------------------------------------------------------------------------------------------
 * Life
 */
static void in_child(void)
{
    dt_uverbs_forget();
    dt_uverbs_tree_begin();
}

__attribute__((constructor)) static void begin(void)
{
    struct dt_soft_options options = {.device_count = DT_UVERBS_DEVICES};

    dt_soft_configure(&options);
    dt_uverbs_tree_begin();
    pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void end(void)
{
    dt_uverbs_tree_end();
}

/* ------------------------------------------------------------------------------------------------------------
 * The calls
 */
static void fill_status(struct stat *status, uint32_t device)
{
    memset(status, 0, sizeof *status);
    status->st_mode = S_IFCHR | 0600;
    status->st_rdev = makedev(DT_UVERBS_MAJOR, DT_UVERBS_MINOR + device);
}

EXPORTED int open(const char *path, int flags, ...)
{
    int device = dt_uverbs_device_of(path);
    mode_t mode = 0;
    va_list more;

    if (device >= 0)
        return dt_uverbs_open((uint32_t)device);
    if (flags & (O_CREAT | __O_TMPFILE)) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    return NEXT(open)(path, flags, mode);
}

EXPORTED int stat(const char *restrict path, struct stat *restrict status)
{
    int device = dt_uverbs_device_of(path);

    if (device < 0)
        return NEXT(stat)(path, status);
    fill_status(status, (uint32_t)device);
    return 0;
}

EXPORTED int fstat(int fd, struct stat *status)
{
    int device = dt_uverbs_device_of_fd(fd);

    if (device < 0)
        return NEXT(fstat)(fd, status);
    fill_status(status, (uint32_t)device);
    return 0;
}

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    va_list more;

    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (dt_uverbs_device_of_fd(fd) < 0)
        return NEXT(ioctl)(fd, request, argument);
    /* As by a kernel that has RDMA_VERBS_IOCTL and none of its methods. */
    errno = request == RDMA_VERBS_IOCTL ? EPROTONOSUPPORT : ENOTTY;
    return -1;
}

EXPORTED ssize_t write(int fd, const void *data, size_t bytes)
{
    return dt_uverbs_device_of_fd(fd) < 0 ? NEXT(write)(fd, data, bytes) : dt_uverbs_write(fd, data, bytes);
}

EXPORTED int close(int fd)
{
    if (dt_uverbs_device_of_fd(fd) >= 0)
        dt_uverbs_close(fd);
    return NEXT(close)(fd);
}

/*
 * libibverbs looks for devices by netlink first and looks into sysfs only where the kernel has no such
 * socket. It makes this call each time it lists devices.
 */
EXPORTED int socket(int domain, int type, int protocol)
{
    if (domain != AF_NETLINK || protocol != NETLINK_RDMA)
        return NEXT(socket)(domain, type, protocol);
    dt_uverbs_tree_make();
    errno = EPROTONOSUPPORT;
    return -1;
}

EXPORTED int detour_uverbs_set_link(uint32_t device, bool up)
{
    char name[16] = {'s', 'o', 'f', 't', (char)('0' + device)};

    return dt_soft_device_control(name, up ? DT_SOFT_CONTROL_UP : DT_SOFT_CONTROL_DOWN, 0);
}
