/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's functions, which NCCL takes from libnvidia-ml.so.1: one device without NVLink, fabric or
 * confidential computing. NCCL calls some of them without checking that they exist, so those that answer "not
 * supported" are functions too.
 */
#include <string.h>

enum { NVML_SUCCESS = 0, NVML_NOT_SUPPORTED = 3, P2P_NOT_SUPPORTED = 1 };

static int the_device; /* its address is the handle */

int nvmlInit_v2(void)
{
    return NVML_SUCCESS;
}

int nvmlInit(void)
{
    return NVML_SUCCESS;
}

int nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == NVML_SUCCESS ? "success" : "not supported by the host runtime of tests/nccl";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 1;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount(unsigned *count)
{
    return nvmlDeviceGetCount_v2(count);
}

int nvmlDeviceGetHandleByPciBusId(const char *bus_id, void **device)
{
    (void)bus_id;
    *device = &the_device;
    return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex(unsigned index, void **device)
{
    (void)index;
    *device = &the_device;
    return NVML_SUCCESS;
}

int nvmlDeviceGetIndex(void *device, unsigned *index)
{
    (void)device;
    *index = 0;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    (void)device;
    *major = 8;
    *minor = 0;
    return NVML_SUCCESS;
}

int nvmlDeviceGetP2PStatus(void *device, void *peer, int index, int *status)
{
    (void)device, (void)peer, (void)index;
    *status = P2P_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* Functions with up to five arguments, none of which is written. */
#define NOT_SUPPORTED(name)                                                              \
    int name(const void *a, const void *b, const void *c, const void *d, const void *e); \
    int name(const void *a, const void *b, const void *c, const void *d, const void *e)  \
    {                                                                                    \
        (void)a, (void)b, (void)c, (void)d, (void)e;                                     \
        return NVML_NOT_SUPPORTED;                                                       \
    }

NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo)
NOT_SUPPORTED(nvmlDeviceGetNvLinkCapability)
NOT_SUPPORTED(nvmlDeviceGetFieldValues)
NOT_SUPPORTED(nvmlDeviceGetPciInfo_v3)
NOT_SUPPORTED(nvmlDeviceGetPciInfoExt)
NOT_SUPPORTED(nvmlDeviceGetPcieLinkMaxSpeed)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetPlatformInfo)
NOT_SUPPORTED(nvmlSystemGetConfComputeState)
NOT_SUPPORTED(nvmlSystemGetConfComputeSettings)
