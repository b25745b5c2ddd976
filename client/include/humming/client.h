/* SPDX-License-Identifier: Apache-2.0 */
/*
 * humming/client.h - ask hummingd for compiled GEMM kernels.
 *
 * A worker opens a connection, asks for kernels by what they compute, and gets
 * immutable images (cubins) that are ready to load into a CUDA context. Needs
 * no CUDA. <humming/gemm.h> loads and launches them.
 *
 * Conventions. Functions that can fail return HUMMING_OK (0) or a negative
 * HUMMING_E_ code and leave their outputs untouched on failure. A connection
 * belongs to one thread at a time; a kernel is immutable, counted and may be
 * used by any thread. The library starts no thread, forks nothing (autostart,
 * when asked for, is posix_spawn), touches no signal, writes nothing to stderr
 * and never aborts. After fork a child must open its own connection: calls on
 * the parent's return HUMMING_E_INVALID.
 *
 * All functions: since 0.1.
 */
#ifndef HUMMING_CLIENT_H
#define HUMMING_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HUMMING_API __attribute__((visibility("default")))
#else
#define HUMMING_API
#endif

struct humming_client; /* a connection: one thread at a time */
struct humming_kernel; /* immutable, counted: any thread */

enum humming_error {
	HUMMING_OK = 0,
	HUMMING_E_INVALID = -1,
	HUMMING_E_NOMEM = -2,
	HUMMING_E_SYSTEM = -3,
	HUMMING_E_UNAVAILABLE = -4,
	HUMMING_E_TIMEOUT = -5,
	HUMMING_E_BUSY = -6,
	HUMMING_E_DENIED = -7,
	HUMMING_E_PROTOCOL = -8,
	HUMMING_E_VERSION = -9,
	HUMMING_E_UNSUPPORTED = -10,
	HUMMING_E_COMPILE = -11,
	HUMMING_E_CORRUPT = -12,
	HUMMING_E_INTERNAL = -13
};

/* Numeric types: kind << 16 | exponent bits << 8 | mantissa bits. */
#define HUMMING_TYPE_UINT(bits) (0x10000u | (bits))
#define HUMMING_TYPE_SINT(bits) (0x20000u | (bits))
#define HUMMING_TYPE_FLOAT(exponent, mantissa)                                 \
	(0x30000u | (exponent) << 8 | (mantissa))
#define HUMMING_TYPE_BF16 HUMMING_TYPE_FLOAT(8u, 7u)
#define HUMMING_TYPE_F16  HUMMING_TYPE_FLOAT(5u, 10u)
#define HUMMING_TYPE_F32  HUMMING_TYPE_FLOAT(8u, 23u)
#define HUMMING_TYPE_E4M3 HUMMING_TYPE_FLOAT(4u, 3u)
#define HUMMING_TYPE_E5M2 HUMMING_TYPE_FLOAT(5u, 2u)
#define HUMMING_TYPE_E2M1 HUMMING_TYPE_FLOAT(2u, 1u)
#define HUMMING_TYPE_E8M0 0x40800u

/* For acc_type, with e4m3 and e5m2 activations: sums of many products as good
 * as those of 16-bit activations. */
#define HUMMING_ACC_PRECISE 1u

#define HUMMING_OPERATION_GEMM  1u
#define HUMMING_OPERATION_QUANT 5u
#define HUMMING_OPERATION_PACK  6u

#define HUMMING_SCALE_GROUP   1u
#define HUMMING_SCALE_CHANNEL 2u
#define HUMMING_SCALE_TENSOR  3u
#define HUMMING_SCALE_BLOCK   4u

#define HUMMING_ZERO_NONE  0u
#define HUMMING_ZERO_INT   1u
#define HUMMING_ZERO_FLOAT 2u

/* Scales of 8-bit activations: one per token, per tensor, or per token and
 * act_group of K. */
#define HUMMING_ACT_TOKEN  1u
#define HUMMING_ACT_TENSOR 2u
#define HUMMING_ACT_GROUP  3u

#define HUMMING_EPILOGUE_NONE     0u
#define HUMMING_EPILOGUE_SILU_MUL 1u

/* How a connection is opened. 0 and NULL mean the default. */
struct humming_client_options {
	uint32_t struct_size; /* set by humming_client_options_init */
	uint32_t timeout_ms;  /* deadline of each call; default HUMMING_TIMEOUT
	                       * (seconds), else 30000; UINT32_MAX = none */
	const char *socket_path; /* default: HUMMING_SOCKET, then the usual
	                          * places (FILES of hummingctl(1)) */
	uint32_t autostart; /* 1: start a private daemon when none answers and
	                     * no socket was named */
	uint32_t prewarm;   /* 1: requests go to the daemon's second lane */
};

/* What a kernel must compute. 0 = default or not given, everywhere. */
struct humming_kernel_request {
	uint32_t struct_size;   /* set by humming_kernel_request_init */
	uint32_t operation;     /* HUMMING_OPERATION_ */
	uint32_t target_cc;     /* compute capability x 10: 90 */
	uint32_t target_suffix; /* 'a', 'f' or 0 */
	uint32_t a_type;        /* activations, HUMMING_TYPE_ */
	uint32_t w_type;        /* weights */
	uint32_t c_type;        /* output; default a_type, bf16 for 8 bits */
	uint32_t scale_kind;    /* of the weights, HUMMING_SCALE_ */
	uint32_t group;         /* weights per scale along K */
	uint32_t block_rows, block_cols;
	uint32_t scale_type; /* default c_type */
	uint32_t tensor_scale;
	uint32_t zero;       /* HUMMING_ZERO_ */
	uint32_t act_scale;  /* HUMMING_ACT_; default token for 8-bit a_type */
	uint32_t act_group;  /* 128 for HUMMING_ACT_GROUP */
	uint32_t act_layout; /* of group scales: 0 = k-major, 1 = m-major */
	uint32_t bias;
	uint32_t deterministic;
	uint32_t acc_type; /* HUMMING_TYPE_F32 (default), HUMMING_ACC_PRECISE */
	uint32_t epilogue;
	uint32_t q_type;
	uint32_t mx_exact;
	uint32_t m; /* tokens at hand, or their bound */
	uint32_t n; /* output features */
	uint32_t k; /* input features */
	uint32_t experts, topk;
	uint32_t sms; /* multiprocessors; default: usual for the target */
};

/* How to launch a kernel for one M, N, K. */
struct humming_launch {
	uint32_t struct_size;
	uint32_t block_threads;
	uint32_t grid_x, grid_y;
	uint32_t cluster_size;
	uint32_t dynamic_smem_bytes;
	uint32_t tile_tokens; /* boxes of the tensor maps; 0 = none needed */
	uint32_t tile_rows;
	uint32_t band;
	uint32_t prefetch;
	uint32_t row_groups;
	uint32_t weight_policy;
	uint32_t pdl; /* 1: may be launched with programmatic serialization */
	uint32_t kernel_abi;
	uint32_t pack_layout;
	uint64_t workspace_bytes; /* 0 = none needed */
	uint32_t split_tiles;     /* last tiles that CTAs share along K */
};

/* What is known of a kernel; strings live as long as the kernel. */
struct humming_kernel_info {
	uint32_t struct_size;
	uint32_t registers;
	uint32_t spill_bytes;
	uint32_t smem_bytes; /* static */
	uint32_t compile_us; /* of the original build */
	uint32_t wait_us;    /* of this request, seen by the client */
	uint32_t image_bytes;
	uint32_t kernel_abi;
	uint32_t pack_layout;
	uint32_t n_ranges;
	const char *key;  /* 64 hex digits */
	const char *spec; /* canonical; "" for client sources */
	const char *arch; /* target served */
	const char *tier; /* "hot", "store", "pack", "remote" or "built" */
	const char *entry;
	const char *entries; /* all entries of a client source, by comma */
	const char *compiler;
	const char *log; /* compiler's, of a client source; "" if none */
};

/* A row of the kernel's table over M for the request's N and K. */
struct humming_range {
	uint32_t m_lo, m_hi; /* inclusive */
	char key[65];
};

/* A client source to compile. Its options are those of NVRTC that change what
 * is computed and read nothing of the machine: -DNAME[=value] (no date or
 * time), --std=c++NN, --use_fast_math, --maxrregcount=N, and --ftz, --prec-div,
 * --prec-sqrt, --fmad with =true or =false. Others are HUMMING_E_DENIED. */
struct humming_source {
	uint32_t struct_size;
	uint32_t target_cc, target_suffix;
	uint32_t n_options;
	const char *const *options; /* "-DX=1", ... */
	const char *name;           /* label for messages; default "source" */
	const char *text;
	size_t text_bytes;
};

/* Version of the library, not of the header: major << 16 | minor << 8 | patch.
 * Any thread. */
HUMMING_API uint32_t humming_version(void);

/* Static text, never NULL, also for unknown codes. Any thread. */
HUMMING_API const char *humming_strerror(int error);

/* 1 for UNAVAILABLE, TIMEOUT and BUSY, else 0. Any thread. */
HUMMING_API int humming_error_is_retryable(int error);

/* Fill in the defaults; struct_size = sizeof *options at the caller. */
HUMMING_API void humming_client_options_init(
    struct humming_client_options *options, uint32_t struct_size);

/**
 * Connect and greet.
 *
 * options     NULL = all defaults
 * client_out  the caller closes it
 *
 * Returns HUMMING_OK, INVALID (options), NOMEM, SYSTEM, UNAVAILABLE (no socket,
 * nobody listens: at once), TIMEOUT (listens but does not answer), VERSION
 * (schema, kernel ABI or pack layout differ), PROTOCOL.
 */
HUMMING_API int humming_client_open(
    const struct humming_client_options *options,
    struct humming_client **client_out);

/* NULL allowed. Kernels got through it stay valid. */
HUMMING_API void humming_client_close(struct humming_client *client);

/* One line on the last failure of a call on this connection, valid until the
 * next call on it; "" after success. With NULL: why the calling thread's last
 * humming_client_open failed. */
HUMMING_API const char *humming_client_last_error(
    const struct humming_client *client);

/* Fill in the defaults of a gemm; struct_size = sizeof *request. */
HUMMING_API void humming_kernel_request_init(
    struct humming_kernel_request *request, uint32_t struct_size);

/**
 * Get one kernel: from the daemon's cache, or built.
 *
 * kernel_out  one reference for the caller
 *
 * The image's checksum is verified before this returns. Returns HUMMING_OK,
 * INVALID, UNSUPPORTED (no kernel does that on this target), COMPILE, BUSY,
 * DENIED, TIMEOUT, UNAVAILABLE, CORRUPT, PROTOCOL, VERSION, NOMEM, SYSTEM.
 */
HUMMING_API int humming_client_get_kernel(struct humming_client *client,
    const struct humming_kernel_request *request,
    struct humming_kernel **kernel_out);

/**
 * Get n kernels in one round trip.
 *
 * requests     array of n elements of requests[0].struct_size bytes each
 * kernels_out  n pointers; on failure of a single request its pointer is NULL
 * errors_out   n codes, or NULL
 *
 * Returns HUMMING_OK when all came, else the first error; kernels that did
 * come are the caller's in both cases.
 */
HUMMING_API int humming_client_get_kernels(struct humming_client *client,
    const struct humming_kernel_request *requests, size_t n,
    struct humming_kernel **kernels_out, int *errors_out);

/**
 * Compile any CUDA C source (needs the daemon's permission "compile").
 *
 * On HUMMING_E_COMPILE humming_client_last_error gives the first error and
 * humming_client_compile_log the log, until the next call: whole, or cut at 16
 * KiB, which its last line then says. Options and the name hold no control
 * characters (HUMMING_E_INVALID).
 */
HUMMING_API int humming_client_compile(struct humming_client *client,
    const struct humming_source *source, struct humming_kernel **kernel_out);
HUMMING_API const char *humming_client_compile_log(
    const struct humming_client *client);

/**
 * The daemon's statistics or status as JSON (its fields: hummingctl(1)).
 *
 * json_out  freed by the caller with humming_free
 */
HUMMING_API int humming_client_stats(struct humming_client *client,
    char **json_out);
HUMMING_API int humming_client_status(struct humming_client *client,
    char **json_out);
HUMMING_API void humming_free(void *memory);

/* Answered by the loop itself: is somebody there? */
HUMMING_API int humming_client_ping(struct humming_client *client);

/* Ask a private daemon to leave (its own user and root). DENIED by others. */
HUMMING_API int humming_client_stop(struct humming_client *client);

HUMMING_API struct humming_kernel *humming_kernel_ref(
    struct humming_kernel *kernel);
HUMMING_API void humming_kernel_unref(struct humming_kernel *kernel);

/* The image lives as long as the kernel. Any thread. */
HUMMING_API int humming_kernel_image(const struct humming_kernel *kernel,
    const void **image_out, size_t *size_bytes_out);

/* Entry point's name; lives as long as the kernel. */
HUMMING_API const char *humming_kernel_entry(
    const struct humming_kernel *kernel);

/* info->struct_size is set by the caller; fills what fits. */
HUMMING_API int humming_kernel_get_info(const struct humming_kernel *kernel,
    struct humming_kernel_info *info);

/* Row `index` < n_ranges. Returns HUMMING_OK or INVALID. */
HUMMING_API int humming_kernel_range(const struct humming_kernel *kernel,
    uint32_t index, struct humming_range *range_out);

/**
 * How to launch for these sizes; m must lie in a range of this kernel's table
 * that has its key.
 *
 * launch_out->struct_size is set by the caller. Returns HUMMING_OK, INVALID
 * (sizes not multiples of 8, m of another kernel) or UNSUPPORTED (a client
 * source).
 */
HUMMING_API int humming_kernel_launch(const struct humming_kernel *kernel,
    uint32_t m, uint32_t n, uint32_t k, struct humming_launch *launch_out);

#ifdef __cplusplus
}
#endif

#endif
