/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the machine itself gives for the pattern of `detour perf sendrecv --raw`: two processes, each sends
 * messages to the other and receives the other's, up to a window of them in flight, one thread per process
 * that polls both directions.
 *
 *   bench-loops tcp BYTES WINDOW COUNT   non-blocking sockets on the loopback interface, one per direction
 *   bench-loops vm  BYTES WINDOW COUNT   the receiver fetches each message with one process_vm_readv
 *
 * Prints the bandwidth of one direction in GB/s (10^9 bytes). The data is compared after the last message.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"

/* Shared by both processes; each side writes its own entry, on a cache line of its own. */
struct side {
    uint64_t sent __attribute__((aligned(64)));     /* messages it offers */
    uint64_t received __attribute__((aligned(64))); /* messages it has of the other's */
    uint64_t ready __attribute__((aligned(64)));
    char *send_buffers;
    pid_t pid;
    uint64_t elapsed_ns;
};

struct job {
    size_t bytes;
    uint64_t window;
    uint64_t count;
    struct side *mine;
    struct side *peer;
    char *send_buffers; /* window of them */
    char *receive_buffers;
    int send_fd; /* tcp */
    int receive_fd;
    size_t send_at; /* within the message under way */
    size_t receive_at;
};

static void die(const char *what)
{
    fprintf(stderr, "bench-loops: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *map(size_t bytes, int flags)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

    if (memory == MAP_FAILED)
        die("mmap");
    return memory;
}

/* ---- TCP. ---- */

static bool move_tcp(struct job *job)
{
    bool moved = false;

    if (job->mine->sent < job->count) {
        char *from = job->send_buffers + job->mine->sent % job->window * job->bytes;
        ssize_t done =
            send(job->send_fd, from + job->send_at, job->bytes - job->send_at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (done < 0 && errno != EAGAIN)
            die("send");
        job->send_at += done > 0 ? (size_t)done : 0;
        moved = done > 0;
    }
    if (job->mine->received < job->count) {
        char *to = job->receive_buffers + job->mine->received % job->window * job->bytes;
        ssize_t done =
            recv(job->receive_fd, to + job->receive_at, job->bytes - job->receive_at, MSG_DONTWAIT);

        if (done == 0 || (done < 0 && errno != EAGAIN))
            die("recv");
        job->receive_at += done > 0 ? (size_t)done : 0;
        moved = moved || done > 0;
    }
    if (job->send_at == job->bytes) {
        job->send_at = 0;
        job->mine->sent++;
    }
    if (job->receive_at == job->bytes) {
        job->receive_at = 0;
        job->mine->received++;
    }
    return moved;
}

/* A connected pair of TCP sockets. */
static void connect_pair(int *one, int *other)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    *one = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || *one < 0 || bind(listener, (struct sockaddr *)&address, length) ||
        listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &length) ||
        connect(*one, (struct sockaddr *)&address, length))
        die("connect");
    *other = accept(listener, NULL, NULL);
    if (*other < 0)
        die("accept");
    close(listener);
}

/* ---- process_vm_readv. ---- */

static bool move_vm(struct job *job)
{
    uint64_t offered = dt_load_acquire(&job->peer->sent);
    uint64_t received = job->mine->received;
    bool moved = false;

    if (job->mine->sent < job->count &&
        job->mine->sent - dt_load_acquire(&job->peer->received) < job->window) {
        dt_store_release(&job->mine->sent, job->mine->sent + 1);
        moved = true;
    }
    if (received < offered) {
        size_t at = received % job->window * job->bytes;
        struct iovec local = {job->receive_buffers + at, job->bytes};
        struct iovec remote = {job->peer->send_buffers + at, job->bytes};

        if (process_vm_readv(job->peer->pid, &local, 1, &remote, 1, 0) != (ssize_t)job->bytes)
            die("process_vm_readv");
        dt_store_release(&job->mine->received, received + 1);
        moved = true;
    }
    return moved;
}

/* ---- Both. ---- */

static void fill(char *buffers, size_t bytes, unsigned char seed)
{
    for (size_t i = 0; i < bytes; i++)
        buffers[i] = (char)(i * 31 + seed);
}

static void check(const struct job *job, unsigned char seed)
{
    for (size_t i = 0; i < job->bytes * job->window && i < job->bytes * job->count; i++) {
        if (job->receive_buffers[i] != (char)(i * 31 + seed)) {
            fprintf(stderr, "bench-loops: wrong data at byte %zu\n", i);
            exit(1);
        }
    }
}

static void await_peer(struct job *job)
{
    dt_store_release(&job->mine->ready, 1);
    while (!dt_load_acquire(&job->peer->ready))
        sched_yield();
}

static void run_side(struct job *job, int index, bool (*move)(struct job *))
{
    uint64_t start_ns;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_PTRACER, getppid()); /* under Yama the sibling may then read our memory */
    job->send_buffers = map(job->bytes * job->window, MAP_PRIVATE);
    job->receive_buffers = map(job->bytes * job->window, MAP_PRIVATE);
    fill(job->send_buffers, job->bytes * job->window, (unsigned char)index);
    memset(job->receive_buffers, 0, job->bytes * job->window);
    job->mine->send_buffers = job->send_buffers;
    job->mine->pid = getpid();
    await_peer(job);
    start_ns = dt_clock_now_ns();
    while (job->mine->sent < job->count || job->mine->received < job->count) {
        if (!move(job))
            sched_yield();
    }
    job->mine->elapsed_ns = dt_clock_now_ns() - start_ns;
    check(job, (unsigned char)!index);
    /* The other may still be reading our memory. */
    while (move == move_vm && dt_load_acquire(&job->peer->received) < job->count)
        sched_yield();
    exit(0);
}

static uint64_t number(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*end || !value) {
        fprintf(stderr, "bench-loops: '%s': expected a number above 0\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct side *sides = map(2 * sizeof *sides, MAP_SHARED);
    bool tcp = argc > 1 && !strcmp(argv[1], "tcp");
    int fds[2][2] = {{-1, -1}, {-1, -1}}; /* [direction][sending end, receiving end] */
    struct job job = {0};

    if (argc != 5 || (!tcp && strcmp(argv[1], "vm") != 0)) {
        fprintf(stderr, "usage: bench-loops tcp|vm BYTES WINDOW COUNT\n");
        return 2;
    }
    job = (struct job){.bytes = number(argv[2]), .window = number(argv[3]), .count = number(argv[4])};
    for (int direction = 0; tcp && direction < 2; direction++)
        connect_pair(&fds[direction][0], &fds[direction][1]);
    for (int index = 0; index < 2; index++) {
        job.mine = &sides[index];
        job.peer = &sides[!index];
        job.send_fd = fds[index][0];
        job.receive_fd = fds[!index][1];
        pid_t child = fork();
        if (child < 0)
            die("fork");
        if (!child)
            run_side(&job, index, tcp ? move_tcp : move_vm);
    }
    for (int index = 0, status; index < 2; index++) {
        if (wait(&status) < 0 || status)
            return 1; /* the other dies with us */
    }
    double seconds = (double)(sides[0].elapsed_ns + sides[1].elapsed_ns) / 2 / DT_NS_PER_S;
    printf("%.3f\n", (double)job.bytes * (double)job.count / seconds / 1e9);
    return 0;
}
