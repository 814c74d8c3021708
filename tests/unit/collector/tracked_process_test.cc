// What is told of a process while it goes on.
#include "collector/process/tracked_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/unit/collector/fake_shim.h"

namespace gordian::collector {
namespace {

using testing_support::FakeShim;
using testing_support::TemporaryDir;

// A process that makes its first call of NCCL, through a symbol, while it is looked at: that call
// was not told by NCCL's profiler interface. The process writes as the shim does.
TEST(TrackedProcessTest, AFirstCallWhileItIsLookedAt) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    TemporaryDir dir;
    FakeShim shim(dir.path(), getpid(), 1024, 1);
    shim.AddThread(0, getpid());
    auto file = RingFile::Open(shim.path());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    const auto name = ParseRingName(shim.name());
    ASSERT_TRUE(name.has_value());
    BuildIds build_ids;
    TrackedProcess process(ProcessNumber(1), shim.name(), *name, std::move(file).value(), "",
                           &build_ids);
    std::atomic<bool> go = false;
    const int delay = static_cast<int>(random() % 20000);
    std::thread caller([&] {
      while (!go) continue;
      for (std::atomic<int> i = 0; i < delay; ++i) continue;
      const uint16_t call = ring::kCall_ncclAllReduce;
      std::atomic_ref(shim.header()->rows_used[call / 64])
          .fetch_or(uint64_t{1} << call % 64, std::memory_order_relaxed);
      std::atomic_ref(shim.thread(0)->nccl_calls).store(1, std::memory_order_release);
    });
    v1::ProcessState state;
    go = true;
    process.ReadState(&state);
    caller.join();
    for (const std::string& text : state.not_visible()) {
      ASSERT_EQ(text.find("profiler interface"), std::string::npos)
          << text << " in round " << round;
    }
  }
}

}  // namespace
}  // namespace gordian::collector
