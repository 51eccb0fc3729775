// SPDX-License-Identifier: Apache-2.0
#include "softrnic/fault.h"
#include "tests/contract/wire_faults.h"
#include "tests/contract/wire_under_test.h"

namespace detour_test
{
void LoseAll(int device, const std::string &kind)
{
    dt_fault_rule rule = {};

    rule.action = DT_FAULT_DROP;
    rule.ops = kind == "requests" ? DT_FAULT_REQUESTS : DT_FAULT_RESPONSES;
    WithFaults(device, [&](dt_faults *faults) { dt_faults_add(faults, &rule); });
}

void DelayAll(int device, uint64_t ns)
{
    dt_fault_rule rule = {};

    rule.action = DT_FAULT_DELAY;
    rule.delay_ns = ns;
    WithFaults(device, [&](dt_faults *faults) { dt_faults_add(faults, &rule); });
}

void Heal(int device)
{
    WithFaults(device, [](dt_faults *faults) { dt_faults_clear(faults); });
}
} // namespace detour_test
