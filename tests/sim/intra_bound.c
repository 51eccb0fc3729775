/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/intra_bound.h"

#include "base/check.h"

/* In the following, [j] is the one of its kind that a device comes to as number j, whichever microbatch it
 * is of. */
struct bound {
    const struct dt_intra_options *o;
    struct dt_changing_links *links;
    int64_t began_ns;
    int64_t there_ns[DT_INTRA_MICROBATCHES_MAX]; /* inputs of a stage: not before */
    int64_t least_ns;
};

static void at_least(int64_t *value, int64_t other)
{
    *value = *value > other ? *value : other;
}

static int64_t arrival_ns(const struct bound *b, int32_t link, int64_t left_ns)
{
    return dt_changing_links_earliest_ns(b->links, link, b->began_ns + left_ns) - b->began_ns +
           b->o->serial_ns + b->o->latency_ns;
}

/* All forwards first: nothing else gets activations to the last stage earlier. */
static void go_forward(struct bound *b)
{
    const struct dt_intra_options *o = b->o;
    int64_t work_ns = o->microbatches * (o->f_ns + o->b_ns + o->w_ns);

    for (int32_t stage = 0; stage + 1 < o->devices; stage++) {
        int64_t end_ns = 0;

        at_least(&b->least_ns, b->there_ns[0] + work_ns);
        for (int32_t j = 0; j < o->microbatches; j++) {
            at_least(&end_ns, b->there_ns[j]);
            end_ns += o->f_ns;
            b->there_ns[j] = arrival_ns(b, stage, end_ns);
        }
    }
    at_least(&b->least_ns, b->there_ns[0] + work_ns);
}

/*
 * The end of backward j on the last stage. Before activation k <= j is there, at most k forwards and k
 * backwards have been executed; the forwards k to j and their backwards take place after it.
 */
static void turn(struct bound *b)
{
    const struct dt_intra_options *o = b->o;

    for (int32_t j = o->microbatches - 1; j >= 0; j--) {
        int64_t end_ns = 0;

        for (int32_t k = 0; k <= j; k++)
            at_least(&end_ns, b->there_ns[k] + (j - k + 1) * (o->f_ns + o->b_ns));
        b->there_ns[j] = end_ns;
    }
}

/* Behind backward j of a stage there are the backwards from j on and their Ws. */
static void go_backward(struct bound *b)
{
    const struct dt_intra_options *o = b->o;

    for (int32_t stage = o->devices - 1; stage >= 0; stage--) {
        int64_t end_ns = 0;

        for (int32_t j = 0; j < o->microbatches; j++) {
            if (stage < o->devices - 1) {
                at_least(&end_ns, arrival_ns(b, stage, b->there_ns[j]));
                end_ns += o->b_ns;
                b->there_ns[j] = end_ns;
            }
            at_least(&b->least_ns, b->there_ns[j] - o->b_ns + (o->microbatches - j) * (o->b_ns + o->w_ns));
        }
    }
}

int64_t dt_intra_bound_ns(const struct dt_intra_options *options, struct dt_changing_links *links,
                          int64_t began_ns)
{
    struct bound bound = {.o = options, .links = links, .began_ns = began_ns};

    DT_CHECK(options->microbatches <= DT_INTRA_MICROBATCHES_MAX);
    go_forward(&bound);
    turn(&bound);
    go_backward(&bound);
    return bound.least_ns;
}
