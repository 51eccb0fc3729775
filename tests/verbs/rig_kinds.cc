/* SPDX-License-Identifier: Apache-2.0 */
/* The suite of posting on scripted RNICs and on the software RNIC. */
#include "tests/verbs/rig.h"

std::vector<rig::Kind> rig::Kinds()
{
    return {{"FakeStd", MakeFake, DT_POSTING_STD},     {"FakeDv", MakeFake, DT_POSTING_DV},
            {"FakeMlx5", MakeFakeMlx5, DT_POSTING_DV}, {"FakeMlx5Large", MakeFakeMlx5Large, DT_POSTING_DV},
            {"SoftStd", MakeSoft, DT_POSTING_STD},     {"SoftDv", MakeSoft, DT_POSTING_DV}};
}
