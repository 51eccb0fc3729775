# SPDX-License-Identifier: Apache-2.0
# In the guest: the contract suite (tests/contract) on the kernel's soft-RoCE.
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe
timeout -k 5 $HANG_S "$DETOUR_VM_BUILD/tests/contract.rxe" --gtest_color=no
check "the contract suite on rxe: exit code" 0 $?
finish
