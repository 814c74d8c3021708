// nccl.h, and the types of NCCL 2.30.7 and 2.31 that an older one lacks. Under names of our own: what a
// version in between declares must not clash with them. Only their size and their way into a call
// matter.
#ifndef GORDIAN_INTERPOSE_ENTRY_NCCL_NEWER_H_
#define GORDIAN_INTERPOSE_ENTRY_NCCL_NEWER_H_

#include <nccl.h>

#if NCCL_VERSION_CODE >= 23007
using GordianNcclMemStat = ncclCommMemStat_t;
using GordianNcclParam = ncclParamHandle_t;
using GordianNcclWaitSignalDesc = ncclWaitSignalDesc_t;
#else
enum GordianNcclMemStat : unsigned {};  // ncclCommMemStat_t
struct GordianNcclParamBody;
using GordianNcclParam = GordianNcclParamBody*;  // ncclParamHandle_t
struct GordianNcclWaitSignalDesc {               // ncclWaitSignalDesc_t
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
};
#endif

#if NCCL_VERSION_CODE >= 23100
using GordianNcclCollConfig = ncclCollConfig_t;
#else
struct GordianNcclCollConfig;  // ncclCollConfig_t, which only NCCL reads
#endif

#endif  // GORDIAN_INTERPOSE_ENTRY_NCCL_NEWER_H_
