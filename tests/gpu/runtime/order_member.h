// A member that calls deferred and detached operations, in a test on real GPUs.
#ifndef GORDIAN_TESTS_GPU_RUNTIME_ORDER_MEMBER_H_
#define GORDIAN_TESTS_GPU_RUNTIME_ORDER_MEMBER_H_

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"
#include "tests/gpu/runtime/rank_device.h"

namespace gordian::testing {

inline constexpr uint64_t kSecond = 1'000'000'000;
inline constexpr uint64_t kPatience = 20 * kSecond;

class OrderMember : public Member {
 public:
  // `by_queue`: streams wait by their hardware queue, not by a kernel.
  OrderMember(bool by_queue, RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        by_queue_(by_queue),
        p_(process) {}

  void Prepare() {
    Cuda(cudaSetDevice(DeviceOf(r_)), "cudaSetDevice");
    for (cudaStream_t* s : {&one_, &two_})
      Cuda(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "stream");
    Member::Prepare();
  }
  grtComm_t Comm(const std::string& name) {
    grtUniqueId id = {};
    snprintf(id.internal, sizeof id.internal, "%d %s", static_cast<int>(getppid()), name.c_str());
    grtConfig_t config = GRT_CONFIG_INITIALIZER;
    config.join_kind = by_queue_ ? 1 : 0;
    grtComm_t comm = nullptr;
    Ok(grtCommInitRankConfig(&comm, n_, id, r_, &config), "making " + name);
    return comm;
  }
  grtOp_t Do(const Subject& s, grtComm_t comm, cudaStream_t stream, grtOrder_t order,
             bool with_handle = false) {
    const grtOpDesc_t d = Describe(s, comm, order);
    grtOp_t op = nullptr;
    Ok(grtSubmit(&d, stream, with_handle ? &op : nullptr), "submit");
    return op;
  }
  void AwaitOp(grtOp_t op) {
    Ok(grtOpWait(op, kPatience), "waiting for an operation");
    Ok(grtOpFree(op), "free");
  }
  // How many elements the checks so far found wrong; from zero again.
  uint64_t TakeWrong() {
    Cuda(cudaDeviceSynchronize(), "the device");
    uint64_t wrong = 0;
    Cuda(cudaMemcpy(&wrong, wrong_, 8, cudaMemcpyDeviceToHost), "reading");
    Cuda(cudaMemset(wrong_, 0, 8), "clearing");
    Cuda(cudaDeviceSynchronize(), "the device");
    return wrong;
  }
  // The stream has work for so long: a host function that sleeps would hold other host functions
  // back.
  void Delay(cudaStream_t stream, size_t megabytes) {
    if (scratch_ == nullptr) Cuda(cudaMalloc(&scratch_, kScratch), "cudaMalloc");
    for (size_t done = 0; done < megabytes; done += kScratch >> 20) {
      Cuda(cudaMemsetAsync(scratch_, 0, kScratch, stream), "delay");
    }
  }
  // All ranks have come to the `number`th of these.
  void Meet() {
    ++met_;
    ++p_.board()->arrived;
    const double begin = Now();
    while (p_.board()->arrived.load() < met_ * n_) {
      if (Now() - begin > 20) p_.Fail("the others do not come");
      Sleep(1);
    }
  }
  void Sync(cudaStream_t stream, const char* what) { Cuda(cudaStreamSynchronize(stream), what); }
  void Close(std::initializer_list<grtComm_t> comms) {
    for (const grtComm_t comm : comms) {
      Healthy(comm);
      Ok(grtCommDestroy(comm, kPatience), "destroy");
    }
  }

 protected:
  static constexpr size_t kScratch = 256 << 20;
  const bool by_queue_;
  RankProcess& p_;
  cudaStream_t one_ = nullptr, two_ = nullptr;
  void* scratch_ = nullptr;
  int met_ = 0;
};

// A case's name and body.
template <typename Runner>
using Case = std::pair<const char*, void (Runner::*)()>;

// CASE [--ranks N] [--queue] of the command line, in a process a rank.
template <typename Runner>
int RunCase(int argc, char** argv, const char* program, const char* may_die) {
  std::string what;
  int ranks = 2;
  bool by_queue = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--queue") {
      by_queue = true;
    } else if (argument == "--ranks" && i + 1 < argc) {
      ranks = atoi(argv[++i]);
    } else {
      what = argument;
    }
  }
  if (what.empty() || ranks < 2 || ranks > kMostRanks) {
    fprintf(stderr, "usage: %s CASE [--ranks N] [--queue]\n", program);
    return 2;
  }
  const int result =
      RunRanks(ranks, 60, 12, what == may_die ? 1u << (ranks - 1) : 0, [&](RankProcess& process) {
        Runner runner(by_queue, process);
        for (const auto& [name, body] : Runner::kCases) {
          if (what != name) continue;
          runner.Prepare();
          (runner.*body)();
          return 0;
        }
        return 2;
      });
  printf("%s %s --ranks %d\n", result == 0 ? "PASS" : "FAIL", what.c_str(), ranks);
  return result;
}

}  // namespace gordian::testing

#endif  // GORDIAN_TESTS_GPU_RUNTIME_ORDER_MEMBER_H_
