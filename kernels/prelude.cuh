/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prelude.cuh - integer names, the configuration as constants, the parameter block.
 *
 * config.h is written by jit/emit.c; every HM_* macro of it becomes one enumerator here and is
 * checked here. After this file nobody reads a macro. No other header exists for a kernel: NVRTC
 * runs with a closed world and knows no <...> includes.
 *
 * Symbols used in all kernels
 *   M, N, K   problem: C[M][N] = A[M][K] * W[N][K]^T; tokens, weight rows, reduction
 *   g, t      lane / 4 and lane % 4, the fragment coordinates of the PTX ISA
 *   group_k   weights along K that share one scale; 0 = one scale per row ("channel")
 *   chunk     64 weight rows by 128 k, the unit in which weights are packed (layout.cuh)
 */
#pragma once
#include "config.h"

#ifdef __CUDACC__
#define HM_DEV static __device__ __forceinline__
#else
#define HM_DEV static inline
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/*
 * Constants are enumerators, not constexpr variables: NVRTC 13.0 stores every namespace-scope
 * constexpr variable in the cubin with a symbol and a relocation, about 5 KB for this family.
 */
#ifdef __CUDA_ARCH__
enum { device_arch = __CUDA_ARCH__ }; /* 800, 900, ...; the letters a and f do not show */
#else
enum { device_arch = 0 }; /* host: the tests that run index maths on a CPU */
#endif

/* One truth, two witnesses: the numbers the sources implement against those config.h claims. */
static_assert(HM_KERNEL_ABI == 1, "these sources implement parameter block 1");
static_assert(HM_PACK_LAYOUT == 1, "these sources read pack layout 1");

/* The values that config.h uses, and last the one it chose. */
enum act_type { act_bf16 = 0, act_f16 = 1, act = HM_ACT };
enum zero_mode { zero_none = 0, zero_int = 1, zero_float = 2, zero = HM_ZERO };

enum {
    group_k = HM_GROUP,
    chunk_bytes = HM_CHUNK_BYTES,
    n_threads = HM_THREADS,
};

static_assert(act == act_bf16 || act == act_f16, "activations are bf16 or f16");
static_assert(zero >= zero_none && zero <= zero_float, "no such zero point mode");
static_assert(group_k == 0 || group_k == 32 || group_k == 64 || group_k == 128,
    "a scale covers 32, 64 or 128 weights along K, or a whole row");
static_assert(zero == zero_none || group_k != 0, "zero points come with groups only");

#if HM_FAMILY == 1
enum {
    token_tiles = HM_TOKEN_TILES, /* tiles of 8 tokens; M <= 8 * token_tiles */
    ring_depth = HM_RING,         /* chunks in flight per warp */
    n_warps = HM_WARPS,
    warps_k = HM_WARPS_K, /* warps that share 64 rows and split K */
    ctas_per_sm = HM_CTAS_PER_SM,
};
static_assert(token_tiles == 1 || token_tiles == 2, "8 or 16 tokens; kernel H wins above");
static_assert(ring_depth >= 1 && ring_depth <= 8, "a warp keeps 1 to 8 chunks in flight");
static_assert(n_warps % 4 == 0 && n_warps * 32 == n_threads, "whole warps, four at a time");
static_assert(n_warps % warps_k == 0, "the warps of a CTA form whole sets");
static_assert(warps_k == 1 || n_warps / warps_k <= 4, "sets meet at named barriers 1 to 4");
#elif HM_FAMILY == 2
enum {
    tile_tokens = HM_TILE_TOKENS, /* n of the wgmma */
    n_slices = HM_SLICES,         /* m64 slices of a warpgroup */
    n_stages = HM_STAGES,
    halves = HM_HALVES, /* 64-k halves of a chunk in one stage */
    steps = HM_STEPS,   /* k16 steps in one committed wgmma group */
    split_k = HM_SPLIT_K,
    stage_bytes = HM_STAGE_BYTES,
};
static_assert(n_threads == 384, "two consumer warpgroups and one producer warpgroup");
static_assert(tile_tokens % 8 == 0 && tile_tokens >= 8 && tile_tokens <= 256,
    "wgmma takes 8 to 256 columns in steps of 8");
static_assert(split_k == 0 || split_k == 1, "split_k is a flag");
static_assert(!split_k || tile_tokens % 16 == 0, "the cluster sum works on 16 tokens at a time");
static_assert(n_slices == 1 || n_slices == 2, "a warpgroup owns 64 or 128 weight rows");
static_assert(n_slices == 1 || tile_tokens <= 168, "more accumulators than registers (C7512)");
static_assert(halves == 1 || halves == 2, "a stage is half a chunk or a chunk deep");
static_assert(steps == 1 || steps == 2 || (steps == 4 && halves == 2),
    "four steps in one group need both halves of a chunk in the stage");
static_assert(n_stages >= 2, "a ring needs two stages");
#elif HM_FAMILY == 3
enum {
    tile_tokens = HM_TILE_TOKENS,
    tile_rows = HM_TILE_ROWS,
    n_stages = HM_STAGES,
    warps_n = HM_WARPS_N, /* along the weight rows */
    warps_m = HM_WARPS_M, /* along the tokens */
    warps_k = HM_WARPS_K, /* along K, 64 k of each stage per warp */
    stage_bytes = HM_STAGE_BYTES,
};
static_assert(warps_n * warps_m * warps_k * 32 == n_threads, "every warp has one place");
static_assert(tile_rows % 64 == 0 && tile_rows % (16 * warps_n) == 0,
    "rows come in chunks of 64 and are given to warps 16 at a time");
static_assert(tile_tokens % (8 * warps_m) == 0, "tokens are given to warps 8 at a time");
static_assert(n_stages >= 2, "a ring needs two stages");
#elif HM_FAMILY == 4
static_assert(n_threads == 256, "pack.cu gives every thread 16 bytes of codes");
#else
#error "config.h names no family that these sources implement"
#endif

/* CUtensorMap by value; made by the host, read by the tensor copies only. */
struct __attribute__((aligned(64))) tensor_map {
    u64 words[16];
};

/*
 * The one parameter of every GEMM entry, ABI 1. client/gemm_params.h holds the same struct for the
 * host; both assert every offset. A field that a family does not use is zero.
 *
 * Rules the host keeps: N % 8 == 0, K % 8 == 0, lda % 8 == 0, ldc % 8 == 0; w, a, c, rowmul and
 * bias are 16-byte aligned; rowmul and bias hold N rounded up to 64 floats.
 */
struct __attribute__((aligned(64))) gemm_params {
    tensor_map a_map;    /* H: activations {K, M}, box {64, tile_tokens}, 128-byte swizzle */
    tensor_map c_map;    /* H: output {N, M}, box {64, tile_tokens}, 128-byte swizzle */
    const void *w;       /* packed chunks [N/64][K/128] */
    const void *a;       /* [M][lda] of the activation type */
    void *c;             /* [M][ldc] of the activation type */
    const float *rowmul; /* factor of each row: 2^6 * P[n], or 2^6 * s[n] (dequant.cuh) */
    const float *bias;   /* NULL = none */
    void *workspace;     /* unused in ABI 1 */
    u32 m, n, k;         /* true sizes */
    u32 lda, ldc;        /* elements from one token to the next */
    u32 band;            /* H, persistent: n tiles per band, >= 1 (scheduler.cuh) */
    u32 prefetch;        /* H: stages whose weights are requested before the grid dependency */
    u32 row_groups;      /* S: most 64-row groups that one CTA owns */
    u32 weight_policy;   /* H: L2 policy of the weight copies, 0 normal, 1 evict first */
    u32 reserved[11];
};
static_assert(sizeof(tensor_map) == 128 && sizeof(gemm_params) == 384, "ABI 1 is 384 bytes");
#ifndef __CUDACC__ /* NVRTC has no offsetof; a host test compiles these lines */
static_assert(__builtin_offsetof(gemm_params, c_map) == 128, "ABI 1: c_map");
static_assert(__builtin_offsetof(gemm_params, w) == 256, "ABI 1: w");
static_assert(__builtin_offsetof(gemm_params, a) == 264, "ABI 1: a");
static_assert(__builtin_offsetof(gemm_params, c) == 272, "ABI 1: c");
static_assert(__builtin_offsetof(gemm_params, rowmul) == 280, "ABI 1: rowmul");
static_assert(__builtin_offsetof(gemm_params, bias) == 288, "ABI 1: bias");
static_assert(__builtin_offsetof(gemm_params, workspace) == 296, "ABI 1: workspace");
static_assert(__builtin_offsetof(gemm_params, m) == 304, "ABI 1: m");
static_assert(__builtin_offsetof(gemm_params, n) == 308, "ABI 1: n");
static_assert(__builtin_offsetof(gemm_params, k) == 312, "ABI 1: k");
static_assert(__builtin_offsetof(gemm_params, lda) == 316, "ABI 1: lda");
static_assert(__builtin_offsetof(gemm_params, ldc) == 320, "ABI 1: ldc");
static_assert(__builtin_offsetof(gemm_params, band) == 324, "ABI 1: band");
static_assert(__builtin_offsetof(gemm_params, prefetch) == 328, "ABI 1: prefetch");
static_assert(__builtin_offsetof(gemm_params, row_groups) == 332, "ABI 1: row_groups");
static_assert(__builtin_offsetof(gemm_params, weight_policy) == 336, "ABI 1: weight_policy");
#endif

/* Names of the two operands of a plain minimum, so that host and device compile the same text. */
HM_DEV constexpr u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
HM_DEV constexpr u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }
