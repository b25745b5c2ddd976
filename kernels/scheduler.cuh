/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scheduler.cuh - from a block or a warp to its share of the problem. Pure functions.
 *
 * Splits: `parts` shares of `total` items, share i = [split(i), split(i + 1)). Shares differ by at
 * most one item, cover everything and never overlap; parts > total leaves some empty.
 *
 * Tile order of kernel H: bands of `band` n tiles; inside a band all m tiles, n fastest. CTAs that
 * run at the same time then share few activations and few weights, which L2 holds:
 *
 *             n tiles  0 1 2 | 3 4 5 | 6        band = 3, 7 n tiles, 2 m tiles
 *     m tile 0         0 1 2 | 6 7 8 | 12
 *     m tile 1         3 4 5 | 9 . . | 13       the last band may be narrower
 */
#pragma once
#include "prelude.cuh"

/* First item of a share. index * total stays far below 2^32: both count tiles, not elements. */
HM_DEV constexpr u32 split(u32 index, u32 parts, u32 total) { return index * total / parts; }

struct tile_place {
    u32 n, m; /* tile coordinates */
};

/* Tile number -> coordinates; number < n_tiles * m_tiles, band >= 1. */
HM_DEV constexpr tile_place tile_at(u32 number, u32 n_tiles, u32 m_tiles, u32 band) {
    const u32 band_index = number / (band * m_tiles);
    const u32 inside = number - band_index * band * m_tiles;
    const u32 first_n = band_index * band;
    const u32 width = smaller(band, n_tiles - first_n);
    const u32 m = inside / width;
    return {first_n + inside - m * width, m};
}

/*
 * Kernel H, persistent: what a CTA works on, in order. Of `tiles` whole tiles it takes every
 * tile_step-th. Behind those come tiles that all CTAs share along K (stream-K): their stages, one
 * tile after the other, are units, in equal shares. A share begins with the end of a tile, if its
 * first unit lies inside one, because another share waits for that; then come tiles that it begins.
 *
 *     tile (4 stages)   0       | 1       | 2
 *     unit              0 1 2 3 | 4 5 6 7 | 8 ..      4 shares of 12 units
 *     share             0 0 0 1 | 1 1 2 2 | 2 3 ..    share 1: (0, 3, 1), then (1, 0, 2)
 */
struct work {
    u32 tile, first, count; /* stages [first, first + count) of a tile; none: the end */
};

/* Shares of the units: the first `larger` have base + 1, the others base. */
struct shares {
    u32 base, larger;
};
HM_DEV constexpr shares shares_of(u32 units, u32 n_shares) {
    return {units / n_shares, units % n_shares};
}
HM_DEV constexpr u32 share_begin(shares of, u32 share) {
    return share * of.base + smaller(share, of.larger);
}
HM_DEV constexpr u32 share_size(shares of, u32 share) { return of.base + (share < of.larger); }

/* Work number i of share `share`, which takes the whole tiles first_tile + j * tile_step < tiles.
 * Shared tiles are numbered behind the whole ones; a tile has `stages`. */
HM_DEV constexpr work work_at(u32 i, shares of, u32 share, u32 stages, u32 first_tile,
    u32 tile_step, u32 tiles) {
    const u32 begin = share_begin(of, share), end = begin + share_size(of, share);
    const u32 first = begin / stages, pieces = begin == end ? 0 : (end - 1) / stages - first + 1;
    if (i < pieces) {
        const u32 start = (first + i) * stages;
        const u32 from = begin > start ? begin - start : 0;
        return {tiles + first + i, from, smaller(end - start, stages) - from};
    }
    const u32 tile = first_tile + (i - pieces) * tile_step;
    return {tile, 0, tile < tiles ? stages : 0};
}

/*
 * Kernel S: what one warp works on. A cluster owns the row groups [group_begin, group_end); inside
 * it K is split over cluster rank and warp, and the warp sets of a CTA take every sets-th group.
 */
struct stream_share {
    u32 group_begin, group_end; /* of the cluster */
    u32 chunk_begin, n_chunks;  /* of the warp, along K */
    u32 most_chunks;            /* of any warp: sizes the resident activations */
};

/* n_groups and all_chunks: 64-row groups and 128-k chunks of the problem; k_part of k_parts. */
HM_DEV constexpr stream_share stream_share_of(u32 cluster, u32 n_clusters, u32 n_groups, u32 k_part,
    u32 k_parts, u32 all_chunks) {
    const u32 begin = split(k_part, k_parts, all_chunks);
    return {split(cluster, n_clusters, n_groups), split(cluster + 1, n_clusters, n_groups), begin,
        split(k_part + 1, k_parts, all_chunks) - begin, ceil_div(all_chunks, k_parts)};
}

/* The chunks of a warp in the order in which it requests and uses them: along K, then on to the
 * next row group of its set. */
struct chunk_stream {
    const u8 *source; /* of the next chunk */
    u32 group, chunk; /* its row group; its index inside the share */
};

/* A warp without chunks has an empty stream: its group is the end. */
HM_DEV chunk_stream stream_begin(const void *w, const stream_share &share, u32 set,
    u32 all_chunks) {
    const u32 group = share.group_begin + set;
    return {(const u8 *)w + ((u64)group * all_chunks + share.chunk_begin) * chunk_bytes,
        share.n_chunks > 0 ? group : share.group_end, 0};
}

HM_DEV void stream_advance(chunk_stream &next, const stream_share &share, u32 sets,
    u32 all_chunks) {
    next.source += chunk_bytes;
    if (++next.chunk == share.n_chunks) {
        next.chunk = 0;
        next.group += sets;
        next.source += (u64)(all_chunks * sets - share.n_chunks) * chunk_bytes;
    }
}

/*
 * Kernel H with K split over a cluster: the chunks of one rank. More ranks than chunks leave some
 * ranks empty; such a rank works on one chunk whose activations lie beyond K, where the tensor map
 * returns zeros, so that its accumulators are defined and add nothing.
 */
struct k_range {
    u32 chunk, n_chunks; /* weights */
    u32 first_k;         /* activations */
};

HM_DEV constexpr k_range k_range_of(u32 rank, u32 n_ranks, u32 all_chunks) {
    const u32 begin = split(rank, n_ranks, all_chunks);
    const u32 count = split(rank + 1, n_ranks, all_chunks) - begin;
    if (count == 0)
        return {smaller(begin, all_chunks - 1), 1, all_chunks * 128};
    return {begin, count, begin * 128};
}
