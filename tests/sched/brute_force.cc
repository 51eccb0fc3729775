// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/brute_force.h"

#include <algorithm>

namespace sched_test
{
namespace
{
struct Op {
    char kind; /* 'F', 'B', 'W' or 'X' for fused B and W */
    int stage;
    int microbatch;
};

using Order = std::vector<Op>;

class Brute
{
  public:
    Brute(Profile &profile, const Past &past)
        : profile_(profile), past_(past), stages_(static_cast<int>(profile.stages.size())),
          n_(profile.microbatches), orders_(static_cast<size_t>(profile.get()->device_count))
    {
    }

    int64_t Run(double orders_max)
    {
        double combinations = 1;
        for (size_t d = 0; d < orders_.size(); d++) {
            Order order;
            std::vector<char> state(static_cast<size_t>(stages_ * n_), ' ');
            Collect(static_cast<int>(d), &order, &state, 0, orders_max);
            combinations *= static_cast<double>(orders_[d].size());
            if (combinations > orders_max)
                return -1;
        }
        chosen_.resize(orders_.size());
        Choose(0);
        return best_ns_;
    }

  private:
    const struct detour_stage &Stage(const Op &op) const
    {
        return profile_.stages[static_cast<size_t>(op.stage)];
    }

    size_t Cell(int stage, int microbatch) const
    {
        return static_cast<size_t>(stage * n_ + microbatch);
    }

    /* What may follow in a cell that has got as far as `state`: ' ' nothing yet, 'F', 'B', 'D' done. */
    static const char *Successors(char state)
    {
        return state == ' ' ? "F" : state == 'F' ? "BX" : state == 'B' ? "W" : "";
    }

    /* The operation that has run at a place of a device; NULL if none has. */
    const struct detour_op *Ran(size_t device, size_t place) const
    {
        if (!past_.schedule || place >= past_.started[device])
            return nullptr;
        return &past_.schedule->ops[past_.schedule->first[device] + place];
    }

    static bool IsSame(const struct detour_op &ran, char kind, int stage, int microbatch)
    {
        static const char kinds[] = {'F', 'B', 'W', 'X'};
        return kinds[ran.kind] == kind && ran.stage == stage && ran.microbatch == microbatch;
    }

    /* All orders of a device that begin with what has run and respect its cells and its memory. */
    void Collect(int device, Order *order, std::vector<char> *state, size_t done, double orders_max)
    {
        size_t d = static_cast<size_t>(device);
        bool finished = true;
        const struct detour_op *ran = Ran(d, done);
        if (static_cast<double>(orders_[d].size()) > orders_max)
            return;
        for (int stage = 0; stage < stages_; stage++) {
            if (profile_.stages[static_cast<size_t>(stage)].device != device)
                continue;
            for (int j = 0; j < n_; j++) {
                char before = (*state)[Cell(stage, j)];
                for (const char *kind = Successors(before); *kind; kind++) {
                    finished = false;
                    if (ran && !IsSame(*ran, *kind, stage, j))
                        continue;
                    order->push_back({*kind, stage, j});
                    (*state)[Cell(stage, j)] = *kind == 'X' || *kind == 'W' ? 'D' : *kind;
                    if (MemoryFits(*order))
                        Collect(device, order, state, done + 1, orders_max);
                    (*state)[Cell(stage, j)] = before;
                    order->pop_back();
                }
            }
        }
        if (finished)
            orders_[d].push_back(*order);
    }

    /* The last operation of the order has the memory it needs. */
    bool MemoryFits(const Order &order) const
    {
        int64_t bytes = 0, peak = 0;
        std::vector<int> inflight(profile_.stages.size(), 0);
        for (const Op &op : order) {
            const struct detour_stage &stage = Stage(op);
            int64_t before = bytes;
            bytes += op.kind == 'F'   ? stage.bytes_f
                     : op.kind == 'B' ? stage.bytes_w - stage.bytes_f
                     : op.kind == 'W' ? -stage.bytes_w
                                      : -stage.bytes_f;
            peak = std::max({peak, before, bytes});
            int &flying = inflight[static_cast<size_t>(op.stage)];
            flying += op.kind == 'F';
            if (stage.max_inflight && flying > stage.max_inflight)
                return false;
            flying -= op.kind == 'X' || op.kind == (profile_.release == DETOUR_RELEASE_B ? 'B' : 'W');
        }
        int64_t capacity = profile_.devices[static_cast<size_t>(Stage(order.back()).device)].capacity_bytes;
        return capacity == 0 || peak <= capacity;
    }

    void Choose(size_t device)
    {
        if (device == orders_.size()) {
            int64_t makespan_ns = Simulate();
            if (makespan_ns >= 0 && (best_ns_ < 0 || makespan_ns < best_ns_))
                best_ns_ = makespan_ns;
            return;
        }
        for (const Order &order : orders_[device]) {
            chosen_[device] = &order;
            Choose(device + 1);
        }
    }

    int64_t Duration(const Op &op) const
    {
        const struct detour_stage &s = Stage(op);
        int64_t fused = s.bw_ns ? s.bw_ns : s.b_ns + s.w_ns;
        return op.kind == 'F' ? s.f_ns : op.kind == 'B' ? s.b_ns : op.kind == 'W' ? s.w_ns : fused;
    }

    /* Sends what `op` made: into the inbox of the neighbor, behind the message before it. */
    void Send(const Op &op, int64_t finish_ns)
    {
        bool forward = op.kind == 'F';
        int to = op.stage + (forward ? 1 : -1);
        if (forward && to == stages_) {
            b_input_[Cell(op.stage, op.microbatch)] = finish_ns;
            return;
        }
        if (to < 0)
            return;
        const struct detour_link &link = profile_.links[static_cast<size_t>(std::min(to, op.stage))];
        bool local = Stage(op).device == profile_.stages[static_cast<size_t>(to)].device;
        int64_t &busy = (forward ? f_link_ : b_link_)[static_cast<size_t>(op.stage)];
        busy = std::max(busy, finish_ns) + (local     ? 0
                                            : forward ? link.forward_serial_ns
                                                      : link.backward_serial_ns);
        (forward ? f_input_ : b_input_)[Cell(to, op.microbatch)] = busy + (local     ? 0
                                                                           : forward ? link.forward_ns
                                                                                     : link.backward_ns);
    }

    /* The makespan of the chosen orders; -1 if they wait for each other. */
    int64_t Simulate()
    {
        std::vector<size_t> next(orders_.size(), 0);
        std::vector<int64_t> free_ns(orders_.size(), 0);
        int64_t first_ns = INT64_MAX;
        bool progress = true;
        f_input_.assign(static_cast<size_t>(stages_ * n_), -1);
        b_input_.assign(static_cast<size_t>(stages_ * n_), -1);
        f_link_.assign(profile_.stages.size(), 0);
        b_link_.assign(profile_.stages.size(), 0);
        std::fill_n(f_input_.begin(), n_, 0);
        while (progress) {
            progress = false;
            for (size_t d = 0; d < next.size(); d++) {
                while (next[d] < chosen_[d]->size()) {
                    const Op &op = (*chosen_[d])[next[d]];
                    int64_t input = op.kind == 'W'   ? 0
                                    : op.kind == 'F' ? f_input_[Cell(op.stage, op.microbatch)]
                                                     : b_input_[Cell(op.stage, op.microbatch)];
                    if (input < 0)
                        break;
                    const struct detour_op *ran = Ran(d, next[d]);
                    int64_t start_ns = ran ? ran->start_ns : std::max({free_ns[d], input, past_.now});
                    first_ns = std::min(first_ns, start_ns);
                    free_ns[d] = ran ? ran->finish_ns : start_ns + Duration(op);
                    if (op.kind != 'W')
                        Send(op, free_ns[d]);
                    next[d]++;
                    progress = true;
                }
            }
        }
        for (size_t d = 0; d < next.size(); d++)
            if (next[d] < chosen_[d]->size())
                return -1;
        return *std::max_element(free_ns.begin(), free_ns.end()) - first_ns;
    }

    Profile &profile_;
    const Past &past_;
    int stages_;
    int n_;
    std::vector<std::vector<Order>> orders_; /* [device]: all that are possible */
    std::vector<const Order *> chosen_;
    std::vector<int64_t> f_input_, b_input_; /* [cell]: arrival; -1: not sent yet */
    std::vector<int64_t> f_link_, b_link_;   /* [sending stage] */
    int64_t best_ns_ = -1;
};

int64_t Draw(struct dt_prng *prng, int64_t most)
{
    return static_cast<int64_t>(dt_prng_below(prng, static_cast<uint64_t>(most) + 1));
}
} // namespace

int64_t BruteForce(Profile &profile, double orders_max, const Past &past)
{
    return Brute(profile, past).Run(orders_max);
}

Profile TinyProfile(struct dt_prng *prng)
{
    static const int sizes[][2] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {4, 1}};
    const int *size = sizes[dt_prng_below(prng, 8)];
    Profile profile = Profile::Uniform(size[0], size[1], 0, 0, 0);
    int64_t scale = dt_prng_chance(prng, 1, 2) ? 9 : 2;

    for (struct detour_stage &stage : profile.stages) {
        stage.f_ns = Draw(prng, scale);
        stage.b_ns = Draw(prng, scale);
        stage.w_ns = Draw(prng, scale);
        if (dt_prng_chance(prng, 1, 4))
            stage.bw_ns = Draw(prng, 2 * scale);
        if (dt_prng_chance(prng, 1, 3))
            stage.max_inflight = static_cast<int32_t>(dt_prng_between(prng, 1, 2));
        stage.bytes_f = Draw(prng, 3);
        stage.bytes_w = Draw(prng, 3);
    }
    for (struct detour_link &link : profile.links) {
        link.forward_ns = Draw(prng, scale);
        link.backward_ns = Draw(prng, scale);
        link.forward_serial_ns = dt_prng_chance(prng, 1, 3) ? Draw(prng, scale) : 0;
        link.backward_serial_ns = dt_prng_chance(prng, 1, 3) ? Draw(prng, scale) : 0;
    }
    if (size[0] > 1 && dt_prng_chance(prng, 1, 4)) /* two stages on one device */
        for (struct detour_stage &stage : profile.stages)
            stage.device = stage.device ? stage.device - 1 : 0;
    profile.get();
    for (struct detour_device &device : profile.devices)
        if (dt_prng_chance(prng, 1, 3))
            device.capacity_bytes = 1 + Draw(prng, 12);
    profile.release = dt_prng_chance(prng, 1, 2) ? DETOUR_RELEASE_B : DETOUR_RELEASE_W;
    return profile;
}
} // namespace sched_test
