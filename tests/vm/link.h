// SPDX-License-Identifier: Apache-2.0
#ifndef DETOUR_TESTS_VM_LINK_H
#define DETOUR_TESTS_VM_LINK_H

#include <string>

namespace detour_test
{
// `what` happens to the network interface of device 0 (a0) or 1 (b0): arguments of link.sh. StopWire() ends
// it.
void Link(int device, const std::string &what);
} // namespace detour_test

#endif
