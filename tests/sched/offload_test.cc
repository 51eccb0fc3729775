// SPDX-License-Identifier: Apache-2.0
#include "sched/offload.h"

#include "tests/sched/made.h"

using namespace sched_test;

namespace
{
/* One device, two stages; copies take 7. */
struct Copies {
    Profile profile = Profile::Uniform(2, 3, 10, 10, 10);
    std::unique_ptr<Made> made;
    struct dt_copies copies = {};

    Copies()
    {
        for (struct detour_stage &stage : profile.stages) {
            stage.device = 0;
            stage.offload_ns = 7;
        }
        made = std::make_unique<Made>(profile);
        EXPECT_TRUE(dt_copies_init(made->arena, made->p, &copies));
    }
};

struct detour_op Op(enum detour_op_kind kind, int16_t stage, int32_t microbatch, int64_t start,
                    int64_t finish)
{
    struct detour_op op = {};
    op.kind = static_cast<uint8_t>(kind);
    op.stage = stage;
    op.microbatch = microbatch;
    op.start_ns = start;
    op.finish_ns = finish;
    return op;
}
} // namespace

TEST(Offload, CopiesToTheHostGoOneAfterTheOther)
{
    Copies c;
    struct detour_op first = Op(DETOUR_OP_F, 0, 0, 0, 10), second = Op(DETOUR_OP_F, 1, 0, 10, 12);
    EXPECT_EQ(dt_copies_out(&c.copies, &first), 17);
    EXPECT_EQ(dt_copies_out(&c.copies, &second), 24) << "after the first, not at 19";
    struct detour_op late = Op(DETOUR_OP_F, 0, 1, 90, 100);
    EXPECT_EQ(dt_copies_out(&c.copies, &late), 107);
}

TEST(Offload, ACopyBackEndsWithTheOperationBeforeTheBackward)
{
    Copies c;
    struct detour_op f = Op(DETOUR_OP_F, 0, 0, 0, 10);
    struct detour_op pair[2] = {Op(DETOUR_OP_W, 1, 0, 50, 60), Op(DETOUR_OP_B, 0, 0, 60, 70)};
    int64_t begin_ns = -1;
    dt_copies_out(&c.copies, &f);
    EXPECT_EQ(dt_copies_in(&c.copies, &pair[1], &begin_ns), 60);
    EXPECT_EQ(begin_ns, 53);
}

/* A short operation before the backward: the copy begins with it and delays the backward. */
TEST(Offload, ACopyBackBeginsNoEarlierThanTheOperationBefore)
{
    Copies c;
    struct detour_op f = Op(DETOUR_OP_F, 0, 0, 0, 10);
    struct detour_op pair[2] = {Op(DETOUR_OP_W, 1, 0, 58, 60), Op(DETOUR_OP_B, 0, 0, 60, 70)};
    dt_copies_out(&c.copies, &f);
    EXPECT_EQ(dt_copies_in(&c.copies, &pair[1], nullptr), 65);
}

TEST(Offload, ACopyBackWaitsForTheCopyOut)
{
    Copies c;
    struct detour_op f = Op(DETOUR_OP_F, 0, 0, 0, 10);
    struct detour_op pair[2] = {Op(DETOUR_OP_W, 1, 0, 10, 12), Op(DETOUR_OP_BW, 0, 0, 12, 20)};
    EXPECT_EQ(dt_copies_out(&c.copies, &f), 17);
    EXPECT_EQ(dt_copies_in(&c.copies, &pair[1], nullptr), 24);
}

TEST(Offload, AnActivationThatStayedIsThereAtOnce)
{
    Copies c;
    struct detour_op pair[2] = {Op(DETOUR_OP_W, 1, 0, 50, 60), Op(DETOUR_OP_B, 0, 0, 60, 70)};
    EXPECT_EQ(dt_copies_in(&c.copies, &pair[1], nullptr), 0);
}
