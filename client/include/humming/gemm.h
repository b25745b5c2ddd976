/* SPDX-License-Identifier: Apache-2.0 */
/*
 * humming/gemm.h - pack quantized weights, load kernels, run GEMMs on a stream.
 *
 *     C[M][N] = A[M][K] * W[N][K]^T + bias[N]
 *
 * A holds 16-bit floats, or 8-bit floats or integers with scales; C 16-bit
 * floats; W four- or eight-bit codes with scales. The usual order of calls:
 *
 *     humming_device_open            which GPU is this
 *     humming_weight_pack            once per layer, on the CPU; or
 *     humming_packer_launch          on the GPU
 *     humming_gemm_open              the layer's kernels, from hummingd
 *     humming_gemm_launch            as often as wanted, any M
 *
 * Needs no CUDA to build: the driver (libcuda.so.1) is looked for at run time.
 * Streams and device pointers are those of the CUDA driver and runtime APIs.
 * The library works in the CUDA context that is current in the calling thread
 * and makes none of its own, but for humming_device_make_current.
 *
 * Conventions are those of client.h: HUMMING_OK or a negative code, outputs
 * untouched on failure, structs carry their size. Buffers are the caller's.
 *
 * All functions: since 0.1.
 */
#ifndef HUMMING_GEMM_H
#define HUMMING_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include <humming/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct humming_device; /* a GPU: any thread */
struct humming_packer; /* packing kernel of one weight format: any thread */
struct humming_gemm;   /* kernels of one layer type: one thread at a time */

/* Why the calling thread's last failing call of this header failed: one line,
 * valid until its next failing call; "" before the first. Never NULL. */
HUMMING_API const char *humming_gemm_last_error(void);

/* ---- device ---- */

/* The device of the context that is current in the calling thread. */
#define HUMMING_DEVICE_CURRENT (-1)

/* What is known of a GPU. */
struct humming_device_info {
	uint32_t struct_size;
	uint32_t target_cc;     /* compute capability x 10: 90 */
	uint32_t target_suffix; /* 'a' or 0, for kernel requests */
	uint32_t sms;           /* multiprocessors */
	uint32_t smem_bytes;    /* shared memory that one CTA may have */
	uint32_t l2_bytes;
	uint32_t driver_version; /* CUDA version of the driver: 13000 */
	int32_t ordinal;
	char name[64];
};

/**
 * Find a GPU.
 *
 * ordinal     as for cuDeviceGet, or HUMMING_DEVICE_CURRENT
 * device_out  the caller closes it, after everything opened on it
 *
 * Makes no context. Returns HUMMING_OK, UNAVAILABLE (no driver, no GPU, or no
 * current context when asked for its device), INVALID (no such ordinal),
 * UNSUPPORTED (older than compute capability 8.0, or a driver without
 * cuLaunchKernelEx), NOMEM, INTERNAL. Any thread.
 */
HUMMING_API int humming_device_open(int32_t ordinal,
    struct humming_device **device_out);

/* NULL allowed. Gives back what humming_device_make_current retained. */
HUMMING_API void humming_device_close(struct humming_device *device);

/**
 * For tools that have no context: retain the device's primary context (as the
 * runtime API does) and make it current in the calling thread.
 *
 * Returns HUMMING_OK, INVALID (NULL), UNAVAILABLE, NOMEM or INTERNAL.
 */
HUMMING_API int humming_device_make_current(struct humming_device *device);

/* info->struct_size is set by the caller; fills what fits. Returns HUMMING_OK
 * or INVALID. Any thread. */
HUMMING_API int humming_device_get_info(const struct humming_device *device,
    struct humming_device_info *info);

/* Set target_cc, target_suffix and sms of a request to this device's. Returns
 * HUMMING_OK or INVALID. Any thread. */
HUMMING_API int humming_device_request(const struct humming_device *device,
    struct humming_kernel_request *request);

/* ---- weights ---- */

/* uint8_t [n][k], one code each. */
#define HUMMING_CODES_BYTES 0u
/* uint32_t [n][k / 8], or [n][k / 4] for 8-bit codes; k ascending from the
 * lowest bits. */
#define HUMMING_CODES_INT32 1u
/* uint8_t [n][k / 2] of 4-bit codes, the even k in the low nibble: MXFP4. */
#define HUMMING_CODES_NIBBLES 2u

/*
 * A quantized matrix as checkpoints hold it, plain and row-major.
 *
 *     value[n][k] = w[n][k] * scales[n][k / group]
 *     w = code - z for u4 (z = 8) and u8 (z = 128); with zero points
 *     z = zeros[n][k / group]. For e2m1 and e4m3 the code is the float's bits.
 *
 * scale_kind says how many scales there are:
 *
 *     HUMMING_SCALE_GROUP    scales[n][ceil(k / group)]
 *     HUMMING_SCALE_CHANNEL  scales[n], one per row
 *     HUMMING_SCALE_TENSOR   scales[1]
 *     HUMMING_SCALE_BLOCK    scales[ceil(n / 128)][ceil(k / 128)]
 *
 * Zeros have the shape of group scales. n is a multiple of 8; k of 8, or of 16
 * for 8-bit activations.
 *
 * Pairs: bf16 and f16 activations with every weight type; e4m3 and e5m2 with
 * u4, e2m1 and e4m3; s8 with u4 and u8.
 *
 * Row and tensor scales are kept as float. Group and block scales are kept
 * relative to a power of two per row: with 16-bit activations in a_type, exact
 * when scale_type is a_type and the scales of a row span less than 2^14 (f16;
 * bf16: 2^126), else rounded once; with 8-bit activations in their own type,
 * those of blocks in float.
 *
 * mx_exact is for e2m1 with e8m0 scales and fp8 activations. 0: the scales are
 * folded into the operands, for which those of a row's groups that are not all
 * zero must span at most 2^11. 1: any scales, slower. It must be that of the
 * kernel request.
 */
struct humming_weight_source {
	uint32_t struct_size; /* sizeof, set by humming_weight_source_init */
	uint32_t n, k;        /* output and input features */
	uint32_t w_type;      /* HUMMING_TYPE_UINT(4) (the default), UINT(8),
	                       * E2M1 or E4M3 */
	uint32_t a_type;      /* of the activations that the weights will meet:
	                       * HUMMING_TYPE_BF16 (the default), F16, E4M3,
	                       * E5M2 or SINT(8) */
	uint32_t group;       /* 32, 64 or 128 of HUMMING_SCALE_GROUP; else 0 */
	uint32_t zero;        /* HUMMING_ZERO_; u4 with groups and 16-bit
	                       * activations only */
	uint32_t code_layout; /* HUMMING_CODES_ */
	uint32_t scale_type;  /* HUMMING_TYPE_BF16, F16 or F32; default a_type,
	                       * BF16 for 8-bit activations. Or E8M0: uint8_t
	                       * exponents, groups of 32, not with s8 */
	uint32_t zero_type;   /* of HUMMING_ZERO_FLOAT: BF16, F16 or F32;
	                       * default a_type, in which they are kept. Integer
	                       * zero points are uint8_t */
	const void *codes;
	const void *scales;
	const void *zeros;   /* NULL without zero points */
	const float *bias;   /* [n] or NULL; only humming_gemm_reference and
	                      * the bias_out of humming_weight_pack use it */
	uint32_t scale_kind; /* HUMMING_SCALE_; default GROUP where group is
	                      * given, BLOCK where block is, else CHANNEL */
	uint32_t block;      /* 128 of HUMMING_SCALE_BLOCK (default); else 0 */
	uint32_t mx_exact;   /* 0 or 1 */
	uint32_t reserved;   /* 0 */
};

/* Bytes of the buffers of a packed matrix. */
struct humming_weight_sizes {
	uint32_t struct_size;
	uint32_t pack_layout;  /* version of the format */
	uint64_t packed_bytes; /* codes, group scales and zero points */
	uint64_t rowmul_bytes; /* float per row, n rounded up to 64 */
	uint64_t bias_bytes;   /* the same */
};

/* Fill in the defaults; struct_size = sizeof *source at the caller. */
HUMMING_API void humming_weight_source_init(
    struct humming_weight_source *source, uint32_t struct_size);

/**
 * Sizes of the packed form; looks at n, k and the types only.
 *
 * sizes_out->struct_size is set by the caller. Returns HUMMING_OK, INVALID or
 * UNSUPPORTED (a type or group that no kernel reads). Any thread.
 */
HUMMING_API int humming_weight_size(const struct humming_weight_source *source,
    struct humming_weight_sizes *sizes_out);

/**
 * Pack for the kernels, on the CPU.
 *
 * packed_out  packed_bytes; copied to the GPU it must be 16-byte aligned
 * rowmul_out  rowmul_bytes: the factor of each row
 * bias_out    bias_bytes, or NULL; zeros where the source has no bias
 *
 * Returns HUMMING_OK, INVALID (a four-bit code above 15 or an e4m3 NaN, a
 * scale, zero point or bias that is not finite, a scale of 2^120 or more, or
 * 2^117 for u4 with fp8 activations; scales that need mx_exact) or UNSUPPORTED.
 * Any thread.
 */
HUMMING_API int humming_weight_pack(const struct humming_weight_source *source,
    void *packed_out, float *rowmul_out, float *bias_out);

/**
 * Get and load the kernel that packs on the GPU: same bytes as
 * humming_weight_pack, at the speed of the GPU's memory.
 *
 * device      of the context that is current in the calling thread
 * client      asked for the kernel, in one round trip
 * source      types, scales and zero count, and n and k must be legal; its
 *             pointers are not looked at
 * packer_out  the caller closes it while the same context is current
 *
 * Returns what humming_gemm_open returns.
 */
HUMMING_API int humming_packer_open(struct humming_device *device,
    struct humming_client *client, const struct humming_weight_source *source,
    struct humming_packer **packer_out);

/* NULL allowed. No launch of it may still be running. */
HUMMING_API void humming_packer_close(struct humming_packer *packer);

/* What humming_weight_pack refuses and a GPU can only report: a code above 15
 * or an e4m3 NaN; a scale that is not finite or too large, or a zero point that
 * is not finite; a bias that is not finite; scales that need mx_exact. */
#define HUMMING_PACKER_BAD_CODE  1u
#define HUMMING_PACKER_BAD_SCALE 2u
#define HUMMING_PACKER_BAD_BIAS  4u
#define HUMMING_PACKER_BAD_SPAN  8u

/* Where a packed matrix goes. Device memory, 16-byte aligned. */
struct humming_packer_args {
	uint32_t struct_size; /* set by humming_packer_args_init */
	uint32_t reserved;    /* 0 */
	void *packed;         /* packed_bytes of humming_weight_size */
	float *rowmul;        /* rowmul_bytes */
	float *bias;          /* bias_bytes, or NULL */
	uint32_t *problems;   /* HUMMING_PACKER_BAD_ bits are added to it; or
	                       * NULL */
};

HUMMING_API void humming_packer_args_init(struct humming_packer_args *args,
    uint32_t struct_size);

/**
 * Enqueue the packing of one matrix.
 *
 * source  as for humming_weight_pack, of the packer's types, group and zero,
 *         but its pointers are device memory, 16-byte aligned. One packer
 *         serves row and tensor scales; one serves blocks and the groups of 128
 *         of the type that blocks are kept in
 * stream  as for humming_gemm_launch
 *
 * Neither allocates nor waits. The next GEMM of the stream that reads the
 * result needs HUMMING_GEMM_NO_PDL. Returns HUMMING_OK, INVALID (another
 * format, a pointer is NULL or misaligned), UNSUPPORTED or INTERNAL (the driver
 * refused the launch).
 */
HUMMING_API int humming_packer_launch(struct humming_packer *packer,
    const struct humming_weight_source *source,
    const struct humming_packer_args *args, void *stream);

/* What humming_weight_unpack fills in. */
struct humming_weight_plain {
	uint8_t *codes; /* [n][k] */
	float *scales;  /* [n][ceil(k / group)], group 128 for blocks, or [n]:
	                 * as the kernels see them */
	float *zeros;   /* the same shape; NULL without zero points */
};

/**
 * The way back: what a packed matrix holds.
 *
 * source  n, k, types, group and zero say what packed is; its pointers are not
 *         looked at
 *
 * Returns HUMMING_OK, INVALID or UNSUPPORTED. Any thread.
 */
HUMMING_API int humming_weight_unpack(
    const struct humming_weight_source *source, const void *packed,
    const float *rowmul, const struct humming_weight_plain *plain_out);

/* Operands of humming_gemm_reference. */
struct humming_gemm_reference_args {
	uint32_t m;
	uint32_t lda, ldc; /* elements */
	const void *a;     /* [m][lda] of source->a_type */
	double *c_out;     /* [m][ldc]; elements beyond n stay untouched */
	/* Of 8-bit activations; NULL = 1. Element (token, group of 128 k) is
	 * a_scale[token * a_scale_step + group * a_scale_group_step]; a step of
	 * 0 = one for all. */
	const float *a_scale;
	uint32_t a_scale_step, a_scale_group_step;
};

/**
 * The reference: C in double precision, from the plain codes and scales.
 *
 * Slow on purpose (m * n * k steps of plain C). Returns HUMMING_OK, INVALID,
 * UNSUPPORTED or NOMEM (m * k doubles). Any thread.
 */
HUMMING_API int humming_gemm_reference(
    const struct humming_weight_source *source,
    const struct humming_gemm_reference_args *args);

/* ---- running ---- */

/**
 * Get and load the kernels for every M of one (types, n, k).
 *
 * device    of the context that is current in the calling thread
 * client    asked for the kernels: one round trip where daemon and library are
 *           of one release, else two
 * request   n and k must be set; m bounds the M that will be used (0 = none).
 *           target and sms are filled in from the device where they are 0.
 * gemm_out  the caller closes it while the same context is current
 *
 * A kernel that several gemms of a device share is loaded once per context.
 * Where a kernel wants a workspace, the gemm allocates one of its own and waits
 * until it is zeroed.
 * Returns HUMMING_OK, what humming_client_get_kernels returns, INVALID (no
 * current context, or one of another device), VERSION (kernel ABI or pack
 * layout of another release), UNSUPPORTED or CORRUPT (the driver refuses the
 * image), NOMEM, INTERNAL.
 */
HUMMING_API int humming_gemm_open(struct humming_device *device,
    struct humming_client *client, const struct humming_kernel_request *request,
    struct humming_gemm **gemm_out);

/**
 * The same for n layer types, still in one round trip: a whole model.
 *
 * requests   array of n elements of requests[0].struct_size bytes each
 * gemms_out  n gemms; on failure each is NULL or untouched, and none is to be
 *            closed
 */
HUMMING_API int humming_gemm_open_many(struct humming_device *device,
    struct humming_client *client,
    const struct humming_kernel_request *requests, size_t n,
    struct humming_gemm **gemms_out);

/**
 * The same from kernels at hand.
 *
 * kernels   n_kernels of them, got for this n and k; the table over M is that
 *           of the first. The gemm takes references of its own.
 */
HUMMING_API int humming_gemm_open_kernels(struct humming_device *device,
    const struct humming_kernel_request *request,
    struct humming_kernel *const *kernels, size_t n_kernels,
    struct humming_gemm **gemm_out);

/* Bytes of the workspace that launches of this gemm use; 0 = none, or gemm is
 * NULL. */
HUMMING_API uint64_t humming_gemm_workspace_bytes(
    const struct humming_gemm *gemm);

/* NULL allowed. No launch of it may still be running. */
HUMMING_API void humming_gemm_close(struct humming_gemm *gemm);

/* Launch without programmatic dependent launch. Needed for the first launch
 * after a kernel of the same stream wrote the packed weights, rowmul or bias:
 * they are read before the preceding kernel has finished. */
#define HUMMING_GEMM_NO_PDL 1u

/* One GEMM. All pointers are device memory of the current context and 16-byte
 * aligned. */
struct humming_gemm_args {
	uint32_t struct_size; /* set by humming_gemm_args_init */
	uint32_t m;           /* tokens; 0 = nothing to do */
	uint32_t lda;         /* elements from one token of a to the next: a
	                       * multiple of 8, or 16 for 8-bit a, >= k;
	                       * default k */
	uint32_t ldc;         /* the same of c, >= n; default n */
	uint32_t flags;       /* HUMMING_GEMM_ */
	const void *a;        /* [m][lda] of a_type */
	const void *w;        /* packed_out of humming_weight_pack */
	const float *rowmul;  /* rowmul_out */
	const float *bias;    /* bias_out, or NULL = none */
	void *c;              /* [m][ldc] of c_type */
	/* Of 8-bit activations, else not looked at: the scale of token t is
	 *
	 *     HUMMING_ACT_TOKEN   a_scale[t * a_scale_step], default step 1
	 *     HUMMING_ACT_TENSOR  a_scale[0]
	 *     HUMMING_ACT_GROUP   a_scale[t * a_scale_step +
	 *                                 k / 128 * a_scale_group_step]
	 *
	 * with the defaults ceil(k / 128) and 1 (k-major), or 1 and m for a
	 * request with act_layout 1 (m-major). 0 = the default. */
	const float *a_scale;
	uint32_t a_scale_step, a_scale_group_step;
	void *workspace; /* humming_gemm_workspace_bytes, of which the first
	                  * 4096 are zero before the first launch, and left so.
	                  * NULL = the gemm's own: its launches must then follow
	                  * each other on one stream at a time */
};

HUMMING_API void humming_gemm_args_init(struct humming_gemm_args *args,
    uint32_t struct_size);

/**
 * Enqueue one GEMM.
 *
 * stream  CUstream or cudaStream_t of the current context; NULL = the default
 *         stream
 *
 * Neither allocates device memory nor waits; may be captured in a graph, which
 * keeps the arguments but not what they point to. Returns HUMMING_OK, INVALID
 * (a pointer is NULL or misaligned, a leading dimension too small or not the
 * multiple it must be, an m beyond that of the request wants a larger
 * workspace), UNSUPPORTED (no kernel was loaded for this m) or
 * INTERNAL (the driver refused the launch).
 */
HUMMING_API int humming_gemm_launch(struct humming_gemm *gemm,
    const struct humming_gemm_args *args, void *stream);

/* ---- activations ---- */

struct humming_quant; /* quantization kernel of one format: any thread */

/**
 * Get and load the kernel that makes 8-bit activations of 16-bit ones.
 *
 *     y        x[m][k]; HUMMING_EPILOGUE_SILU_MUL: silu(x[m][k]) * x[m][k0 + k]
 *              with k0 = args->k and silu(v) = v / (1 + exp(-v)); in fp32
 *     scale    max(amax / 448, 2^-126), amax the largest |y| of the token, or
 *              of the token and 128 of K; 57344 for e5m2, 127 for s8; 1 where
 *              amax is 0
 *     q        y * (1 / scale), each operation rounded to fp32, then to the
 *              nearest code, ties to even
 *
 * Where amax is infinite or NaN so is the scale, and the codes are zero: the
 * GEMM then makes NaN of what the scale belongs to.
 *
 * device     of the context that is current in the calling thread
 * client     asked for the kernel, in one round trip
 * request    a_type: HUMMING_TYPE_E4M3, E5M2 or SINT(8), what is made;
 *            c_type: BF16 (the default) or F16, what is read;
 *            act_scale: HUMMING_ACT_TOKEN (the default) or HUMMING_ACT_GROUP;
 *            act_layout; epilogue. act_group is 128 or 0. target and sms are
 *            filled in where they are 0; the rest is not looked at.
 * quant_out  the caller closes it while the same context is current
 *
 * Returns what humming_gemm_open returns. fp8 needs compute capability 8.9,
 * else UNSUPPORTED.
 */
HUMMING_API int humming_quant_open(struct humming_device *device,
    struct humming_client *client, const struct humming_kernel_request *request,
    struct humming_quant **quant_out);

/* NULL allowed. No launch of it may still be running. */
HUMMING_API void humming_quant_close(struct humming_quant *quant);

/* One matrix. Pointers are 16-byte aligned. */
struct humming_quant_args {
	uint32_t struct_size; /* set by humming_quant_args_init */
	uint32_t m;           /* tokens; 0 = nothing to do */
	uint32_t k;           /* values of a token of q: a multiple of 8, and of
	                       * 16 where a GEMM reads it */
	uint32_t ldx; /* elements from one token of x to the next: a multiple
	               * of 8, >= k (silu-mul: 2 k), which is the default */
	uint32_t ldq; /* the same of q, >= k; default k */
	/* The scale of token t and k lies where humming_gemm_args has it, with
	 * the same defaults for 0. */
	uint32_t scale_step, scale_group_step;
	uint32_t reserved; /* 0 */
	const void *x;     /* [m][ldx] of c_type */
	void *q;           /* [m][ldq] of a_type; not x */
	float *scale;
};

HUMMING_API void humming_quant_args_init(struct humming_quant_args *args,
    uint32_t struct_size);

/**
 * Enqueue the quantization of one matrix; all pointers are device memory.
 *
 * stream  as for humming_gemm_launch
 *
 * Neither allocates nor waits; may be captured in a graph. Lets the GEMM behind
 * it start to read its weights at once; one that needs HUMMING_GEMM_NO_PDL
 * needs it with a quantization before it, too. Returns HUMMING_OK, INVALID (a
 * pointer is NULL or misaligned, a size or step not what it must be) or
 * INTERNAL (the driver refused the launch).
 */
HUMMING_API int humming_quant_launch(struct humming_quant *quant,
    const struct humming_quant_args *args, void *stream);

/**
 * The same on the CPU; all pointers are host memory.
 *
 * request  as for humming_quant_open
 *
 * The kernel's bits without an epilogue. With silu-mul the kernel's exponential
 * is an approximation: y differs by up to 2^-16 of itself, and is zero for
 * gates below -87. Returns HUMMING_OK, INVALID or UNSUPPORTED (no such type).
 * Any thread.
 */
HUMMING_API int humming_quant_reference(
    const struct humming_kernel_request *request,
    const struct humming_quant_args *args);

#ifdef __cplusplus
}
#endif

#endif
