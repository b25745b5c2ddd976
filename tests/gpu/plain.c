/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.c - random quantized matrices of any format.
 *
 * Codes are uniform, but for e4m3: 15 of 16 follow a normal distribution whose
 * largest values are near the type's, as in real checkpoints, one of 16 is
 * uniform, so that every code occurs. Scales are 2^-5 * (0.25..1) times a
 * factor of the row and what makes outputs stay near 10 for every k used here,
 * inside f16. One in 64 is zero, one in 64 a thousand times smaller, one in 16
 * negative (KERNELS.md 9: spans, zero groups); those of e8m0 are powers of two,
 * one in 64 of which is 2^-7 smaller (mx=fused takes a span of 2^11).
 */
#include "plain.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/number.h"
#include "proto/request.h"

#define PLAIN_N_SAMPLES 4096u
#define PLAIN_SIGMA     112.0 /* of e4m3 codes */

static uint32_t
plain_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

void *
plain_alloc(size_t n, size_t size)
{
	void *memory = calloc(n != 0 ? n : 1, size);

	if (memory == NULL) {
		printf("Bail out! no memory\n");
		fflush(stdout);
		_exit(3);
	}
	return memory;
}

/* ---- codes ---- */

/* One of a sample of the codes that a matrix may have. */
static uint32_t
plain_sample(const struct plain *plain, uint64_t *state)
{
	uint32_t weight = plain->format.weight;
	uint32_t r = plain_random(state);
	double sum = 0;

	if (weight != HM_CONFIG_WEIGHT_E4M3)
		return r >> 8 & (format_n_codes(weight) - 1);
	if (plain->inputs == OPS_INTEGERS)
		return format_encode_e4m3((double)(r % 17) - 8);
	if (plain->inputs == OPS_ONE_HOT || r % 16 == 0) {
		r = r >> 8 & 0xff;
		return (r & 0x7f) == 0x7f ? r - 1 : r; /* not NaN */
	}
	for (uint32_t i = 0; i < 4; i++)
		sum += plain_random(state) % 65536 / 65536.0 - 0.5;
	return format_encode_e4m3(sum * sqrt(3) * PLAIN_SIGMA);
}

static void
plain_fill_codes(struct plain *plain, uint64_t *state)
{
	uint8_t samples[PLAIN_N_SAMPLES];
	uint32_t n_codes = format_n_codes(plain->format.weight);
	size_t n = (size_t)plain->n * plain->k;

	for (uint32_t i = 0; i < PLAIN_N_SAMPLES; i++)
		samples[i] = (uint8_t)plain_sample(plain, state);
	for (size_t i = 0; i < n; i += 2) { /* k is even */
		uint32_t r = plain_random(state);

		if (plain->format.weight == HM_CONFIG_WEIGHT_E4M3) {
			plain->codes[i] = samples[r >> 4 & 0xfff];
			plain->codes[i + 1] = samples[r >> 16 & 0xfff];
		} else {
			plain->codes[i] = (uint8_t)(r >> 4 & (n_codes - 1));
			plain->codes[i + 1] =
			    (uint8_t)(r >> 16 & (n_codes - 1));
		}
	}
}

/* ---- scales and zero points ---- */

static double
plain_random_scale(uint64_t *state, double row_factor)
{
	uint32_t r = plain_random(state);
	double scale = (0.25 + 0.75 * (r % 1024) / 1024.0) / 32 * row_factor;

	if (r >> 10 & 0xf)
		return r >> 14 & 0x3f ? scale : scale / 1024;
	return (r >> 14 & 3) != 0 ? -scale : 0;
}

/* Standard deviation of u4's codes over that of these. */
static double
plain_code_factor(uint32_t weight)
{
	return weight == HM_CONFIG_WEIGHT_U8 || weight == HM_CONFIG_WEIGHT_E4M3
		   ? 1.0 / 16
		   : 1;
}

static size_t
plain_scale_bytes(uint32_t type)
{
	return type == HM_TYPE_F32 ? 4 : type == HM_TYPE_E8M0 ? 1 : 2;
}

/* Write element `at` of the source's scales; what it is worth then. */
static double
plain_store_scale(struct plain *plain, size_t at, double scale)
{
	uint32_t type = format_scale_type(&plain->format);
	float single = (float)scale;
	uint16_t half = 0;
	int exponent = 0;

	switch (type) {
	case HM_TYPE_F32:
		memcpy(plain->scales + 4 * at, &single, 4);
		return (double)single;
	case HM_TYPE_E8M0:
		(void)frexp(scale, &exponent); /* scale = 2^(exponent - 1) */
		plain->scales[at] = (unsigned char)(exponent - 1 + 127);
		return ldexp(1, exponent - 1);
	default:
		half = hm_number_encode16(type, scale);
		memcpy(plain->scales + 2 * at, &half, 2);
		return hm_number_decode16(type, half);
	}
}

static double
plain_make_scale(struct plain *plain, size_t at, double row_factor,
    uint64_t *state)
{
	double factor = row_factor * plain_code_factor(plain->format.weight);
	uint32_t r = 0;

	if (plain->inputs != OPS_NORMAL)
		return plain_store_scale(plain, at, 1);
	if (format_scale_type(&plain->format) != HM_TYPE_E8M0)
		return plain_store_scale(plain, at,
		    plain_random_scale(state, factor));
	r = plain_random(state);
	return plain_store_scale(plain, at,
	    ldexp(factor, -5 - (int)(r % 4) - (r >> 8 & 0x3f ? 0 : 7)));
}

/* A scale per row and group, whatever the source's form. */
static void
plain_fill_scales(struct plain *plain, uint64_t *state)
{
	uint32_t scales = plain->format.scales;

	for (uint32_t n = 0; n < plain->n; n++) {
		double row_factor = ldexp(1, -(int)(plain_random(state) % 3));

		for (uint32_t g = 0; g < plain->n_groups; g++) {
			size_t at = (size_t)n * plain->n_groups + g;
			size_t first = 0; /* that shares the scale */
			size_t stored = at;

			if (scales == FORMAT_BLOCKS) {
				first =
				    (size_t)(n / FORMAT_BLOCK * FORMAT_BLOCK) *
					plain->n_groups +
				    g;
				stored = (size_t)(n / FORMAT_BLOCK) *
					     plain->n_groups +
					 g;
			} else if (scales == FORMAT_GROUPS) {
				first = at;
			}
			plain->scale_values[at] =
			    first != at ? plain->scale_values[first]
					: (float)plain_make_scale(plain, stored,
					      row_factor, state);
		}
	}
}

static void
plain_fill_zeros(struct plain *plain, uint64_t *state)
{
	size_t n = (size_t)plain->n * plain->n_groups;
	uint32_t type = format_a_type(&plain->format);

	for (size_t i = 0; i < n; i++) {
		double zero = format_code_zero(plain->format.weight);
		uint32_t r = plain_random(state);

		if (plain->format.zero == HM_CONFIG_ZERO_INT) {
			plain->zero_codes[i] = r & 15;
			zero = plain->zero_codes[i];
		} else if (plain->format.zero == HM_CONFIG_ZERO_FLOAT) {
			zero = plain->inputs != OPS_NORMAL
				   ? r % 16
				   : 7.5 + (r % 4096) / 1024.0 - 2;
			plain->zeros[i] = hm_number_encode16(type, zero);
			zero = hm_number_decode16(type, plain->zeros[i]);
		}
		plain->zero_values[i] = (float)zero;
	}
}

void
plain_init(struct plain *plain, const struct format *format, uint32_t n,
    uint32_t k, uint32_t inputs)
{
	uint64_t state = 12345 + n * 3 + k + format->group * 7 +
			 format->zero * 5 + format->act + format->weight * 11;
	size_t n_scales = 0;

	memset(plain, 0, sizeof *plain);
	plain->format = *format;
	plain->n = n;
	plain->k = k;
	plain->inputs = inputs;
	plain->n_groups =
	    format->group != 0 ? (k + format->group - 1) / format->group : 1;
	n_scales = (size_t)n * plain->n_groups;
	plain->codes = plain_alloc((size_t)n * k, 1);
	plain->scales = plain_alloc(n_scales, 4);
	plain->zero_codes = plain_alloc(n_scales, 1);
	plain->zeros = plain_alloc(n_scales, 2);
	plain->bias = plain_alloc(n, sizeof(float));
	plain->scale_values = plain_alloc(n_scales, sizeof(float));
	plain->zero_values = plain_alloc(n_scales, sizeof(float));
	plain_fill_codes(plain, &state);
	plain_fill_scales(plain, &state);
	plain_fill_zeros(plain, &state);
	for (uint32_t i = 0; i < n; i++)
		plain->bias[i] =
		    inputs != OPS_NORMAL
			? (float)(plain_random(&state) % 64) - 32
			: (float)(plain_random(&state) % 4096) / 512 - 4;
}

void
plain_done(struct plain *plain)
{
	free(plain->codes);
	free(plain->scales);
	free(plain->zero_codes);
	free(plain->zeros);
	free(plain->bias);
	free(plain->scale_values);
	free(plain->zero_values);
}

/* ---- the library's packer ---- */

void
plain_source(const struct plain *plain,
    struct humming_weight_source *source_out)
{
	const struct format *format = &plain->format;
	static const uint32_t kinds[] = {HUMMING_SCALE_GROUP,
	    HUMMING_SCALE_TENSOR, HUMMING_SCALE_BLOCK};
	struct humming_weight_source source;

	humming_weight_source_init(&source, sizeof source);
	source.n = plain->n;
	source.k = plain->k;
	source.a_type = format_a_type(format);
	source.w_type = format_w_type(format);
	source.scale_kind = kinds[format->scales % 3];
	if (format->scales == FORMAT_GROUPS && format->group == 0)
		source.scale_kind = HUMMING_SCALE_CHANNEL;
	if (format->scales == FORMAT_GROUPS)
		source.group = format->group;
	if (format->scales == FORMAT_BLOCKS)
		source.block = FORMAT_BLOCK;
	source.scale_type = format_scale_type(format);
	source.mx_exact = format->mx_exact;
	source.zero = format->zero;
	source.codes = plain->codes;
	source.scales = plain->scales;
	if (format->zero == HM_CONFIG_ZERO_INT)
		source.zeros = plain->zero_codes;
	else if (format->zero == HM_CONFIG_ZERO_FLOAT)
		source.zeros = plain->zeros;
	source.bias = plain->bias;
	*source_out = source;
}

/* Rows of one call of the packer: a pack is row blocks behind each other, so
 * slabs can be packed apart. Whole blocks of the pack and of scales. */
#define PLAIN_SLAB_ROWS   128u
#define PLAIN_MAX_THREADS 16u

/* Slabs that threads take in turn; the last call that failed. */
struct plain_slabs {
	const struct plain *plain;
	struct plain_packed *packed;
	size_t block_bytes; /* of 64 rows */
	atomic_uint next;
	atomic_int error;
};

static int
plain_pack_slab(const struct plain_slabs *slabs, uint32_t first)
{
	const struct plain *plain = slabs->plain;
	struct plain slab = *plain;
	struct humming_weight_source source;
	size_t groups = plain->n_groups;
	size_t scale_row = first;

	if (plain->format.scales == FORMAT_BLOCKS)
		scale_row = first / FORMAT_BLOCK;
	else if (plain->format.scales == FORMAT_TENSOR)
		scale_row = 0;
	slab.n = plain->n - first < PLAIN_SLAB_ROWS ? plain->n - first
						    : PLAIN_SLAB_ROWS;
	slab.codes += (size_t)first * plain->k;
	slab.scales += scale_row * groups *
		       plain_scale_bytes(format_scale_type(&plain->format));
	slab.zero_codes += first * groups;
	slab.zeros += first * groups;
	slab.bias += first;
	plain_source(&slab, &source);
	return humming_weight_pack(&source,
	    (unsigned char *)slabs->packed->packed +
		first / 64 * slabs->block_bytes,
	    slabs->packed->rowmul + first, slabs->packed->bias + first);
}

static void *
plain_pack_thread(void *slabs_of)
{
	struct plain_slabs *slabs = slabs_of;
	uint32_t first = 0;

	while ((first = PLAIN_SLAB_ROWS * atomic_fetch_add(&slabs->next, 1)) <
	       slabs->plain->n) {
		int error = plain_pack_slab(slabs, first);
		char text[128];

		if (error == HUMMING_OK)
			continue;
		/* The reason is the thread's own. */
		format_describe(&slabs->plain->format, text, sizeof text);
		printf("Bail out! packer, %s: %s\n", text,
		    humming_gemm_last_error());
		atomic_store(&slabs->error, error);
	}
	return NULL;
}

static int
plain_pack_all(const struct plain *plain, struct plain_packed *packed)
{
	struct plain_slabs slabs = {.plain = plain, .packed = packed};
	pthread_t threads[PLAIN_MAX_THREADS];
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	size_t n = 0;

	slabs.block_bytes = packed->sizes.packed_bytes / ((plain->n + 63) / 64);
	while (
	    n + 1 < PLAIN_MAX_THREADS && (long)n + 1 < cores &&
	    n < plain->n / PLAIN_SLAB_ROWS &&
	    pthread_create(&threads[n], NULL, plain_pack_thread, &slabs) == 0)
		n++;
	(void)plain_pack_thread(&slabs);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return atomic_load(&slabs.error);
}

void
plain_pack(const struct plain *plain, struct plain_packed *packed_out)
{
	struct humming_weight_source source;
	struct plain_packed packed = {
	    .sizes = {.struct_size = sizeof packed.sizes}};
	int error = HUMMING_OK;

	plain_source(plain, &source);
	error = humming_weight_size(&source, &packed.sizes);
	if (error != HUMMING_OK)
		printf("Bail out! packer: %s\n", humming_gemm_last_error());
	packed.packed = plain_alloc(packed.sizes.packed_bytes, 1);
	packed.rowmul = plain_alloc(packed.sizes.rowmul_bytes, 1);
	packed.bias = plain_alloc(packed.sizes.bias_bytes, 1);
	if (error == HUMMING_OK)
		error = plain_pack_all(plain, &packed);
	if (error != HUMMING_OK) {
		fflush(stdout);
		_exit(3);
	}
	*packed_out = packed;
}

void
plain_packed_done(struct plain_packed *packed)
{
	free(packed->packed);
	free(packed->rowmul);
	free(packed->bias);
}
