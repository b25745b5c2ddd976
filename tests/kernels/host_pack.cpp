/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_pack.cpp - the packing kernel, run on the CPU thread by thread, against
 * the library's packer: the same bytes, for every source type and odd sizes.
 * One program is one format of chunks; all sources that lead to it are tried.
 *
 * Everything of pack.cu but its entry is plain code; here the phases between
 * two barriers run for all threads of a CTA, in the order of the entry.
 */
#include <cstddef>
#include <cstring>
#include <vector>

#include <humming/gemm.h>

#include "client/pack_params.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "pack.cu"

static u32 random_state = 1;

static u32
random_bits()
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state >> 8;
}

/* A matrix as checkpoints hold it. */
struct plain {
	u32 n, k, groups;
	u32 code_pairs, scale_type, zero_type;
	u32 scale_kind, scale_rows;
	std::vector<u64> codes, scales, zeros;
	std::vector<float> bias;
};

/* How a source may give its scales, for the chunks of this program. */
struct scaling {
	u32 kind, type;
};

static std::vector<scaling>
scalings()
{
	const u32 all[] = {float_f32, float_bf16, float_f16};
	std::vector<scaling> list;

	for (u32 type : all) {
		if (scale == scale_none) {
			list.push_back({HUMMING_SCALE_CHANNEL, type});
			list.push_back({HUMMING_SCALE_TENSOR, type});
		}
		if (scale == scale_bf16 || scale == scale_f16 ||
		    scale == scale_f32) {
			const u32 line = scale == scale_f32   ? float_f32
					 : scale == scale_f16 ? float_f16
							      : float_bf16;

			if (act_bits == 16 || type == line)
				list.push_back({HUMMING_SCALE_GROUP, type});
			if (group_k == 128 && zero == zero_none &&
			    (act_bits == 16 || scale == scale_f32))
				list.push_back({HUMMING_SCALE_BLOCK, type});
		}
	}
	if (scale == scale_e8m0 || scale == scale_mx)
		list.push_back({HUMMING_SCALE_GROUP, float_e8m0});
	return list;
}

/* Bits of a scale: ordinary ones, zeros of both signs, subnormals, extremes. */
static u32
random_scale(u32 type)
{
	if (type == float_e8m0)
		return scale == scale_mx ? 90 + random_bits() % 12
					 : random_bits() % 240;
	const u32 kind = random_bits() % 16;
	const u32 sign = random_bits() % 8 == 0;
	const u32 fraction = random_bits();

	if (type == float_f16) {
		const u32 exponent = kind < 2 ? 0 : kind == 2 ? 30 : kind + 5;
		return sign << 15 | exponent << 10 |
		       (kind == 1 ? 0 : fraction & 0x3ff);
	}
	const u32 exponent = kind < 2    ? 0
			     : kind == 2 ? 240
			     : kind == 3 ? 3
					 : 110 + kind;
	const u32 bits =
	    sign << 31 | exponent << 23 | (kind == 1 ? 0 : fraction & 0x7fffff);
	return type == float_bf16 ? bits >> 16 : bits;
}

static void
put(std::vector<u64> &array, u32 type, size_t index, u32 bits)
{
	unsigned char *bytes = reinterpret_cast<unsigned char *>(array.data());

	if (type == float_f32)
		std::memcpy(bytes + 4 * index, &bits, 4);
	else if (type == float_e8m0)
		bytes[index] = static_cast<u8>(bits);
	else
		std::memcpy(bytes + 2 * index, &bits, 2);
}

static void
put_code(plain &p, u32 n, u32 k, u32 code)
{
	u8 *bytes = reinterpret_cast<u8 *>(p.codes.data());
	const size_t index = static_cast<size_t>(n) * p.k + k;

	if (p.code_pairs && index % 2 == 0)
		bytes[index / 2] = static_cast<u8>(code);
	else if (p.code_pairs)
		bytes[index / 2] =
		    static_cast<u8>(bytes[index / 2] | code << 4);
	else
		bytes[index] = static_cast<u8>(code);
}

/* mx: a group whose codes are all zeros, of both signs. */
static bool
is_zero_by_design(u32 n, u32 k)
{
	return scale == scale_mx && (n + k / 32) % 5 == 2;
}

static void
fill_codes(plain &p)
{
	p.codes.assign(static_cast<size_t>(p.n) * p.k / 8, 0);
	for (u32 n = 0; n < p.n; n++)
		for (u32 k = 0; k < p.k; k++) {
			u32 code = random_bits() % (1u << weight_bits);

			if (weight == weight_e4m3 && (code & 0x7f) == 0x7f)
				code ^= 1;
			if (is_zero_by_design(n, k))
				code &= 8;
			put_code(p, n, k, code);
		}
}

static void
fill_scales(plain &p)
{
	const u32 rows = (p.n + p.scale_rows - 1) / p.scale_rows;

	p.scales.assign(static_cast<size_t>(rows) * p.groups, 0);
	for (u32 i = 0; i < rows * p.groups; i++) {
		/* every ninth row is all zero; a byte of an exponent is not */
		const bool none = i / p.groups % 9 == 4;
		u32 bits = random_scale(p.scale_type);

		if (is_zero_by_design(i / p.groups, i % p.groups * 32))
			bits = random_bits() % 240; /* must not count */
		put(p.scales, p.scale_type, i,
		    none && p.scale_type != float_e8m0 ? 0 : bits);
	}
}

/* source: number of a combination of all that leads to these chunks */
static plain
make_plain(u32 n, u32 k, u32 source)
{
	const std::vector<scaling> ways = scalings();
	const scaling way = ways[source % ways.size()];
	const u32 group = HM_GROUP != 0 ? HM_GROUP : k;
	plain p;

	p.n = n;
	p.k = k;
	p.groups = (k + group - 1) / group;
	p.code_pairs = weight_bits == 4 && source / ways.size() % 2;
	p.scale_kind = way.kind;
	p.scale_type = way.type;
	p.scale_rows = way.kind == HUMMING_SCALE_TENSOR  ? n
		       : way.kind == HUMMING_SCALE_BLOCK ? 128
							 : 1;
	p.zero_type = (source + 1) % 3;
	fill_codes(p);
	fill_scales(p);
	p.zeros.assign(static_cast<size_t>(n) * p.groups, 0);
	for (size_t i = 0; i < p.zeros.size(); i++) {
		if (HM_ZERO == 1)
			reinterpret_cast<u8 *>(p.zeros.data())[i] =
			    static_cast<u8>(random_bits() % 40);
		else
			put(p.zeros, p.zero_type, i, random_scale(p.zero_type));
	}
	for (u32 i = 0; i < n; i++)
		p.bias.push_back(static_cast<float>(random_bits() % 99) - 50);
	return p;
}

struct packed {
	std::vector<u64> chunks;
	std::vector<u32> rowmul, bias;
	u32 problems;
};

static packed
make_packed(const humming_weight_sizes &sizes)
{
	packed out;

	out.chunks.assign(sizes.packed_bytes / 8, 0xa5a5a5a5a5a5a5a5ull);
	out.rowmul.assign(sizes.rowmul_bytes / 4, 0xa5a5a5a5u);
	out.bias.assign(sizes.bias_bytes / 4, 0xa5a5a5a5u);
	out.problems = 0;
	return out;
}

static humming_weight_source
source_of(const plain &p)
{
	static const u32 types[] = {HUMMING_TYPE_F32, HUMMING_TYPE_BF16,
	    HUMMING_TYPE_F16, HUMMING_TYPE_E8M0};
	static const u32 a_types[] = {HUMMING_TYPE_BF16, HUMMING_TYPE_F16,
	    HUMMING_TYPE_E4M3, HUMMING_TYPE_E5M2, HUMMING_TYPE_SINT(8)};
	static const u32 w_types[] = {HUMMING_TYPE_UINT(4),
	    HUMMING_TYPE_UINT(8), HUMMING_TYPE_E2M1, HUMMING_TYPE_E4M3};
	humming_weight_source source;

	humming_weight_source_init(&source, sizeof source);
	source.n = p.n;
	source.k = p.k;
	source.a_type = a_types[HM_ACT];
	source.w_type = w_types[HM_WEIGHT];
	source.scale_kind = p.scale_kind;
	if (p.scale_kind == HUMMING_SCALE_GROUP)
		source.group = HM_GROUP;
	source.mx_exact =
	    scale == scale_e8m0 && weight == weight_e2m1 && act_bits == 8;
	source.zero = HM_ZERO;
	source.code_layout =
	    p.code_pairs ? HUMMING_CODES_NIBBLES : HUMMING_CODES_BYTES;
	source.scale_type = types[p.scale_type];
	source.zero_type = types[p.zero_type];
	source.codes = p.codes.data();
	source.scales = p.scales.data();
	source.zeros = HM_ZERO ? p.zeros.data() : nullptr;
	source.bias = p.bias.data();
	return source;
}

/* One CTA: what the entry does, barrier by barrier. */
static u32
run_cta(const pack_params &p, u32 row_block, u32 share, u32 n_shares)
{
	static pack_shared shared;
	u32 problems = 0;

	std::memset(&shared, 0x5a, sizeof shared);
	for (u32 t = 0; t < n_threads; t++)
		problems |= pack_largest(p, shared, row_block, t);
	for (u32 t = 0; t < 64; t++)
		problems |= pack_row(p, shared, row_block, t, share == 0);
	for (u32 chunk = share; chunk < ceil_div(p.k, 128); chunk += n_shares) {
		u8 *out = chunk_of(p, row_block, chunk);

		for (u32 t = 0; t < n_threads; t++)
			problems |= pack_load(p, shared, row_block, chunk, t);
		for (u32 t = 0; t < n_threads; t++) {
			pack_codes(shared, out, t);
			problems |=
			    pack_lines(p, shared, out, row_block, chunk, t);
		}
	}
	return problems;
}

static void
run_kernel(const plain &from, packed &to, u32 n_shares)
{
	pack_params p;

	std::memset(&p, 0, sizeof p);
	p.codes = from.codes.data();
	p.scales = from.scales.data();
	p.zeros = HM_ZERO ? from.zeros.data() : nullptr;
	p.source_bias = reinterpret_cast<const u32 *>(from.bias.data());
	p.packed = reinterpret_cast<u8 *>(to.chunks.data());
	p.rowmul = to.rowmul.data();
	p.bias = to.bias.data();
	p.n = from.n;
	p.k = from.k;
	p.code_pairs = from.code_pairs;
	p.scale_type = from.scale_type;
	p.zero_type = from.zero_type;
	p.scale_rows = from.scale_rows;
	for (u32 i = 0; i < ceil_div(p.n, 64); i++)
		for (u32 share = 0; share < n_shares; share++)
			to.problems |= run_cta(p, i, share, n_shares);
}

static void
compare(u32 n, u32 k, u32 source_kind, u32 n_shares)
{
	const plain from = make_plain(n, k, source_kind);
	const humming_weight_source source = source_of(from);
	humming_weight_sizes sizes = {};

	sizes.struct_size = sizeof sizes;
	tap_check(humming_weight_size(&source, &sizes) == HUMMING_OK, "sizes");
	packed cpu = make_packed(sizes), kernel = make_packed(sizes);
	tap_check(humming_weight_pack(&source, cpu.chunks.data(),
		      reinterpret_cast<float *>(cpu.rowmul.data()),
		      reinterpret_cast<float *>(cpu.bias.data())) == HUMMING_OK,
	    humming_gemm_last_error());
	run_kernel(from, kernel, n_shares);
	tap_check(cpu.chunks == kernel.chunks, "chunks", n, k, source_kind);
	tap_check(cpu.rowmul == kernel.rowmul, "rowmul", n, k, source_kind);
	tap_check(cpu.bias == kernel.bias, "bias", n, k, source_kind);
	tap_check(kernel.problems == 0, "problems", n, k, source_kind);
}

static void
test_bytes_are_those_of_the_cpu()
{
	static const u32 shapes[][2] = {{64, 128}, {8, 16}, {72, 208},
	    {200, 528}, {264, 1024}};
	const u32 n_sources = 2 * static_cast<u32>(scalings().size());

	for (const u32(&shape)[2] : shapes)
		for (u32 source = 0; source < n_sources; source++)
			compare(shape[0], shape[1], source, 1 + source % 4);
	if (act_bits == 16)
		compare(72, 200, 0, 2); /* k need not be a multiple of 16 */
}

/* What the kernel says of a matrix. */
static u32
problems_of(const plain &from)
{
	const humming_weight_source source = source_of(from);
	humming_weight_sizes sizes = {};

	sizes.struct_size = sizeof sizes;
	tap_check(humming_weight_size(&source, &sizes) == HUMMING_OK, "sizes");
	packed out = make_packed(sizes);
	run_kernel(from, out, 1);
	return out.problems;
}

/* One bad element each; the host cannot see them. */
static void
test_bad_sources_are_reported()
{
	static const u32 infinities[] = {0x7f800000, 0x7f80, 0x7c00, 255};
	const u32 n_sources = static_cast<u32>(scalings().size());

	for (u32 source = 0; source < n_sources; source++) {
		plain from = make_plain(64, 128, source);

		put(from.scales, from.scale_type, 0,
		    infinities[from.scale_type]);
		tap_check((problems_of(from) & problem_scale) != 0, "scale",
		    source);
	}
	plain from = make_plain(64, 128, 0);
	u8 *codes = reinterpret_cast<u8 *>(from.codes.data());
	if (weight_bits == 4)
		codes[4321] = 16;
	if (weight == weight_e4m3)
		codes[4321] = 0xff;
	const u32 expected = weight == weight_u8 ? 0 : problem_code;
	tap_check(problems_of(from) == expected, "code", problems_of(from));
	const u32 nan = 0x7fc00000;
	std::memcpy(&from.bias[63], &nan, 4);
	tap_check(problems_of(from) == (expected | problem_bias), "bias");
}

static void
test_rows_beyond_the_window_are_reported()
{
	plain from = make_plain(64, 128, 0);
	u8 *scales = reinterpret_cast<u8 *>(from.scales.data());

	std::memset(scales, 100, 64 * 4);
	for (u32 k = 0; k < 128; k += 32)
		put_code(from, 63, k, 7); /* row 63 has no zero group */
	scales[63 * 4 + 1] = 111;
	tap_check(problems_of(from) == 0, "a span of 2^11");
	scales[63 * 4 + 2] = 99;
	tap_check(problems_of(from) == problem_span, "a span of 2^12");
}

static void
test_parameters_are_those_of_the_host()
{
#define SAME(field)                                                            \
	tap_check(offsetof(pack_params, field) ==                              \
		      offsetof(hm_pack_params, field),                         \
	    #field)
	SAME(codes);
	SAME(scales);
	SAME(zeros);
	SAME(source_bias);
	SAME(packed);
	SAME(rowmul);
	SAME(bias);
	SAME(problems);
	SAME(n);
	SAME(k);
	SAME(code_pairs);
	SAME(scale_type);
	SAME(zero_type);
	SAME(scale_rows);
	SAME(reserved);
#undef SAME
	tap_check(sizeof(pack_params) == sizeof(hm_pack_params), "size");
	tap_check(HM_PACK_F32 == float_f32 && HM_PACK_BF16 == float_bf16 &&
		      HM_PACK_F16 == float_f16 && HM_PACK_E8M0 == float_e8m0,
	    "types");
	tap_check(HUMMING_PACKER_BAD_CODE == problem_code &&
		      HUMMING_PACKER_BAD_SCALE == problem_scale &&
		      HUMMING_PACKER_BAD_BIAS == problem_bias &&
		      HUMMING_PACKER_BAD_SPAN == problem_span,
	    "problems");
}

int
main()
{
	tap_run("bytes are those of the CPU's packer",
	    test_bytes_are_those_of_the_cpu);
	tap_run("bad sources are reported", test_bad_sources_are_reported);
	if (scale == scale_mx)
		tap_run("rows beyond the window are reported",
		    test_rows_beyond_the_window_are_reported);
	tap_run("parameters are those of the host",
	    test_parameters_are_those_of_the_host);
	return tap_done();
}
