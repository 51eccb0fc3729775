/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests need of the CUDA driver beside what Detour uses: memory, and a kernel to run. The driver is the
 * one that Detour loads: the real one, or the double (tests/hostpath/fake_cuda.h), which has the functions
 * for memory.
 */
#ifndef DETOUR_TESTS_GPU_DRIVER_H
#define DETOUR_TESTS_GPU_DRIVER_H

#ifdef __cplusplus
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace detour_test
{
inline const char *CudaLibrary()
{
    const char *library = getenv("DETOUR_CUDA_LIB");

    return library ? library : "libcuda.so.1";
}

struct Driver {
    int (*device)(int *device, int ordinal) = nullptr;
    int (*retain)(void **context, int device) = nullptr;
    int (*push)(void *context) = nullptr;
    int (*synchronize)() = nullptr;
    int (*alloc)(uint64_t *address, size_t bytes) = nullptr;
    int (*release)(uint64_t address) = nullptr;
    int (*to_host)(void *to, uint64_t from, size_t bytes) = nullptr;
    int (*set)(uint64_t to, unsigned char value, size_t bytes) = nullptr;

    int (*module_load)(void **module, const void *image) = nullptr;
    int (*module_function)(void **function, void *module, const char *name) = nullptr;
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *stream, void **parameters, void **extra) = nullptr;
    int (*device_name)(char *name, int bytes, int device) = nullptr;

    bool FindMemory(void *library)
    {
        return library && Get(library, "cuDeviceGet", &device) &&
               Get(library, "cuDevicePrimaryCtxRetain", &retain) &&
               Get(library, "cuCtxPushCurrent_v2", &push) && Get(library, "cuCtxSynchronize", &synchronize) &&
               Get(library, "cuMemAlloc_v2", &alloc) && Get(library, "cuMemFree_v2", &release) &&
               Get(library, "cuMemcpyDtoH_v2", &to_host) && Get(library, "cuMemsetD8_v2", &set);
    }

    bool FindKernels(void *library)
    {
        return library && Get(library, "cuModuleLoadData", &module_load) &&
               Get(library, "cuModuleGetFunction", &module_function) &&
               Get(library, "cuLaunchKernel", &launch) && Get(library, "cuDeviceGetName", &device_name);
    }

    /* The calling thread uses GPU 0 from now on. */
    bool Enter() const
    {
        int number = 0;
        void *context = nullptr;

        return device(&number, 0) == 0 && retain(&context, number) == 0 && push(context) == 0;
    }

  private:
    template <class Function>
    static bool Get(void *library, const char *name, Function **function)
    {
        *function = reinterpret_cast<Function *>(dlsym(library, name));
        return *function != nullptr;
    }
};
} // namespace detour_test
#endif

#endif
