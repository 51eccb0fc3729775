/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of hostpath_test.cc, with the plugin loaded as NCCL does:
 *
 *   hostpath_rank PLUGIN send      reads a handle from fd 0, connects, stages one message, waits until NCCL
 * would have its buffer back, writes 's', overwrites the buffer, closes, writes 'c' and ends by exit()
 *   hostpath_rank PLUGIN hold      the same without closing
 *   hostpath_rank PLUGIN receive   writes a handle to fd 1, accepts, and never receives anything
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/nccl_net_v8.h"

#define MESSAGE_BYTES 100000 /* large enough for a delegate */

static const ncclNet_v8_t *net;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "hostpath_rank: %s\n", what);
    exit(1);
}

static void say(char c)
{
    check(write(1, &c, 1) == 1, "write");
}

static void *connect_to(const char *handle)
{
    char copy[NCCL_NET_HANDLE_MAXSIZE];
    void *comm = NULL;

    memcpy(copy, handle, sizeof copy);
    while (!comm)
        check(net->connect(0, copy, &comm, NULL) == ncclSuccess, "connect");
    return comm;
}

static void *stage(void *comm, char *data, void *mhandle)
{
    void *request = NULL;

    while (!request)
        check(net->isend(comm, data, MESSAGE_BYTES, 7, mhandle, &request) == ncclSuccess, "isend");
    return request;
}

static void send_one(int closes)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE], *data = malloc(MESSAGE_BYTES);
    void *comm, *mhandle, *request;
    int done = 0;

    check(data && read(0, handle, sizeof handle) == sizeof handle, "no handle");
    comm = connect_to(handle);
    check(net->regMr(comm, data, MESSAGE_BYTES, NCCL_PTR_HOST, &mhandle) == ncclSuccess, "regMr");
    for (int i = 0; i < MESSAGE_BYTES; i++)
        data[i] = (char)(i * 31 + i / 256);
    request = stage(comm, data, mhandle);
    while (!done)
        check(net->test(request, &done, NULL) == ncclSuccess, "test");
    say('s');
    memset(data, 0xdd, MESSAGE_BYTES);
    check(net->deregMr(comm, mhandle) == ncclSuccess, "deregMr");
    free(data);
    if (closes)
        check(net->closeSend(comm) == ncclSuccess, "closeSend");
    say('c');
}

static void receive_nothing(void)
{
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen_comm, *comm = NULL;

    check(net->listen(0, handle, &listen_comm) == ncclSuccess, "listen");
    check(write(1, handle, sizeof handle) == sizeof handle, "write");
    while (!comm)
        check(net->accept(listen_comm, &comm, NULL) == ncclSuccess, "accept");
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;

    check(library != NULL, "hostpath_rank PLUGIN send|hold|receive");
    net = dlsym(library, "ncclNetPlugin_v8");
    check(net && net->init(NULL) == ncclSuccess, "init");
    if (strcmp(argv[2], "receive") == 0)
        receive_nothing();
    send_one(strcmp(argv[2], "send") == 0);
    exit(0);
}
