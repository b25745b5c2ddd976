/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.cuh - one instruction per function.
 *
 * Each comment gives the PTX name, the least architecture where it is above sm_80, who executes
 * it, and what it orders. Addresses named smem are 32-bit shared-window addresses. The pure
 * functions have stand-ins in tests/kernels/host/ptx_host.h, written in plain arithmetic, so that
 * the tests can run the maths of dequant.cuh and epilogue.cuh on a CPU.
 *
 * Source: PTX ISA 9.0, chapters "Parallel Synchronization and Communication Instructions",
 * "Data Movement and Conversion Instructions", "Warp Level Matrix Instructions" and
 * "Asynchronous Warpgroup Level Matrix Instructions".
 */
#pragma once
#include "prelude.cuh"

#ifdef __CUDACC__

/* ---- arithmetic: pure, any thread ---- */

/* fma.rn.{bf16x2,f16x2}: two fused multiply-adds, subnormals kept, one rounding each. */
template <act_type T> HM_DEV u32 fma2(u32 a, u32 b, u32 c) {
    u32 d;
    if constexpr (T == act_bf16)
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    else
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* fma.rn.f32 */
HM_DEV float fma1(float a, float b, float c) { return __fmaf_rn(a, b, c); }

/* cvt.rn.{bf16x2,f16x2}.f32: two floats to one register, low half first. */
template <act_type T> HM_DEV u32 pack2(float low, float high) {
    u32 d; /* the first source of cvt is the HIGH half */
    if constexpr (T == act_bf16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

/* The two halves of a register as floats: a shift for bf16, cvt.f32.f16 for f16. */
template <act_type T> HM_DEV float low_half(u32 pair) {
    if constexpr (T == act_bf16)
        return __uint_as_float(pair << 16);
    float f;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(f) : "r"(pair));
    return f;
}
template <act_type T> HM_DEV float high_half(u32 pair) {
    if constexpr (T == act_bf16)
        return __uint_as_float(pair & 0xffff0000u);
    float f;
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(pair));
    return f;
}

/* prmt.b32: byte i of the result is byte (selector >> 4i) & 7 of {b, a}. Bit 3 stays clear. */
HM_DEV u32 permute_bytes(u32 a, u32 b, u32 selector) {
    u32 d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selector));
    return d;
}

/* cvt.rn.f16x2.{e4m3x2,e5m2x2} (sm_89): the two low, or the two high, bytes of a word, exactly. */
template <act_type T> HM_DEV u32 widen_low(u32 bytes) {
    u32 d;
    if constexpr (T == act_e4m3)
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, l;}"
            : "=r"(d)
            : "r"(bytes));
    else
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e5m2x2 %0, l;}"
            : "=r"(d)
            : "r"(bytes));
    return d;
}
template <act_type T> HM_DEV u32 widen_high(u32 bytes) {
    u32 d;
    if constexpr (T == act_e4m3)
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e4m3x2 %0, h;}"
            : "=r"(d)
            : "r"(bytes));
    else
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.rn.f16x2.e5m2x2 %0, h;}"
            : "=r"(d)
            : "r"(bytes));
    return d;
}

HM_DEV float float_of_bits(u32 bits) { return __uint_as_float(bits); }
HM_DEV u32 bits_of(float value) { return __float_as_uint(value); }
HM_DEV u32 bits_of(int value) { return (u32)value; }
/* sum += what bits_of made bits of. */
HM_DEV void add_bits(float &sum, u32 bits) { sum += float_of_bits(bits); }
HM_DEV void add_bits(int &sum, u32 bits) { sum += (int)bits; }

/* lop3.b32: (a & mask) | bits. Written out, as two constants make the compiler use two. */
HM_DEV u32 and_or(u32 a, u32 mask, u32 bits) {
    u32 d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
    return d;
}

/* shf.r.wrap.b32 with both inputs equal. */
HM_DEV u32 rotate_right(u32 a, u32 bits) { return __funnelshift_r(a, a, bits); }

/* ---- shared memory: the executing thread ---- */

HM_DEV u32 smem_address(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }

HM_DEV u32 load_smem_u16(u32 smem) {
    u16 v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(smem));
    return v;
}
HM_DEV u32 load_smem_u32(u32 smem) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(smem));
    return v;
}
HM_DEV uint2 load_smem_u64(u32 smem) { /* 8-byte aligned */
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(smem));
    return v;
}
HM_DEV uint4 load_smem_u128(u32 smem) { /* 16-byte aligned */
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(smem));
    return v;
}
HM_DEV void store_smem_u128(u32 smem, u32 x, u32 y, u32 z, u32 w) { /* 16-byte aligned */
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(smem), "r"(x), "r"(y), "r"(z),
                 "r"(w)
                 : "memory");
}
HM_DEV void store_smem_f32x4(u32 smem, const float *v) { /* 16-byte aligned */
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(smem), "f"(v[0]), "f"(v[1]),
                 "f"(v[2]), "f"(v[3])
                 : "memory");
}
HM_DEV void load_smem_f32x2(float *v, u32 smem) { /* 8-byte aligned */
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(smem));
}

/* ldmatrix.x4: one warp; lanes 8i..8i+7 give the eight 16-byte rows of matrix i. */
HM_DEV void load_matrices(u32 *r, u32 smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(smem));
}

/* stmatrix.x4.trans, .x2.trans (sm_90): one warp; row addresses as for ldmatrix. */
HM_DEV void store_matrices_t(u32 smem, u32 r0, u32 r1, u32 r2, u32 r3) {
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(smem),
        "r"(r0), "r"(r1), "r"(r2), "r"(r3)
        : "memory");
}
HM_DEV void store_matrix_pair_t(u32 smem, u32 r0, u32 r1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(smem),
                 "r"(r0), "r"(r1)
                 : "memory");
}

/* ---- global memory that CTAs share: the executing thread ---- */

/* Past L1, which is not coherent; 16-byte aligned. */
HM_DEV void store_global_u128(void *target, u32 x, u32 y, u32 z, u32 w) {
    asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(x), "r"(y),
                 "r"(z), "r"(w)
                 : "memory");
}
HM_DEV uint4 load_global_u128(const void *source) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(source)
                 : "memory");
    return v;
}
/* st.release, ld.acquire (sm_70), scope gpu: order what this thread did before, will do after. */
HM_DEV void store_release(u32 *target, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
}
HM_DEV u32 load_acquire(const u32 *source) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(source) : "memory");
    return v;
}

/* ---- mbarriers (bulk copies: sm_90) ---- */

HM_DEV void mbarrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/* Makes the inits of this thread visible to the asynchronous proxy and to the cluster. */
HM_DEV void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/* One arrival that also announces bytes; once per phase, with the sum of all its copies. */
HM_DEV void mbarrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}
HM_DEV void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/* Returns when the phase of this parity is complete; acquires what the arrivals released. */
HM_DEV void mbarrier_wait(u32 barrier, u32 parity) {
    asm volatile("{.reg .pred p;\n"
                 "W%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra W%=;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* The same without waiting: true in all lanes of a warp if the phase is complete. For decisions
 * only: who reads what the copies wrote waits for itself. */
HM_DEV bool mbarrier_test(u32 barrier, u32 parity) {
    u32 done;
    asm volatile("{.reg .pred p;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return __all_sync(0xffffffffu, done != 0);
}

/* ---- asynchronous copies ---- */

/* cp.async.bulk (sm_90): one thread; addresses and bytes are multiples of 16. */
HM_DEV void bulk_load(u32 smem, const void *source, u32 bytes, u32 barrier, u64 policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(smem),
                 "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}
/* cp.async.bulk.tensor.2d (sm_90): one thread; smem 1024-byte aligned for the 128-byte swizzle.
 * What lies outside the tensor arrives as zeros and counts as bytes. */
HM_DEV void tensor_load(u32 smem, const tensor_map *map, u32 x, u32 y, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(smem),
                 "l"(map), "r"(x), "r"(y), "r"(barrier)
                 : "memory");
}
/* prefetch.tensormap (sm_90): the first use of a map then waits less. */
HM_DEV void prefetch_map(const tensor_map *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/* The way back, in the bulk group of the thread; what lies outside the tensor is not written. */
HM_DEV void tensor_store(const tensor_map *map, u32 x, u32 y, u32 smem) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
                 " [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(x), "r"(y), "r"(smem)
                 : "memory");
}
HM_DEV void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/* All stores of this thread have READ their shared memory; it may be written again. */
HM_DEV void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/* All stores of this thread are complete. */
HM_DEV void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* fence.proxy.async (sm_90): orders generic writes of this thread to shared memory before
 * asynchronous reads that follow a barrier. */
HM_DEV void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* cp.async 16 bytes past L1; valid = 0 reads nothing and writes zeros. */
HM_DEV void copy16(u32 smem, const void *source, u32 valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(smem), "l"(source),
                 "r"(valid ? 16u : 0u)
                 : "memory");
}
/* cp.async 4 bytes through L1; 4-byte aligned. */
HM_DEV void copy4(u32 smem, const void *source, u32 valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(smem), "l"(source),
                 "r"(valid ? 4u : 0u)
                 : "memory");
}
/* cp.async.mbarrier.arrive.noinc: one arrival, once all cp.async of this thread have landed. */
HM_DEV void copy_arrive(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/* All cp.async of this thread have landed. */
HM_DEV void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }
HM_DEV void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* At most `pending` committed groups of this thread are still on their way. */
template <int pending> HM_DEV void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* ---- tensor cores ---- */

/* mma.sync m16n8k16, fp32 accumulation: one warp; fragments as in layout.cuh. */
template <act_type T> HM_DEV void mma_k16(float *d, const u32 *a, u32 b0, u32 b1) {
    if constexpr (T == act_bf16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* mma.sync m16n8k32, s8 by s8 into s32: one warp. */
HM_DEV void mma_k32_s8(int *d, const u32 *a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* wgmma.fence (sm_90a): one warpgroup; orders register writes before the wgmmas that read them. */
HM_DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
HM_DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* At most `pending` groups of this warpgroup still run; the registers of the others are free. */
template <int pending> HM_DEV void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/* ---- roles, barriers, clusters, grids ---- */

/* elect.sync (sm_90): true in one lane of a converged warp. The compiler then knows that a single
 * thread follows; threadIdx.x == 0 would turn every bulk copy into a loop over lanes. */
HM_DEV bool elected() {
    u32 chosen;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}"
                 : "=r"(chosen));
    return chosen != 0;
}

/* bar.sync: `threads` threads meet at barrier `id`; orders their generic memory accesses. */
template <int id, int threads> HM_DEV void barrier_sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

/* The same with an id that is not a constant; then no other barrier id is free. */
template <int threads> HM_DEV void barrier_sync_at(u32 id) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

/* setmaxnreg (sm_90a): every warp of the warpgroup. */
template <int registers> HM_DEV void registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers> HM_DEV void registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

HM_DEV u32 cluster_size() {
    u32 v;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
    return v;
}
HM_DEV u32 cluster_rank() {
    u32 v;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
    return v;
}
/* barrier.cluster (sm_90): all threads of all CTAs; writes before the arrival are seen after the
 * wait, shared memory of the peers included. Not .aligned: roles arrive from different branches. */
HM_DEV void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
HM_DEV void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
HM_DEV void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
/* mapa (sm_90): our own shared address, in CTA `rank` of the cluster. */
HM_DEV u32 peer_address(u32 smem, u32 rank) {
    u32 peer;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(smem), "r"(rank));
    return peer;
}
/* st.async (sm_90, only in a launched cluster): four floats to a peer; their 16 bytes count on a
 * barrier of the same CTA. */
HM_DEV void push_f32x4(u32 peer, u32 peer_barrier, const float *v) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
                 " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(peer),
                 "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(peer_barrier)
                 : "memory");
}
/* The same for whole warps, which meet first: a third of the code. */
HM_DEV void cluster_sync_warps() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* mapa + ld.shared::cluster (sm_90): the word at our own address smem, in CTA `rank`. */
HM_DEV float4 load_peer_f32x4(u32 smem, u32 rank) {
    float4 v;
    asm volatile("{.reg .b32 r; mapa.shared::cluster.u32 r, %4, %5;"
                 " ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [r];}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(smem), "r"(rank));
    return v;
}

/* griddepcontrol (sm_90, nothing before): the next grid of the stream may start to be placed. It
 * promises no visibility; that is what the wait of the next grid is for. */
HM_DEV void grid_release() {
    if constexpr (device_arch >= 900)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/* Waits until the grids before us are complete and their writes visible. Comes before any access
 * to what another kernel may write or read: activations and the output. Weights, row factors and
 * the bias are constant over kernels and may be read earlier. */
HM_DEV void grid_wait() {
    if constexpr (device_arch >= 900)
        asm volatile("griddepcontrol.wait;" ::: "memory");
}

#endif /* host: tests/kernels/ptx_host.h, included first, has the pure ones */

/* a * b with one rounding. mul.bf16x2 needs sm_90; adding -0 changes no product, nor a zero. */
template <act_type T> HM_DEV u32 mul2(u32 a, u32 b) { return fma2<T>(a, b, 0x80008000u); }
