/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_pack.cpp - the packing kernel, run on the CPU thread by thread, against
 * the library's packer: the same bytes, for every source type and odd sizes.
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
	u32 code_words, scale_type, zero_type;
	std::vector<u64> codes, scales, zeros;
	std::vector<float> bias;
};

/* Bits of a scale: ordinary ones, zeros of both signs, subnormals, extremes. */
static u32
random_scale(u32 type)
{
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
	else
		std::memcpy(bytes + 2 * index, &bits, 2);
}

static plain
make_plain(u32 n, u32 k, u32 source)
{
	const u32 group = HM_GROUP != 0 ? HM_GROUP : k;
	plain p;

	p.n = n;
	p.k = k;
	p.groups = (k + group - 1) / group;
	p.code_words = source % 2;
	p.scale_type = source % 3;
	p.zero_type = (source + 1) % 3;
	p.codes.assign(static_cast<size_t>(n) * k / 8, 0);
	for (u64 &eight : p.codes)
		for (u32 i = 0; i < 8; i++)
			eight |= static_cast<u64>(random_bits() & 15)
				 << (p.code_words ? 4 : 8) * i;
	if (p.code_words) /* 4 bytes for 8 codes */
		for (size_t i = 0; i < p.codes.size(); i++)
			std::memcpy(
			    reinterpret_cast<unsigned char *>(p.codes.data()) +
				4 * i,
			    &p.codes[i], 4);
	p.scales.assign(static_cast<size_t>(n) * p.groups, 0);
	p.zeros.assign(static_cast<size_t>(n) * p.groups, 0);
	for (size_t i = 0; i < p.scales.size(); i++) {
		/* every ninth row is all zero */
		const bool none = i / p.groups % 9 == 4;

		put(p.scales, p.scale_type, i,
		    none ? 0 : random_scale(p.scale_type));
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
	    HUMMING_TYPE_F16};
	humming_weight_source source;

	humming_weight_source_init(&source, sizeof source);
	source.n = p.n;
	source.k = p.k;
	source.a_type = HM_ACT ? HUMMING_TYPE_F16 : HUMMING_TYPE_BF16;
	source.group = HM_GROUP;
	source.zero = HM_ZERO;
	source.code_layout = p.code_words;
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
	p.code_words = from.code_words;
	p.scale_type = from.scale_type;
	p.zero_type = from.zero_type;
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
	static const u32 shapes[][2] = {{64, 128}, {8, 8}, {72, 200},
	    {200, 520}, {128, 1024}};

	for (const u32(&shape)[2] : shapes)
		for (u32 source = 0; source < 6; source++)
			compare(shape[0], shape[1], source, 1 + source % 4);
}

/* One bad element each; the host cannot see them. */
static void
test_bad_sources_are_reported()
{
	static const u32 infinities[] = {0x7f800000, 0x7f80, 0x7c00};
	const u32 kinds[] = {0, 1, 2};

	for (u32 kind : kinds) {
		plain from = make_plain(64, 128, kind);
		const humming_weight_source source = source_of(from);
		humming_weight_sizes sizes = {};

		sizes.struct_size = sizeof sizes;
		tap_check(humming_weight_size(&source, &sizes) == HUMMING_OK,
		    "sizes");
		packed out = make_packed(sizes);
		put(from.scales, from.scale_type, 17,
		    infinities[from.scale_type]);
		run_kernel(from, out, 1);
		tap_check(out.problems == problem_scale, "scale", kind);
	}
	plain from = make_plain(64, 128, 0);
	humming_weight_sizes sizes = {};
	const humming_weight_source source = source_of(from);

	sizes.struct_size = sizeof sizes;
	tap_check(humming_weight_size(&source, &sizes) == HUMMING_OK, "sizes");
	packed out = make_packed(sizes);
	reinterpret_cast<u8 *>(from.codes.data())[4321] = 16;
	run_kernel(from, out, 1);
	tap_check(out.problems == problem_code, "code", out.problems);
	const u32 nan = 0x7fc00000;
	std::memcpy(&from.bias[63], &nan, 4);
	run_kernel(from, out, 1);
	tap_check(out.problems == (problem_code | problem_bias), "bias");
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
	SAME(code_words);
	SAME(scale_type);
	SAME(zero_type);
	SAME(reserved);
#undef SAME
	tap_check(sizeof(pack_params) == sizeof(hm_pack_params), "size");
	tap_check(HM_PACK_F32 == float_f32 && HM_PACK_BF16 == float_bf16 &&
		      HM_PACK_F16 == float_f16,
	    "types");
	tap_check(HUMMING_PACKER_BAD_CODE == problem_code &&
		      HUMMING_PACKER_BAD_SCALE == problem_scale &&
		      HUMMING_PACKER_BAD_BIAS == problem_bias,
	    "problems");
}

int
main()
{
	tap_run("bytes are those of the CPU's packer",
	    test_bytes_are_those_of_the_cpu);
	tap_run("bad sources are reported", test_bad_sources_are_reported);
	tap_run("parameters are those of the host",
	    test_parameters_are_those_of_the_host);
	return tap_done();
}
