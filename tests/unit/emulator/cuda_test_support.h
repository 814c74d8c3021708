// What the tests of the emulated CUDA share: an operation that stays on the device until the test
// lets it go, and host calls watched from outside.
#ifndef GORDIAN_TESTS_UNIT_EMULATOR_CUDA_TEST_SUPPORT_H_
#define GORDIAN_TESTS_UNIT_EMULATOR_CUDA_TEST_SUPPORT_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/process/futex.h"

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                            dim3*, int*);
}

namespace gordian::emu {

using std::chrono::milliseconds;

// How long something that must not happen is given to happen, and something that must is given.
inline constexpr milliseconds kNever{60};
inline constexpr milliseconds kSoon{20'000};

inline Engine& TheEngine() { return *gordianEmuEngine(kEngineApiVersion); }

class HeldOp : public DeviceOp {
 public:
  bool Start() override {
    started_.set_value();
    running_ = true;
    return released_.load();
  }
  bool Poll() override { return released_.load(); }
  void Cancel() override { cancelled_ = true; }

  bool Started() const { return running_.load(); }
  bool Cancelled() const { return cancelled_.load(); }
  bool WaitStarted() { return start_.wait_for(kSoon) == std::future_status::ready; }
  void Release() {
    released_ = true;
    std::atomic<uint32_t>* const bell = TheEngine().Doorbell();
    bell->fetch_add(1);
    FutexWakeAll(bell);
  }

 private:
  std::promise<void> started_;
  std::future<void> start_ = started_.get_future();
  std::atomic<bool> running_{false};
  std::atomic<bool> released_{false};
  std::atomic<bool> cancelled_{false};
};

using HeldOpPtr = std::shared_ptr<HeldOp>;

inline HeldOpPtr Hold(const std::vector<cudaStream_t>& handles, int sms = 1,
                      std::shared_ptr<DeviceOp> after = nullptr) {
  EnqueueRequest request;
  for (cudaStream_t handle : handles) {
    Stream* const stream = TheEngine().FindStream(handle, TheEngine().CurrentDevice());
    EXPECT_NE(stream, nullptr);
    request.streams.push_back(stream);
  }
  auto op = std::make_shared<HeldOp>();
  request.op = op;
  request.after = std::move(after);
  request.sms = sms;
  TheEngine().Enqueue(std::move(request));
  return op;
}

inline HeldOpPtr Hold(cudaStream_t stream, int sms = 1) {
  return Hold(std::vector<cudaStream_t>{stream}, sms);
}

// A host call on a thread of its own.
class Call {
 public:
  explicit Call(std::function<cudaError_t()> call)
      : result_(std::async(std::launch::async, std::move(call))) {}
  bool Blocks() { return result_.wait_for(kNever) == std::future_status::timeout; }
  cudaError_t Result() {
    if (result_.wait_for(kSoon) != std::future_status::ready) return cudaErrorTimeout;
    return result_.get();
  }

 private:
  std::future<cudaError_t> result_;
};

// A kernel that nobody gave a body; its name decides what it is.
class TestKernel {
 public:
  explicit TestKernel(const char* name) : module_(__cudaRegisterFatBinary(nullptr)) {
    __cudaRegisterFunction(module_, &function_, nullptr, name, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  ~TestKernel() { __cudaUnregisterFatBinary(module_); }
  const void* function() const { return &function_; }

 private:
  void** module_;
  char function_ = 0;
};

inline cudaStream_t NewStream(unsigned flags = cudaStreamDefault) {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, flags), cudaSuccess);
  return stream;
}

inline cudaEvent_t NewEvent(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, flags), cudaSuccess);
  return event;
}

}  // namespace gordian::emu

#endif  // GORDIAN_TESTS_UNIT_EMULATOR_CUDA_TEST_SUPPORT_H_
