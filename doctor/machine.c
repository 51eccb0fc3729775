/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel and the user's limits allow. */
#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "doctor/doctor.h"
#include "transport/protocol/address.h"
#include "verbs/netdev.h"

#define MIB (1024ull * 1024)
/* A connection pins some hundred KiB of its own, and NCCL's buffers, of several MiB, are added. */
#define MEMLOCK_ENOUGH_BYTES (1024 * MIB)
#define CAP_IPC_LOCK_BIT     14 /* capabilities(7): locked memory without a limit */

bool dt_doctor_read_line(const struct dt_doctor_options *options, const char *path, char *line, size_t bytes)
{
    char whole[PATH_MAX];
    FILE *file;
    bool is_read;

    snprintf(whole, sizeof whole, "%s%s", options->root, path);
    file = fopen(whole, "re");
    if (!file)
        return false;
    is_read = fgets(line, (int)bytes, file) != NULL;
    fclose(file);
    if (is_read)
        line[strcspn(line, "\n")] = '\0';
    return is_read;
}

static bool is_there(const struct dt_doctor_options *options, const char *path)
{
    char whole[PATH_MAX];

    snprintf(whole, sizeof whole, "%s%s", options->root, path);
    return access(whole, F_OK) == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Limits
 */
static bool may_lock_everything(const struct dt_doctor_options *options)
{
    static const char key[] = "CapEff:"; /* hexadecimal digits follow */
    char whole[PATH_MAX];
    char line[256];
    unsigned long long effective = 0;
    FILE *file;

    snprintf(whole, sizeof whole, "%s/proc/self/status", options->root);
    file = fopen(whole, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0)
            effective = strtoull(line + strlen(key), NULL, 16);
    }
    if (file)
        fclose(file);
    return effective >> CAP_IPC_LOCK_BIT & 1;
}

static void judge_memlock(const struct dt_doctor_options *options, struct dt_report *report, bool is_soft)
{
    static const char *const advice = "`ulimit -l unlimited` inside the job: LimitMEMLOCK=infinity for "
                                      "slurmd, sshd or the container runtime, "
                                      "memlock in /etc/security/limits.conf, --ulimit memlock=-1 for docker";
    unsigned long long mib = options->memlock_bytes / MIB;

    if (options->memlock_bytes == DT_MEMLOCK_UNLIMITED)
        dt_report_add_finding(report, DT_LEVEL_OK, "memlock", NULL, "locked memory is unlimited");
    else if (is_soft)
        dt_report_add_finding(report, DT_LEVEL_OK, "memlock", NULL,
                              "locked memory is limited to %llu MiB; software RNICs lock none", mib);
    else if (may_lock_everything(options))
        dt_report_add_finding(report, DT_LEVEL_OK, "memlock", NULL,
                              "locked memory is limited to %llu MiB, but not for this user (CAP_IPC_LOCK)",
                              mib);
    else if (options->memlock_bytes < MEMLOCK_ENOUGH_BYTES)
        dt_report_add_finding(report, DT_LEVEL_PROBLEM, "memlock", advice,
                              "locked memory is limited to %llu KiB: RDMA pins what it sends and receives",
                              (unsigned long long)options->memlock_bytes / 1024);
    else
        dt_report_add_finding(report, DT_LEVEL_WARNING, "memlock", advice,
                              "locked memory is limited to %llu MiB: many channels need more", mib);
}

static void judge_ptrace(const struct dt_doctor_options *options, struct dt_report *report, bool is_soft)
{
    char line[32];
    uint64_t number;
    unsigned scope = 0; /* also when the kernel has no Yama */

    if (dt_doctor_read_line(options, "/proc/sys/kernel/yama/ptrace_scope", line, sizeof line) &&
        dt_parse_number(line, false, &number) == DT_OK)
        scope = (unsigned)number;
    if (!is_soft)
        dt_report_add_finding(report, DT_LEVEL_OK, "ptrace", NULL,
                              "kernel.yama.ptrace_scope is %u; real RNICs need no ptrace", scope);
    else if (scope == 0)
        dt_report_add_finding(
            report, DT_LEVEL_OK, "ptrace", NULL,
            "processes of one user may read each other's memory: software RNICs move large messages once");
    else if (scope == 1)
        dt_report_add_finding(
            report, DT_LEVEL_OK, "ptrace", NULL,
            "kernel.yama.ptrace_scope is 1: ranks that have one parent read each other's memory, others "
            "copy through shared memory");
    else
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "ptrace", "`sysctl kernel.yama.ptrace_scope=1`, or do without",
            "kernel.yama.ptrace_scope is %u: software RNICs copy every message through shared memory", scope);
}

void dt_doctor_limits(const struct dt_doctor_options *options, struct dt_report *report, bool is_soft)
{
    judge_memlock(options, report, is_soft);
    judge_ptrace(options, report, is_soft);
}

/* ------------------------------------------------------------------------------------------------------------
 * Devices that the kernel has and the library does not show
 */
static unsigned count_entries(const struct dt_doctor_options *options, const char *path, const char *prefix)
{
    char whole[PATH_MAX];
    unsigned count = 0;
    const struct dirent *entry;
    DIR *folder;

    snprintf(whole, sizeof whole, "%s%s", options->root, path);
    folder = opendir(whole);
    while (folder && (entry = readdir(folder)) != NULL)
        count += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (folder)
        closedir(folder);
    return count;
}

void dt_doctor_no_devices(const struct dt_doctor_options *options, struct dt_report *report)
{
    unsigned in_kernel = count_entries(options, "/sys/class/infiniband", "");
    unsigned files = count_entries(options, "/dev/infiniband", "uverbs");

    if (in_kernel == 0)
        dt_report_add_finding(
            report, DT_LEVEL_PROBLEM, "devices",
            "is the RNIC's driver loaded (mlx5_ib, bnxt_re, irdma ...)? DETOUR_VERBS=soft takes "
            "software RNICs, "
            "for tests on one host",
            "the kernel has no RDMA device");
    else if (files == 0)
        dt_report_add_finding(
            report, DT_LEVEL_PROBLEM, "devices",
            "in a container: pass /dev/infiniband on (docker: --device=/dev/infiniband); else "
            "`modprobe ib_uverbs`",
            "the kernel has %u RDMA devices, and /dev/infiniband/uverbs* is not there", in_kernel);
    else
        dt_report_add_finding(
            report, DT_LEVEL_PROBLEM, "devices",
            "install the RNIC's user-space driver (Debian: ibverbs-providers), and see that this user may "
            "open /dev/infiniband/uverbs*",
            "the kernel has %u RDMA devices, and libibverbs shows none", in_kernel);
}

/* ------------------------------------------------------------------------------------------------------------
 * GPUs
 */
static const char *gpu_memory_text(uint32_t capabilities)
{
    switch (capabilities & (DT_MEMORY_CUDA | DT_MEMORY_DMABUF)) {
    case DT_MEMORY_CUDA | DT_MEMORY_DMABUF:
        return "by nvidia-peermem and by dma-buf";
    case DT_MEMORY_CUDA:
        return "by nvidia-peermem";
    default:
        return "by dma-buf";
    }
}

void dt_doctor_gpu(const struct dt_doctor_options *options, struct dt_report *report, uint32_t capabilities)
{
    char version[256] = "";
    bool is_open;

    if (!dt_doctor_read_line(options, "/proc/driver/nvidia/version", version, sizeof version)) {
        dt_report_add_finding(report, DT_LEVEL_OK, "gpu", NULL,
                              "no NVIDIA driver is loaded: there is no GPU memory to reach");
        return;
    }
    is_open = strstr(version, "Open Kernel Module") != NULL;
    if (!(capabilities & (DT_MEMORY_CUDA | DT_MEMORY_DMABUF)))
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "gpu",
            "`modprobe nvidia-peermem`, or a driver with NVIDIA's open kernel modules and RNICs whose driver "
            "takes dma-buf (Linux 5.12)",
            "no RNIC that is used reaches GPU memory: NCCL stages everything through the host");
    else if (!(capabilities & DT_MEMORY_CUDA) && !is_open)
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "gpu", "`modprobe nvidia-peermem`, or NVIDIA's open kernel modules",
            "the RNICs take dma-buf memory, but NVIDIA's closed kernel modules export none: NCCL stages "
            "everything through the host");
    else
        dt_report_add_finding(report, DT_LEVEL_OK, "gpu", NULL, "the RNICs reach GPU memory %s",
                              gpu_memory_text(capabilities));
    if (capabilities & DT_MEMORY_CUDA && !is_there(options, "/sys/module/nvidia_peermem"))
        dt_report_add_finding(report, DT_LEVEL_WARNING, "gpu", "nvidia-peermem, which comes with the driver",
                              "an old nv_peer_mem module is loaded");
}

/* ------------------------------------------------------------------------------------------------------------
 * Set-up
 */
void dt_doctor_control(const struct dt_doctor_options *options, struct dt_report *report,
                       const char *interface)
{
    const json_t *devices = json_object_get(report->document, "devices");

    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *fact = json_array_get(devices, i);
        const char *name = json_string_value(json_object_get(fact, "name"));
        const char *use = json_string_value(json_object_get(fact, "use"));
        char device[DT_DEVICE_NAME_BYTES];

        snprintf(device, sizeof device, "%.*s", name ? (int)strcspn(name, ":") : 0, name ? name : "");
        if (use && strcmp(use, "used") == 0 && dt_netdev_is_of(options->root, interface, device))
            dt_report_add_finding(report, DT_LEVEL_WARNING, "set-up",
                                  "a management network: DETOUR_SOCKET_IFNAME or NCCL_SOCKET_IFNAME",
                                  "the control channel listens on %s, a port of %s: while that link is down, "
                                  "no connection is set "
                                  "up, and the end of a process is detected later",
                                  interface, device);
    }
}

void dt_doctor_interface(const struct dt_doctor_options *options, struct dt_report *report,
                         const struct dt_params *params)
{
    struct dt_address address;
    char text[INET6_ADDRSTRLEN];
    char name[32];
    enum dt_status status;

    dt_doctor_capture_log(report, "set-up", DT_LEVEL_PROBLEM);
    status =
        dt_interface_find(params->interface, dt_address_family_of(params->socket_family), &address, name);
    dt_doctor_release_log();
    if (status != DT_OK)
        return; /* already reported */
    if (strcmp(name, "lo") == 0)
        dt_report_add_finding(
            report, DT_LEVEL_WARNING, "set-up",
            "an interface that the other nodes reach: DETOUR_SOCKET_IFNAME or NCCL_SOCKET_IFNAME",
            "the control channel listens on lo: only processes of this host can connect");
    else
        dt_report_add_finding(
            report, DT_LEVEL_OK, "set-up", NULL, "the control channel listens on %s, %s", name,
            inet_ntop(address.family == DT_ADDRESS_IPV4 ? AF_INET : AF_INET6, address.ip, text, sizeof text));
    dt_doctor_control(options, report, name);
}
