/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of algorithms behind detour_generate().
 *
 * To add one: write `enum detour_status dt_generate_NAME(struct dt_call *, const struct dt_problem *,
 * struct dt_result *)` in a file of its own, declare it at the end of this header, add its row to
 * dt_generators[] in generator.c, and its source to sched/CMakeLists.txt. If it is new to the public API it
 * also needs a value in enum detour_algorithm. The property tests run every row of the table.
 *
 * A generator only decides on an order: it makes a schedule (dt_builder) in call->arena and stores it in
 * the result. detour_generate() times it, checks it against the memory limits, and fills in the plan. A
 * generator adds the lower bound that it has proved, if any; the other members may stay zero. Generators
 * may call each other through dt_generate_with().
 */
#ifndef DETOUR_SCHED_GENERATOR_H
#define DETOUR_SCHED_GENERATOR_H

#include "detour/sched.h"
#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_result {
    struct detour_schedule *schedule;
    enum detour_algorithm made_by; /* set by dt_generate_with(); `auto` sets it to the winner's */
    int64_t lower_bound_ns;        /* on the makespan; 0 if the generator has none */
    int64_t makespan_ns;           /* the rest is set by dt_generate_with() */
    int64_t longest_span_ns;
};

typedef enum detour_status dt_generate_func(struct dt_call *call, const struct dt_problem *p,
                                            struct dt_result *result);

struct dt_generator {
    enum detour_algorithm algorithm;
    const char *name;
    const char *summary;
    dt_generate_func *generate;
};

/* All algorithms, in the order of the enum. Ends with a NULL name. */
extern const struct dt_generator dt_generators[];

/* NULL if the algorithm has no row. */
const struct dt_generator *dt_generator_find(enum detour_algorithm algorithm);

/*
 * Runs one generator, times its schedule and checks it against the memory limits. A failure releases all
 * its allocations; a success keeps them, so a caller that compares many candidates takes a mark first.
 */
enum detour_status dt_generate_with(struct dt_call *call, const struct dt_problem *p,
                                    enum detour_algorithm algorithm, struct dt_result *result);

/* The result in the form of the public API. */
struct detour_plan dt_result_plan(const struct dt_call *call, const struct dt_result *result);

/*
 * DETOUR_OK when the stages go down the devices and up again, once or more often; else DETOUR_UNSUPPORTED in
 * the name of the algorithm that needs this.
 */
enum detour_status dt_check_waves(struct dt_call *call, const struct dt_problem *p, const char *algorithm);

/* classic.c */
dt_generate_func dt_generate_gpipe;
dt_generate_func dt_generate_1f1b;
dt_generate_func dt_generate_interleaved;
/* handcrafted.c */
dt_generate_func dt_generate_zb_h1;
dt_generate_func dt_generate_zb_h2;
dt_generate_func dt_generate_zb_v;
/* zero_bubble.c */
dt_generate_func dt_generate_zb;
/* adaptra.c */
dt_generate_func dt_generate_adaptra;
dt_generate_func dt_generate_adaptra_initial;

/* hanayo.c */
dt_generate_func dt_generate_hanayo;

/* auto.c */
dt_generate_func dt_generate_auto;
dt_generate_func dt_generate_beam;
dt_generate_func dt_generate_exact;

#ifdef __cplusplus
}
#endif

#endif
