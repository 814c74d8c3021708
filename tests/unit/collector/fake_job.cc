// A process of a job for collector_test:
//   fake_job RING_DIR write RECORDS THREADS EXIT_CODE   writes and ends
//   fake_job RING_DIR hang [deaf|nowatcher]             enters a call and stays; answers rounds
//   fake_job RING_DIR exec                              one record, then replaces itself by "write"
//   fake_job RING_DIR none EXIT_CODE                    ends without a ring file
// Says "ready\n" on stdout once its ring file is complete.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "proto/ring/calls.h"
#include "tests/unit/collector/fake_shim.h"

namespace gordian {
namespace {

using testing_support::FakeShim;

int Write(FakeShim& shim, uint64_t records, uint32_t threads) {
  std::vector<std::thread> writers;
  for (uint32_t i = 0; i < threads; ++i) {
    shim.AddThread(i, getpid());
  }
  for (uint32_t i = 0; i < threads; ++i) {
    writers.emplace_back([&, i] {
      __atomic_store_n(&shim.thread(i)->tid, static_cast<uint32_t>(gettid()), __ATOMIC_RELEASE);
      for (uint64_t n = 1; n <= records; ++n) {
        ring::Record record = FakeShim::Point(n);
        record.call_site = reinterpret_cast<uint64_t>(&Write);
        while (!shim.Publish(i, record)) {
          usleep(100);
        }
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  return 0;
}

int Main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing outlives a test
  signal(SIGPIPE, SIG_IGN);          // a test need not wait for "ready"
  if (argc < 3) {
    return 2;
  }
  const std::string dir = argv[1], mode = argv[2];
  if (mode == "none") {
    return std::atoi(argv[3]);
  }
  if (mode == "exec") {
    FakeShim shim(dir, getpid(), 64, 1);
    shim.AddThread(0, getpid());
    shim.Publish(0, FakeShim::Point(1));
    execl("/proc/self/exe", argv[0], dir.c_str(), "second", nullptr);
    return 1;
  }
  if (mode == "second") {
    const auto stat = collector::ReadProcessStat(getpid());
    FakeShim shim(dir, getpid(), 64, 1,
                  std::to_string(getpid()) + "." + std::to_string(stat->start) + ".1.ring");
    shim.AddThread(0, getpid());
    shim.Publish(0, FakeShim::Point(2));
    return 5;
  }
  FakeShim shim(dir, getpid(), 1024, 4);
  if (mode == "write") {
    std::puts("ready");
    std::fflush(stdout);
    Write(shim, std::strtoull(argv[3], nullptr, 10),
          static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)));
    _exit(std::atoi(argv[5]));  // as a crash: no clean-up of ours
  }
  if (mode == "hang") {
    const std::string how = argc > 3 ? argv[3] : "";
    shim.AddThread(0, getpid());
    shim.stream(0)->stream = 1;
    shim.stream(0)->enqueued = 4;
    shim.stream(0)->done = 3;
    shim.header()->streams_used = 1;
    shim.comm(0)->comm = 1;
    shim.comm(0)->state = ring::CommState::kReady;
    shim.comm(0)->next_sequence = 4;
    shim.header()->comms_used = 1;
    shim.header()->markers_enabled = 1;
    shim.thread(0)->nccl_calls = 5;
    constexpr uint16_t kRow = ring::kCall_ncclAllReduce;
    shim.header()->rows_used[kRow / 64] |= uint64_t{1} << kRow % 64;
    if (how != "nowatcher") {
      shim.StartWatcher(how == "deaf");
    }
    ring::Record record{};
    record.kind = ring::RecordKind::kBegin;
    record.call = ring::kCall_cudaStreamSynchronize;
    shim.Publish(0, record);
    shim.EnterCall(0, ring::kCall_cudaStreamSynchronize, 1);
    std::thread bystander([] { pause(); });  // makes no intercepted call
    std::puts("ready");
    std::fflush(stdout);
    for (;;) {
      pause();
    }
  }
  return 2;
}

}  // namespace
}  // namespace gordian

int main(int argc, char** argv) { return gordian::Main(argc, argv); }
