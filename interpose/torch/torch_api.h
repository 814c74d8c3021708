// What torch_api.cc exports and python_call.cc calls.
#ifndef GORDIAN_INTERPOSE_TORCH_TORCH_API_H_
#define GORDIAN_INTERPOSE_TORCH_TORCH_API_H_

#include <stdint.h>

#define GORDIAN_API extern "C" __attribute__((visibility("default")))

GORDIAN_API void gordian_torch_operation(uint32_t call, uint32_t comm, uint64_t sequence,
                                         int32_t root_or_peer, uint64_t count, uint32_t types,
                                         uint64_t site);
GORDIAN_API void gordian_torch_wait(uint32_t call, uint32_t comm, uint64_t sequence, uint32_t part,
                                    uint64_t peer, uint64_t site);
GORDIAN_API void gordian_torch_waited(uint32_t call, int32_t result);

#endif  // GORDIAN_INTERPOSE_TORCH_TORCH_API_H_
