/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_scheduler.cpp - scheduler.cuh: everything is done exactly once.
 */
#include <vector>

#include "host/ptx_host.h"
#include "host/tap.h"

#include "scheduler.cuh"

static void
test_split_covers_without_overlap()
{
	for (u32 parts = 1; parts <= 40; parts++)
		for (u32 total = 0; total <= 130; total++) {
			tap_check(split(0, parts, total) == 0, "begin", parts,
			    total);
			tap_check(split(parts, parts, total) == total, "end",
			    parts, total);
			for (u32 i = 0; i < parts; i++) {
				const u32 n = split(i + 1, parts, total) -
					      split(i, parts, total);

				tap_check(n == total / parts ||
					      n == ceil_div(total, parts),
				    "balanced", parts, total, i);
			}
		}
}

/* Every tile once, for every band width, odd shapes included. */
static void
test_tiles_are_visited_once()
{
	for (u32 n_tiles = 1; n_tiles <= 23; n_tiles++)
		for (u32 m_tiles = 1; m_tiles <= 9; m_tiles++)
			for (u32 band = 1; band <= 25; band++) {
				std::vector<int> seen(n_tiles * m_tiles, 0);

				for (u32 i = 0; i < n_tiles * m_tiles; i++) {
					const tile_place t =
					    tile_at(i, n_tiles, m_tiles, band);

					if (t.n >= n_tiles || t.m >= m_tiles)
						continue;
					seen[t.n * m_tiles + t.m]++;
				}
				for (int count : seen)
					tap_check(count == 1, "once", n_tiles,
					    m_tiles, band);
			}
}

/* The drawing in the file head. */
static void
test_tile_order_is_the_drawing()
{
	static const struct {
		u32 number, n, m;
	} rows[] = {{0, 0, 0}, {2, 2, 0}, {3, 0, 1}, {6, 3, 0}, {9, 3, 1},
	    {12, 6, 0}, {13, 6, 1}};

	for (const auto &row : rows) {
		const tile_place t = tile_at(row.number, 7, 2, 3);

		tap_check(t.n == row.n && t.m == row.m, "place", row.number);
	}
}

/* What a launch of kernel S would read, warp by warp. */
struct stream_shape {
	u32 groups, chunks, clusters, ranks, sets, warps_k;
};

static void
walk_warp(std::vector<int> &seen, const stream_shape &shape, u32 cluster,
    u32 k_part, u32 set)
{
	const u8 *base = reinterpret_cast<const u8 *>(4096);
	const stream_share share = stream_share_of(cluster, shape.clusters,
	    shape.groups, k_part, shape.ranks * shape.warps_k, shape.chunks);
	chunk_stream next = stream_begin(base, share, set, shape.chunks);

	tap_check(share.n_chunks <= share.most_chunks, "most chunks");
	for (u32 group = share.group_begin + set; group < share.group_end;
	     group += shape.sets)
		for (u32 c = 0; c < share.n_chunks; c++) {
			const u32 index =
			    static_cast<u32>(next.source - base) / chunk_bytes;

			tap_check(next.group == group && next.chunk == c,
			    "the stream keeps step with its use", group, c);
			tap_check(index == group * shape.chunks +
					       share.chunk_begin + c,
			    "address", group, c);
			if (index < seen.size())
				seen[index]++;
			stream_advance(next, share, shape.sets, shape.chunks);
		}
	tap_check(next.group >= share.group_end, "nothing is left", cluster,
	    k_part, set);
}

static void
walk_grid(const stream_shape &shape)
{
	std::vector<int> seen(shape.groups * shape.chunks, 0);

	for (u32 cluster = 0; cluster < shape.clusters; cluster++)
		for (u32 part = 0; part < shape.ranks * shape.warps_k; part++)
			for (u32 set = 0; set < shape.sets; set++)
				walk_warp(seen, shape, cluster, part, set);
	for (int count : seen)
		tap_check(count == 1, "every chunk is read once", shape.groups,
		    shape.chunks, shape.clusters);
}

static void
test_streams_read_every_chunk_once()
{
	for (u32 groups : {1u, 2u, 5u, 17u, 64u})
		for (u32 chunks : {1u, 3u, 8u, 23u, 56u})
			for (u32 clusters : {1u, 4u, 33u, 132u})
				for (u32 ranks : {1u, 2u, 4u}) {
					walk_grid({groups, chunks, clusters,
					    ranks, 1, 8});
					walk_grid({groups, chunks, clusters,
					    ranks, 2, 4});
					walk_grid({groups, chunks, clusters,
					    ranks, 4, 1});
				}
}

/* Kernel H, split K: all chunks once; a rank without any reads zeros. */
static void
test_k_ranges_cover_all_chunks()
{
	for (u32 ranks = 1; ranks <= 8; ranks++)
		for (u32 chunks = 1; chunks <= 70; chunks++) {
			std::vector<int> seen(chunks, 0);

			for (u32 rank = 0; rank < ranks; rank++) {
				const k_range r =
				    k_range_of(rank, ranks, chunks);

				tap_check(r.n_chunks >= 1 &&
					      r.chunk + r.n_chunks <= chunks,
				    "inside the weights", rank, ranks, chunks);
				if (r.first_k >= chunks * 128)
					continue; /* beyond K: adds zeros */
				tap_check(r.first_k == r.chunk * 128, "same k",
				    rank, ranks, chunks);
				for (u32 c = 0; c < r.n_chunks; c++)
					seen[r.chunk + c]++;
			}
			for (int count : seen)
				tap_check(count == 1, "once", ranks, chunks);
		}
}

/* What a launch of kernel H does, share by share. */
struct shared_shape {
	u32 tiles, split_tiles, stages, ctas;
};

/* One CTA: marks stages; the pieces that others wait for come first. */
static void
walk_share(std::vector<int> &seen, const shared_shape &shape, u32 cta)
{
	const shares of =
	    shares_of(shape.split_tiles * shape.stages, shape.ctas);
	const u32 share = shape.ctas - 1 - cta;
	const u32 whole = shape.tiles - shape.split_tiles;
	u32 units = 0, last = 0;

	for (u32 i = 0;; i++) {
		const work item =
		    work_at(i, of, share, shape.stages, cta, shape.ctas, whole);

		if (item.count == 0)
			break;
		tap_check(item.tile < shape.tiles &&
			      item.first + item.count <= shape.stages,
		    "inside", i, cta);
		tap_check(item.first == 0 || i == 0,
		    "only the first work ends a tile of another share", i, cta);
		tap_check(i == 0 || item.tile < whole || item.tile > last,
		    "shared tiles ascend", i, cta);
		last = item.tile;
		units += item.tile >= whole ? item.count : 0;
		for (u32 s = 0; s < item.count; s++)
			seen[item.tile * shape.stages + item.first + s]++;
	}
	tap_check(units == share_size(of, share), "the share's size", cta);
}

/* Who begins a shared tile finds its other pieces in the shares behind it. */
static void
check_owner(const shared_shape &shape, u32 cta)
{
	const shares of =
	    shares_of(shape.split_tiles * shape.stages, shape.ctas);
	const u32 whole = shape.tiles - shape.split_tiles;
	u32 share = shape.ctas - 1 - cta;
	work item = {0, 0, 1};

	for (u32 i = 0; item.count != 0; i++) {
		item =
		    work_at(i, of, share, shape.stages, cta, shape.ctas, whole);
		if (item.count == 0 || item.tile < whole || item.first != 0 ||
		    item.count == shape.stages)
			continue;
		u32 done = item.count, next = share; /* as take_over */

		while (done < shape.stages && next < shape.ctas)
			done += share_size(of, ++next);
		tap_check(done >= shape.stages && next < shape.ctas,
		    "all pieces exist", cta, i);
		tap_check(share_begin(of, next) <
			      (item.tile - whole + 1) * shape.stages,
		    "no piece too many", cta, i);
	}
}

static void
test_shared_tiles_are_done_once()
{
	for (u32 tiles : {1u, 3u, 16u, 40u})
		for (u32 split_tiles : {0u, 1u, 2u, 3u, 15u, 16u})
			for (u32 stages : {1u, 2u, 7u, 64u})
				for (u32 ctas : {1u, 2u, 5u, 132u}) {
					if (split_tiles > tiles)
						continue;
					const shared_shape shape = {tiles,
					    split_tiles, stages, ctas};
					std::vector<int> seen(tiles * stages,
					    0);

					for (u32 cta = 0; cta < ctas; cta++) {
						walk_share(seen, shape, cta);
						check_owner(shape, cta);
					}
					for (int count : seen)
						tap_check(count == 1, "once",
						    tiles, split_tiles, stages);
				}
}

int
main()
{
	tap_run("split covers without overlap",
	    test_split_covers_without_overlap);
	tap_run("tiles are visited once", test_tiles_are_visited_once);
	tap_run("tile order is the drawing", test_tile_order_is_the_drawing);
	tap_run("streams read every chunk once",
	    test_streams_read_every_chunk_once);
	tap_run("k ranges cover all chunks", test_k_ranges_cover_all_chunks);
	tap_run("shared tiles are done once", test_shared_tiles_are_done_once);
	return tap_done();
}
