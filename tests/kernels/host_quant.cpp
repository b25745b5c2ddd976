/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_quant.cpp - the quantization kernel, run on the CPU thread by thread,
 * against the library's reference: the same bits, for odd sizes, all kinds of
 * numbers, and nothing written beside them.
 *
 * Everything of quant.cu but its entry is plain code; here the phases between
 * two barriers run for all threads of a CTA or warp, in the order of the entry.
 * The silu of both sides is exact here, so its bits are the same, too; that of
 * a GPU is compared in tests/gpu.
 */
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include <humming/gemm.h>

extern "C" {
#include "client/number.h"
}
#include "client/quant_params.h"

/* Those of ptx_host.h are for finite numbers. */
#define low_half  finite_low_half
#define high_half finite_high_half
#include "host/ptx_host.h"
#undef low_half
#undef high_half
#include "host/tap.h"

template <act_type T>
float
low_half(u32 pair)
{
	return static_cast<float>(hm_number_decode16(
	    T == act_bf16 ? HUMMING_TYPE_BF16 : HUMMING_TYPE_F16,
	    static_cast<uint16_t>(pair & 0xffff)));
}

template <act_type T>
float
high_half(u32 pair)
{
	return low_half<T>(pair >> 16);
}

static float
divided(float a, float b)
{
	return a / b;
}

static float
product(float a, float b)
{
	return a * b;
}

/* cvt.rn.satfinite, cvt.rni.sat: nearest, ties to even, at most the largest.
 * What the kernel throws away may be NaN. */
static u32
code_of(float value)
{
	const int fraction = act == act_e4m3 ? 3 : 2;
	const int least = act == act_e4m3 ? -6 : -14;
	const double most = act == act_e4m3   ? 448
			    : act == act_e5m2 ? 57344
					      : 127;
	const double size =
	    std::fmin(std::fabs(static_cast<double>(value)), most);
	int exponent = least;

	if (std::isnan(value))
		return 0x55;
	if (act == act_s8)
		return static_cast<u32>(static_cast<int>(std::copysign(
			   std::nearbyint(size), static_cast<double>(value)))) &
		       0xff;
	if (size > 0 && std::ilogb(size) > least)
		exponent = std::ilogb(size);
	const double units =
	    std::nearbyint(std::ldexp(size, fraction - exponent)) +
	    std::ldexp(exponent - least, fraction);
	return (std::signbit(value) ? 0x80u : 0u) | static_cast<u32>(units);
}

static u32
pack_codes(float v0, float v1, float v2, float v3)
{
	return code_of(v0) | code_of(v1) << 8 | code_of(v2) << 16 |
	       code_of(v3) << 24;
}

[[maybe_unused]] static float
silu(float gate)
{
	const double g = static_cast<double>(gate);

	return static_cast<float>(g / (1 + std::exp(-g)));
}

#include "quant.cu"

static u32 random_state = 1;

static u32
random_bits()
{
	random_state = random_state * 1664525u + 1013904223u;
	return random_state >> 8;
}

/* What the tokens of a matrix are made of; they take turns. */
enum kind { ordinary, wide, zeros, tiny, any, infinite, not_a_number, n_kinds };

static u16
random_value(u32 kind)
{
	const int spread = kind == wide ? 12 : kind == any ? 200 : 3;
	const double size = std::ldexp(1 + (random_bits() & 0xfff) / 4096.0,
	    static_cast<int>(random_bits() % static_cast<u32>(spread)) -
		(kind == tiny ? (output == act_f16 ? 27 : 135) : spread / 2));
	const u32 type =
	    output == act_f16 ? HUMMING_TYPE_F16 : HUMMING_TYPE_BF16;

	if (kind == zeros || random_bits() % 16 == 0)
		return static_cast<u16>(random_bits() & 0x8000);
	return hm_number_encode16(type, random_bits() % 2 ? -size : size);
}

struct matrix {
	u32 m, k, ldx, ldq;
	u32 scale_step, group_step;
	std::vector<u64> x; /* u16, 16-aligned by the allocator */
	std::vector<u64> q;
	std::vector<u32> scale;
};

static matrix
make_matrix(u32 m, u32 k, u32 first_kind)
{
	const u32 columns = epi == epi_silu_mul ? 2 * k : k;
	matrix a;

	a.m = m;
	a.k = k;
	a.ldx = columns + 8 * (m % 3);
	a.ldq = k + 8 * (m % 2);
	a.scale_step = m % 2 ? 1 : ceil_div(k, 128) + 1;
	a.group_step = m % 2 ? m : 1;
	a.x.assign(static_cast<size_t>(m) * a.ldx / 4, 0);
	u16 *x = reinterpret_cast<u16 *>(a.x.data());
	for (u32 token = 0; token < m; token++) {
		const u32 kind = (first_kind + token) % n_kinds;

		for (u32 i = 0; i < columns; i++)
			x[token * a.ldx + i] = random_value(kind);
		if (kind == infinite)
			x[token * a.ldx + k / 2] =
			    output == act_f16 ? 0xfc00 : 0xff80;
		if (kind == not_a_number)
			x[token * a.ldx + k - 1] = 0xffc1;
	}
	a.q.assign(static_cast<size_t>(m) * a.ldq / 8, 0xa5a5a5a5a5a5a5a5ull);
	a.scale.assign(static_cast<size_t>(m) * a.scale_step +
			   static_cast<size_t>(ceil_div(k, 128)) * a.group_step,
	    0xa5a5a5a5u);
	return a;
}

/* A CTA of quant_token. */
static void
run_token(const quant_params &p, u32 token)
{
	static quant_values<4> values[n_threads][token_kept];
	u32 amax = 0;

	for (u32 t = 0; t < n_threads; t++) {
		const u32 largest = token_largest(p, token, t, values[t]);

		amax = largest > amax ? largest : amax;
	}
	for (u32 t = 0; t < n_threads; t++)
		token_store(p, token, t, amax, values[t]);
}

/* A warp of quant_groups. */
static void
run_warp(const quant_params &p, u32 warp)
{
	quant_values<2> values[32][warp_pairs];
	quant_pair pairs[warp_pairs];
	u32 amax[warp_pairs] = {};

	pairs_find(p, warp, pairs);
	for (u32 lane = 0; lane < 32; lane++) {
		u32 largest[warp_pairs];

		pairs_load(p, lane, pairs, values[lane], largest);
		for (u32 i = 0; i < warp_pairs; i++)
			amax[i] = largest[i] > amax[i] ? largest[i] : amax[i];
	}
	for (u32 i = 0; i < warp_pairs; i++) {
		const float scale = scale_of(amax[i]);

		pair_store_scale(p, pairs[i], scale);
		for (u32 lane = 0; lane < 32; lane++)
			pair_store(p, lane, pairs[i], values[lane][i],
			    inverse_of(scale), amax[i]);
	}
}

static void
run_kernel(matrix &a)
{
	const u32 pairs = a.m * ceil_div(a.k, 128);
	quant_params p;

	std::memset(&p, 0, sizeof p);
	p.x = reinterpret_cast<const u16 *>(a.x.data());
	p.q = reinterpret_cast<u8 *>(a.q.data());
	p.scale = reinterpret_cast<float *>(a.scale.data());
	p.m = a.m;
	p.k = a.k;
	p.ldx = a.ldx;
	p.ldq = a.ldq;
	p.scale_step = a.scale_step;
	p.scale_group_step = a.group_step;
	if (act_scale == act_scale_token)
		for (u32 token = 0; token < a.m; token++)
			run_token(p, token);
	else /* as many warps as the grid has: 8 a CTA of 32 pairs */
		for (u32 warp = 0; warp < ceil_div(pairs, 32) * 8; warp++)
			run_warp(p, warp);
}

static humming_kernel_request
make_request()
{
	static const u32 types[] = {HUMMING_TYPE_BF16, HUMMING_TYPE_F16,
	    HUMMING_TYPE_E4M3, HUMMING_TYPE_E5M2, HUMMING_TYPE_SINT(8)};
	humming_kernel_request request;

	humming_kernel_request_init(&request, sizeof request);
	request.a_type = types[act];
	request.c_type = types[output];
	request.act_scale = act_scale == act_scale_token ? HUMMING_ACT_TOKEN
							 : HUMMING_ACT_GROUP;
	request.epilogue = epi;
	return request;
}

static int
run_reference(matrix &a)
{
	const humming_kernel_request request = make_request();
	humming_quant_args args;

	humming_quant_args_init(&args, sizeof args);
	args.m = a.m;
	args.k = a.k;
	args.ldx = a.ldx;
	args.ldq = a.ldq;
	args.scale_step = a.scale_step;
	args.scale_group_step = a.group_step;
	args.x = a.x.data();
	args.q = a.q.data();
	args.scale = reinterpret_cast<float *>(a.scale.data());
	return humming_quant_reference(&request, &args);
}

static void
compare(u32 m, u32 k, u32 first_kind)
{
	matrix kernel = make_matrix(m, k, first_kind);
	matrix cpu = kernel;

	tap_check(run_reference(cpu) == HUMMING_OK, humming_gemm_last_error());
	run_kernel(kernel);
	tap_check(kernel.q == cpu.q, "codes", m, k, first_kind);
	tap_check(kernel.scale == cpu.scale, "scales", m, k, first_kind);
}

static void
test_bits_are_those_of_the_reference()
{
	static const u32 shapes[][2] = {{1, 8}, {7, 136}, {6, 1000}, {14, 128},
	    {9, 2056}, {7, 4096}};

	for (const u32(&shape)[2] : shapes)
		for (u32 kind = 0; kind < n_kinds; kind++)
			compare(shape[0], shape[1], kind);
}

/* More than a thread keeps of a token: rounds. */
static void
test_long_tokens_take_rounds()
{
	static const u32 lengths[] = {12288, 16384, 16392, 24576, 28672, 65536};

	for (u32 k : lengths)
		compare(2, k, k == 28672 ? not_a_number : ordinary);
	compare(1, 65536, wide);
}

static void
test_parameters_are_those_of_the_host()
{
#define SAME(field)                                                            \
	tap_check(offsetof(quant_params, field) ==                             \
		      offsetof(hm_quant_params, field),                        \
	    #field)
	SAME(x);
	SAME(q);
	SAME(scale);
	SAME(m);
	SAME(k);
	SAME(ldx);
	SAME(ldq);
	SAME(scale_step);
	SAME(scale_group_step);
	SAME(reserved);
#undef SAME
	tap_check(sizeof(quant_params) == sizeof(hm_quant_params), "size");
}

int
main()
{
	tap_run("bits are those of the reference",
	    test_bits_are_those_of_the_reference);
	tap_run("long tokens take rounds", test_long_tokens_take_rounds);
	tap_run("parameters are those of the host",
	    test_parameters_are_those_of_the_host);
	return tap_done();
}
