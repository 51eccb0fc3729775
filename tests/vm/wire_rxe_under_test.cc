// SPDX-License-Identifier: Apache-2.0
// Linux' soft-RoCE as a wire of the contract suite, in the guest: faults by link.sh.
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "tests/contract/wire_under_test.h"
#include "tests/vm/link.h"

namespace detour_test
{
const char *const kWireName = "rxe";
const ibv_wc_status kWrongLocalKeyStatus = IBV_WC_LOC_QP_OP_ERR;

static bool is_touched[2]; // by a fault
static bool must_have_lost[2];

void Link(int device, const std::string &what)
{
    std::string command =
        DETOUR_SOURCE_DIR "/tests/vm/link.sh " + std::string(device == 0 ? "a0 " : "b0 ") + what;

    is_touched[device] = true;
    if (std::system(command.c_str()))
        throw std::runtime_error(command);
}

void StartWire() {}

void StopWire()
{
    for (int device : {0, 1}) {
        if (is_touched[device])
            Link(device, "restore");
        is_touched[device] = false;
    }
}

void PassTime(uint64_t ns)
{
    std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
}

void SetLink(int device, bool is_up)
{
    Link(device, is_up ? "up" : "down");
}

void LoseSome(int device)
{
    Link(device, "lose-every 90");
    must_have_lost[device] = true;
}

// Only one end of the suite's faulty connections sends requests, so all it sends are requests.
void LoseAll(int device, const std::string &)
{
    Link(device, "loss 100");
}

void DelayAll(int device, uint64_t ns)
{
    Link(device, "delay " + std::to_string(ns / 1000000));
}

void Heal(int device)
{
    if (must_have_lost[device])
        Link(device, "lost");
    must_have_lost[device] = false;
    Link(device, "heal");
}
} // namespace detour_test
