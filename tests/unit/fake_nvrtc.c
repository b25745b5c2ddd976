/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvrtc.c - a libnvrtc that only tells its version: too old, or without
 * its builtins. Built once for each, in folders of their own, as no real one
 * can be made to be either.
 */
#include "fake_nvrtc.h"

__attribute__((visibility("default"))) int
nvrtcVersion(int *major, int *minor)
{
	*major = FAKE_MAJOR;
	*minor = FAKE_MINOR;
	return 0;
}

/* The rest has to be there, and is not to be called. */
#define FAKE_FUNCTION(name)                                                    \
	__attribute__((visibility("default"))) int name(void)                  \
	{                                                                      \
		return 1;                                                      \
	}

FAKE_FUNCTION(nvrtcGetNumSupportedArchs)
FAKE_FUNCTION(nvrtcGetSupportedArchs)
FAKE_FUNCTION(nvrtcCreateProgram)
FAKE_FUNCTION(nvrtcDestroyProgram)
FAKE_FUNCTION(nvrtcCompileProgram)
FAKE_FUNCTION(nvrtcGetProgramLogSize)
FAKE_FUNCTION(nvrtcGetProgramLog)
FAKE_FUNCTION(nvrtcGetCUBINSize)
FAKE_FUNCTION(nvrtcGetCUBIN)
FAKE_FUNCTION(nvrtcGetErrorString)
