# SPDX-License-Identifier: Apache-2.0
# Cross build for 64-bit ARM with Debian's compilers; programs run under qemu-user. Headers and libraries of the target
# come from Debian's packages (scripts/sysroot_aarch64.sh), in DETOUR_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(DETOUR_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-aarch64/sysroot CACHE PATH "Where the target's packages lie unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES DETOUR_SYSROOT)

# The C library is the compiler's own; what is found besides is the target's.
list(APPEND CMAKE_FIND_ROOT_PATH ${DETOUR_SYSROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${DETOUR_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${DETOUR_SYSROOT})
include_directories(SYSTEM ${DETOUR_SYSROOT}/usr/include ${DETOUR_SYSROOT}/usr/include/aarch64-linux-gnu)

set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64-static;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${DETOUR_SYSROOT}/usr/lib/aarch64-linux-gnu)
