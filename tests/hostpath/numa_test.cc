// SPDX-License-Identifier: Apache-2.0
#include "hostpath/numa.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sched.h>

#include <fstream>
#include <string>
#include <thread>

namespace
{
cpu_set_t Affinity()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(0, sched_getaffinity(0, sizeof set, &set));
    return set;
}

/* The processors of a list like "0-3,8"; an empty set: there is no such node. */
cpu_set_t ProcessorsOf(int node)
{
    std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
    cpu_set_t set;
    int first, last;

    CPU_ZERO(&set);
    while (file >> first) {
        last = first;
        if (file.peek() == '-') {
            file.get();
            file >> last;
        }
        for (int cpu = first; cpu <= last; cpu++)
            CPU_SET(static_cast<size_t>(cpu), &set);
        file.get(); // the comma
    }
    return set;
}

TEST(Numa, WithoutANodeAThreadStaysWhereItIs)
{
    std::thread([] {
        cpu_set_t before = Affinity();
        dt_numa_run_on(-1);
        dt_numa_run_on(4711); // a node that no machine has
        cpu_set_t after = Affinity();
        EXPECT_TRUE(CPU_EQUAL(&before, &after));
    }).join();
}

TEST(Numa, AThreadRunsOnTheProcessorsOfItsNodeAndNoOtherThreadDoes)
{
    cpu_set_t node = ProcessorsOf(0), before = Affinity();

    if (CPU_COUNT(&node) == 0)
        GTEST_SKIP() << "the kernel shows no NUMA node 0";
    std::thread([&] {
        dt_numa_run_on(0);
        cpu_set_t now = Affinity(), common;
        CPU_AND(&common, &now, &node);
        EXPECT_GT(CPU_COUNT(&now), 0);
        if (dlopen("libnuma.so.1", RTLD_NOW | RTLD_NOLOAD)) // else it runs where it ran
            EXPECT_TRUE(CPU_EQUAL(&common, &now)) << "beyond the node";
        else
            EXPECT_TRUE(CPU_EQUAL(&before, &now));
    }).join();
    cpu_set_t after = Affinity();
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
}
} // namespace
