/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wgmma_sums.cuh - kernel H: from stages to the sums of a tile, by one consumer warpgroup.
 *
 *     group       wait full -> read codes and scales of the next part -> dequant its steps
 *     of steps    -> fence, wgmma, commit -> read the part after it -> wait until one group is left
 *                 the first such wait of a stage frees the stage before it
 *
 * Reading behind the commit hides the latency of shared memory and of the stage's arrival behind
 * the group that runs (M = 16: 13.5 us against 14.2, H200, u4 x bf16, N = K = 8192). A wgmma with A
 * in registers blocks its warp while it is issued, so what counts is that one warpgroup dequantizes
 * while the other one issues.
 *
 * Two-level accumulation (8-bit activations whose scales no operand takes in): sums of promote k
 * start anew on the tensor cores and are added, scaled, to fp32 ones.
 *
 * Tried there: the two warpgroups issuing in turns (bar.sync, bar.arrive, as CUTLASS orders its
 * math warpgroups), one chunk a turn: no faster (u4 x e4m3 in groups of 128, N = K = 8192:
 * M = 256 34.4 us without, 35.9 with; M = 4096 530 and 526).
 *
 * ptxas breaks a wgmma pipeline silently unless watched (C7511..C7520); what keeps it whole here:
 * "unroll 1" over stages, the parity of the operand buffers fixed at compile time, accumulators
 * started by scale-d = 0 instead of by zeroing, a loop over stages that runs at least once.
 */
#pragma once
#include "dequant.cuh"
#include "layout.cuh"
#include "pipeline.cuh"
#include "prelude.cuh"
#include "ptx.cuh"
#include "wgmma_roles.cuh"

#include "wgmma_shape.h" /* generated: accumulator, and wgmma_async of 64 rows by tile_tokens */

/* ---- consumers: pairs of warpgroups ---- */

enum {
    stage_steps = halves * steps_per_half,
    /* Scales that the operands take in, as opposed to those that meet sums in fp32. */
    folded = act_bits == 16 ? scale != scale_none : scale == scale_mx,
    /* One wgmma group for a whole chunk has one operand buffer; else the next group has its own. */
    n_buffers = stage_steps == steps ? 1 : 2,
    /* What a lane reads at a time: the codes of a stage, or of half of it where they are many. */
    fetch_halves =
        halves * words_per_half * n_slices <= 16 && tile_tokens * n_slices <= 256 ? halves : 1,
    /*
     * Codes that are the operand as they are cannot be read ahead: a register would be loaded again
     * while the wgmmas that took it from there still read it, and ptxas may not notice (wrong sums
     * from 64 tokens on). They are loaded step by step, into the buffer that is free.
     */
    direct = act_bits == 8 && weight_bits == 8,
    /* Two slices with small groups have no registers for scales that are read ahead. */
    late_terms = n_slices == 2 && group_k != 0 && group_k < 128,
    fetch_groups = group_k == 0 ? 1 : (fetch_halves == 2 ? groups_per_chunk : groups_per_half),
    /* k from one promotion to the next inside a stage. */
    promote_k = promote > 128 ? 128 : promote,
};
static_assert(stage_steps / steps % n_buffers == 0, "a stage begins with the first buffer");

struct consumer {
    u32 index, set, group; /* warpgroup of all; its set; 0 or 1 in it */
    u32 warp, lane;        /* warp 0..3 of the warpgroup */
    u32 codes;             /* where this lane reads in a stage, slice 0 */
    u32 scales, zeros;
    u32 tokens; /* of two scales of activations behind the scale of a multiple of 8 */
};

HM_DEV consumer make_consumer(u32 index) {
    const u32 lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3, group = index & 1;
    const u32 block = act_bytes + group * (n_slices * block_bytes);
    return {index, index >> 1, group, warp, lane, block + lane_codes(warp, lane),
        block + block_scales + lane_scales(warp, lane),
        block + block_zeros + lane_zeros(warp, lane), accumulator_token(lane, 0) * 4};
}

/* Sums of a warpgroup on the tensor cores, and what they add up to: the same, or fp32. */
using fragments = accumulator[n_slices][tile_tokens / 2];
template <int promoted> struct total_of { using type = float; };
template <> struct total_of<0> { using type = accumulator; };
using total = total_of<promote>::type;
using totals = total[n_slices][tile_tokens / 2];

/* Scales and zero points of a group for all slices, as loaded. */
struct fetched_terms {
    u32 scales[n_slices], zeros[n_slices];
};

/* group: counted in the stage. */
HM_DEV void fetch_terms(fetched_terms &f, const consumer &at, u32 stage, int group) {
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        const u32 scales = stage + i * block_bytes + at.scales + group * scale_line;
        const u32 zeros = stage + i * block_bytes + at.zeros + group * zero_line;
        if constexpr (folded)
            f.scales[i] = scale_size == 1 ? load_smem_u16(scales) : load_smem_u32(scales);
        if constexpr (zero != zero_none)
            f.zeros[i] = zero == zero_int ? load_smem_u16(zeros) : load_smem_u32(zeros);
    }
}

/* Codes of the next steps, and what belongs to their groups. */
struct fetched {
    u32 codes[fetch_halves][n_slices][words_per_half];
    fetched_terms groups[fetch_groups];
};

/* From `half` of the stage on. */
HM_DEV void fetch(fetched &f, const consumer &at, u32 stage, int half) {
    if constexpr (!late_terms)
#pragma unroll
        for (int g = 0; g < fetch_groups; g++)
            fetch_terms(f.groups[g], at, stage, first_group_of_half(half) + g);
#pragma unroll
    for (int i = 0; i < n_slices; i++)
#pragma unroll
        for (int part = 0; part < (direct ? 0 : fetch_halves * pieces); part++) {
            const uint4 v =
                load_smem_u128(stage + i * block_bytes + at.codes + half * half_code_bytes +
                               part / pieces * half_code_bytes + part % pieces * piece_bytes);
#pragma unroll
            for (int w = 0; w < 4; w++)
                f.codes[part / pieces][i][part % pieces * 4 + w] = word_of(v, w);
        }
}

struct consumer_state {
    u32 a[n_buffers][steps][n_slices][4]; /* operand A of the group in flight and of the next */
    dequant_terms terms[n_slices];
    fetched next;
};

/* Scales and zero points of a group into the terms of all slices. */
template <act_type T> HM_DEV void set_terms(consumer_state &state, const fetched_terms &group) {
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        const u32 bytes = group.scales[i];
        if constexpr (scale == scale_mx)
            set_tables(state.terms[i], bytes);
        else if constexpr (folded)
            fold_scales<T, zero>(state.terms[i],
                scale == scale_e8m0 ? exponent_pair<T>(bytes) : bytes);
        if constexpr (zero != zero_none)
            set_zero_points<T, zero>(state.terms[i], group.zeros[i]);
    }
}

/* The terms of the group that begins at step x, if one does. */
HM_DEV void begin_group(consumer_state &state, const consumer &at, u32 stage, int x) {
    const int half = x / steps_per_half, step = x % steps_per_half;
    if (group_k == 128 ? x != 0 : !step_starts_group(step))
        return;
    if constexpr (late_terms) {
        fetched_terms group;
        fetch_terms(group, at, stage, first_group_of_half(half) + group_of_step(step));
        set_terms<act>(state, group);
    } else {
        set_terms<act>(state,
            state.next.groups[half % fetch_halves * groups_per_half % fetch_groups +
                              group_of_step(step)]);
    }
}

/* Step x of a stage into operand A. */
HM_DEV void dequant(consumer_state &state, const consumer &at, u32 stage, int x) {
    const int half = x / steps_per_half, step = x % steps_per_half;
    begin_group(state, at, stage, x);
#pragma unroll
    for (int i = 0; i < n_slices; i++) {
        u32 *a = state.a[x / steps % n_buffers][x % steps][i];
        if constexpr (direct) {
            const uint4 v = load_smem_u128(
                stage + at.codes + i * block_bytes + half * half_code_bytes + step * piece_bytes);
            a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
        } else {
            dequant_step<act, weight, scale, zero>(state.next.codes[half % fetch_halves][i] +
                                                       step * words_per_step,
                state.terms[i], a);
        }
    }
}

/* The steps of a group, from x on. */
HM_DEV void dequant_group(consumer_state &state, const consumer &at, u32 stage, int x) {
#pragma unroll
    for (int e = 0; e < steps; e++)
        dequant(state, at, stage, x + e);
}

/* One group: `steps` steps of all slices. a: operand A; tokens: operand B of its first step. */
HM_DEV void issue_group(fragments &d, const u32 (&a)[steps][n_slices][4], u32 tokens, u32 before) {
    wgmma_fence(); /* operand A was written by ordinary code, the wgmmas below read it */
#pragma unroll
    for (int e = 0; e < steps; e++) {
        const u64 b = wgmma_descriptor(tokens + e * 32);
#pragma unroll
        for (int i = 0; i < n_slices; i++)
            wgmma_async(d[i], a[e][i], b, before | e); /* the first of a sum overwrites d */
    }
    wgmma_commit();
}

/* The set's next stage. */
HM_DEV void advance_set(ring_cursor &ring) {
    ring.slot += sets;
    if (ring.slot >= n_stages) {
        ring.slot -= n_stages;
        ring.phase ^= 1;
    }
}
HM_DEV u32 slot_before(u32 slot) { return slot < sets ? slot + n_stages - sets : slot - sets; }

/*
 * Give a stage back to the producer: every lane for what it has read itself. Tried one lane for its
 * warp: no faster (M = 64: 17.9 us against 17.6; M = 4096: 782 against 772, three runs side by
 * side), and racecheck cannot follow it; a __syncwarp before it breaks the wgmma pipeline (C7513).
 */
HM_DEV void release_stage(const problem &q, u32 slot) { mbarrier_arrive(q.empty + 8 * slot); }

/* The next stage of the set: wait for it, read its first part. */
HM_DEV void fetch_stage(fetched &f, const problem &q, const consumer &at, const ring_cursor &ring) {
    mbarrier_wait(q.full + 8 * ring.slot, ring.phase); /* pairs with produce, produce_scales */
    fetch(f, at, q.base + ring.slot * stage_bytes, 0);
}

/* Behind the last group of a part: read the next part, of this stage or, with more, the next. */
HM_DEV void fetch_behind(consumer_state &state, const problem &q, const consumer &at,
    ring_cursor &ring, int x, bool more) {
    if (x == stage_steps - 1) {
        advance_set(ring);
        if (more)
            fetch_stage(state.next, q, at, ring);
    } else if ((x + 1) % (fetch_halves * steps_per_half) == 0) {
        fetch(state.next, at, q.base + ring.slot * stage_bytes, (x + 1) / steps_per_half);
    }
}

/* One stage; s counts those of the sum before it. */
HM_DEV void consume_stage(fragments &d, consumer_state &state, const problem &q, const consumer &at,
    ring_cursor &ring, u32 s, bool more) {
    const u32 slot = ring.slot, stage = q.base + slot * stage_bytes;
#pragma unroll
    for (int x = 0; x < stage_steps; x++) {
        const int first = x - (steps - 1); /* of the group that ends at step x */
        if (n_buffers == 1 && x == 0) {
            wgmma_wait<0>(); /* the stage before is done with the buffer */
            if (s != 0)
                release_stage(q, slot_before(slot));
        }
        dequant(state, at, stage, x);
        if (x % steps != steps - 1)
            continue;
        issue_group(d, state.a[x / steps % n_buffers], stage + x / 4 * k_row_bytes + first % 4 * 32,
            s | first);
        fetch_behind(state, q, at, ring, x, more);
        if (n_buffers == 1)
            continue;
        wgmma_wait<1>(); /* the group before is done: its operands and its stage are free */
        if (first == 0 && s != 0)
            release_stage(q, slot_before(slot));
    }
}

/* Stages of this set among n: all of them, or every sets-th. */
HM_DEV u32 stages_of_set(const consumer &at, u32 n) {
    return sets == 1 ? n : (n + sets - 1 - at.set) / sets;
}

/*
 * The sums of n stages, those of one set. Defines d by the first wgmma (scale-d = 0); a set without
 * a stage leaves it undefined. The last stage is not yet given back.
 */
HM_DEV void consume(fragments &d, const problem &q, const consumer &at, ring_cursor &ring, u32 n) {
    const u32 mine = stages_of_set(at, n);
    if (sets > 1 && mine == 0)
        return;
    consumer_state state;
#pragma unroll
    for (int i = 0; i < n_slices; i++)
        state.terms[i] = unit_terms<act>();
    fetch_stage(state.next, q, at, ring);
#pragma unroll 1
    for (u32 s = 0;;) { /* at least one: or ptxas sees sums read that no wgmma made (C7514) */
        consume_stage(d, state, q, at, ring, s, s + 1 < mine);
        if (++s >= mine)
            break;
    }
    wgmma_wait<0>();
}

/* ---- sums that move to fp32 (two-level accumulation) ---- */

/*
 * A sum of at most 128 products as a float, exactly: integers lie below 2^22 then, and 1.5 * 2^23
 * plus such a number is a float whose low bits are that number; two additions instead of a
 * conversion, which has an eighth of their rate.
 */
template <class T> HM_DEV float promoted(T sum) {
    if constexpr (act == act_s8)
        return float_of_bits(0x4b400000u + sum) - 12582912.0f;
    else
        return sum;
}

/* f += scale of the row * scale of the token * d. stage: where the latter are, with groups. */
HM_DEV void promote_sums(totals &f, const fragments &d, const scale_pair (&rows)[n_slices],
    const consumer &at, u32 stage) {
#pragma unroll
    for (int c = 0; c < tile_tokens / 8; c++) {
        float tokens[2] = {1.0f, 1.0f};
        if constexpr (act_scale == act_scale_group)
            load_smem_f32x2(tokens, stage + stage_scales + at.tokens + c * 32);
#pragma unroll
        for (int i = 0; i < n_slices; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f[i][4 * c + e] = fma1(promoted(d[i][4 * c + e]) * tokens[e & 1],
                    e < 2 ? rows[i].even : rows[i].odd, f[i][4 * c + e]);
    }
}

/* Scales of the rows for the sums that end with step x; ones where there are none. */
HM_DEV void load_rows(scale_pair (&rows)[n_slices], const consumer &at, u32 stage, int x) {
    constexpr scale_type type = folded ? scale_none : scale;
    const u32 line = type == scale_none ? 0 : x * 32 / (group_k + (group_k == 0)) * scale_line;
#pragma unroll
    for (int i = 0; i < n_slices; i++)
        rows[i] = load_scales<type>(stage + i * block_bytes + at.scales + line);
}

/* Operands are made a group ahead, so that between two sums only their promotion is left. With more
 * than one promotion in a stage wide tiles would spill. */
enum { dequants_ahead = promote_k == 128 };

/* One stage, promoted one or more times; it is given back at its end. */
template <class T>
HM_DEV void consume_promoted(T &f, fragments &d, consumer_state &state, const problem &q,
    const consumer &at, ring_cursor &ring, bool more) {
    const u32 slot = ring.slot, stage = q.base + slot * stage_bytes;
#pragma unroll
    for (int x = steps - 1; x < stage_steps; x += steps) {
        const int first = x - (steps - 1);
        const bool ends = (x + 1) * 32 % promote_k == 0, last = x == stage_steps - 1;
        if (!dequants_ahead)
            dequant_group(state, at, stage, first);
        issue_group(d, state.a[x / steps % n_buffers], stage + first * 32, first * 32 % promote_k);
        scale_pair rows[n_slices];
        if (ends)
            load_rows(rows, at, stage, x);
        fetch_behind(state, q, at, ring, x, more);
        wgmma_wait<n_buffers - 1>(); /* the next buffer is free */
        if (dequants_ahead && (!last || more))
            dequant_group(state, at, last ? q.base + ring.slot * stage_bytes : stage,
                last ? 0 : x + 1);
        if (!ends)
            continue;
        wgmma_wait<0>();
        if (last && act_scale != act_scale_group)
            release_stage(q, slot);
        promote_sums(f, d, rows, at, stage);
        if (last && act_scale == act_scale_group)
            release_stage(q, slot);
    }
}

/* The sums of n stages in fp32: every stage, or four of them, are a sum of their own. */
template <class T>
HM_DEV void consume_in_parts(T &f, const problem &q, const consumer &at, ring_cursor &ring, u32 n) {
    fragments d;
#pragma unroll
    for (int i = 0; i < n_slices; i++)
#pragma unroll
        for (int e = 0; e < tile_tokens / 2; e++)
            f[i][e] = 0.0f;
    if constexpr (promote > 128) {
        const u32 most = sets * promote / 128;
        scale_pair rows[n_slices];
        load_rows(rows, at, 0, 0); /* ones */
#pragma unroll 1
        for (u32 s = 0; s < n; s += most) {
            const u32 count = smaller(most, n - s);
            if (sets > 1 && stages_of_set(at, count) == 0)
                break;
            consume(d, q, at, ring, count);
            release_stage(q, slot_before(ring.slot));
            promote_sums(f, d, rows, at, 0);
        }
    } else {
        const u32 mine = stages_of_set(at, n);
        consumer_state state;
#pragma unroll
        for (int i = 0; i < n_slices; i++)
            state.terms[i] = unit_terms<act>();
        if (sets == 1 || mine != 0) {
            fetch_stage(state.next, q, at, ring);
            if (dequants_ahead)
                dequant_group(state, at, q.base + ring.slot * stage_bytes, 0);
        }
#pragma unroll 1
        for (u32 s = 0; s < mine; s++)
            consume_promoted(f, d, state, q, at, ring, s + 1 < mine);
    }
}

/* The sums of n stages of a tile; all stages are given back. A template, so that each way is looked
 * at only where its types fit. */
template <class T>
HM_DEV void sum_stages(T &d, const problem &q, const consumer &at, ring_cursor &ring, u32 n) {
    if constexpr (promote != 0) {
        consume_in_parts(d, q, at, ring, n);
    } else {
        consume(d, q, at, ring, n);
        if constexpr (split_k == 0) /* there is no other tile otherwise */
            release_stage(q, slot_before(ring.slot));
    }
}
