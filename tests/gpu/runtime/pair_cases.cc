// Groups of sends and receives on real GPUs, one process a rank: several peers, as many transfers
// with each as it comes, sizes that differ by peer (all-to-all-v), none at all with some; each rank
// in an order and in groups of its own. Every output is compared with its sender's pattern on the
// device; a watchdog ends what hangs.
//
//   gordian-runtime-pair-cases CASE [--ranks N] [--seed S] [--iterations N] [--most-bytes B]
//
//   groups   on an exclusive stream: two communicators, whose groups differ in order by rank
//   alone    every second rank calls one by one, on a plain stream, what the others have in one
//   group: nothing of it may begin early crowd    the same, while large all-reduces of other
//   communicators, which the last rank calls when all is done, keep the devices'
//            places: the groups' kernels have few blocks. Needs CUDA_DEVICE_MAX_CONNECTIONS=32, as
//            gordian-runtime-cases crowd does
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/testing/checked_rank.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"
#include "tests/gpu/runtime/rank_device.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

struct Options {
  std::string what;
  int ranks = 2;
  uint64_t seed = 1;
  int iterations = 100;
  uint64_t most_bytes = 8ull << 20;
};

constexpr int kCommunicators = 2;
constexpr int kCrowd = 10;
constexpr uint32_t kSalt = 11;
constexpr uint64_t kOffsets = 1024;  // elements of the pattern at which an input may begin

// Of one communicator; those of a pair come in this order.
struct Transfer {
  int from, to;
  uint64_t count, offset;
  bool direct;         // into memory that peers write
  uint64_t place = 0;  // in the receiver's output
};

class Runner : testing::CheckedRank {
 public:
  Runner(const Options& options, RankProcess& process) : CheckedRank(process), o_(options) {}

  int Run() {
    const bool crowd = o_.what == "crowd";
    DomainConfig config;
    config.name = "pairs-" + o_.what + "-" + std::to_string(getppid());
    config.rank = p_.rank();
    config.ranks = p_.ranks();
    config.device = testing::DeviceOf(p_.rank());
    config.communicators = kCommunicators + (crowd ? kCrowd : 0);
    config.user_bytes = RoomOf() * kCommunicators;
    p_.At("making the domain");
    Must(Domain::Create(config, &domain_));
    Must(testing::PreloadPatterns());
    std::vector<int> members;
    for (int r = 0; r < p_.ranks(); ++r) members.push_back(r);
    for (int c = 0; c < config.communicators; ++c) {
      comms_.emplace_back();
      Must(Communicator::Create(domain_.get(), c, members, &comms_.back()));
    }
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    const uint64_t elements = o_.most_bytes / 4 + kOffsets;
    Must(cudaMalloc(reinterpret_cast<void**>(&in_), elements * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong_), 8));
    Must(cudaMemsetAsync(wrong_, 0, 8, stream_));
    Must(testing::FillPattern(in_, elements, static_cast<uint32_t>(p_.rank()), kSalt, stream_));
    for (int c = 0; c < kCommunicators; ++c) {
      Must(cudaMalloc(reinterpret_cast<void**>(&staged_[c]), RoomOf()));
      direct_[c] = static_cast<float*>(domain_->Allocate(RoomOf()));
      if (direct_[c] == nullptr) p_.Fail("no user memory");
    }
    Must(cudaStreamSynchronize(stream_));
    if (o_.what == "groups") {
      Must(domain_->SetExclusive(stream_, true));
    } else if (crowd) {
      StartCrowd();
    } else if (o_.what != "alone") {
      p_.Fail("no such case");
    }
    for (int i = 0; i < o_.iterations; ++i) Iterate(i);
    comms_.clear();
    domain_.reset();
    if (p_.rank() == 0) {
      printf("%s: %d iterations, %lu transfers, %.2f MiB each (mean), right\n", o_.what.c_str(),
             o_.iterations, transfers_,
             static_cast<double>(bytes_) / static_cast<double>(transfers_) / (1 << 20));
    }
    return 0;
  }

 private:
  void Barrier() { Must(domain_->rendezvous()->Barrier(20000)); }
  // Bytes that a rank receives of one communicator in an iteration, at most.
  uint64_t RoomOf() const { return 2 * o_.most_bytes * static_cast<uint64_t>(p_.ranks()); }

  // What all ranks agree about: between each two of them none, one or two transfers each way, of
  // about a size, or of any.
  std::vector<Transfer> Plan() {
    std::uniform_real_distribution<double> unit(0, 1);
    const auto size = [&] {
      return std::pow(static_cast<double>(o_.most_bytes) / 4, unit(common_));
    };
    const double alike = common_() % 2 == 0 ? size() : 0;
    std::vector<Transfer> plan;
    for (int from = 0; from < p_.ranks(); ++from) {
      for (int to = 0; to < p_.ranks(); ++to) {
        if (from == to) continue;
        const uint64_t dice = common_() % 8;
        for (uint64_t i = 0; i < (dice == 0 ? 0u : dice == 1 ? 2u : 1u); ++i) {
          const auto count = static_cast<uint64_t>(alike > 0 ? alike : size());
          plan.push_back({from, to, count, common_() % kOffsets, common_() % 2 == 0});
        }
      }
    }
    std::shuffle(plan.begin(), plan.end(), common_);
    std::vector<uint64_t> at(static_cast<size_t>(p_.ranks()), 0);
    for (Transfer& t : plan) {
      t.place = at[static_cast<size_t>(t.to)];
      at[static_cast<size_t>(t.to)] +=
          (t.count + 63) / 64 * 64 + (common_() % 4 == 0 ? 1 : 0);  // some misaligned
    }
    return plan;
  }

  // This rank's part, in an order of its own, but those of a pair in theirs.
  std::vector<Transfer> OwnOrder(const std::vector<Transfer>& plan, bool shuffled) {
    std::vector<Transfer> mine;
    for (const Transfer& t : plan) {
      if (t.from == p_.rank() || t.to == p_.rank()) mine.push_back(t);
    }
    if (!shuffled) return mine;
    std::map<std::pair<int, int>, std::vector<Transfer>> of;
    std::vector<std::pair<int, int>> order;
    for (const Transfer& t : mine) {
      of[{t.from, t.to}].push_back(t);
      order.emplace_back(t.from, t.to);
    }
    std::shuffle(order.begin(), order.end(), own_);
    std::map<std::pair<int, int>, size_t> next;
    for (size_t i = 0; i < order.size(); ++i) mine[i] = of[order[i]][next[order[i]]++];
    return mine;
  }

  float* OutputOf(int c, const Transfer& t) { return (t.direct ? direct_ : staged_)[c] + t.place; }

  void Call(int c, const std::vector<Transfer>& transfers, bool group) {
    if (group) Must(domain_->GroupStart());
    for (const Transfer& t : transfers) {
      if (t.from == p_.rank()) {
        Must(comms_[c]->Launch({OpKind::kSend, in_ + t.offset, nullptr, t.count, DataType::kFloat,
                                Operator::kSum, t.to},
                               stream_));
      } else {
        Must(comms_[c]->Launch({OpKind::kRecv, nullptr, OutputOf(c, t), t.count, DataType::kFloat,
                                Operator::kSum, t.from},
                               stream_));
      }
    }
    if (group) Must(domain_->GroupEnd());
  }

  void Check(int c, const std::vector<Transfer>& transfers) {
    for (const Transfer& t : transfers) {
      ++transfers_;
      bytes_ += t.count * 4;
      if (t.to != p_.rank()) continue;
      const testing::Expectation e{OpKind::kRecv,
                                   static_cast<uint32_t>(p_.ranks()),
                                   static_cast<uint32_t>(p_.rank()),
                                   static_cast<uint32_t>(t.from),
                                   kSalt,
                                   t.count,
                                   t.offset};
      Must(testing::CheckPattern(OutputOf(c, t), e, wrong_, stream_));
    }
  }

  void Iterate(int iteration) {
    p_.At("%s, iteration %d", o_.what.c_str(), iteration);
    const bool groups = o_.what == "groups", crowd = o_.what == "crowd";
    std::vector<std::vector<Transfer>> mine;
    const bool one_by_one = !groups && p_.rank() % 2 == 1;
    for (int c = 0; c < kCommunicators; ++c) mine.push_back(OwnOrder(Plan(), !one_by_one));
    for (int c = 0; c < kCommunicators; ++c) {  // so that what is not written shows
      Must(cudaMemsetAsync(staged_[c], 0xff, RoomOf(), stream_));
      Must(cudaMemsetAsync(direct_[c], 0xff, RoomOf(), stream_));
    }
    Must(cudaStreamSynchronize(stream_));
    Barrier();
    const bool last = p_.rank() == p_.ranks() - 1;
    const auto at = [&](const char* what) {
      p_.At("%s, iteration %d: %s", o_.what.c_str(), iteration, what);
    };
    if (crowd && !last) {
      at("calling the crowd");
      CallCrowd();
    }
    at("calling transfers");
    const bool turned = groups && own_() % 2 == 0;
    for (int i = 0; i < kCommunicators; ++i) {
      const int c = turned ? kCommunicators - 1 - i : i;
      Call(c, mine[static_cast<size_t>(c)], !one_by_one);
    }
    at("waiting for transfers");
    Must(cudaStreamSynchronize(stream_));
    if (crowd) {
      if (last) CallCrowd();
      at("waiting for the crowd");
      for (const cudaStream_t stream : crowd_streams_) Must(cudaStreamSynchronize(stream));
    }
    for (int c = 0; c < kCommunicators; ++c) Check(c, mine[static_cast<size_t>(c)]);
    uint64_t bad = 0;
    Must(cudaMemcpyAsync(&bad, wrong_, 8, cudaMemcpyDeviceToHost, stream_));
    Must(cudaStreamSynchronize(stream_));
    if (bad != 0)
      p_.Fail(std::to_string(bad) + " elements wrong in iteration " + std::to_string(iteration));
    domain_->Foreign(stream_);
    Barrier();  // outputs may be written by peers that are an iteration ahead
  }

  void StartCrowd() {
    crowd_streams_.resize(kCrowd);
    Must(cudaMalloc(reinterpret_cast<void**>(&crowd_buffer_), kCrowdCount * 4 * kCrowd));
    Must(cudaMemset(crowd_buffer_, 0, kCrowdCount * 4 * kCrowd));
    for (cudaStream_t& stream : crowd_streams_)
      Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Must(cudaDeviceSynchronize());
  }
  void CallCrowd() {
    for (int i = 0; i < kCrowd; ++i) {
      float* const buffer = crowd_buffer_ + static_cast<uint64_t>(i) * kCrowdCount;
      Must(comms_[static_cast<size_t>(kCommunicators + i)]->Launch(
          {OpKind::kAllReduce, buffer, buffer, kCrowdCount, DataType::kFloat, Operator::kSum, 0},
          crowd_streams_[static_cast<size_t>(i)]));
    }
  }

  static constexpr uint64_t kCrowdCount = 2 << 20;
  const Options& o_;
  std::mt19937_64 common_{o_.seed}, own_{o_.seed * 1000 + static_cast<uint64_t>(p_.rank())};
  std::unique_ptr<Domain> domain_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaStream_t> crowd_streams_;
  float *in_ = nullptr, *staged_[kCommunicators] = {}, *direct_[kCommunicators] = {},
        *crowd_buffer_ = nullptr;
  uint64_t* wrong_ = nullptr;
  uint64_t transfers_ = 0, bytes_ = 0;
};

int Main(int argc, char** argv) {
  Options o;
  if (argc > 1) o.what = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return i + 1 < argc ? strtoull(argv[++i], nullptr, 0) : 0; };
    if (name == "--ranks")
      o.ranks = static_cast<int>(value());
    else if (name == "--seed")
      o.seed = value();
    else if (name == "--iterations")
      o.iterations = static_cast<int>(value());
    else if (name == "--most-bytes")
      o.most_bytes = value();
    else {
      fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  if (o.what.empty() || o.ranks < 2 || o.ranks > static_cast<int>(kMaxRanks) || o.most_bytes < 64) {
    fprintf(stderr, "usage: gordian-runtime-pair-cases CASE [--ranks N] [...]\n");
    return 2;
  }
  const int result = testing::RunRanks(
      o.ranks, 240, 15, 0, [&](RankProcess& process) { return Runner(o, process).Run(); });
  printf("%s %s --ranks %d --seed %lu\n", result == 0 ? "PASS" : "FAIL", o.what.c_str(), o.ranks,
         o.seed);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
