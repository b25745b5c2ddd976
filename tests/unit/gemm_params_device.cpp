/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_params_device.cpp - kernels/prelude.cuh compiled by the host compiler,
 * with a config.h of the smallest family.
 */
#include "gemm_params_device.h"

#include "kernels/prelude.cuh"

#define FIELD(name)                                                            \
	{                                                                      \
#name, offsetof(gemm_params, name), sizeof(gemm_params::name)  \
	}

extern "C" {
const struct device_field device_fields[] = {
    FIELD(a_map),
    FIELD(c_map),
    FIELD(w),
    FIELD(a),
    FIELD(c),
    FIELD(rowmul),
    FIELD(bias),
    FIELD(workspace),
    FIELD(m),
    FIELD(n),
    FIELD(k),
    FIELD(lda),
    FIELD(ldc),
    FIELD(band),
    FIELD(prefetch),
    FIELD(row_groups),
    FIELD(weight_policy),
    FIELD(a_scale_step),
    FIELD(a_scale),
    FIELD(a_scale_group_step),
    FIELD(split_tiles),
    {nullptr, 0, 0},
};
const size_t device_params_bytes = sizeof(gemm_params);
const size_t device_params_alignment = alignof(gemm_params);
const unsigned device_kernel_abi = HM_KERNEL_ABI;
}
