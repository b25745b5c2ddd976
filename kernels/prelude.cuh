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
 *   step      the k that one tensor core instruction takes: 32 bytes, 16 or 32 values
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
static_assert(HM_KERNEL_ABI == 2, "these sources implement parameter block 2");

/* The values that config.h uses, and last the one it chose. */
enum act_type {
    act_bf16 = 0,
    act_f16 = 1,
    act_e4m3 = 2,
    act_e5m2 = 3,
    act_s8 = 4,
    act = HM_ACT, /* of the activations; of what quant.cu makes */
#if HM_FAMILY != 4
    output = HM_OUT, /* of C; of what quant.cu reads */
#endif
};
static_assert(act <= act_s8, "activations are bf16, f16, e4m3, e5m2 or s8");

enum {
    act_bits = act <= act_f16 ? 16 : 8,
    n_threads = HM_THREADS,
};

#if HM_FAMILY != 5 /* what the format of packed weights is made of */
static_assert(HM_PACK_LAYOUT == 1, "these sources read pack layout 1");

enum weight_type {
    weight_u4 = 0,
    weight_u8 = 1,
    weight_e2m1 = 2,
    weight_e4m3 = 3,
    weight = HM_WEIGHT
};
/* none: channel scales, in rowmul. mx: exponents folded into e4m3 operands. */
enum scale_type {
    scale_none = 0,
    scale_bf16 = 1,
    scale_f16 = 2,
    scale_f32 = 3,
    scale_e8m0 = 4,
    scale_mx = 5,
    scale = HM_SCALE
};
enum zero_mode { zero_none = 0, zero_int = 1, zero_float = 2, zero = HM_ZERO };

enum {
    group_k = HM_GROUP,
    chunk_bytes = HM_CHUNK_BYTES,
    weight_bits = weight == weight_u4 || weight == weight_e2m1 ? 4 : 8,
};

static_assert(weight <= weight_e4m3, "weights are u4, u8, e2m1 or e4m3");
static_assert(act_bits == 16 || (act == act_s8) == (weight <= weight_u8) || weight == weight_u4,
    "8-bit operands are integers on both sides or floats on both; u4 fits either");
static_assert(scale <= scale_mx && (scale == scale_none) == (group_k == 0),
    "a known type of scales, and groups exactly where there are such scales");
static_assert(act_bits == 8 || scale == scale_none || scale == scale_e8m0 ||
                  scale == (act == act_bf16 ? scale_bf16 : scale_f16),
    "scales that are folded into 16-bit operands have their type, or are powers of two");
static_assert(scale != scale_mx || (group_k == 32 && weight == weight_e2m1 && act_bits == 8),
    "a table of e2m1 magnitudes for every 32 k");
static_assert(zero >= zero_none && zero <= zero_float, "no such zero point mode");
static_assert(group_k == 0 || group_k == 32 || group_k == 64 || group_k == 128,
    "a scale covers 32, 64 or 128 weights along K, or a whole row");
static_assert(zero == zero_none || (group_k != 0 && weight == weight_u4 && act_bits == 16),
    "zero points come with groups of u4 and 16-bit activations only");
#endif

#if HM_FAMILY != 4
/* The scales of 8-bit activations: per token (or all one), per token and 128 k. */
enum act_scale_mode {
    act_scale_none = 0,
    act_scale_token = 1,
    act_scale_group = 2,
    act_scale = HM_ACT_SCALE
};
static_assert(output <= act_f16, "the output is bf16 or f16");
static_assert((act_bits == 8) == (act_scale != act_scale_none), "8-bit activations have scales");
static_assert(act_bits == 8 || output == act, "16-bit activations give their own type");
#endif

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
    steps = HM_STEPS,   /* 32-byte k steps in one committed wgmma group */
    split_k = HM_SPLIT_K,
    promote = HM_PROMOTE, /* k between additions to fp32 sums; 0 = none */
    stage_bytes = HM_STAGE_BYTES,
};
static_assert(n_threads == 384 || (n_threads == 640 && split_k && n_stages % 2 == 0),
    "two consumer warpgroups, or four that take stages in turn, and one producer warpgroup");
static_assert(tile_tokens % 8 == 0 && tile_tokens >= 8 && tile_tokens <= 256,
    "wgmma takes 8 to 256 columns in steps of 8");
static_assert(split_k == 0 || split_k == 1, "split_k is a flag");
static_assert(!split_k || tile_tokens % 16 == 0, "the cluster sum works on 16 tokens at a time");
static_assert(n_slices == 1 || n_slices == 2, "a warpgroup owns 64 or 128 weight rows");
static_assert(tile_tokens * n_slices <= (promote == 0 ? (n_slices == 1 ? 256 : 336) : 192),
    "more accumulators than registers (C7512)");
static_assert(act != act_s8 || tile_tokens <= 32 || tile_tokens % 16 == 0,
    "integer wgmma takes more than 32 columns in steps of 16");
static_assert(act_bits == 16 || halves == 2, "128 bytes of 8-bit activations are a whole chunk");
static_assert(promote == 0 || promote == 32 || promote == 64 || promote == 128 || promote == 512,
    "sums move to fp32 inside a chunk, at its end or after four chunks");
static_assert(act_bits == 8 || promote == 0, "16-bit operands take all scales in");
static_assert(act_bits == 16 || scale == scale_none || scale == scale_mx || promote == group_k,
    "scales outside the operands are applied where a group ends");
static_assert(act_scale != act_scale_group || (promote != 0 && promote <= 128),
    "activation scales of 128 k are applied at least as often");
static_assert(promote == 0 || steps * 32 <= promote, "a wgmma group ends where its sums do");
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
static_assert(act_bits == 16 && weight == weight_u4 && scale != scale_e8m0,
    "kernel G multiplies u4 by 16-bit activations");
static_assert(warps_n * warps_m * warps_k * 32 == n_threads, "every warp has one place");
static_assert(tile_rows % 64 == 0 && tile_rows % (16 * warps_n) == 0,
    "rows come in chunks of 64 and are given to warps 16 at a time");
static_assert(tile_tokens % (8 * warps_m) == 0, "tokens are given to warps 8 at a time");
static_assert(n_stages >= 2, "a ring needs two stages");
#elif HM_FAMILY == 4
static_assert(n_threads == 256, "pack.cu gives every thread 16 bytes of codes");
#elif HM_FAMILY == 5
enum epilogue_mode { epi_none = 0, epi_silu_mul = 1, epi = HM_EPI };
static_assert(act_bits == 8, "quant.cu makes 8-bit values");
static_assert(epi <= epi_silu_mul, "silu-mul or nothing comes before quantization");
#else
#error "config.h names no family that these sources implement"
#endif

/* CUtensorMap by value; made by the host, read by the tensor copies only. */
struct __attribute__((aligned(64))) tensor_map {
    u64 words[16];
};

/*
 * The one parameter of every GEMM entry, ABI 2. client/gemm_params.h holds the same struct for the
 * host; both assert every offset. A field that a family does not use is zero.
 *
 * Rules the host keeps: N % 8 == 0, ldc % 8 == 0; K and lda are multiples of 16 bytes; w, a, c,
 * rowmul, bias and a_scale are 16-byte aligned; rowmul and bias hold N rounded up to 64 floats.
 */
struct __attribute__((aligned(64))) gemm_params {
    tensor_map a_map;    /* H: activations {K, M}, box {128 bytes, tile_tokens}, 128-byte swizzle */
    tensor_map c_map;    /* H: output {N, M}, box {64, tile_tokens}, 128-byte swizzle */
    const void *w;       /* packed chunks [N/64][K/128] */
    const void *a;       /* [M][lda] of the activation type */
    void *c;             /* [M][ldc] of the output type */
    const float *rowmul; /* of each row: P[n] or s[n] over the operands' factor (dequant.cuh) */
    const float *bias;   /* NULL = none */
    void *workspace;     /* H with split_tiles: 4096 bytes of flags, then a tile of fp32 per CTA */
    u32 m, n, k;         /* true sizes */
    u32 lda, ldc;        /* elements from one token to the next */
    u32 band;            /* H, persistent: n tiles per band, >= 1 (scheduler.cuh) */
    u32 prefetch;        /* H: stages whose weights are requested before the grid dependency */
    u32 row_groups;      /* S: most 64-row groups that one CTA owns */
    u32 weight_policy;   /* H: L2 policy of the weight copies, 0 normal, 1 evict first */
    u32 a_scale_step;    /* floats from one token's scale to the next; 0 = one for all */
    const float *a_scale;   /* of 8-bit activations */
    u32 a_scale_group_step; /* floats from one 128 k to the next */
    u32 split_tiles;        /* H: that many last tiles are shared by all CTAs along K; 0 = none */
    u32 reserved[6];
};
static_assert(sizeof(tensor_map) == 128 && sizeof(gemm_params) == 384, "ABI 2 is 384 bytes");
#ifndef __CUDACC__ /* NVRTC has no offsetof; a host test compiles these lines */
static_assert(__builtin_offsetof(gemm_params, c_map) == 128, "ABI 2: c_map");
static_assert(__builtin_offsetof(gemm_params, w) == 256, "ABI 2: w");
static_assert(__builtin_offsetof(gemm_params, a) == 264, "ABI 2: a");
static_assert(__builtin_offsetof(gemm_params, c) == 272, "ABI 2: c");
static_assert(__builtin_offsetof(gemm_params, rowmul) == 280, "ABI 2: rowmul");
static_assert(__builtin_offsetof(gemm_params, bias) == 288, "ABI 2: bias");
static_assert(__builtin_offsetof(gemm_params, workspace) == 296, "ABI 2: workspace");
static_assert(__builtin_offsetof(gemm_params, m) == 304, "ABI 2: m");
static_assert(__builtin_offsetof(gemm_params, n) == 308, "ABI 2: n");
static_assert(__builtin_offsetof(gemm_params, k) == 312, "ABI 2: k");
static_assert(__builtin_offsetof(gemm_params, lda) == 316, "ABI 2: lda");
static_assert(__builtin_offsetof(gemm_params, ldc) == 320, "ABI 2: ldc");
static_assert(__builtin_offsetof(gemm_params, band) == 324, "ABI 2: band");
static_assert(__builtin_offsetof(gemm_params, prefetch) == 328, "ABI 2: prefetch");
static_assert(__builtin_offsetof(gemm_params, row_groups) == 332, "ABI 2: row_groups");
static_assert(__builtin_offsetof(gemm_params, weight_policy) == 336, "ABI 2: weight_policy");
static_assert(__builtin_offsetof(gemm_params, a_scale_step) == 340, "ABI 2: a_scale_step");
static_assert(__builtin_offsetof(gemm_params, a_scale) == 344, "ABI 2: a_scale");
static_assert(__builtin_offsetof(gemm_params, a_scale_group_step) == 352,
    "ABI 2: a_scale_group_step");
static_assert(__builtin_offsetof(gemm_params, split_tiles) == 356, "ABI 2: split_tiles");
static_assert(__builtin_offsetof(gemm_params, reserved) == 360, "ABI 2: reserved");
#endif

/* Names of the two operands of a plain minimum, so that host and device compile the same text. */
HM_DEV constexpr u32 smaller(u32 a, u32 b) { return a < b ? a : b; }
HM_DEV constexpr u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }
