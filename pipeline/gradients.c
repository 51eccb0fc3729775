/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/gradients.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"
#include "pipeline/window.h"

struct dt_gradients {
    struct dt_gradients_options options;
    uint64_t slices; /* of a chunk */
    uint64_t words;  /* of a place */
    uint64_t *sums;  /* [place][word] */
    uint64_t batch;  /* factor of the global batch of this iteration */
    bool has_started;
    struct dt_pipeline_window sends;
    struct dt_pipeline_window receives;
    uint64_t end_ns;
};

uint64_t dt_gradients_transfers(const struct dt_gradients *gradients)
{
    return 2 * ((uint64_t)gradients->options.replicas - 1) * gradients->slices;
}

int32_t dt_gradients_peer(const struct dt_gradients *gradients, bool sends)
{
    int32_t replicas = gradients->options.replicas;

    return (gradients->options.replica + (sends ? 1 : replicas - 1)) % replicas;
}

uint64_t dt_gradients_slices(const struct dt_gradients_options *options)
{
    uint64_t slice_places = options->slice_bytes / options->place_bytes;
    uint64_t chunk_places = (options->places + (uint64_t)options->replicas - 1) / (uint64_t)options->replicas;

    DT_CHECK(slice_places >= 2);
    return (chunk_places + slice_places - 1) / slice_places;
}

/* ---- Places of a transfer. ---- */

static uint64_t chunk_begin(const struct dt_gradients *gradients, uint64_t chunk)
{
    return gradients->options.places * chunk / (uint64_t)gradients->options.replicas;
}

static uint64_t step_of(const struct dt_gradients *gradients, uint64_t number)
{
    return number / gradients->slices;
}

static uint64_t chunk_of(const struct dt_gradients *gradients, bool sends, uint64_t number)
{
    uint64_t replicas = (uint64_t)gradients->options.replicas;
    uint64_t back = step_of(gradients, number) + !sends;

    return ((uint64_t)gradients->options.replica + 2 * replicas - back) % replicas;
}

static struct dt_executor_order order_of(const struct dt_gradients *gradients, bool sends, uint64_t number)
{
    uint64_t chunk = chunk_of(gradients, sends, number), slice = number % gradients->slices;
    uint64_t begin = chunk_begin(gradients, chunk), places = chunk_begin(gradients, chunk + 1) - begin;
    uint64_t first = begin + places * slice / gradients->slices;
    uint64_t end = begin + places * (slice + 1) / gradients->slices;

    DT_CHECK(end > first);
    return (struct dt_executor_order){.flow = gradients->options.first_flow + !sends,
                                      .number = number,
                                      .offset_bytes = first * gradients->options.place_bytes,
                                      .bytes = (end - first) * gradients->options.place_bytes};
}

/* ---- Content. ---- */

uint64_t dt_gradients_factor(int32_t device, uint32_t iteration, int32_t first, int32_t end)
{
    uint64_t base = dt_pipeline_mix((uint64_t)iteration << 32 | (uint64_t)device), sum = 0;

    for (int32_t i = first; i < end; i++)
        sum += dt_pipeline_mix(base + (uint64_t)i);
    return sum;
}

/* Odd multiples: a sum that is not 0 gives elements that are not. */
uint64_t dt_gradients_element(uint64_t factor, uint64_t index)
{
    return factor * (dt_pipeline_mix(index + 1) | 1);
}

const uint64_t *dt_gradients_sums(const struct dt_gradients *gradients)
{
    return gradients->sums;
}

void dt_gradients_pack(const struct dt_gradients *gradients, const struct dt_executor_order *order,
                       void *data)
{
    const uint64_t *from =
        &gradients->sums[order->offset_bytes / gradients->options.place_bytes * gradients->words];

    for (uint64_t at = 0; at < order->bytes; at += gradients->options.place_bytes, from += gradients->words)
        memcpy((char *)data + at, from, gradients->options.kept_bytes);
}

static void unpack(struct dt_gradients *gradients, const struct dt_executor_order *order, const void *data)
{
    bool adds = step_of(gradients, order->number) + 1 < (uint64_t)gradients->options.replicas;
    uint64_t *to = &gradients->sums[order->offset_bytes / gradients->options.place_bytes * gradients->words];

    for (uint64_t at = 0; at < order->bytes; at += gradients->options.place_bytes, to += gradients->words) {
        for (uint64_t i = 0; i < gradients->words; i++) {
            uint64_t word;

            memcpy(&word, (const char *)data + at + 8 * i, sizeof word);
            to[i] = adds ? to[i] + word : word;
        }
    }
}

bool dt_gradients_check(const struct dt_gradients *gradients, uint64_t *wrong)
{
    uint64_t count = gradients->options.places * gradients->words;

    for (uint64_t i = 0; i < count; i++) {
        if (gradients->sums[i] == dt_gradients_element(gradients->batch, i))
            continue;
        *wrong = i / gradients->words * gradients->options.place_bytes + 8 * (i % gradients->words);
        return false;
    }
    return true;
}

/* ---- Transfers. ---- */

/* After `received` slices, as many can be passed on; those of the first step are the replica's own. */
static void reach_sends(struct dt_gradients *gradients)
{
    uint64_t reached =
        dt_min_u64(dt_gradients_transfers(gradients), gradients->receives.completed + gradients->slices);

    dt_pipeline_window_reach(&gradients->sends, reached - gradients->sends.reached);
}

static bool next_of(const struct dt_gradients *gradients, bool sends, struct dt_pipeline_window *window,
                    struct dt_executor_order *order)
{
    if (!dt_pipeline_window_can_post(window))
        return false;
    *order = order_of(gradients, sends, dt_pipeline_window_post(window));
    return true;
}

bool dt_gradients_next(struct dt_gradients *gradients, bool has_ended, struct dt_executor_order *order)
{
    if (!gradients->has_started) {
        if (!has_ended)
            return false;
        gradients->has_started = true;
        dt_pipeline_window_reach(&gradients->receives, dt_gradients_transfers(gradients));
        reach_sends(gradients);
    }
    return next_of(gradients, false, &gradients->receives, order) ||
           next_of(gradients, true, &gradients->sends, order);
}

void dt_gradients_sent(struct dt_gradients *gradients, uint64_t now_ns)
{
    dt_pipeline_window_complete(&gradients->sends, now_ns);
}

void dt_gradients_received(struct dt_gradients *gradients, const struct dt_executor_order *order,
                           const void *data, uint64_t now_ns)
{
    uint64_t number = dt_pipeline_window_complete(&gradients->receives, now_ns);

    DT_CHECK(number == order->number);
    unpack(gradients, order, data);
    reach_sends(gradients);
    if (gradients->receives.completed == dt_gradients_transfers(gradients))
        gradients->end_ns = now_ns;
}

bool dt_gradients_is_done(const struct dt_gradients *gradients)
{
    return gradients->has_started && dt_pipeline_window_is_done(&gradients->sends) &&
           dt_pipeline_window_is_done(&gradients->receives);
}

uint64_t dt_gradients_end_ns(const struct dt_gradients *gradients)
{
    return gradients->end_ns;
}

const char *dt_gradients_text(const struct dt_gradients *gradients, char text[DT_EXECUTOR_TEXT_BYTES])
{
    uint64_t number = gradients->receives.completed;
    bool receives = number < dt_gradients_transfers(gradients);

    if (!receives)
        number = dt_min_u64(gradients->sends.completed, dt_gradients_transfers(gradients) - 1);
    snprintf(text, DT_EXECUTOR_TEXT_BYTES,
             "the gradients: %s of slice %" PRIu64 " of chunk %" PRIu64 ", step %" PRIu64,
             receives ? "receive" : "send", number % gradients->slices,
             chunk_of(gradients, !receives, number), step_of(gradients, number));
    return text;
}

/* ---- Life. ---- */

void dt_gradients_begin(struct dt_gradients *gradients, uint32_t iteration, struct dt_pipeline_share share)
{
    uint64_t count = gradients->options.places * gradients->words;
    uint64_t own =
        dt_gradients_factor(gradients->options.device, iteration, share.first, share.first + share.count);

    DT_CHECK(dt_pipeline_window_is_done(&gradients->sends) &&
             dt_pipeline_window_is_done(&gradients->receives));
    gradients->batch = dt_gradients_factor(gradients->options.device, iteration, 0, share.total);
    gradients->has_started = false;
    gradients->end_ns = 0;
    for (uint64_t i = 0; i < count; i++)
        gradients->sums[i] = dt_gradients_element(own, i);
    dt_pipeline_window_open(&gradients->sends, dt_gradients_transfers(gradients), gradients->options.slots);
    dt_pipeline_window_open(&gradients->receives, dt_gradients_transfers(gradients),
                            gradients->options.slots);
}

struct dt_gradients *dt_gradients_create(const struct dt_gradients_options *options)
{
    struct dt_gradients *gradients = calloc(1, sizeof *gradients);

    DT_CHECK(options->replicas >= 2 && options->replica >= 0 && options->replica < options->replicas);
    DT_CHECK(options->places >= (uint64_t)options->replicas && options->slots > 0);
    DT_CHECK(options->kept_bytes > 0 && options->kept_bytes % DT_GRADIENTS_ELEMENT_BYTES == 0 &&
             options->kept_bytes <= options->place_bytes);
    if (!gradients)
        return NULL;
    gradients->options = *options;
    gradients->slices = dt_gradients_slices(options);
    gradients->words = options->kept_bytes / DT_GRADIENTS_ELEMENT_BYTES;
    gradients->sums = calloc(options->places * gradients->words, sizeof *gradients->sums);
    if (gradients->sums)
        return gradients;
    dt_gradients_destroy(gradients);
    return NULL;
}

void dt_gradients_destroy(struct dt_gradients *gradients)
{
    if (!gradients)
        return;
    free(gradients->sums);
    free(gradients);
}
