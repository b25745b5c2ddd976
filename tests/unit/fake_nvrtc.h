/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_nvrtc.h - what fake_nvrtc.c exports under NVRTC's names.
 */
#ifndef HM_TESTS_FAKE_NVRTC_H
#define HM_TESTS_FAKE_NVRTC_H

int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(void);
int nvrtcGetSupportedArchs(void);
int nvrtcCreateProgram(void);
int nvrtcDestroyProgram(void);
int nvrtcCompileProgram(void);
int nvrtcGetProgramLogSize(void);
int nvrtcGetProgramLog(void);
int nvrtcGetCUBINSize(void);
int nvrtcGetCUBIN(void);
int nvrtcGetErrorString(void);

#endif
