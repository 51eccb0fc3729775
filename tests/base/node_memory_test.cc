/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>

#include "base/node_memory.h"

namespace
{
const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

TEST(NodeMemory, IsWholePagesOfZerosWhateverTheNode)
{
    for (int32_t node : {-1, 0, 63, 1000, 1 << 20}) {
        for (size_t bytes : {size_t{1}, kPage - 1, kPage, kPage + 1, 10 * kPage}) {
            auto *memory = static_cast<uint8_t *>(dt_node_memory_alloc(bytes, node));
            size_t whole = (bytes + kPage - 1) / kPage * kPage;

            ASSERT_NE(nullptr, memory) << node << " " << bytes;
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(memory) % kPage);
            EXPECT_EQ(static_cast<ptrdiff_t>(whole), std::count(memory, memory + whole, 0));
            std::fill(memory, memory + whole, 0xff);
            dt_node_memory_free(memory, bytes);
        }
    }
    dt_node_memory_free(nullptr, 5);
}

TEST(NodeMemory, SizesThatCannotBeAreRefused)
{
    EXPECT_EQ(nullptr, dt_node_memory_alloc(SIZE_MAX, 0));
    EXPECT_EQ(nullptr, dt_node_memory_alloc(SIZE_MAX - 2 * kPage, 0));
}

TEST(NodeMemory, PrefersTheNodeWhereKernelAndLibraryCan)
{
    int mode = 0;
    unsigned long nodes[16] = {0};
    void *library = dlopen("libnuma.so.1", RTLD_NOW | RTLD_LOCAL);
    void *memory;

    if (!library || syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, nullptr, 0ul) != 0)
        GTEST_SKIP() << "no libnuma, or a kernel without NUMA policies";
    memory = dt_node_memory_alloc(kPage, 0);
    ASSERT_NE(nullptr, memory);
    ASSERT_EQ(0, syscall(SYS_get_mempolicy, &mode, nodes, 1024ul, memory, (unsigned long)MPOL_F_ADDR));
    EXPECT_EQ(MPOL_PREFERRED, mode);
    EXPECT_EQ(1ul, nodes[0]);
    dt_node_memory_free(memory, kPage);
    dlclose(library);
}
} // namespace
