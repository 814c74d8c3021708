// Cases of the CUDA backend that are about operations that wait: for peers that call in other
// orders, come late, or never come. Each is one rank's part; whatever is not right ends the rank.
//
// Thread rule: as RankProcess.
#ifndef GORDIAN_TESTS_GPU_RUNTIME_WAIT_CASES_H_
#define GORDIAN_TESTS_GPU_RUNTIME_WAIT_CASES_H_

#include <cuda_runtime_api.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/testing/checked_rank.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"

namespace gordian::runtime::cuda {

using testing::Now;

struct CaseOptions {
  std::string what;
  int ranks = 2;
  uint64_t seed = 1;
  int iterations = 1000;
  int streams = 1;
  int ops = 8;
  uint64_t most_bytes = 64ull << 20;
  bool ipc = false;
  bool detached = false;
  bool pairs = false;
  uint32_t channels = 0;  // 0: the case's choice
};

inline constexpr int kCrowd = 12;

class WaitCases : protected testing::CheckedRank {
 protected:
  WaitCases(const CaseOptions& options, testing::RankProcess& process)
      : CheckedRank(process), o_(options) {}

  void Barrier() { Must(domain_->rendezvous()->Barrier(20000)); }

  void Inversion(bool exclusive) {
    constexpr uint64_t kCount = 1024;
    const auto me = static_cast<uint32_t>(p_.rank());
    float *in = nullptr, *a = nullptr, *b = nullptr;
    uint64_t* wrong = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), kCount * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&a), kCount * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&b), kCount * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong), 8));
    Must(cudaMemset(wrong, 0, 8));
    Must(testing::FillPattern(in, kCount, me, 1, stream_));
    Must(cudaDeviceSynchronize());
    if (exclusive) Must(domain_->SetExclusive(stream_, true));
    Barrier();
    const int first = p_.rank() % 2;
    const auto pair = [&] {
      for (const int which : {first, 1 - first}) {
        Must(comms_[which]->Launch({OpKind::kAllReduce, in, which == 0 ? a : b, kCount,
                                    DataType::kFloat, Operator::kSum, 0},
                                   stream_));
      }
    };
    if (!exclusive) {
      p_.At("an inversion without help");
      pair();
      // It hangs when it is not done long after it would have been; the watchdog knows no better
      // either.
      const double begin = Now();
      while (cudaStreamQuery(stream_) == cudaErrorNotReady && Now() - begin < 3) {
        const timespec pause{0, 1000000};
        nanosleep(&pause, nullptr);
      }
      if (cudaStreamQuery(stream_) != cudaErrorNotReady)
        p_.Fail("the inversion completed without help");
      Barrier();
      const double aborted = Now();
      if (p_.rank() == 0) domain_->Abort();
      Must(cudaStreamSynchronize(stream_));
      const double took = Now() - aborted;
      if (domain_->Health().ok()) p_.Fail("nobody was told of the abort");
      if (comms_[0]
              ->Launch({OpKind::kAllReduce, in, a, kCount, DataType::kFloat, Operator::kSum, 0},
                       stream_)
              .ok()) {
        p_.Fail("an operation was taken after the abort");
      }
      Say("twin: hangs without help, as it must; left %.1f ms after the abort\n", took * 1e3);
      return;
    }
    const auto timed = [&](bool inverted) {
      const int keep = first;
      Barrier();
      const double begin = Now();
      for (int i = 0; i < o_.iterations; ++i) {
        p_.At("%s pair %d", inverted ? "inverted" : "ordered", i);
        for (int w = 0; w < 2; ++w) {
          const int which = inverted ? (w == 0 ? keep : 1 - keep) : w;
          Must(comms_[which]->Launch({OpKind::kAllReduce, in, which == 0 ? a : b, kCount,
                                      DataType::kFloat, Operator::kSum, 0},
                                     stream_));
        }
        if (i % 64 == 63) Must(cudaStreamSynchronize(stream_));
      }
      Must(cudaStreamSynchronize(stream_));
      return (Now() - begin) / o_.iterations / 2 * 1e6;
    };
    timed(false);
    const double ordered = timed(false);
    HelpCounts before, after;
    Must(domain_->Helped(&before));
    const double inverted = timed(true);
    Must(domain_->Helped(&after));
    // The rank whose operation comes first in the order of all helps nothing.
    const uint64_t helped_before = p_.Sum(before.helped),
                   helped = p_.Sum(after.helped) - helped_before;
    testing::Expectation e{
        OpKind::kAllReduce, static_cast<uint32_t>(p_.ranks()), me, 0, 1, kCount, 0};
    Must(testing::CheckPattern(a, e, wrong, stream_));
    Must(testing::CheckPattern(b, e, wrong, stream_));
    uint64_t bad = 0;
    Must(cudaMemcpyAsync(&bad, wrong, 8, cudaMemcpyDeviceToHost, stream_));
    Must(cudaStreamSynchronize(stream_));
    if (bad != 0) p_.Fail("wrong results");
    if (helped == 0 && p_.ranks() > 1) p_.Fail("nothing was helped");
    Say("inversion: %d pairs of 4 KiB all-reduces: same order %.2f us each (%lu helped so far), "
        "opposite %.2f us (%lu helped), right\n",
        o_.iterations, ordered, helped_before, inverted, helped);
  }

  void Group() {
    const auto ranks = static_cast<uint32_t>(p_.ranks());
    const auto me = static_cast<uint32_t>(p_.rank());
    const int to = static_cast<int>((me + 1) % ranks),
              from = static_cast<int>((me + ranks - 1) % ranks);
    constexpr uint64_t kMost = 32 << 20;
    float *in = nullptr, *out = nullptr;
    uint64_t* wrong = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), kMost * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&out), kMost * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong), 8));
    Must(cudaMemset(wrong, 0, 8));
    Must(testing::FillPattern(in, kMost, me, 5, stream_));
    Must(cudaStreamSynchronize(stream_));
    for (const uint64_t count :
         {uint64_t{2}, uint64_t{1000}, uint64_t{100000}, uint64_t{4} << 20, kMost}) {
      for (int i = 0; i < 20; ++i) {
        p_.At("ring of %lu elements, %d", count, i);
        Must(domain_->GroupStart());
        // All send first: without the group none would ever receive a large one.
        Must(comms_[1]->Launch(
            {OpKind::kSend, in, nullptr, count, DataType::kFloat, Operator::kSum, to}, stream_));
        Must(comms_[1]->Launch(
            {OpKind::kRecv, nullptr, out, count, DataType::kFloat, Operator::kSum, from}, stream_));
        Must(domain_->GroupEnd());
        testing::Expectation e{OpKind::kRecv, ranks, me, static_cast<uint32_t>(from), 5, count, 0};
        Must(testing::CheckPattern(out, e, wrong, stream_));
        Must(cudaStreamSynchronize(stream_));
      }
    }
    uint64_t bad = 0;
    Must(cudaMemcpy(&bad, wrong, 8, cudaMemcpyDeviceToHost));
    if (bad != 0) p_.Fail("wrong elements");
    // Into the same buffers again and again, nothing awaited between: there is not room to rename
    // all outputs. The two directions differ in size, so that no kernel has both of a pair.
    cudaStream_t exclusive = nullptr;
    Must(cudaStreamCreateWithFlags(&exclusive, cudaStreamNonBlocking));
    Must(domain_->SetExclusive(exclusive, true));
    for (const bool alike : {false, true}) {
      for (int i = 0; i < 60; ++i) {
        p_.At("%s ring %d on an exclusive stream", alike ? "even" : "uneven", i);
        constexpr uint64_t kCount = 4 << 20;
        const uint64_t back = alike ? kCount : 20000;
        Must(domain_->GroupStart());
        Must(comms_[1]->Launch(
            {OpKind::kSend, in, nullptr, kCount, DataType::kFloat, Operator::kSum, to}, exclusive));
        Must(comms_[0]->Launch(
            {OpKind::kSend, in, nullptr, back, DataType::kFloat, Operator::kSum, from}, exclusive));
        Must(comms_[0]->Launch(
            {OpKind::kRecv, nullptr, out + kCount, back, DataType::kFloat, Operator::kSum, to},
            exclusive));
        Must(comms_[1]->Launch(
            {OpKind::kRecv, nullptr, out, kCount, DataType::kFloat, Operator::kSum, from},
            exclusive));
        Must(domain_->GroupEnd());
      }
      Must(cudaStreamSynchronize(exclusive));
      testing::Expectation e{OpKind::kRecv,     ranks, me, static_cast<uint32_t>(from), 5,
                             uint64_t{4} << 20, 0};
      Must(testing::CheckPattern(out, e, wrong, stream_));
      e.root = static_cast<uint32_t>(to), e.count = alike ? uint64_t{4} << 20 : 20000;
      Must(testing::CheckPattern(out + (4 << 20), e, wrong, stream_));
      Must(cudaStreamSynchronize(stream_));
    }
    Must(cudaMemcpy(&bad, wrong, 8, cudaMemcpyDeviceToHost));
    if (bad != 0) p_.Fail("wrong elements on the exclusive stream");
    Barrier();
    Say("group: rings of sends and receives right\n");
  }

  void Crowd() {
    constexpr uint64_t kMost = 8 << 20;
    const auto ranks = static_cast<uint32_t>(p_.ranks());
    const auto me = static_cast<uint32_t>(p_.rank());
    float* in = nullptr;
    uint64_t* wrong = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), kMost * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong), 8));
    Must(cudaMemset(wrong, 0, 8));
    Must(testing::FillPattern(in, kMost, me, 9, stream_));
    std::vector<cudaStream_t> streams(kCrowd);
    std::vector<float*> outs(kCrowd);
    for (int i = 0; i < kCrowd; ++i) {
      Must(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
      Must(cudaMalloc(reinterpret_cast<void**>(&outs[i]), kMost * 4));
    }
    Must(cudaDeviceSynchronize());
    std::mt19937_64 common(o_.seed);
    for (int round = 0; round < std::min(o_.iterations, 50); ++round) {
      const uint64_t count = round % 5 == 0 ? kMost : 1 + common() % kMost;
      const auto launch = [&](int i) {
        p_.At("round %d, communicator %d, %lu elements", round, i, count);
        Must(comms_[i]->Launch(
            {OpKind::kAllReduce, in, outs[i], count, DataType::kFloat, Operator::kSum, 0},
            streams[i]));
      };
      Barrier();
      if (me == 0) {
        for (int i = 0; i < kCrowd; ++i) launch(i);
      } else {
        for (int i = kCrowd; i-- > 0;) {
          launch(i);
          Must(cudaStreamSynchronize(streams[i]));
        }
      }
      for (const cudaStream_t stream : streams) Must(cudaStreamSynchronize(stream));
      for (int i = 0; i < kCrowd; ++i) {
        Must(testing::CheckPattern(outs[i], {OpKind::kAllReduce, ranks, me, 0, 9, count, 0}, wrong,
                                   stream_));
      }
      uint64_t bad = 0;
      Must(cudaMemcpyAsync(&bad, wrong, 8, cudaMemcpyDeviceToHost, stream_));
      Must(cudaStreamSynchronize(stream_));
      if (bad != 0)
        p_.Fail(std::to_string(bad) + " elements wrong in round " + std::to_string(round));
    }
    Barrier();
    Say("crowd: operations on %d streams waited for the last one, right\n", kCrowd);
  }

  void Dead() {
    constexpr uint64_t kCount = 16 << 20;
    float *in = nullptr, *out = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), kCount * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&out), kCount * 4));
    Must(cudaMemset(in, 0, kCount * 4));
    Must(cudaDeviceSynchronize());
    Barrier();
    const int victim = p_.ranks() - 1;
    p_.At("before the death");
    for (int i = 0; i < 50; ++i) {
      Must(comms_[0]->Launch(
          {OpKind::kAllReduce, in, out, kCount, DataType::kFloat, Operator::kSum, 0}, stream_));
    }
    if (p_.rank() == victim) {
      Must(cudaStreamSynchronize(stream_));
      kill(getpid(), SIGKILL);
    }
    Must(cudaStreamSynchronize(stream_));
    const double begin = Now();
    // One more than the victim has: its kernel waits for a rank that is no more.
    p_.At("waiting for the dead");
    Status launched;
    if (o_.detached) {
      Detached operation;
      launched = comms_[0]->Detach(
          {OpKind::kAllReduce, in, out, kCount, DataType::kFloat, Operator::kSum, 0}, 0,
          &operation);
      const Status waited = operation.Wait(20'000'000'000);
      if (launched.ok() && waited.code() != StatusCode::kUnavailable)
        p_.Fail("waiting for the dead ended with: " + waited.ToString());
    } else {
      launched = comms_[0]->Launch(
          {OpKind::kAllReduce, in, out, kCount, DataType::kFloat, Operator::kSum, 0}, stream_);
    }
    const cudaError_t error = cudaStreamSynchronize(stream_);
    const double took = Now() - begin;
    if (error != cudaSuccess)
      p_.Fail(std::string("the device is unusable: ") + cudaGetErrorString(error));
    while (domain_->Health().ok() && Now() - begin < 10) {
      const timespec pause{0, 1000000};
      nanosleep(&pause, nullptr);
    }
    if (domain_->Health().ok()) p_.Fail("nobody was told of the death");
    if (launched.ok() && took > 1)
      p_.Fail("the kernel took " + std::to_string(took) + " s to leave");
    Say("dead: %s; %s, left after %.1f ms\n", domain_->Health().message().c_str(),
        launched.ok() ? "the kernel was running" : "the call was refused", took * 1e3);
  }

  const CaseOptions& o_;
  std::unique_ptr<Domain> domain_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_TESTS_GPU_RUNTIME_WAIT_CASES_H_
