/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost and gain of the host path (docs/hostpath.md). The ends of a connection are two processes, as ranks
 * are:
 *
 *   bench-hostpath free BYTES SLOTS ROUNDS
 *
 * prints, in microseconds, the median and the longest time from isend to done: of SLOTS isends, each after
 * the previous one is done ("one"), and of all at once ("burst"); and of a memcpy of the same size.
 *
 *   bench-hostpath rate BYTES SLOTS COUNT
 *
 * prints the bandwidth in GB/s of COUNT messages with SLOTS in flight.
 *
 *   bench-hostpath late BYTES SLOTS ROUNDS
 *
 * prints, in microseconds, the median and the longest time from irecv to done, of receives that are posted
 * 50 ms after the isend of their message.
 *
 * A fifth argument selects how software RNICs move large messages, fetch or copies; the default is the faster
 * one on this machine (docs/softrnic.md).
 *
 * The environment chooses the path and the delay: DETOUR_HOSTPATH, DETOUR_INJECT (bench/hostpath.sh).
 */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "plugin/nccl_net_v8.h"

#define SLOTS_MAX  16
#define ROUNDS_MAX 1000
#define LATE_US    50000

/* The linker replaces the second function by the first (CMakeLists.txt). */
bool __wrap_dt_driver_copies_are_faster(void);
bool __real_dt_driver_copies_are_faster(void);

extern const ncclNet_v8_t ncclNetPlugin_v8;
static const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

static struct {
    void *comm;
    char *buffer; /* slots */
    char *copy;   /* a second buffer of this size, for memcpy */
    void *mhandle;
    size_t bytes;
    int slots;
    const char *way; /* fetch or copies; NULL: the faster one */
} bench;

/* Shared by both processes. */
static struct {
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    uint32_t has_handle; /* [atomic] */
    uint32_t wanted;     /* messages to be received [atomic; written by the sender] */
    uint32_t received;   /* [atomic; written by the receiver] */
    uint32_t is_over;    /* [atomic] */
    double late_us[ROUNDS_MAX];
} * shared;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "bench-hostpath: %s failed\n", what);
    exit(1);
}

bool __wrap_dt_driver_copies_are_faster(void)
{
    return bench.way ? strcmp(bench.way, "copies") == 0 : __real_dt_driver_copies_are_faster();
}

/* ---- both ends ---- */
static void connect_sender(void)
{
    check(net->init(NULL) == ncclSuccess, "init");
    while (!dt_load_acquire(&shared->has_handle))
        sched_yield();
    while (!bench.comm)
        check(net->connect(0, shared->handle, &bench.comm, NULL) == ncclSuccess, "connect");
}

static void connect_receiver(void)
{
    void *listen;

    check(net->init(NULL) == ncclSuccess, "init");
    check(net->listen(0, shared->handle, &listen) == ncclSuccess, "listen");
    dt_store_release(&shared->has_handle, 1u);
    while (!bench.comm)
        check(net->accept(listen, &bench.comm, NULL) == ncclSuccess, "accept");
    check(net->closeListen(listen) == ncclSuccess, "closeListen");
}

static char *touched(size_t bytes)
{
    char *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);

    check(memory != NULL, "memory");
    memset(memory, 1, bytes);
    return memory;
}

static void make_buffers(void)
{
    size_t all = bench.bytes * (size_t)bench.slots;

    bench.buffer = touched(all);
    check(net->regMr(bench.comm, bench.buffer, all, NCCL_PTR_HOST, &bench.mhandle) == ncclSuccess, "regMr");
}

/* The receiver: keeps as many receives posted as there are slots. */
static void receive(void)
{
    void *request[SLOTS_MAX] = {NULL};
    uint32_t posted = 0;

    while (!dt_load_acquire(&shared->is_over)) {
        uint32_t done_count = shared->received;
        int done = 0;

        if (posted - done_count < (uint32_t)bench.slots && posted != dt_load_acquire(&shared->wanted)) {
            void *data = bench.buffer + posted % (uint32_t)bench.slots * bench.bytes;
            int size = (int)bench.bytes, tag = 0;
            void **at = &request[posted % (uint32_t)bench.slots];

            check(net->irecv(bench.comm, 1, &data, &size, &tag, &bench.mhandle, at) == ncclSuccess, "irecv");
            posted += *at != NULL;
        }
        if (posted != done_count) {
            check(net->test(request[done_count % (uint32_t)bench.slots], &done, NULL) == ncclSuccess, "test");
            dt_store_release(&shared->received, done_count + (uint32_t)done);
        }
        sched_yield();
    }
}

/* The receiver of `late`: one receive at a time, each posted late. */
static void receive_late(void)
{
    for (uint32_t i = 0; !dt_load_acquire(&shared->is_over);) {
        void *data = bench.buffer, *request = NULL;
        int size = (int)bench.bytes, tag = 0, done = 0;
        uint64_t began_ns;

        if (i == dt_load_acquire(&shared->wanted)) {
            sched_yield();
            continue;
        }
        usleep(LATE_US);
        began_ns = dt_clock_now_ns();
        while (!request)
            check(net->irecv(bench.comm, 1, &data, &size, &tag, &bench.mhandle, &request) == ncclSuccess,
                  "irecv");
        while (!done)
            check(net->test(request, &done, NULL) == ncclSuccess, "test");
        shared->late_us[i++ % ROUNDS_MAX] = (double)(dt_clock_now_ns() - began_ns) / 1e3;
        dt_store_release(&shared->received, i);
    }
}

static void *begin_send(int slot)
{
    void *request = NULL;

    while (!request) {
        check(net->isend(bench.comm, bench.buffer + (size_t)slot * bench.bytes, (int)bench.bytes, 0,
                         bench.mhandle, &request) == ncclSuccess,
              "isend");
        if (!request)
            sched_yield();
    }
    return request;
}

static int is_done(void *request)
{
    int done = 0;

    check(net->test(request, &done, NULL) == ncclSuccess, "test");
    return done;
}

static void wait_received(void)
{
    while (dt_load_acquire(&shared->received) != dt_load_acquire(&shared->wanted))
        sched_yield();
}

/* ---- until a slot is free ---- */
static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static void print_times(const char *what, double *us, int count)
{
    qsort(us, (size_t)count, sizeof *us, by_value);
    printf(" %s %.1f %.1f", what, us[count / 2], us[count - 1]);
}

/* Each isend after the previous one is done, while the link still carries that message. */
static void send_one_by_one(double *us)
{
    dt_fetch_add_acq_rel(&shared->wanted, (uint32_t)bench.slots);
    for (int i = 0; i < bench.slots; i++) {
        uint64_t began_ns = dt_clock_now_ns();
        void *request = begin_send(i);

        while (!is_done(request))
            sched_yield();
        us[i] = (double)(dt_clock_now_ns() - began_ns) / 1e3;
    }
    wait_received();
}

static void send_burst(double *us)
{
    void *request[SLOTS_MAX];
    uint64_t began_ns = dt_clock_now_ns();
    int left = bench.slots;

    dt_fetch_add_acq_rel(&shared->wanted, (uint32_t)bench.slots);
    for (int i = 0; i < bench.slots; i++)
        request[i] = begin_send(i);
    while (left > 0) {
        for (int i = 0; i < bench.slots; i++) {
            if (!request[i] || !is_done(request[i]))
                continue;
            us[i] = (double)(dt_clock_now_ns() - began_ns) / 1e3;
            request[i] = NULL;
            left--;
        }
        sched_yield();
    }
    wait_received();
}

static void copy_round(double *us)
{
    for (int i = 0; i < bench.slots; i++) {
        size_t at = (size_t)i * bench.bytes;
        uint64_t began_ns = dt_clock_now_ns();

        memcpy(bench.copy + at, bench.buffer + at, bench.bytes);
        us[i] = (double)(dt_clock_now_ns() - began_ns) / 1e3;
    }
}

static void measure_free(int rounds)
{
    static void (*const measure[])(double *us) = {send_one_by_one, send_burst, copy_round};
    static const char *const name[] = {"one", "burst", "memcpy"};
    int count = rounds * bench.slots;
    double *us[3];

    bench.copy = touched(bench.bytes * (size_t)bench.slots);
    for (int k = 0; k < 3; k++) {
        us[k] = calloc((size_t)count, sizeof *us[k]);
        check(us[k] != NULL, "memory");
        measure[k](us[k]); /* warm up */
    }
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < 3; k++)
            measure[k](us[k] + i * bench.slots);
    }
    printf("%zu", bench.bytes);
    for (int k = 0; k < 3; k++) {
        print_times(name[k], us[k], count);
        free(us[k]);
    }
    printf("\n");
}

/* ---- bandwidth ---- */
static void send_all(int count)
{
    void *request[SLOTS_MAX] = {NULL};

    dt_fetch_add_acq_rel(&shared->wanted, (uint32_t)count);
    for (int i = 0; i < count + bench.slots; i++) {
        void **at = &request[i % bench.slots];

        while (*at && !is_done(*at))
            sched_yield();
        *at = i < count ? begin_send(i % bench.slots) : NULL;
    }
    wait_received();
}

static void measure_rate(int count)
{
    uint64_t began_ns;

    send_all(4 * bench.slots); /* pages are touched, caches warm */
    began_ns = dt_clock_now_ns();
    send_all(count);
    printf("%zu GB/s %.3f\n", bench.bytes,
           (double)count * (double)bench.bytes / (double)(dt_clock_now_ns() - began_ns));
}

/* ---- a late receiver ---- */
static void measure_late(int rounds)
{
    check(rounds < ROUNDS_MAX, "an argument");
    for (int i = 0; i <= rounds; i++) { /* the first warms up */
        void *request;

        dt_fetch_add_acq_rel(&shared->wanted, 1u);
        request = begin_send(0);
        while (!is_done(request))
            sched_yield();
        wait_received();
    }
    printf("%zu", bench.bytes);
    print_times("late", shared->late_us + 1, rounds);
    printf("\n");
}

static void run_receiver(char what)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    connect_receiver();
    make_buffers();
    if (what == 'l')
        receive_late();
    else
        receive();
    net->closeRecv(bench.comm);
    exit(0);
}

static void run_sender(char what, int count)
{
    connect_sender();
    make_buffers();
    if (what == 'f')
        measure_free(count);
    else if (what == 'l')
        measure_late(count);
    else
        measure_rate(count);
    dt_store_release(&shared->is_over, 1u);
    net->closeSend(bench.comm);
}

int main(int argc, char **argv)
{
    pid_t receiver;
    int status;

    check(argc == 5 || argc == 6, "bench-hostpath free|rate|late BYTES SLOTS ROUNDS|COUNT [fetch|copies]");
    bench.way = argv[5];
    bench.bytes = (size_t)atoll(argv[2]);
    bench.slots = atoi(argv[3]);
    check(bench.bytes > 0 && bench.slots > 0 && bench.slots <= SLOTS_MAX && atoi(argv[4]) > 0, "an argument");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED, "mmap");
    receiver = fork();
    check(receiver >= 0, "fork");
    if (receiver == 0)
        run_receiver(argv[1][0]);
    run_sender(argv[1][0], atoi(argv[4]));
    check(waitpid(receiver, &status, 0) == receiver && status == 0, "the receiver");
    return 0;
}
