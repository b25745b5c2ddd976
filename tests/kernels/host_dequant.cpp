/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_dequant.cpp - dequant.cuh and epilogue.cuh, exhaustively, on the CPU.
 *
 * Every code of every weight type at every position, beside each type of
 * activations it meets, with every neighbour pattern that matters; every scale
 * for which dequant.cuh promises a single rounding; every zero point. Expected
 * values come from exact arithmetic in double.
 */
#include "host/pack.h"
#include "host/ptx_host.h"
#include "host/tap.h"

#include "dequant.cuh"
#include "epilogue.cuh"

/* The word of the pack layout with one code at register i, half h. */
template <act_type T>
static u32
word_with(u32 code, u32 i, u32 h, u32 others)
{
	const u32 shift = 16 * h + 4 * i;
	const u32 word = (others & ~(15u << shift)) | code << shift;

	return T == act_bf16 ? word : rotate_right(word, 32 - 3);
}

/* One code in all eight places. */
template <act_type T>
static u32
word_full_of(u32 code)
{
	const u32 word = code * 0x11111111u;

	return T == act_bf16 ? word : rotate_right(word, 32 - 3);
}

static u32
half_of(u32 pair, u32 h)
{
	return h == 0 ? pair & 0xffff : pair >> 16;
}

/* Same value; the sign of a zero does not matter to an MMA. */
template <act_type T>
static bool
same(u32 bits, double expected)
{
	const u32 want = encode16<T>(expected);

	return bits == want || ((bits | want) & 0x7fff) == 0;
}

/* Encode and decode stand under everything here: check them first. */
template <act_type T>
static void
test_format()
{
	const u32 infinity = T == act_bf16 ? 0x7f80u : 0x7c00u;

	for (u32 bits = 0; bits < infinity; bits++) {
		const double v = decode16<T>(bits);
		const double next =
		    bits + 1 < infinity ? decode16<T>(bits + 1) : v;

		tap_check(encode16<T>(v) == bits, "round trip", bits);
		tap_check(encode16<T>(-v) == (bits | 0x8000), "sign", bits);
		tap_check(next >= v, "order", bits);
		if (bits + 1 >= infinity)
			continue;
		/* half way goes to the even pattern, just beyond to the next */
		tap_check(encode16<T>((v + next) / 2) == (bits + 1) / 2 * 2,
		    "tie", bits);
		tap_check(encode16<T>(v + (next - v) * 0.51) == bits + 1,
		    "above the tie", bits);
		tap_check(encode16<T>(v + (next - v) * 0.49) == bits,
		    "below the tie", bits);
	}
	tap_check(T == act_bf16 ? decode16<T>(1) == std::ldexp(1, -133)
				: decode16<T>(1) == std::ldexp(1, -24),
	    "smallest");
	tap_check(decode16<T>(T == act_bf16 ? 0x3f80 : 0x3c00) == 1.0, "one");
}

/* Kernel S and channel scales: the exact integers times 2^-6. */
template <act_type T>
static void
test_integers()
{
	const dequant_terms terms = unit_terms<T, weight_u4>();
	const u32 patterns[] = {0u, 0xffffffffu, 0x5a5a5a5au, 0x12345678u};

	for (u32 others : patterns)
		for (u32 at = 0; at < 8; at++)
			for (u32 code = 0; code < 16; code++) {
				const u32 i = at / 2, h = at % 2;
				u32 a[4];

				dequant_word<T>(
				    word_with<T>(code, i, h, others), terms, a);
				tap_check(same<T>(half_of(a[i], h),
					      (code - 8.0) / 64),
				    "(u - 8) / 64", code, i, h);
			}
}

/* All 2^32 neighbours cannot matter: a register sees its own two codes only. */
template <act_type T>
static void
test_every_pair_of_codes()
{
	const dequant_terms terms = unit_terms<T, weight_u4>();

	for (u32 i = 0; i < 4; i++)
		for (u32 low = 0; low < 16; low++)
			for (u32 high = 0; high < 16; high++) {
				u32 a[4],
				    word = low << 4 * i | high << (16 + 4 * i);

				if (T == act_f16)
					word = rotate_right(word, 29);
				dequant_word<T>(word, terms, a);
				tap_check(
				    same<T>(a[i] & 0xffff, (low - 8.0) / 64) &&
					same<T>(a[i] >> 16, (high - 8.0) / 64),
				    "both halves", i, low, high);
			}
}

/* Scale r of row g in the low half, another of row g + 8 in the high half. */
template <act_type T>
static void
check_fold(u32 r_even, u32 r_odd)
{
	dequant_terms terms = unit_terms<T, weight_u4>();

	fold_scales<T, zero_none, weight_u4>(terms, r_even | r_odd << 16);
	for (u32 code = 0; code < 16; code++) {
		u32 a[4], word = word_full_of<T>(code);

		dequant_word_folded<T, zero_none>(word, terms, a);
		for (u32 at = 0; at < 8; at++) {
			const double r =
			    decode16<T>(at / 2 % 2 == 0 ? r_even : r_odd);

			tap_check(same<T>(half_of(a[at / 2], at % 2),
				      (code - 8.0) * r / 64),
			    "one rounding", code, r_even, r_odd);
		}
	}
}

/* bf16 from 2^-100, f16 from 2^-11 (dequant.cuh) up to 1, both signs. */
template <act_type T>
static void
test_folded_scales()
{
	const u32 one = T == act_bf16 ? 0x3f80 : 0x3c00;
	const u32 least = T == act_bf16 ? (127 - 100) << 7 : (15 - 11) << 10;

	for (u32 r = least; r <= one; r++)
		check_fold<T>(r, 0x8000 | (one + least - r));
}

/* f16 below 2^-11: C loses bits, but never more than 2^-24 in all. */
static void
test_folded_scales_tiny()
{
	for (u32 r = 0; r < (15 - 11) << 10; r++)
		for (u32 code = 0; code < 16; code++) {
			dequant_terms terms = unit_terms<act_f16, weight_u4>();
			u32 a[4];

			fold_scales<act_f16, zero_none, weight_u4>(terms,
			    r | r << 16);
			dequant_word<act_f16>(word_full_of<act_f16>(code),
			    terms, a);
			const double want =
			    (code - 8.0) * decode16<act_f16>(r) / 64;
			const double got = decode16<act_f16>(a[0] & 0xffff);

			tap_check(std::fabs(got - want) <= std::ldexp(1, -24),
			    "tiny scale", code, r);
		}
}

/* Every u8 zero point: the difference is exact, a scale rounds once. */
template <act_type T>
static void
test_zero_points_int()
{
	const u32 scales[] = {encode16<T>(1), encode16<T>(0.7),
	    encode16<T>(-0.31), encode16<T>(0.0123)};

	for (u32 z = 0; z < 256; z++) {
		dequant_terms terms = unit_terms<T, weight_u4>();
		const u32 z_odd = 255 - z;

		set_zero_points<T, zero_int>(terms, z | z_odd << 8);
		for (u32 code = 0; code < 16; code++) {
			u32 a[4], word = word_full_of<T>(code);

			dequant_word<T>(word, terms, a);
			for (u32 i = 0; i < 4; i++)
				tap_check(same<T>(a[i] & 0xffff,
					      (static_cast<double>(code) -
						  (i % 2 == 0 ? z : z_odd)) /
						  64),
				    "u - z", code, z, i);
			for (u32 r : scales) {
				fold_scales<T, zero_int, weight_u4>(terms,
				    r | r << 16);
				dequant_word_folded<T, zero_int>(word, terms,
				    a);
				tap_check(same<T>(a[2] >> 16,
					      (static_cast<double>(code) - z) *
						  decode16<T>(r) / 64),
				    "(u - z) * r", code, z, r);
			}
		}
	}
}

/* Every float zero point of magnitude 2^-8 to 32: one rounding. */
template <act_type T>
static void
test_zero_points_float()
{
	const u32 least = encode16<T>(std::ldexp(1, -8));
	const u32 most = encode16<T>(32);

	for (u32 z = least; z <= most; z++) {
		dequant_terms terms = unit_terms<T, weight_u4>();
		const u32 z_odd = 0x8000 | (least + most - z);

		set_zero_points<T, zero_float>(terms, z | z_odd << 16);
		for (u32 code = 0; code < 16; code++) {
			u32 a[4];

			dequant_word<T>(word_full_of<T>(code), terms, a);
			for (u32 i = 0; i < 4; i++)
				tap_check(
				    same<T>(a[i] >> 16,
					(code - decode16<T>(
						    i % 2 == 0 ? z : z_odd)) /
					    64),
				    "u - z", code, z, i);
		}
	}
}

/* fp32 fma, then one rounding to the type; low half = first row. */
template <act_type T>
static void
test_epilogue()
{
	const float sums[] = {0.0f, 1.0f, -3.25f, 1234.5678f, -0.001f};

	for (float x : sums)
		for (float y : sums) {
			const row_terms rx = {0.37f, 0.0f}, ry = {-64.0f, 2.5f};
			const u32 pair = finish_pair<T>(x, y, rx, ry);
			const float want_x = std::fma(x, 0.37f, 0.0f);
			const float want_y = std::fma(y, -64.0f, 2.5f);

			tap_check(
			    same<T>(pair & 0xffff, static_cast<double>(want_x)),
			    "first row is the low half");
			tap_check(
			    same<T>(pair >> 16, static_cast<double>(want_y)),
			    "second row is the high half");
		}
}

/* ---- all types ---- */

template <act_type T>
static double
element_value(const u32 *a, u32 i, u32 element)
{
	if (T == act_bf16 || T == act_f16)
		return decode16<T>(half_of(a[i], element));
	const u32 byte = a[i] >> 8 * element & 0xff;

	if (T == act_s8)
		return static_cast<signed char>(byte);
	return decode8<act_e4m3>(byte); /* weights never are e5m2 */
}

/* Words of a step, and where register i lies: (word, slot). */
template <act_type T, weight_type W>
static void
register_place(u32 i, u32 *word, u32 *slot)
{
	const bool wide = T == act_bf16 || T == act_f16;
	const u32 bits = pack_weight_bits(W);
	const u32 in_word = wide && bits == 4 ? 4 : wide || bits == 4 ? 2 : 1;

	*word = i / in_word;
	*slot = i % in_word;
}

/* Every code in every element of every register, whatever else is there. */
template <act_type T, weight_type W, scale_type S>
static void
check_every_code(const dequant_terms &terms, double even_r, double odd_r)
{
	const u32 patterns[] = {0u, 0xffffffffu, 0x5a5a5a5au, 0x12345678u};
	const u32 elements = T == act_bf16 || T == act_f16 ? 2 : 4;
	const u32 n_codes = 1u << pack_weight_bits(W);
	const u32 all = n_codes - 1; /* sets every bit of a slot, except u4 */

	for (u32 at = 0; at < 4 * elements * n_codes; at++) {
		const u32 i = at / n_codes / elements;
		const u32 element = at / n_codes % elements;
		const u32 code = at % n_codes;
		u32 word, slot, mask = 0;

		if (!pack_is_code(W, code))
			continue;
		register_place<T, W>(i, &word, &slot);
		for (u32 c = 0; c <= all; c++)
			mask |= pack_word(T, W, S, slot, element, c);
		for (u32 others : patterns) {
			u32 words[4] = {others, others, others, others}, a[4];
			const double want = pack_value(W, code) *
					    pack_factor(T, W, S) *
					    (i % 2 == 0 ? even_r : odd_r);

			words[word] = (others & ~mask) |
				      pack_word(T, W, S, slot, element, code);
			dequant_step<T, W, S, zero_none>(words, terms, a);
			const double got = element_value<T>(a, i, element);

			tap_check(T == act_bf16 || T == act_f16
				      ? same<T>(half_of(a[i], element), want)
				      : got == want,
			    "value times factor", code, i, element);
		}
	}
}

template <act_type T, weight_type W>
static void
test_codes()
{
	check_every_code<T, W, scale_none>(unit_terms<T, W>(), 1, 1);
}

/* No bit of a word is used twice, and none is wasted. */
template <act_type T, weight_type W, scale_type S>
static void
test_tiling()
{
	const bool wide = T == act_bf16 || T == act_f16;
	const u32 bits = pack_weight_bits(W);
	const u32 slots = wide && bits == 4 ? 4 : wide || bits == 4 ? 2 : 1;
	u32 seen = 0;

	for (u32 slot = 0; slot < slots; slot++)
		for (u32 element = 0; element < (wide ? 2 : 4); element++) {
			u32 mask = 0;

			for (u32 code = 0; code < 1u << bits; code++)
				mask |= pack_word(T, W, S, slot, element, code);
			tap_check((seen & mask) == 0, "used twice", slot,
			    element);
			seen |= mask;
		}
	tap_check(seen == 0xffffffffu, "all bits used");
}

/* Folded 16-bit scales: one rounding, different ones for rows g and g + 8. */
template <act_type T, weight_type W>
static void
test_folded_codes()
{
	const double scales[] = {1, 0.5, 0.7, 0.3141, 0.0123, -0.77};

	for (double even : scales)
		for (double odd : scales) {
			const u32 e = encode16<T>(even), o = encode16<T>(odd);
			dequant_terms terms = unit_terms<T, W>();

			fold_scales<T, zero_none, W>(terms, e | o << 16);
			check_every_code<T, W, scale_bf16>(terms,
			    decode16<T>(e), decode16<T>(o));
		}
}

/* Exponents: every byte that the packer writes, in both places. */
template <act_type T>
static void
test_exponents()
{
	for (u32 byte = 0; byte <= 127; byte++)
		for (u32 other : {0u, 1u, 127u}) {
			const double v =
			    byte == 0
				? 0
				: std::ldexp(1, static_cast<int>(byte) - 127);
			const u32 low = exponent_pair<T>(byte | other << 8);
			const u32 high = exponent_pair<T>(other | byte << 8);
			const scale_pair s =
			    scales_of<scale_e8m0>(byte | other << 8, 0);

			tap_check((low & 0xffff) == encode16<T>(v), "even",
			    byte, other);
			tap_check(high >> 16 == encode16<T>(v), "odd", byte,
			    other);
			tap_check(static_cast<double>(s.even) == v, "fp32",
			    byte, other);
			tap_check((bits_of(s.odd) >> 23) == other, "fp32, odd",
			    byte, other);
		}
}

template <act_type T, weight_type W>
static void
test_folded_exponents()
{
	for (u32 byte = 127; byte > 113; byte--) {
		dequant_terms terms = unit_terms<T, W>();

		fold_scales<T, zero_none, W>(terms,
		    exponent_pair<T>(byte | (byte - 3) << 8));
		check_every_code<T, W, scale_e8m0>(terms,
		    std::ldexp(1, static_cast<int>(byte) - 127),
		    std::ldexp(1, static_cast<int>(byte) - 130));
	}
}

/* All pairs of table exponents, exactly. */
template <act_type T>
static void
test_tables()
{
	for (u32 even = 0; even < 12; even++)
		for (u32 odd = 0; odd < 12; odd++) {
			dequant_terms terms = {};

			set_tables(terms, even | odd << 8);
			check_every_code<T, weight_e2m1, scale_mx>(terms,
			    std::ldexp(1, static_cast<int>(even) - 5),
			    std::ldexp(1, static_cast<int>(odd) - 5));
		}
}

/* Scales that meet fp32 sums. */
static void
test_scales_of()
{
	const float x = 0.3141f, y = -77.5f;
	const scale_pair wide = scales_of<scale_f32>(bits_of(x), bits_of(y));
	const scale_pair bf16 = scales_of<scale_bf16>(0xbf003f80u, 0);
	const scale_pair f16 = scales_of<scale_f16>(0xb8003c00u, 0);
	const scale_pair none = scales_of<scale_none>(0, 0);

	tap_check(bits_of(wide.even) == bits_of(x) &&
		      bits_of(wide.odd) == bits_of(y),
	    "f32");
	tap_check(bf16.even == 1.0f && bf16.odd == -0.5f, "bf16");
	tap_check(f16.even == 1.0f && f16.odd == -0.5f, "f16");
	tap_check(none.even == 1.0f && none.odd == 1.0f, "none");
}

template <act_type T>
static void
run_16(const char *name)
{
	std::printf("# all weights on %s\n", name);
	tap_run("u4 codes", test_codes<T, weight_u4>);
	tap_run("u8 codes", test_codes<T, weight_u8>);
	tap_run("e2m1 codes", test_codes<T, weight_e2m1>);
	tap_run("e4m3 codes", test_codes<T, weight_e4m3>);
	tap_run("u4 tiling", test_tiling<T, weight_u4, scale_none>);
	tap_run("u8 tiling", test_tiling<T, weight_u8, scale_none>);
	tap_run("e2m1 tiling", test_tiling<T, weight_e2m1, scale_none>);
	tap_run("e4m3 tiling", test_tiling<T, weight_e4m3, scale_none>);
	tap_run("u4 folded", test_folded_codes<T, weight_u4>);
	tap_run("u8 folded", test_folded_codes<T, weight_u8>);
	tap_run("e2m1 folded", test_folded_codes<T, weight_e2m1>);
	tap_run("e4m3 folded", test_folded_codes<T, weight_e4m3>);
	tap_run("exponents", test_exponents<T>);
	tap_run("u4 exponents", test_folded_exponents<T, weight_u4>);
	tap_run("u8 exponents", test_folded_exponents<T, weight_u8>);
	tap_run("e2m1 exponents", test_folded_exponents<T, weight_e2m1>);
	tap_run("e4m3 exponents", test_folded_exponents<T, weight_e4m3>);
}

template <act_type T>
static void
run_fp8(const char *name)
{
	std::printf("# all weights on %s\n", name);
	tap_run("u4 codes", test_codes<T, weight_u4>);
	tap_run("e2m1 codes", test_codes<T, weight_e2m1>);
	tap_run("e4m3 codes", test_codes<T, weight_e4m3>);
	tap_run("e2m1 tables", test_tables<T>);
	tap_run("u4 tiling", test_tiling<T, weight_u4, scale_none>);
	tap_run("e2m1 tiling", test_tiling<T, weight_e2m1, scale_none>);
	tap_run("e2m1 tables, tiling", test_tiling<T, weight_e2m1, scale_mx>);
}

int
main()
{
	run_16<act_bf16>("bf16");
	run_16<act_f16>("f16");
	run_fp8<act_e4m3>("e4m3");
	run_fp8<act_e5m2>("e5m2");
	std::printf("# all weights on s8\n");
	tap_run("u4 codes", test_codes<act_s8, weight_u4>);
	tap_run("u8 codes", test_codes<act_s8, weight_u8>);
	tap_run("u4 tiling", test_tiling<act_s8, weight_u4, scale_none>);
	tap_run("scales of sums", test_scales_of);
	tap_run("format bf16", test_format<act_bf16>);
	tap_run("format f16", test_format<act_f16>);
	tap_run("integers bf16", test_integers<act_bf16>);
	tap_run("integers f16", test_integers<act_f16>);
	tap_run("pairs of codes bf16", test_every_pair_of_codes<act_bf16>);
	tap_run("pairs of codes f16", test_every_pair_of_codes<act_f16>);
	tap_run("folded scales bf16", test_folded_scales<act_bf16>);
	tap_run("folded scales f16", test_folded_scales<act_f16>);
	tap_run("folded scales f16, tiny", test_folded_scales_tiny);
	tap_run("integer zero points bf16", test_zero_points_int<act_bf16>);
	tap_run("integer zero points f16", test_zero_points_int<act_f16>);
	tap_run("float zero points bf16", test_zero_points_float<act_bf16>);
	tap_run("float zero points f16", test_zero_points_float<act_f16>);
	tap_run("epilogue bf16", test_epilogue<act_bf16>);
	tap_run("epilogue f16", test_epilogue<act_f16>);
	return tap_done();
}
