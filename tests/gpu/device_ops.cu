/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_ops.cu - inputs, reference and comparison on the GPU.
 *
 * The reference shares nothing with the kernels under test: plain codes, double
 * precision, one thread per output. tests/gpu/gemm_check compares it with the
 * CPU's (client/gemm_reference.c) before it trusts it.
 */
#include "device_ops.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace
{

constexpr int hang_seconds = 20;

[[noreturn]] void
bail_out(const char *what, cudaError_t result)
{
	printf("Bail out! %s: %s\n", what,
	    result == cudaErrorNotReady ? "does not finish"
					: cudaGetErrorString(result));
	fflush(stdout);
	_exit(3);
}

void
check(cudaError_t result, const char *what)
{
	if (result != cudaSuccess)
		bail_out(what, result);
}

double
seconds()
{
	timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

cudaStream_t
stream_of(void *stream)
{
	return static_cast<cudaStream_t>(stream);
}

/* splitmix64, upper half */
__device__ uint32_t
hash(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return uint32_t(x >> 32);
}

__device__ uint16_t
to_bits(double value, bool is_f16)
{
	if (is_f16)
		return __half_as_ushort(__double2half(value));
	return __bfloat16_as_ushort(__double2bfloat16(value));
}

__device__ float
to_float(uint16_t bits, bool is_f16)
{
	if (is_f16)
		return __half2float(__ushort_as_half(bits));
	return __bfloat162float(__ushort_as_bfloat16(bits));
}

__device__ float
from_fp8(uint8_t bits, __nv_fp8_interpretation_t type)
{
	return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, type)));
}

/* An element of activations as its type. */
__device__ void
store_value(const ops_activations &a, size_t at, float value)
{
	uint8_t *bytes = static_cast<uint8_t *>(a.d_a);
	switch (a.type) {
	case OPS_E4M3:
		bytes[at] =
		    __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
		return;
	case OPS_E5M2:
		bytes[at] =
		    __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
		return;
	case OPS_S8:
		bytes[at] =
		    uint8_t(int8_t(fminf(fmaxf(rintf(value), -127.f), 127.f)));
		return;
	default:
		static_cast<uint16_t *>(a.d_a)[at] =
		    to_bits(double(value), a.type == OPS_F16);
	}
}

/* Beyond k: what must not be read shows. */
__device__ void
store_poison(const ops_activations &a, size_t at)
{
	if (a.type < OPS_E4M3)
		static_cast<uint16_t *>(a.d_a)[at] = 0xffff;
	else
		static_cast<uint8_t *>(a.d_a)[at] =
		    a.type == OPS_S8 ? 0x80 : 0xff;
}

__device__ float
load_value(const ops_activations &a, size_t at)
{
	const uint8_t *bytes = static_cast<const uint8_t *>(a.d_a);
	switch (a.type) {
	case OPS_E4M3:
		return from_fp8(bytes[at], __NV_E4M3);
	case OPS_E5M2:
		return from_fp8(bytes[at], __NV_E5M2);
	case OPS_S8:
		return float(int8_t(bytes[at]));
	default:
		return to_float(static_cast<const uint16_t *>(a.d_a)[at],
		    a.type == OPS_F16);
	}
}

__device__ double
load_scale(const ops_activations &a, uint32_t m, uint32_t k)
{
	if (a.d_scales == nullptr)
		return 1;
	return double(
	    a.d_scales[size_t(m) * a.scale_step +
		       size_t(k / OPS_SCALE_GROUP) * a.scale_group_step]);
}

/* Standard deviation of OPS_NORMAL: the largest of a few thousand values is
 * near the largest that the type has, as after quantization. */
__device__ float
spread(uint32_t type)
{
	return type == OPS_E4M3   ? 112.f
	       : type == OPS_E5M2 ? 8192.f
	       : type == OPS_S8   ? 32.f
				  : 1.f;
}

__device__ float
input_value(const ops_activations &a, uint32_t m, uint32_t k)
{
	const uint64_t at =
	    (uint64_t(a.seed) << 40) + uint64_t(m) * 1000003u + k;
	if (a.inputs == OPS_ONE_HOT)
		return k == (m * 37u + 11u) % a.k ? 1.f : 0.f;
	if (a.inputs == OPS_INTEGERS) {
		const bool fp8 = a.type == OPS_E4M3 || a.type == OPS_E5M2;
		return fp8 ? float(int(hash(at) % 5) - 2)
			   : float(int(hash(at) % 9) - 4);
	}
	float sum = 0; /* four uniforms of variance 1/12 each, times sqrt(3) */
	for (int i = 0; i < 4; i++)
		sum += float(hash(at * 4 + i) & 0xffff) / 65536.f - .5f;
	return sum * 1.732f * spread(a.type);
}

__global__ void
fill_kernel(ops_activations a)
{
	const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x,
		       m = blockIdx.y;
	if (k >= a.ld)
		return;
	const size_t at = size_t(m) * a.ld + k;
	if (k < a.k)
		store_value(a, at, input_value(a, m, k));
	else
		store_poison(a, at);
}

__global__ void
fill_scales_kernel(ops_activations a, uint32_t n_groups)
{
	const uint32_t m = blockIdx.x * blockDim.x + threadIdx.x,
		       g = blockIdx.y;
	if (m >= a.m || g >= n_groups)
		return;
	/* Of tokens and groups that share one, all write the same. */
	const uint32_t r = hash((uint64_t(a.seed) << 40) +
				uint64_t(a.scale_step ? m : 0) * 65537u +
				(a.scale_group_step ? g : 0));
	const float scale =
	    a.inputs != OPS_NORMAL
		? exp2f(-float(r % 3))
		: (.25f + .75f * float(r % 1024) / 1024.f) / spread(a.type);
	a.d_scales[size_t(m) * a.scale_step + size_t(g) * a.scale_group_step] =
	    scale;
}

__global__ void
poison_kernel(uint16_t *c, size_t n)
{
	for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
	     i += size_t(gridDim.x) * blockDim.x)
		c[i] = 0xffff;
}

/* 16 KB a CTA, 64 bytes a thread. */
__global__ void
plain_kernel(uint4 *memory)
{
	for (uint32_t i = 0; i < 4; i++)
		memory[(blockIdx.x * 4 + i) * blockDim.x + threadIdx.x] =
		    make_uint4(i, i, i, i);
}

constexpr int tile = 32;

/* 32 rows by 32 tokens a CTA of 32 x 8 threads; a thread has four tokens of one
 * row. */
__global__ void
reference_kernel(ops_weights w, ops_activations a, ops_reference r)
{
	__shared__ double weights[tile][tile + 1], tokens[tile][tile + 1];
	const uint32_t x = threadIdx.x, y = threadIdx.y;
	const uint32_t n0 = blockIdx.x * tile, t0 = blockIdx.y * tile;
	const uint32_t groups = (w.k + w.group - 1) / w.group;
	double sums[4] = {0, 0, 0, 0}, squares[4] = {0, 0, 0, 0};
	for (uint32_t k0 = 0; k0 < w.k; k0 += tile) {
		const uint32_t k = k0 + x;
		for (uint32_t i = y; i < tile; i += 8) {
			const uint32_t n = n0 + i, t = t0 + i;
			double value = 0, token = 0;
			if (n < w.n && k < w.k) {
				const size_t g =
				    size_t(n) * groups + k / w.group;
				value = (w.d_values[w.d_codes[size_t(n) * w.k +
							      k]] -
					    double(w.d_zeros[g])) *
					double(w.d_scales[g]);
			}
			if (t < r.n_tokens && k < w.k) {
				const uint32_t m =
				    r.d_tokens ? r.d_tokens[t] : t;
				token = double(load_value(a,
					    size_t(m) * a.ld + k)) *
					load_scale(a, m, k);
			}
			weights[i][x] = value;
			tokens[i][x] = token;
		}
		__syncthreads();
		for (uint32_t i = 0; i < tile; i++)
			for (uint32_t j = 0; j < 4; j++) {
				const double product =
				    weights[x][i] * tokens[y + 8 * j][i];
				sums[j] += product;
				squares[j] += product * product;
			}
		__syncthreads();
	}
	const uint32_t n = n0 + x;
	for (uint32_t j = 0; j < 4; j++) {
		const uint32_t t = t0 + y + 8 * j;
		if (n >= w.n || t >= r.n_tokens)
			continue;
		r.d_sums[size_t(t) * w.n + n] = sums[j];
		r.d_squares[size_t(t) * w.n + n] = float(squares[j]);
	}
}

/* Error, |ref|^2 and squares, summed over something. */
struct sum3 {
	double error, size, squares;
};

struct compare_results {
	uint32_t unwritten, outside, inexact, different;
	uint32_t
	    worst; /* bits of a float >= 0, so that integers compare like floats */
};

__device__ void
add(sum3 *to, const sum3 &s)
{
	atomicAdd(&to->error, s.error);
	atomicAdd(&to->size, s.size);
	atomicAdd(&to->squares, s.squares);
}

__device__ uint16_t
output_bits(const ops_output &c, uint32_t m, uint32_t n)
{
	return static_cast<const uint16_t *>(c.d_c)[size_t(m) * c.ld + n];
}

__device__ double
wanted_output(const ops_output &c, const ops_reference &r, uint32_t t,
    uint32_t n)
{
	return r.d_sums[size_t(t) * r.n + n % r.n] +
	       (c.d_bias ? double(c.d_bias[n]) : 0.);
}

constexpr uint32_t strip = 32; /* tokens of a CTA */

/* 256 rows by a strip of tokens; n_tokens of the reference lie below m. */
__global__ void
compare_kernel(ops_output c, ops_reference r, uint32_t n_tokens, sum3 *by_token,
    sum3 *by_row, compare_results *results)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x;
	const bool inside = n < c.n;
	sum3 row = {0, 0, 0};
	float worst = 0;
	for (uint32_t t = blockIdx.y * strip;
	     t < n_tokens && t < (blockIdx.y + 1) * strip; t++) {
		sum3 one = {0, 0, 0};
		if (inside) {
			const double wanted = wanted_output(c, r, t, n);
			const double squares =
			    double(r.d_squares[size_t(t) * r.n + n % r.n]);
			const uint16_t bits =
			    output_bits(c, r.d_tokens ? r.d_tokens[t] : t, n);
			const double error =
			    double(to_float(bits, c.is_f16)) - wanted;
			one = {error * error, wanted * wanted, squares};
			const double size = fmax(one.size, squares);
			if (isfinite(error) && size > 0)
				worst =
				    fmaxf(worst, float(sqrt(one.error / size)));
			else if (isfinite(error) && error != 0)
				worst = 1e30f;
			row.error += one.error, row.size += one.size,
			    row.squares += one.squares;
		}
		for (int o = 16; o; o >>= 1) {
			one.error += __shfl_down_sync(~0u, one.error, o);
			one.size += __shfl_down_sync(~0u, one.size, o);
			one.squares += __shfl_down_sync(~0u, one.squares, o);
		}
		if ((threadIdx.x & 31) == 0)
			add(by_token + t, one);
	}
	if (inside) {
		add(by_row + n, row);
		atomicMax(&results->worst, __float_as_uint(worst));
	}
}

/* Everything from the first guard row to the last: finite inside, poison
 * outside. */
__global__ void
written_kernel(ops_output c, compare_results *results)
{
	const uint32_t column = blockIdx.x * blockDim.x + threadIdx.x;
	const int64_t rows = int64_t(c.m) + 2 * int64_t(c.guard_rows);
	uint32_t unwritten = 0, outside = 0;
	if (column >= c.ld)
		return;
	for (int64_t i = blockIdx.y; i < rows; i += gridDim.y) {
		const int64_t m = i - c.guard_rows;
		const uint16_t bits = static_cast<const uint16_t *>(
		    c.d_c)[m * int64_t(c.ld) + column];
		if (m >= 0 && m < c.m && column < c.n)
			unwritten += !isfinite(to_float(bits, c.is_f16));
		else
			outside += bits != 0xffff;
	}
	if (unwritten)
		atomicAdd(&results->unwritten, unwritten);
	if (outside)
		atomicAdd(&results->outside, outside);
}

__global__ void
inexact_kernel(ops_output c, ops_reference r, uint32_t n_tokens,
    compare_results *results)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x,
		       t = blockIdx.y;
	if (n >= c.n || t >= n_tokens)
		return;
	const uint16_t wanted = to_bits(wanted_output(c, r, t, n), c.is_f16);
	const uint16_t bits = output_bits(c, r.d_tokens ? r.d_tokens[t] : t, n);
	/* minus zero is zero */
	if (bits != wanted && ((bits | wanted) & 0x7fff) != 0)
		atomicAdd(&results->inexact, 1);
}

__global__ void
write_kernel(ops_output c, ops_reference r, uint32_t n_tokens)
{
	const uint32_t n = blockIdx.x * blockDim.x + threadIdx.x,
		       t = blockIdx.y;
	if (n >= c.n || t >= n_tokens)
		return;
	const uint32_t m = r.d_tokens ? r.d_tokens[t] : t;
	const uint16_t bits = to_bits(wanted_output(c, r, t, n), c.is_f16);
	const_cast<uint16_t *>(
	    static_cast<const uint16_t *>(c.d_c))[size_t(m) * c.ld + n] = bits;
}

__global__ void
different_kernel(const uint16_t *a, const uint16_t *b, size_t n,
    compare_results *results)
{
	uint32_t different = 0;
	for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
	     i += size_t(gridDim.x) * blockDim.x)
		different += a[i] != b[i];
	if (different)
		atomicAdd(&results->different, different);
}

/* Device memory of the comparison, grown as needed and kept. */
struct scratch {
	compare_results *results;
	sum3 *sums;
	sum3 *host_sums;
	size_t n_sums;
} kept;

void
scratch_need(size_t n_sums)
{
	if (kept.results == nullptr)
		kept.results = static_cast<compare_results *>(
		    ops_alloc(sizeof(compare_results)));
	if (n_sums <= kept.n_sums)
		return;
	if (kept.sums != nullptr)
		ops_free(kept.sums);
	free(kept.host_sums);
	kept.sums = static_cast<sum3 *>(ops_alloc(n_sums * sizeof(sum3)));
	kept.host_sums = static_cast<sum3 *>(malloc(n_sums * sizeof(sum3)));
	kept.n_sums = n_sums;
	if (kept.host_sums == nullptr)
		bail_out("malloc", cudaErrorMemoryAllocation);
}

compare_results
scratch_read(cudaStream_t stream, const char *what)
{
	compare_results results;
	ops_wait(stream, what);
	ops_copy_out(&results, kept.results, sizeof results);
	return results;
}

/* Tokens of a reference that an output of m tokens has. */
uint32_t
tokens_below(const ops_reference &r, uint32_t m)
{
	if (r.d_tokens == nullptr)
		return m < r.n_tokens ? m : r.n_tokens;
	uint32_t *tokens =
	    static_cast<uint32_t *>(malloc(r.n_tokens * sizeof(uint32_t)));
	uint32_t n = 0;
	if (tokens == nullptr)
		bail_out("malloc", cudaErrorMemoryAllocation);
	ops_copy_out(tokens, r.d_tokens, r.n_tokens * sizeof(uint32_t));
	while (n < r.n_tokens && tokens[n] < m) /* ascending */
		n++;
	free(tokens);
	return n;
}

double
ratio(const sum3 &s)
{
	const double size = s.size > s.squares ? s.size : s.squares;
	return size > 0 ? sqrt(s.error / size) : s.error > 0 ? 1e30 : 0;
}

dim3
strips(uint32_t n, uint32_t n_tokens)
{
	return dim3((n + 255) / 256, (n_tokens + strip - 1) / strip);
}

} // namespace

void
ops_open(void)
{
	check(cudaSetDevice(0), "cudaSetDevice");
	check(cudaFree(nullptr), "context");
}

void *
ops_alloc(size_t n_bytes)
{
	void *memory = nullptr;
	check(cudaMalloc(&memory, n_bytes ? n_bytes : 16), "cudaMalloc");
	return memory;
}

void
ops_free(void *d_memory)
{
	check(cudaFree(d_memory), "cudaFree");
}

/* A copy from pageable memory or on the GPU may return before it is done, and
 * our streams do not wait for the default stream. */
void
ops_copy_in(void *d_to, const void *from, size_t n_bytes)
{
	check(cudaMemcpy(d_to, from, n_bytes, cudaMemcpyHostToDevice),
	    "copy to the GPU");
	check(cudaStreamSynchronize(nullptr), "copy to the GPU");
}

void
ops_copy_out(void *to, const void *d_from, size_t n_bytes)
{
	check(cudaMemcpy(to, d_from, n_bytes, cudaMemcpyDeviceToHost),
	    "copy from the GPU");
}

void
ops_copy(void *d_to, const void *d_from, size_t n_bytes)
{
	check(cudaMemcpy(d_to, d_from, n_bytes, cudaMemcpyDeviceToDevice),
	    "copy on the GPU");
	check(cudaStreamSynchronize(nullptr), "copy on the GPU");
}

void
ops_clear(void *d_memory, size_t n_bytes)
{
	check(cudaMemset(d_memory, 0, n_bytes), "clear");
	check(cudaStreamSynchronize(nullptr), "clear");
}

size_t
ops_free_bytes(void)
{
	size_t available = 0, all = 0;
	check(cudaMemGetInfo(&available, &all), "cudaMemGetInfo");
	return available;
}

void *
ops_stream(void)
{
	cudaStream_t stream = nullptr;
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
	    "stream");
	return stream;
}

void
ops_wait(void *stream, const char *what)
{
	const double end = seconds() + hang_seconds;
	cudaError_t result = cudaErrorNotReady;
	while (result == cudaErrorNotReady && seconds() < end)
		result = cudaStreamQuery(stream_of(stream));
	check(result, what);
}

void
ops_capture_begin(void *stream)
{
	check(cudaStreamBeginCapture(stream_of(stream),
		  cudaStreamCaptureModeThreadLocal),
	    "capture");
}

void *
ops_capture_end(void *stream)
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t runnable = nullptr;
	check(cudaStreamEndCapture(stream_of(stream), &graph),
	    "end of capture");
	check(cudaGraphInstantiate(&runnable, graph, 0), "graph");
	check(cudaGraphDestroy(graph), "graph");
	return runnable;
}

void
ops_graph_launch(void *graph, void *stream)
{
	check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph),
		  stream_of(stream)),
	    "graph launch");
}

void
ops_graph_free(void *graph)
{
	check(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)),
	    "graph");
}

float
ops_graph_time(void *graph, void *stream, const char *what)
{
	static cudaEvent_t begin, end;
	float ms = 0;
	if (begin == nullptr) {
		check(cudaEventCreate(&begin), "event");
		check(cudaEventCreate(&end), "event");
	}
	check(cudaEventRecord(begin, stream_of(stream)), "event");
	ops_graph_launch(graph, stream);
	check(cudaEventRecord(end, stream_of(stream)), "event");
	ops_wait(stream, what);
	check(cudaEventElapsedTime(&ms, begin, end), "event");
	return ms;
}

void
ops_fill(const struct ops_activations *a, void *stream)
{
	fill_kernel<<<dim3((a->ld + 255) / 256, a->m), 256, 0,
	    stream_of(stream)>>>(*a);
	check(cudaGetLastError(), "fill");
}

void
ops_fill_scales(const struct ops_activations *a, uint32_t n_groups,
    void *stream)
{
	fill_scales_kernel<<<dim3((a->m + 255) / 256, n_groups), 256, 0,
	    stream_of(stream)>>>(*a, n_groups);
	check(cudaGetLastError(), "fill scales");
}

void
ops_poison(void *d_c, size_t n, void *stream)
{
	const size_t blocks = (n + 1023) / 1024;
	poison_kernel<<<unsigned(blocks < 1024 ? blocks : 1024), 256, 0,
	    stream_of(stream)>>>(static_cast<uint16_t *>(d_c), n);
	check(cudaGetLastError(), "poison");
}

void
ops_plain(void *d_memory, size_t n_bytes, void *stream)
{
	plain_kernel<<<unsigned(n_bytes / 16384), 256, 0, stream_of(stream)>>>(
	    static_cast<uint4 *>(d_memory));
	check(cudaGetLastError(), "plain kernel");
}

void
ops_compute_reference(const struct ops_weights *w,
    const struct ops_activations *a, const struct ops_reference *reference,
    void *stream)
{
	const dim3 grid((w->n + tile - 1) / tile,
	    (reference->n_tokens + tile - 1) / tile);
	reference_kernel<<<grid, dim3(tile, 8), 0, stream_of(stream)>>>(*w, *a,
	    *reference);
	check(cudaGetLastError(), "reference");
	ops_wait(stream, "reference");
}

void
ops_compare(const struct ops_output *c, const struct ops_reference *reference,
    struct ops_measure *measure_out, void *stream)
{
	const uint32_t n_tokens = tokens_below(*reference, c->m);
	const size_t n_sums = size_t(n_tokens) + c->n;
	ops_measure measure = {};
	sum3 all = {0, 0, 0};
	scratch_need(n_sums);
	check(cudaMemsetAsync(kept.results, 0, sizeof(compare_results),
		  stream_of(stream)),
	    "clear");
	check(cudaMemsetAsync(kept.sums, 0, n_sums * sizeof(sum3),
		  stream_of(stream)),
	    "clear");
	const uint32_t rows = c->m + 2 * c->guard_rows;
	written_kernel<<<dim3((c->ld + 255) / 256, rows < 512 ? rows : 512),
	    256, 0, stream_of(stream)>>>(*c, kept.results);
	compare_kernel<<<strips(c->n, n_tokens), 256, 0, stream_of(stream)>>>(
	    *c, *reference, n_tokens, kept.sums, kept.sums + n_tokens,
	    kept.results);
	check(cudaGetLastError(), "compare");
	const compare_results results =
	    scratch_read(stream_of(stream), "gemm and comparison");
	ops_copy_out(kept.host_sums, kept.sums, n_sums * sizeof(sum3));
	for (size_t i = 0; i < n_sums; i++) {
		const double error = ratio(kept.host_sums[i]);
		if (i < n_tokens) {
			all.error += kept.host_sums[i].error;
			all.size += kept.host_sums[i].size;
			all.squares += kept.host_sums[i].squares;
			measure.worst_token = fmax(measure.worst_token, error);
		} else if (n_tokens >= 8) {
			measure.worst_row = fmax(measure.worst_row, error);
		}
	}
	measure.whole = ratio(all);
	float worst = 0;
	memcpy(&worst, &results.worst, sizeof worst);
	measure.worst_element = double(worst);
	measure.n_compared = n_tokens;
	measure.n_unwritten = results.unwritten;
	measure.n_outside = results.outside;
	*measure_out = measure;
}

void
ops_write_reference(const struct ops_output *c,
    const struct ops_reference *reference, void *stream)
{
	const uint32_t n_tokens = tokens_below(*reference, c->m);
	write_kernel<<<dim3((c->n + 255) / 256, n_tokens), 256, 0,
	    stream_of(stream)>>>(*c, *reference, n_tokens);
	check(cudaGetLastError(), "write");
}

uint32_t
ops_count_inexact(const struct ops_output *c,
    const struct ops_reference *reference, void *stream)
{
	const uint32_t n_tokens = tokens_below(*reference, c->m);
	scratch_need(1);
	check(cudaMemsetAsync(kept.results, 0, sizeof(compare_results),
		  stream_of(stream)),
	    "clear");
	inexact_kernel<<<dim3((c->n + 255) / 256, n_tokens), 256, 0,
	    stream_of(stream)>>>(*c, *reference, n_tokens, kept.results);
	check(cudaGetLastError(), "compare");
	return scratch_read(stream_of(stream), "gemm and comparison").inexact;
}

uint32_t
ops_count_different(const void *d_a, const void *d_b, size_t n, void *stream)
{
	const size_t blocks = (n + 1023) / 1024;
	scratch_need(1);
	check(cudaMemsetAsync(kept.results, 0, sizeof(compare_results),
		  stream_of(stream)),
	    "clear");
	different_kernel<<<unsigned(blocks < 1024 ? blocks : 1024), 256, 0,
	    stream_of(stream)>>>(static_cast<const uint16_t *>(d_a),
	    static_cast<const uint16_t *>(d_b), n, kept.results);
	check(cudaGetLastError(), "compare");
	return scratch_read(stream_of(stream), "gemm and comparison").different;
}
