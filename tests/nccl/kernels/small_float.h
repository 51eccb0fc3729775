/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point formats of 16 and 8 bits in terms of float: IEEE 754 binary16, bfloat16, and the 8-bit
 * formats E4M3 and E5M2 of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022, section 3). Encoding
 * rounds to nearest even; E4M3 has no infinity, and overflow saturates in both 8-bit formats, as NCCL's
 * conversions ask for.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_SMALL_FLOAT_H
#define DETOUR_TESTS_NCCL_KERNELS_SMALL_FLOAT_H

#include <stdint.h>

float nh_from_float16(uint16_t bits);
uint16_t nh_to_float16(float value);
float nh_from_bfloat16(uint16_t bits);
uint16_t nh_to_bfloat16(float value);
float nh_from_e4m3(uint8_t bits);
uint8_t nh_to_e4m3(float value);
float nh_from_e5m2(uint8_t bits);
uint8_t nh_to_e5m2(float value);

#endif
