/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense_class.c - the data of dense_class.h.
 */
#include "dense_class.h"

#include <string.h>

#include <humming/client.h>

const struct dense_class dense_classes[] = {
    {.name = "w4a16",
	.format = {.group = 128},
	.limit = DENSE_W4A16,
	.peers = {CUBLAS_BF16},
	.n_peers = 1},
    {.name = "w4a8-s8",
	.format = {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U4},
	.limit = DENSE_W4A8,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_S8},
	.n_peers = 2},
    {.name = "w4a8-u4fp8",
	.format = {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_U4},
	.limit = DENSE_W4A8,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2},
    {.name = "w4a8-e2m1fp8",
	.format = {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E2M1},
	.limit = DENSE_W4A8,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2},
    {.name = "w4a8-g128",
	.format = {.act = HM_CONFIG_ACT_E4M3,
	    .weight = HM_CONFIG_WEIGHT_U4,
	    .group = 128},
	.limit = DENSE_W4A8_GROUP,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2},
    {.name = "w8a8-fp8",
	.format = {.act = HM_CONFIG_ACT_E4M3, .weight = HM_CONFIG_WEIGHT_E4M3},
	.limit = DENSE_W8A8,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2},
    {.name = "w8a8-s8",
	.format = {.act = HM_CONFIG_ACT_S8, .weight = HM_CONFIG_WEIGHT_U8},
	.limit = DENSE_W8A8,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_S8},
	.n_peers = 2},
    {.name = "w8a16",
	.format = {.weight = HM_CONFIG_WEIGHT_U8},
	.limit = DENSE_W8A16,
	.peers = {CUBLAS_BF16},
	.n_peers = 1},
    /* Without a line in the table. */
    {.name = "w8a16-e4m3",
	.format = {.weight = HM_CONFIG_WEIGHT_E4M3},
	.limit = DENSE_NO_LIMIT,
	.peers = {CUBLAS_BF16},
	.n_peers = 1,
	.only_named = true},
    {.name = "w8a8-precise",
	.format = {.act = HM_CONFIG_ACT_E4M3,
	    .weight = HM_CONFIG_WEIGHT_E4M3,
	    .precise = true},
	.limit = DENSE_NO_LIMIT,
	.peers = {CUBLAS_FP8, CUBLAS_FP8_FAST},
	.n_peers = 2,
	.only_named = true},
    {.name = "fp8block",
	.format = {.act = HM_CONFIG_ACT_E4M3,
	    .weight = HM_CONFIG_WEIGHT_E4M3,
	    .group = 128,
	    .scales = FORMAT_BLOCKS,
	    .act_scales = FORMAT_ACT_GROUP},
	.limit = DENSE_NO_LIMIT,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2,
	.only_named = true},
    {.name = "mxfp4a8",
	.format = {.act = HM_CONFIG_ACT_E4M3,
	    .weight = HM_CONFIG_WEIGHT_E2M1,
	    .group = 32,
	    .scale_type = HUMMING_TYPE_E8M0},
	.limit = DENSE_NO_LIMIT,
	.peers = {CUBLAS_FP8_FAST, CUBLAS_FP8},
	.n_peers = 2,
	.only_named = true},
    {.name = "mxfp4a16",
	.format = {.weight = HM_CONFIG_WEIGHT_E2M1,
	    .group = 32,
	    .scale_type = HUMMING_TYPE_E8M0},
	.limit = DENSE_NO_LIMIT,
	.peers = {CUBLAS_BF16},
	.n_peers = 1,
	.only_named = true},
};
const size_t dense_n_classes = sizeof dense_classes / sizeof dense_classes[0];

const struct dense_shape dense_shapes[] = {
    {"square", 8192, 8192},
    {"DeepSeek-V4-Flash wq_b", 32768, 1024},
    {"DeepSeek-V4-Flash wo_b", 4096, 8192},
    {"DeepSeek-V4-Flash wq_a", 1024, 4096},
    {"Qwen3-32B gate_up", 51200, 5120},
    {"Qwen3-32B down", 5120, 25600},
    {"Llama-3-70B qkv", 10240, 8192},
};
const size_t dense_n_shapes = sizeof dense_shapes / sizeof dense_shapes[0];

#define N_SQUARE_M 9u
#define N_REAL_M   6u

static const uint32_t square_m[N_SQUARE_M] = {1, 16, 64, 128, 256, 512, 1024,
    4096, 8192};
static const uint32_t real_m[N_REAL_M] = {1, 16, 64, 256, 1024, 4096};

size_t
dense_m_list(uint32_t shape, const uint32_t **m_out)
{
	*m_out = shape == 0 ? square_m : real_m;
	return shape == 0 ? N_SQUARE_M : N_REAL_M;
}

/* Where m stands in a list; the list's length if it does not. */
static size_t
find_m(const uint32_t *list, size_t n, uint32_t m)
{
	size_t i = 0;

	while (i < n && list[i] != m)
		i++;
	return i;
}

/* Issue 4. */
static const float square_goals[DENSE_N_LIMITS][N_SQUARE_M] = {
    [DENSE_W4A16] = {9.0f, 10, 14.5f, 23, 45, 86, 165, 660, 1300},
    [DENSE_W4A8] = {8.9f, 9.8f, 12, 15, 27, 44, 82, 318, 630},
    [DENSE_W4A8_GROUP] = {9.2f, 10, 13, 18, 32, 59, 110, 435, 850},
    [DENSE_W8A8] = {16.8f, 17, 18, 20, 29, 47, 90, 345, 690},
    [DENSE_W8A16] = {16.8f, 17.5f, 19.5f, 26, 47, 88, 168, 675, 1330},
};
static const float square_musts[DENSE_N_LIMITS][N_SQUARE_M] = {
    [DENSE_W4A16] = {10.3f, 12, 17, 25.5f, 49, 90, 175, 715, 1430},
    [DENSE_W4A8] = {10.6f, 10.8f, 13, 16, 28.5f, 47, 90, 350, 690},
    [DENSE_W4A8_GROUP] = {11, 11.3f, 14.7f, 20, 35, 66, 121, 480, 930},
    [DENSE_W8A8] = {18, 18.5f, 20, 22, 31.5f, 52, 99, 370, 750},
    [DENSE_W8A16] = {18, 19, 22, 30, 49, 91, 179, 735, 1470},
};
static const float square_no_pdl[N_SQUARE_M] = {12.4f, 14, 18, 26, 49, 90, 175,
    715, 1430};

struct dense_goals
dense_goals(enum dense_limit limit, uint32_t n, uint32_t k, uint32_t m)
{
	struct dense_goals goals = {0};
	size_t at = find_m(square_m, N_SQUARE_M, m);

	if (limit == DENSE_NO_LIMIT || n != dense_shapes[0].n ||
	    k != dense_shapes[0].k || at == N_SQUARE_M)
		return goals;
	goals.goal = square_goals[limit][at];
	goals.must = square_musts[limit][at];
	if (limit == DENSE_W4A16)
		goals.must_no_pdl = square_no_pdl[at];
	return goals;
}

/* PEERS.md: Humming at 8192 x 8192. */
struct recorded_square {
	const char *class;
	float us[N_SQUARE_M];
};
static const struct recorded_square recorded_square[] = {
    {"w4a16", {17, 17.6f, 24.6f, 33, 55.1f, 98.6f, 195, 826.6f, 1649}},
    {"w4a8-s8", {16.3f, 16.4f, 18.4f, 0, 34.2f, 0, 110.1f, 0, 746}},
    {"w4a8-e2m1fp8", {15.6f, 15.8f, 17.5f, 22.6f, 34, 60, 113.1f, 424.7f, 895}},
    {"w4a8-g128",
	{16.5f, 16.8f, 20.9f, 25.9f, 44.1f, 73.8f, 144.1f, 561.1f, 1215}},
    {"w8a8-fp8", {23.7f, 23.9f, 24.5f, 0, 35.9f, 0, 116.4f, 0, 786}},
    {"w8a8-s8", {23.9f, 24.2f, 24.8f, 0, 34.2f, 0, 114.6f, 0, 760}},
    {"w8a16",
	{26.1f, 26.9f, 31.7f, 39.1f, 66.7f, 114.4f, 216.6f, 824.9f, 1793}},
};

/* PEERS.md, other shapes: the best of Humming and cuBLAS of a width of the
 * activations. Humming's W8A16 and W4A8 were not measured there: cuBLAS bf16 and
 * Humming's W8A8 stand for them. */
struct recorded_real {
	uint32_t n, k;
	float w4a16[N_REAL_M], w8a8[N_REAL_M], bf16[N_REAL_M];
};
static const struct recorded_real recorded_real[] = {
    {32768, 1024, {10, 10.6f, 13.8f, 33.2f, 123.5f, 454},
	{13.4f, 13.7f, 14, 27.9f, 106.5f, 357},
	{20, 20.6f, 22.1f, 30, 99.6f, 369}},
    {4096, 8192, {11.9f, 12.5f, 16.2f, 31.9f, 100, 408},
	{15.1f, 15.4f, 16, 22.6f, 65.2f, 205},
	{23, 24.1f, 25.6f, 33.1f, 93.6f, 344}},
    {1024, 4096, {6.7f, 7.1f, 8.5f, 12.5f, 23.5f, 57},
	{7.4f, 7.8f, 8.7f, 12, 23.1f, 39.2f},
	{7.7f, 7.9f, 8.3f, 10, 16.3f, 44.3f}},
    {51200, 5120, {49.2f, 51.3f, 75.5f, 199, 741, 3356},
	{69.4f, 70.8f, 73.2f, 148, 493, 2075},
	{144, 137.5f, 137, 195, 688, 3171}},
    {5120, 25600, {28.1f, 29.4f, 41.9f, 101, 368, 1568},
	{41.2f, 39.7f, 41.6f, 79.7f, 193, 747},
	{72.7f, 69.6f, 72.8f, 106.6f, 332, 1351}},
    {10240, 8192, {22.7f, 22.1f, 30.2f, 68.5f, 239, 1000},
	{28.1f, 28.1f, 29, 53.3f, 140, 503},
	{49.2f, 49.9f, 45.2f, 64.2f, 218, 857}},
};

static float
recorded_at_real(const struct dense_class *class,
    const struct recorded_real *real, size_t at)
{
	if (format_is_narrow(&class->format))
		return real->w8a8[at];
	if (class->limit == DENSE_W4A16 && real->w4a16[at] < real->bf16[at])
		return real->w4a16[at];
	return real->bf16[at];
}

float
dense_recorded(const struct dense_class *class, uint32_t n, uint32_t k,
    uint32_t m)
{
	size_t at = find_m(square_m, N_SQUARE_M, m);

	if (n == dense_shapes[0].n && k == dense_shapes[0].k) {
		for (size_t i = 0;
		     at < N_SQUARE_M &&
		     i < sizeof recorded_square / sizeof recorded_square[0];
		     i++)
			if (strcmp(recorded_square[i].class, class->name) == 0)
				return recorded_square[i].us[at];
		return 0;
	}
	at = find_m(real_m, N_REAL_M, m);
	for (size_t i = 0; at < N_REAL_M && class->limit != DENSE_NO_LIMIT &&
			   i < sizeof recorded_real / sizeof recorded_real[0];
	     i++)
		if (recorded_real[i].n == n && recorded_real[i].k == k)
			return recorded_at_real(class, &recorded_real[i], at);
	return 0;
}
