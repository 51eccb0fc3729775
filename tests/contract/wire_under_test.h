// SPDX-License-Identifier: Apache-2.0
// What the contract suite asks of a wire it runs on, and the list of all wires with what they do differently.
#ifndef DETOUR_TESTS_CONTRACT_WIRE_UNDER_TEST_H
#define DETOUR_TESTS_CONTRACT_WIRE_UNDER_TEST_H

#include <cstdint>
#include <string>

namespace detour_test
{
// One entry per wire of the software RNIC (softrnic/wire_NAME.c). A test fails when a wire is missing here,
// or when the suite is not built for one.
struct WireDeviation {
    const char *wire;
    const char *deviation; // from the contract as the suite states it; "" when there is none
};

inline constexpr WireDeviation kWires[] = {
    {"sim", ""},
    {"local", "Both ends are in one process here; pairs of processes, their memory and their deaths are "
              "tests/softrnic/local_*_test.cc."},
    {"local", "Time is real: that a limit was kept is checked from below only."},
};

// The wire this program was linked with.
extern const char *const kWireName;

// Devices soft0 and soft1 on a fresh wire; and the end of it.
void StartWire();
void StopWire();

// Lets up to `ns` pass, in virtual or in real time.
void PassTime(uint64_t ns);

// Lost from now on: what the device sends of the named kind ("requests", "responses").
void LoseAll(int device, const std::string &kind);
// Late from now on by `ns`, each packet with the bytes it had when it was sent.
void DelayAll(int device, uint64_t ns);
// No faults any more.
void Heal(int device);
} // namespace detour_test

#endif
