// Collectives through gordian/runtime.h with outputs that are staged, registered (grtCommRegister)
// and of grtMemAlloc, beside NCCL's with plain, registered (ncclCommRegister) and window memory; in
// turns, in one run. Results are compared once for each.
//   gordian-runtime-register-bench [--ranks N] [--samples N] [--to BYTES]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/runtime/nccl_library.h"
#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"
#include "runtime/testing/vmm_memory.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;
using testing::Sleep;
using testing::Subject;
using testing::VmmMemory;

struct Options {
  int ranks = 2, samples = 40;
  uint64_t to = 256ull << 20;
};

class Runner : public testing::Member {
 public:
  Runner(const Options& options, RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        o_(options),
        p_(process) {}

  int Run() {
    Cuda(cudaSetDevice(r_), "cudaSetDevice");
    Cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    Prepare();
    const uint64_t room = o_.to + (2 << 20);
    // Made before there is memory of grtMemAlloc, and after: only the last one's members have
    // agreed to that.
    grtComm_t staged = Comm("staged"), registered = Comm("registered");
    if (const std::string why = memory_.Make(r_, room); !why.empty()) p_.Fail(why);
    grtReg_t reg = nullptr;
    const bool registers = grtCommRegister(registered, memory_.get(), room, &reg) == grtSuccess;
    void* mapped = nullptr;
    Ok(grtMemAlloc(&mapped, room), "grtMemAlloc");
    grtComm_t heap = Comm("heap");
    Connect();
    Say("us (ratio to NCCL's plain) | staged | registered | grtMemAlloc | NCCL | NCCL registered | "
        "NCCL with windows\n");
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kAllToAll}) {
      for (uint64_t bytes = 1 << 20; bytes <= o_.to; bytes *= kind == OpKind::kAllReduce ? 2 : 4) {
        const uint64_t blocks = kind == OpKind::kAllReduce ? 1 : static_cast<uint64_t>(n_);
        Subject s = Make(kind, bytes / blocks / 4);
        Before(s, stream_);  // one input for all
        Cuda(cudaStreamSynchronize(stream_), "input");
        std::vector<std::function<void()>> contenders;
        std::vector<float*> outputs;
        const auto ours = [&](grtComm_t comm, void* out) {
          Subject own = s;
          own.out = static_cast<float*>(out);
          outputs.push_back(own.out);
          contenders.push_back([this, own, comm] { Ok(Call(own, comm, stream_), "calling"); });
        };
        const auto theirs = [&](ncclComm_t comm, void* in, void* out) {
          Subject own = s;
          own.in = static_cast<float*>(in);
          own.out = static_cast<float*>(out);
          outputs.push_back(own.out);
          if (in != nullptr && in != s.in)
            Cuda(cudaMemcpy(in, s.in, InputCount(kind, s.count, static_cast<uint32_t>(n_)) * 4,
                            cudaMemcpyDeviceToDevice),
                 "input");
          contenders.push_back([this, own, comm] {
            if (Theirs(own, comm) != ncclSuccess) p_.Fail("NCCL");
          });
        };
        ours(staged, s.out);
        ours(registered, registers ? memory_.get() : nullptr);
        ours(heap, mapped);
        theirs(plain_, s.in, s.out);
        theirs(local_, local_in_, local_out_);
        theirs(window_, window_in_, window_out_);
        Measure(s, contenders, outputs, bytes, 3);
        Free(s);
      }
    }
    Ok(grtCommDestroy(staged, kPatience), "destroy");
    Ok(grtCommDestroy(registered, kPatience), "destroy");
    Ok(grtCommDestroy(heap, kPatience), "destroy");
    return 0;
  }

 private:
  static constexpr uint64_t kPatience = 20'000'000'000;

  ncclComm_t Init(int number) {
    ncclUniqueId id = {};
    if (r_ == 0) {
      nccl_.unique_id(&id);
      static_assert(sizeof id <= sizeof p_.board()->id);
      memcpy(p_.board()->id, &id, sizeof id);
      p_.board()->has_id = number;
    }
    while (p_.board()->has_id != number) Sleep(1);
    memcpy(&id, p_.board()->id, sizeof id);
    ncclComm_t comm = nullptr;
    if (nccl_.init(&comm, n_, id, r_) != ncclSuccess) p_.Fail("NCCL's communicator");
    return comm;
  }
  void Connect() {
    std::string why;
    if (!LoadNccl(&nccl_, &why)) {
      Say("no NCCL: %s\n", why.c_str());
      return;
    }
    plain_ = Init(1);
    if (nccl_.allocate == nullptr) return;
    const uint64_t room = o_.to + (2 << 20);
    // Inputs too, as NCCL wants them.
    const auto all_of = [&](void** in, void** out, const auto& registers) {
      for (void** buffer : {in, out}) {
        if (nccl_.allocate(buffer, room) != ncclSuccess || registers(*buffer) != ncclSuccess)
          *out = nullptr;
      }
    };
    void* handle = nullptr;
    local_ = Init(2);
    if (nccl_.comm_register != nullptr) {
      all_of(&local_in_, &local_out_,
             [&](void* buffer) { return nccl_.comm_register(local_, buffer, room, &handle); });
    }
    window_ = Init(3);
    if (nccl_.window_register != nullptr) {
      all_of(&window_in_, &window_out_, [&](void* buffer) {
        return nccl_.window_register(window_, buffer, room, &handle, NCCL_WIN_COLL_SYMMETRIC);
      });
    }
  }
  ncclResult_t Theirs(const Subject& s, ncclComm_t comm) {
    switch (s.kind) {
      case OpKind::kAllReduce:
        return nccl_.all_reduce(s.in, s.out, s.count, ncclFloat, ncclSum, comm, stream_);
      case OpKind::kAllGather:
        return nccl_.all_gather(s.in, s.out, s.count, ncclFloat, comm, stream_);
      case OpKind::kReduceScatter:
        return nccl_.reduce_scatter(s.in, s.out, s.count, ncclFloat, ncclSum, comm, stream_);
      default:
        return nccl_.all_to_all(s.in, s.out, s.count, ncclFloat, comm, stream_);
    }
  }
  void Measure(const Subject& s, const std::vector<std::function<void()>>& contenders,
               const std::vector<float*>& outputs, uint64_t bytes, size_t base) {
    static constexpr int kEach = 5;
    cudaEvent_t begin = nullptr, end = nullptr;
    Cuda(cudaEventCreate(&begin), "event");
    Cuda(cudaEventCreate(&end), "event");
    std::vector<std::vector<double>> took(contenders.size());
    const auto is_there = [&](size_t i) {
      return outputs[i] != nullptr &&
             (i < base ||
              (plain_ != nullptr && (s.kind != OpKind::kAllToAll || nccl_.all_to_all != nullptr)));
    };
    for (size_t i = 0; i < contenders.size(); ++i) {
      if (!is_there(i)) continue;
      p_.At("%d, %lu bytes, contender %zu", static_cast<int>(s.kind),
            static_cast<unsigned long>(bytes), i);
      Subject own = s;
      own.out = outputs[i];
      contenders[i]();
      After(own, stream_);
      Finish("the results");
    }
    const int samples = bytes > (64ull << 20) ? o_.samples / 4 + 1 : o_.samples;
    for (int sample = 0; sample < samples; ++sample) {
      p_.At("%d, %lu bytes, sample %d", static_cast<int>(s.kind), static_cast<unsigned long>(bytes),
            sample);
      for (size_t i = 0; i < contenders.size(); ++i) {
        if (!is_there(i)) continue;
        contenders[i]();
        Cuda(cudaEventRecord(begin, stream_), "event");
        for (int k = 0; k < kEach; ++k) contenders[i]();
        Cuda(cudaEventRecord(end, stream_), "event");
        Cuda(cudaEventSynchronize(end), "event");
        float ms = 0;
        Cuda(cudaEventElapsedTime(&ms, begin, end), "event");
        took[i].push_back(ms * 1e3 / kEach);
      }
    }
    Cuda(cudaEventDestroy(begin), "event");
    Cuda(cudaEventDestroy(end), "event");
    const auto median = [&](size_t i) {
      std::sort(took[i].begin(), took[i].end());
      return took[i].empty() ? 0 : took[i][took[i].size() / 2];
    };
    const double unit = median(base);
    std::string line;
    for (size_t i = 0; i < contenders.size(); ++i) {
      char text[64];
      const double us = median(i);
      snprintf(text, sizeof text, unit > 0 ? " | %.2f (%.3f)" : " | %.2f", us, us / unit);
      line += us == 0 ? " | -" : text;
    }
    static const char* const kNames[] = {"",          "all_reduce", "all_gather", "reduce_scatter",
                                         "broadcast", "reduce",     "all_to_all"};
    Say("%s %lu%s\n", kNames[static_cast<int>(s.kind)], static_cast<unsigned long>(bytes),
        line.c_str());
  }

  const Options o_;
  RankProcess& p_;
  cudaStream_t stream_ = nullptr;
  VmmMemory memory_;
  Nccl nccl_ = {};
  ncclComm_t plain_ = nullptr, local_ = nullptr, window_ = nullptr;
  void *local_in_ = nullptr, *local_out_ = nullptr, *window_in_ = nullptr, *window_out_ = nullptr;
};

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--ranks")
      options.ranks = atoi(argv[i + 1]);
    else if (name == "--samples")
      options.samples = atoi(argv[i + 1]);
    else if (name == "--to")
      options.to = strtoull(argv[i + 1], nullptr, 10);
    else
      options.ranks = 0;
  }
  if (argc % 2 == 0 || options.ranks < 2 || options.ranks > testing::kMostRanks ||
      options.samples < 1 || options.to < (1 << 20)) {
    fprintf(stderr,
            "usage: gordian-runtime-register-bench [--ranks N] [--samples N] [--to BYTES]\n");
    return 2;
  }
  return testing::RunRanks(options.ranks, 200, 30, 0,
                           [&](RankProcess& process) { return Runner(options, process).Run(); });
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
