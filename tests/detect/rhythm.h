/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated traffic of a pipeline, with a known truth: when each device's messages are wanted and arrive,
 * when its iterations begin, and how long it computes in each.
 *
 * A device executes its order of F, B and W one by one; an action starts when the device is free and its
 * input has arrived. The order is that of a list schedule for the noiseless times, so it is static, as in a
 * framework.
 */
#ifndef DETOUR_TESTS_DETECT_RHYTHM_H
#define DETOUR_TESTS_DETECT_RHYTHM_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace detour_test
{
struct Change {
    int iteration = -1; /* from it on; -1: never */
    int until = 1 << 30;
    int device = 0;      /* whose computations, or whose link to the next device */
    double factor = 1;   /* of computations */
    double link_ms = 0;  /* of a transfer: its bytes take longer */
    double delay_ms = 0; /* of each of its messages; with a window */
};

struct Rhythm {
    int devices = 4;
    int microbatches = 8;
    double f_ms = 3, b_ms = 3, w_ms = 3; /* of one microbatch */
    bool has_w = false;                  /* zero bubble: B and W are separate actions */
    int depth = 1; /* microbatches in flight: 1: as 1F1B; 2: as zero bubble with more memory */
    double optimizer_ms = 5;
    bool has_barrier = true; /* an iteration begins when all devices have ended the one before */
    double link_ms = 0.2;
    double noise = 0.02; /* standard deviation of a computation, relative */
    int chunks = 1;      /* messages per transfer */
    int window = 0;      /* messages in flight, as NCCL has; a further one is wanted when one has arrived */
    double missed = 0;   /* share of the messages that are not seen */
    int iterations = 80;
    int schedule_change = -1; /* from this iteration on, has_w and depth are the other ones */
    std::vector<Change> changes;
    uint64_t seed = 1;
};

struct Message {
    uint64_t ns; /* wanted, or arrived */
    int iteration;
    uint64_t left_ns; /* of one that is sent: it has arrived */
};

struct DeviceTraffic {
    std::vector<Message> sent[2];     /* wanted: to the next device, to the one before */
    std::vector<Message> received[2]; /* arrived: from the next device, from the one before */
    std::vector<double> begin_ms;     /* of each iteration: its first computation starts */
    std::vector<double> compute_ms;
};

enum Kind { kF, kB, kW };

struct Action {
    Kind kind;
    int microbatch;
};

/* The orders of all devices. */
inline std::vector<std::vector<Action>> Orders(const Rhythm &r, bool has_w, int depth)
{
    int p = r.devices, m = r.microbatches;
    double time[3] = {r.f_ms, r.b_ms + (has_w ? 0 : r.w_ms), r.w_ms};
    std::vector<std::vector<Action>> orders(p);
    std::vector<double> free(p, 0);
    std::vector<std::vector<double>> f_end(p, std::vector<double>(m, -1)), b_end = f_end;
    std::vector<int> next[3] = {std::vector<int>(p, 0), std::vector<int>(p, 0), std::vector<int>(p, 0)};
    auto ready = [&](int d, int kind) -> double {
        int k = next[kind][d];
        if (k == m)
            return 1e18;
        if (kind == kF) {
            if (k - next[kB][d] >= std::max(1, (p - d) * depth - (depth > 1)))
                return 1e18;
            return d == 0 ? 0 : f_end[d - 1][k] < 0 ? 1e18 : f_end[d - 1][k];
        }
        if (kind == kB)
            return f_end[d][k] < 0       ? 1e18
                   : d == p - 1          ? f_end[d][k]
                   : b_end[d + 1][k] < 0 ? 1e18
                                         : b_end[d + 1][k];
        return !has_w || k >= next[kB][d] ? 1e18 : b_end[d][k];
    };
    for (;;) {
        int device = -1, kind = -1;
        double start = 1e17;
        for (int d = 0; d < p; d++) {
            for (int k : {kB, kF, kW}) {
                double at = std::max(ready(d, k), free[d]);
                if (at < start - 1e-9) {
                    start = at;
                    device = d;
                    kind = k;
                }
            }
        }
        if (device < 0)
            return orders;
        int k = next[kind][device]++;
        orders[device].push_back({static_cast<Kind>(kind), k});
        free[device] = start + time[kind];
        if (kind == kF)
            f_end[device][k] = free[device];
        if (kind == kB)
            b_end[device][k] = free[device];
    }
}

class Generator
{
  public:
    explicit Generator(const Rhythm &rhythm)
        : r(rhythm), random(rhythm.seed), traffic(rhythm.devices), links{{}, {}}
    {
        for (std::vector<Pipe> &direction : links)
            direction.resize(rhythm.devices);
    }

    std::vector<DeviceTraffic> Run()
    {
        std::vector<double> start(r.devices, 1);
        for (int i = 0; i < r.iterations; i++) {
            bool is_changed = r.schedule_change >= 0 && i >= r.schedule_change;
            bool has_w = r.has_w != is_changed;
            Iterate(i, Orders(r, has_w, has_w ? std::max(r.depth, 2) : 1), has_w, &start);
        }
        return traffic;
    }

  private:
    double Computation(double ms, int device, int iteration)
    {
        std::normal_distribution<double> draw(0, r.noise);
        for (const Change &c : r.changes) {
            if (c.iteration >= 0 && iteration >= c.iteration && iteration < c.until && c.device == device)
                ms *= c.factor;
        }
        return ms * std::max(0.3, 1 + draw(random));
    }

    double Link(int device, int iteration)
    {
        std::exponential_distribution<double> draw(1);
        double ms = r.link_ms * (0.8 + 0.2 * draw(random));
        for (const Change &c : r.changes) {
            if (c.iteration >= 0 && iteration >= c.iteration && iteration < c.until && c.device == device)
                ms += c.link_ms;
        }
        return ms;
    }

    /* Of one direction of a link: when its messages have arrived. */
    struct Pipe {
        double free_ms = 0;
        std::vector<double> arrived_ms;
    };

    double Delay(int device, int iteration) const
    {
        double ms = 0;
        for (const Change &c : r.changes) {
            if (c.iteration >= 0 && iteration >= c.iteration && iteration < c.until && c.device == device)
                ms += c.delay_ms;
        }
        return ms;
    }

    /* A transfer over the link between a device and the next; returns when its last message has arrived. */
    double Transfer(int device, int direction, double ms, int iteration)
    {
        std::vector<Message> *sent = &traffic[device + direction].sent[direction];
        std::vector<Message> *received = &traffic[device + 1 - direction].received[1 - direction];
        double link_ms = Link(device, iteration), end_ms = ms + 0.05 * r.chunks + link_ms;
        Pipe *pipe = &links[direction][device];

        if (r.window == 0) {
            Send(sent, ms, end_ms, iteration);
            Receive(received, end_ms, iteration);
            return end_ms;
        }
        for (int chunk = 0; chunk < r.chunks; chunk++) {
            size_t number = pipe->arrived_ms.size(), window = static_cast<size_t>(r.window);
            double wanted = ms + 0.05 * chunk;
            if (number >= window)
                wanted = std::max(wanted, pipe->arrived_ms[number - window]);
            pipe->free_ms = std::max(wanted, pipe->free_ms) + 0.05 + link_ms / r.chunks;
            end_ms = pipe->free_ms + Delay(device, iteration);
            pipe->arrived_ms.push_back(end_ms);
            sent->push_back(
                {static_cast<uint64_t>(wanted * 1e6), iteration, static_cast<uint64_t>(end_ms * 1e6)});
            received->push_back({static_cast<uint64_t>(end_ms * 1e6), iteration, 0});
        }
        return end_ms;
    }

    void Send(std::vector<Message> *messages, double ms, double end_ms, int iteration)
    {
        std::uniform_real_distribution<double> draw(0, 1);
        for (int chunk = 0; chunk < r.chunks; chunk++) {
            if (draw(random) >= r.missed)
                messages->push_back({static_cast<uint64_t>((ms + 0.05 * chunk) * 1e6), iteration,
                                     static_cast<uint64_t>((end_ms - 0.05 * (r.chunks - 1 - chunk)) * 1e6)});
        }
    }

    void Receive(std::vector<Message> *messages, double ms, int iteration)
    {
        for (int chunk = 0; chunk < r.chunks; chunk++)
            messages->push_back(
                {static_cast<uint64_t>((ms - 0.05 * (r.chunks - 1 - chunk)) * 1e6), iteration, 0});
    }

    void Iterate(int iteration, const std::vector<std::vector<Action>> &orders, bool has_w,
                 std::vector<double> *start)
    {
        int p = r.devices, m = r.microbatches;
        double time[3] = {r.f_ms, r.b_ms + (has_w ? 0 : r.w_ms), r.w_ms};
        std::vector<std::vector<double>> act(p, std::vector<double>(m, -1)), grad = act;
        std::vector<size_t> at(p, 0);
        std::vector<double> free = *start;
        bool has_moved = true;
        for (int d = 0; d < p; d++) {
            traffic[d].begin_ms.push_back(-1);
            traffic[d].compute_ms.push_back(0);
        }
        while (has_moved) {
            has_moved = false;
            for (int d = 0; d < p; d++) {
                while (at[d] < orders[d].size()) {
                    Action a = orders[d][at[d]];
                    double input = a.kind == kF && d > 0       ? act[d][a.microbatch]
                                   : a.kind == kB && d < p - 1 ? grad[d][a.microbatch]
                                                               : 0;
                    if (input < 0)
                        break;
                    double begin = std::max(free[d], input), takes = Computation(time[a.kind], d, iteration);
                    if (traffic[d].begin_ms.back() < 0)
                        traffic[d].begin_ms.back() = begin;
                    traffic[d].compute_ms.back() += takes;
                    free[d] = begin + takes;
                    if (a.kind == kF && d < p - 1)
                        act[d + 1][a.microbatch] = Transfer(d, 0, free[d], iteration);
                    if (a.kind == kB && d > 0)
                        grad[d - 1][a.microbatch] = Transfer(d - 1, 1, free[d], iteration);
                    at[d]++;
                    has_moved = true;
                }
            }
        }
        double all = *std::max_element(free.begin(), free.end());
        for (int d = 0; d < p; d++) {
            double optimizer = Computation(r.optimizer_ms, d, iteration);
            traffic[d].compute_ms.back() += optimizer;
            (*start)[d] = (r.has_barrier ? all : free[d]) + optimizer;
        }
    }

    Rhythm r;
    std::mt19937_64 random;
    std::vector<DeviceTraffic> traffic;
    std::vector<Pipe> links[2]; /* to the next device, and back */
};

/* Errors, for a line of the output. */
struct Errors {
    std::vector<double> all;

    double Quantile(double share)
    {
        std::sort(all.begin(), all.end());
        return all.empty() ? 0 : all[std::min(all.size() - 1, static_cast<size_t>(share * all.size()))];
    }
};
} // namespace detour_test

#endif
