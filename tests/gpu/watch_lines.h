/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_lines(lines, count, &seen, &wrong): thread i waits, for a second or so, until the last 8-byte word of
 * line i (128 bytes) is not zero; then it counts the line in `seen`, and in `wrong` if another word of it is
 * not all ones. PTX, which every driver compiles, so that the test needs no CUDA compiler.
 */
#ifndef DETOUR_TESTS_GPU_WATCH_LINES_H
#define DETOUR_TESTS_GPU_WATCH_LINES_H

static const char kWatchLines[] = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry watch_lines(.param .u64 lines, .param .u32 count, .param .u64 seen, .param .u64 wrong)
{
    .reg .pred %p<6>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<12>;

    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [count];
    setp.ge.u32 %p0, %r3, %r4;
    @%p0 bra DONE;
    ld.param.u64 %rd0, [lines];
    mul.wide.u32 %rd1, %r3, 128;
    add.u64 %rd2, %rd0, %rd1;
    mov.u32 %r5, 0;
POLL:
    ld.volatile.global.u64 %rd3, [%rd2+120];
    setp.ne.u64 %p1, %rd3, 0;
    @%p1 bra SEEN;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 2000000;
    @%p2 bra POLL;
    bra DONE;
SEEN:
    ld.param.u64 %rd4, [seen];
    red.global.add.u32 [%rd4], 1;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
WORD:
    mul.wide.u32 %rd5, %r6, 8;
    add.u64 %rd6, %rd2, %rd5;
    ld.volatile.global.u64 %rd7, [%rd6];
    setp.ne.u64 %p3, %rd7, -1;
    @%p3 mov.u32 %r7, 1;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p4, %r6, 15;
    @%p4 bra WORD;
    setp.eq.u32 %p5, %r7, 0;
    @%p5 bra DONE;
    ld.param.u64 %rd8, [wrong];
    red.global.add.u32 [%rd8], 1;
DONE:
    ret;
}
)";

#endif
