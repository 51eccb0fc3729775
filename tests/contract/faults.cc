// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "softrnic/fault.h"
#include "tests/contract/wire_faults.h"
#include "tests/contract/wire_under_test.h"
#include "softrnic/softrnic.h"

namespace detour_test
{
static void Control(int device, enum dt_soft_control control, uint64_t argument)
{
    if (dt_soft_device_control(("soft" + std::to_string(device)).c_str(), control, argument))
        throw std::runtime_error("the device refuses the fault");
}

void SetLink(int device, bool is_up)
{
    Control(device, is_up ? DT_SOFT_CONTROL_UP : DT_SOFT_CONTROL_DOWN, 0);
}

void LoseSome(int device)
{
    Control(device, DT_SOFT_CONTROL_DROP_NEXT, 2);
}

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
