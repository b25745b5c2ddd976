/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.cuh - the ring of stages between copies and arithmetic.
 *
 *     slot      0   1   2   3         full[slot]   copies -> arithmetic: the bytes are there
 *             +---+---+---+---+       empty[slot]  arithmetic -> copies: nobody reads any more
 *     phase     0 0 0 0 1 1 1 1 ...   flips when the slot index wraps
 *
 * An mbarrier completes its phases 0, 1, 0, ... A reader of full starts with parity 0. A writer
 * that waits for empty starts with parity 1, which a fresh barrier passes at once (PTX ISA,
 * "mbarrier.try_wait"). Kernel S has no empty barriers: reader and writer are one warp, and
 * __syncwarp orders its last read before the next copy into the slot.
 */
#pragma once
#include "prelude.cuh"
#include "ptx.cuh"

/* L2 policies of createpolicy.fractional with fraction 1, as ptxas 13.0 encodes them. */
enum : u64 {
    policy_normal = 0x1000000000000000ull,
    policy_evict_first = 0x12f0000000000000ull, /* read once: weights of small M */
    policy_evict_last = 0x14f0000000000000ull,  /* read by every CTA: activations */
};

struct ring_cursor {
    u32 slot, phase;
};

template <int depth> HM_DEV void advance(ring_cursor &cursor) {
    if (++cursor.slot == depth) {
        cursor.slot = 0;
        cursor.phase ^= 1;
    }
}

template <int depth> HM_DEV u32 slot_before(u32 slot) { return slot == 0 ? depth - 1 : slot - 1; }
