// NCCL, found at run time: the machine decides which.
#ifndef GORDIAN_BENCH_RUNTIME_NCCL_LIBRARY_H_
#define GORDIAN_BENCH_RUNTIME_NCCL_LIBRARY_H_

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>

#include <string>

namespace gordian::runtime::cuda {

struct Nccl {
  decltype(&::ncclGetVersion) version;
  decltype(&::ncclGetUniqueId) unique_id;
  decltype(&::ncclCommInitRank) init;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclAllGather) all_gather;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclReduce) reduce;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) recv;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  // From 2.28 on; the same arguments for all three but for the root.
  ncclResult_t (*all_to_all)(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
  ncclResult_t (*gather)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  ncclResult_t (*scatter)(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                          cudaStream_t);
  // From 2.19 on.
  ncclResult_t (*allocate)(void**, size_t);
  ncclResult_t (*comm_register)(ncclComm_t, void*, size_t, void**);
  // From 2.27 on.
  ncclResult_t (*window_register)(ncclComm_t, void*, size_t, void**, int);
};

template <typename F>
inline void FindSymbol(void* library, const char* name, F* to) {
  *to = reinterpret_cast<F>(dlsym(library, name));
}

inline bool LoadNccl(Nccl* n, std::string* why) {
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return false;
  }
  FindSymbol(library, "ncclGetVersion", &n->version);
  FindSymbol(library, "ncclGetUniqueId", &n->unique_id);
  FindSymbol(library, "ncclCommInitRank", &n->init);
  FindSymbol(library, "ncclAllReduce", &n->all_reduce);
  FindSymbol(library, "ncclAllGather", &n->all_gather);
  FindSymbol(library, "ncclReduceScatter", &n->reduce_scatter);
  FindSymbol(library, "ncclBroadcast", &n->broadcast);
  FindSymbol(library, "ncclReduce", &n->reduce);
  FindSymbol(library, "ncclSend", &n->send);
  FindSymbol(library, "ncclRecv", &n->recv);
  FindSymbol(library, "ncclGroupStart", &n->group_start);
  FindSymbol(library, "ncclGroupEnd", &n->group_end);
  FindSymbol(library, "ncclAlltoAll", &n->all_to_all);
  FindSymbol(library, "ncclGather", &n->gather);
  FindSymbol(library, "ncclScatter", &n->scatter);
  FindSymbol(library, "ncclMemAlloc", &n->allocate);
  FindSymbol(library, "ncclCommRegister", &n->comm_register);
  FindSymbol(library, "ncclCommWindowRegister", &n->window_register);
  return n->version != nullptr && n->init != nullptr && n->group_end != nullptr;
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_BENCH_RUNTIME_NCCL_LIBRARY_H_
