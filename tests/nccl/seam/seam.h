/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between NCCL and the host runtime. libnccl.so.2 of NVIDIA's wheels carries the CUDA runtime
 * inside; NCCL's own functions (open source) call its entry points directly. In the memory of this process,
 * each such call or jump is pointed at the host runtime instead. The runtime's own code stays as it is and is
 * not entered after loading; the file is not touched. x86-64 only.
 *
 * A call whose target the host runtime does not implement goes to a function that prints the name and returns
 * cudaErrorNotSupported.
 */
#ifndef DETOUR_TESTS_NCCL_SEAM_SEAM_H
#define DETOUR_TESTS_NCCL_SEAM_SEAM_H

#include <stddef.h>

/*
 * Redirects the calls of the libnccl that is loaded in this process; also called when this library is loaded
 * beside libnccl. A second call does nothing. Returns 0, or -1 with the reason in `error`.
 */
int nh_seam_install(char *error, size_t error_bytes);

/* An exported function of the host runtime, or NULL. */
void *nh_own_function(const char *name);

/* For kernels: libnccl's symbols with the local ones. Valid after nh_seam_install. */
const char *nh_symbol_at(const void *address);                  /* "?" when there is none */
const void *nh_symbol_address(const char *name, size_t *bytes); /* NULL when there is none */

/* NCCL's version as ncclGetVersion gives it, 22809 for 2.28.9. */
int nh_nccl_version(void);

#endif
