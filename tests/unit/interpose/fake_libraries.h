// Control functions of the fake libraries; see fake_libraries.cc.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_FAKE_LIBRARIES_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_FAKE_LIBRARIES_H_

#include <stdint.h>

namespace gordian::fake {
inline constexpr const char* kText = "fake text";
inline constexpr int ErrnoOf(int call) { return 1000 + call; }
}  // namespace gordian::fake

extern "C" {
uint64_t fake_calls_nccl(int call);
uint64_t fake_calls_cudart(int call);
uint64_t fake_calls_cuda(int call);
void fake_set_result_nccl(int call, int value);
void fake_set_result_cudart(int call, int value);
void fake_set_result_cuda(int call, int value);
void fake_block_nccl(int call);
void fake_block_cudart(int call);
void fake_block_cuda(int call);
void fake_set_inside_cudart(int call, void (*inside)());
void fake_set_inside_cuda(int call, void (*inside)());
// What ncclCommGetAsyncError reports.
void fake_set_async_state(int state);
// From now on recorded events do not complete; then only so many more; then all.
void fake_gpu_stop();
void fake_gpu_finish(uint64_t more);
void fake_gpu_go();
void fake_set_capturing(bool on);
uint64_t fake_events_recorded();
}

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_FAKE_LIBRARIES_H_
