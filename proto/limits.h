/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - how large anything in a message may be.
 *
 * Both sides hold them: packing more fails with HM_E_INVALID, receiving more
 * with HM_E_PROTOCOL. What is a char array in a struct is limited by its size.
 */
#ifndef HM_PROTO_LIMITS_H
#define HM_PROTO_LIMITS_H

#define HM_MAX_GET_REQUESTS   256u /* in one GET; at least one */
#define HM_MAX_RANGES         32u
#define HM_MAX_OPTIONS        64u
#define HM_MAX_OPTION_CHARS   256u /* with the NUL */
#define HM_MAX_SOURCE_BYTES   (1u << 20)
#define HM_MAX_IMAGE_BYTES    (64u << 20)
#define HM_MAX_LOG_BYTES      (16u << 10) /* without the NUL */
#define HM_MAX_JOB_TEXT_BYTES (32u << 10) /* config.h, the shape: each */
#define HM_MAX_CONFIG_WORDS   32u

#endif
