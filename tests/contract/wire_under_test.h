// SPDX-License-Identifier: Apache-2.0
// What the contract suite asks of a wire it runs on, and the list of all wires with what they do differently.
#ifndef DETOUR_TESTS_CONTRACT_WIRE_UNDER_TEST_H
#define DETOUR_TESTS_CONTRACT_WIRE_UNDER_TEST_H

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace detour_test
{
// One entry or more per wire of the software RNIC (softrnic/wire_NAME.c), and for "rxe", Linux' soft-RoCE in
// the guest of tests/vm. A test fails when a wire is missing here.
struct WireDeviation {
    const char *wire;
    const char *deviation; // from the contract as the suite states it; "" when there is none
};

inline constexpr WireDeviation kWires[] = {
    {"sim", ""},
    {"local", "Both ends are in one process here; pairs of processes, their memory and their deaths are "
              "tests/softrnic/local_*_test.cc."},
    {"local", "Time is real: that a limit was kept is checked from below only."},
    {"rxe", "Time is real, as above."},
    {"rxe", "A work request with a wrong local key ends in LOC_QP_OP_ERR, not LOC_PROT_ERR."},
    {"rxe",
     "Retries are counted per work request, not since the last progress: a long one that loses more packets "
     "than retry_cnt fails. LoseSome() loses every ninetieth packet, few enough."},
    {"rxe", "Losses and delays are those of the network interface: of all that the device sends, whatever "
            "its kind."},
};

// The wire this program was linked with.
extern const char *const kWireName;

// How a work request with a wrong local key ends.
extern const ibv_wc_status kWrongLocalKeyStatus;

// Devices soft0 and soft1 on a fresh wire; and the end of it.
void StartWire();
void StopWire();

// Lets up to `ns` pass, in virtual or in real time.
void PassTime(uint64_t ns);

// Plugs the cable of a device in or out.
void SetLink(int device, bool is_up);
// Loses some of the next packets that the device sends, not all of them.
void LoseSome(int device);
// Lost from now on: what the device sends of the named kind ("requests", "responses").
void LoseAll(int device, const std::string &kind);
// Late from now on by `ns`, each packet with the bytes it had when it was sent.
void DelayAll(int device, uint64_t ns);
// No faults any more.
void Heal(int device);
} // namespace detour_test

#endif
