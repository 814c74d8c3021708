// The runtime on GPUs against NCCL in the same run: one process a rank, both on one stream of it,
// turn by turn. The ratio comes first: below 1 the runtime is faster.
//
//   gordian-runtime-cuda-bench [--ranks N] [--kinds all|all_reduce|...] [--from B] [--to B] [--step
//   F]
//                              [--samples N] [--stage B] [--resident N] [--exclusive] [--windows]
//                              [--one-shot B] [--two-shot B] [--two-shot-tiles B] [--move-lines B]
//                              [--move-tiles B]
//                              [--root-lines B] [--root-tiles B] [--line-threads N]
//                              [--channel-tiles N]
//                              [--channels N] [--per-channel B] [--per-more B] [--split N] [--try
//                              NAME=N[,NAME=N...]]...
//
// Two kinds more than collectives, not of "all": exchange, a send to the next rank and a receive
// from the one before as a group; all_to_all_pairs, an all-to-all by such a group, as programs
// write it.
//
// bytes: of the larger of a rank's two buffers. A sample is a batch of calls between two events,
// behind a tiny all-reduce of the same library that brings the ranks together; of each sample the
// slowest rank counts. Columns in microseconds a call; host: what a call takes rank 0's host, of
// NCCL and staged. staged: buffers of cudaMalloc; direct: outputs in memory that peers write. Every
// size is checked, on the device, all elements.
//
// --try: a line a size for each, with these thresholds (the options' names) instead of the others,
// of the same run.
// --windows has NCCL's buffers also as symmetric windows, in columns of their own at the end.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/runtime/nccl_library.h"
#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/testing/checked_rank.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

struct Options {
  int ranks = 2;
  std::string kinds = "all_reduce";
  uint64_t from = 8, to = 256ull << 20, step = 4;
  int samples = 200;
  uint64_t stage_bytes = 0;  // of the communicator; 0: as usual
  int resident = 0;          // streams that have full kernels; 0: as usual
  bool exclusive = false, windows = false;
  Thresholds thresholds;
  std::vector<std::pair<std::string, Thresholds>> tries;  // with what they are called
};

// By an option's name without its dashes; false: there is none of that name.
bool SetThreshold(const std::string& name, uint64_t value, Thresholds* t) {
  const auto number = static_cast<uint32_t>(value);
  if (name == "one-shot")
    t->one_shot = value;
  else if (name == "two-shot")
    t->two_shot_lines = value;
  else if (name == "two-shot-tiles")
    t->two_shot_tiles = value;
  else if (name == "move-lines")
    t->move_lines = value;
  else if (name == "move-tiles")
    t->move_tiles = value;
  else if (name == "root-lines")
    t->root_lines = value;
  else if (name == "root-tiles")
    t->root_tiles = value;
  else if (name == "line-threads")
    t->line_threads = number;
  else if (name == "channel-tiles")
    t->channel_tiles = number;
  else if (name == "channels")
    t->most_channels = number;
  else if (name == "per-channel")
    t->bulk_per_channel = number;
  else if (name == "per-more")
    t->bulk_per_more = number;
  else if (name == "split")
    t->chunks_per_channel = number;
  else
    return false;
  return true;
}

// "name=value,name=value"
bool ParseTry(const std::string& text, Thresholds* t) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const size_t equals = text.find('=', at);
    if (equals == std::string::npos || equals > end) return false;
    if (!SetThreshold(text.substr(at, equals - at), strtoull(text.c_str() + equals + 1, nullptr, 0),
                      t))
      return false;
    at = end + 1;
  }
  return true;
}

constexpr const char* kNames[] = {"",          "all_reduce", "all_gather",      "reduce_scatter",
                                  "broadcast", "reduce",     "all_to_all",      "gather",
                                  "scatter",   "exchange",   "all_to_all_pairs"};
constexpr int kExchange = 9, kPairs = 10;
constexpr int kWarm = 20;

struct Times {
  double median = 0, p1 = 0, p99 = 0;
};

class Bench : testing::CheckedRank {
 public:
  Bench(const Options& options, RankProcess& process) : CheckedRank(process), o_(options) {}

  int Run() {
    DomainConfig config;
    config.name = "bench-" + std::to_string(getppid());
    config.rank = p_.rank();
    config.ranks = p_.ranks();
    config.device = p_.rank();
    config.communicators = 1;
    config.user_bytes = o_.to + (1 << 20);
    config.thresholds = o_.thresholds;
    if (o_.resident > 0) config.resident_streams = o_.resident;
    if (o_.stage_bytes != 0) config.stage_bytes = o_.stage_bytes;
    p_.At("making the domain");
    Must(Domain::Create(config, &domain_));
    std::vector<int> members;
    for (int r = 0; r < p_.ranks(); ++r) members.push_back(r);
    Must(Communicator::Create(domain_.get(), 0, members, &comm_));
    Must(testing::PreloadPatterns());
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    Must(cudaEventCreate(&begin_));
    Must(cudaEventCreate(&end_));
    Must(cudaMalloc(reinterpret_cast<void**>(&in_), o_.to + 4096));
    Must(cudaMalloc(reinterpret_cast<void**>(&out_), o_.to + 4096));
    Must(cudaMalloc(reinterpret_cast<void**>(&tiny_), 4096));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong_), 8));
    direct_ = static_cast<float*>(domain_->Allocate(o_.to));
    if (direct_ == nullptr) p_.Fail("no user memory");
    Must(testing::FillPattern(in_, o_.to / 4, static_cast<uint32_t>(p_.rank()), 3, stream_));
    Must(cudaMemsetAsync(tiny_, 0, 4096, stream_));
    Must(cudaMemsetAsync(wrong_, 0, 8, stream_));
    Must(cudaStreamSynchronize(stream_));
    if (o_.exclusive) Must(domain_->SetExclusive(stream_, true));
    Compare();
    comm_.reset();
    domain_.reset();
    return 0;
  }

 private:
  using CheckedRank::Must;
  void Must(ncclResult_t result) {
    if (result != ncclSuccess) p_.Fail("NCCL error " + std::to_string(result));
  }

  uint64_t CountOf(OpKind kind, uint64_t bytes) const {
    const auto n = static_cast<uint32_t>(p_.ranks());
    const uint64_t factor = std::max(InputCount(kind, 1, n), OutputCount(kind, 1, n));
    return std::max<uint64_t>(bytes / 4 / factor, 1);
  }

  void StartNccl() {
    std::string why;
    if (!LoadNccl(&nccl_, &why)) p_.Fail("no NCCL: " + why);
    auto* board = p_.board();
    if (p_.rank() == 0) {
      ncclUniqueId id;
      Must(nccl_.unique_id(&id));
      memcpy(board->id, &id, sizeof id);
      board->has_id = 1;
    }
    Must(domain_->rendezvous()->Barrier(30000));
    ncclUniqueId id;
    memcpy(&id, board->id, sizeof id);
    p_.At("ncclCommInitRank");
    Must(nccl_.init(&nccl_comm_, p_.ranks(), id, p_.rank()));
    int version = 0;
    Must(nccl_.version(&version));
    if (p_.rank() == 0)
      printf("# NCCL %d, %d ranks, heap by %s, %d samples%s\n", version, p_.ranks(),
             domain_->is_ipc() ? "cudaIpc" : "descriptors", o_.samples,
             o_.exclusive ? ", exclusive stream" : "");
  }

  // Buffers that all ranks register alike.
  void StartWindows() {
    if (nccl_.allocate == nullptr || nccl_.window_register == nullptr)
      p_.Fail("this NCCL has no windows");
    p_.At("ncclCommWindowRegister");
    constexpr int kSymmetric = 1;  // NCCL_WIN_COLL_SYMMETRIC, which older headers lack
    for (float** buffer : {&window_in_, &window_out_}) {
      void* window = nullptr;
      Must(nccl_.allocate(reinterpret_cast<void**>(buffer), o_.to + 4096));
      Must(nccl_.window_register(nccl_comm_, *buffer, o_.to + 4096, &window, kSymmetric));
      if (window == nullptr) p_.Fail("NCCL refused a window");
    }
    Must(testing::FillPattern(window_in_, o_.to / 4, static_cast<uint32_t>(p_.rank()), 3, stream_));
    Must(cudaStreamSynchronize(stream_));
  }

  void CallNccl(OpKind kind, uint64_t count, int root, const float* in, float* out) {
    const int n = p_.ranks();
    switch (kind) {
      case OpKind::kAllReduce:
        return Must(nccl_.all_reduce(in, out, count, ncclFloat, ncclSum, nccl_comm_, stream_));
      case OpKind::kAllGather:
        return Must(nccl_.all_gather(in, out, count, ncclFloat, nccl_comm_, stream_));
      case OpKind::kReduceScatter:
        return Must(nccl_.reduce_scatter(in, out, count, ncclFloat, ncclSum, nccl_comm_, stream_));
      case OpKind::kBroadcast:
        return Must(nccl_.broadcast(in, out, count, ncclFloat, root, nccl_comm_, stream_));
      case OpKind::kReduce:
        return Must(nccl_.reduce(in, out, count, ncclFloat, ncclSum, root, nccl_comm_, stream_));
      case OpKind::kAllToAll:
        if (nccl_.all_to_all != nullptr)
          return Must(nccl_.all_to_all(in, out, count, ncclFloat, nccl_comm_, stream_));
        break;
      case OpKind::kGather:
        if (nccl_.gather != nullptr)
          return Must(nccl_.gather(in, out, count, ncclFloat, root, nccl_comm_, stream_));
        break;
      default:
        if (nccl_.scatter != nullptr)
          return Must(nccl_.scatter(in, out, count, ncclFloat, root, nccl_comm_, stream_));
    }
    // An older NCCL has no such call: compose it of sends and receives, as programs do.
    Must(nccl_.group_start());
    for (int p = 0; p < n; ++p) {
      const bool sends =
          kind == OpKind::kAllToAll || (kind == OpKind::kGather ? p == root : p_.rank() == root);
      const bool receives =
          kind == OpKind::kAllToAll || (kind == OpKind::kGather ? p_.rank() == root : p == root);
      const bool by_peer_in = kind != OpKind::kGather, by_peer_out = kind != OpKind::kScatter;
      if (sends)
        Must(nccl_.send(in + (by_peer_in ? p * count : 0), count, ncclFloat, p, nccl_comm_,
                        stream_));
      if (receives)
        Must(nccl_.recv(out + (by_peer_out ? p * count : 0), count, ncclFloat, p, nccl_comm_,
                        stream_));
    }
    Must(nccl_.group_end());
  }

  // What a group of sends and receives is checked as.
  static OpKind KindOf(int number) {
    return number == kExchange ? OpKind::kRecv
           : number == kPairs  ? OpKind::kAllToAll
                               : static_cast<OpKind>(number);
  }
  // From and to the ranks at distance 1, or all but the own: its part is copied.
  void CallPairs(bool ours, bool all, uint64_t count, const float* in, float* out) {
    const int n = p_.ranks();
    if (ours)
      Must(domain_->GroupStart());
    else
      Must(nccl_.group_start());
    for (int i = 0; i < (all ? n : 2); ++i) {
      const bool sends = all || i == 0, receives = all || i == 1;
      const int peer = all ? i : i == 0 ? (p_.rank() + 1) % n : (p_.rank() + n - 1) % n;
      const uint64_t at = all ? static_cast<uint64_t>(peer) * count : 0;
      if (peer == p_.rank()) continue;
      if (ours && sends)
        Must(comm_->Launch(
            {OpKind::kSend, in + at, nullptr, count, DataType::kFloat, Operator::kSum, peer},
            stream_));
      if (ours && receives)
        Must(comm_->Launch(
            {OpKind::kRecv, nullptr, out + at, count, DataType::kFloat, Operator::kSum, peer},
            stream_));
      if (!ours && sends) Must(nccl_.send(in + at, count, ncclFloat, peer, nccl_comm_, stream_));
      if (!ours && receives)
        Must(nccl_.recv(out + at, count, ncclFloat, peer, nccl_comm_, stream_));
    }
    if (ours)
      Must(domain_->GroupEnd());
    else
      Must(nccl_.group_end());
    if (!all) return;
    const uint64_t at = static_cast<uint64_t>(p_.rank()) * count;
    Must(cudaMemcpyAsync(out + at, in + at, count * 4, cudaMemcpyDeviceToDevice, stream_));
    if (ours) domain_->Foreign(stream_);
  }

  void CallOurs(OpKind kind, uint64_t count, int root, const float* in, float* out) {
    Must(comm_->Launch({kind, in, out, count, DataType::kFloat, Operator::kSum, root}, stream_));
  }

  // One batch, in microseconds a call, on this rank.
  float Sample(const std::function<void()>& align, const std::function<void()>& call, int batch) {
    align();
    Must(cudaEventRecord(begin_, stream_));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < batch; ++i) call();
    host_us_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
                   .count() /
               batch;
    Must(cudaEventRecord(end_, stream_));
    Must(cudaStreamSynchronize(stream_));
    float ms = 0;
    Must(cudaEventElapsedTime(&ms, begin_, end_));
    return ms * 1000 / static_cast<float>(batch);
  }

  // Of each sample the slowest rank.
  Times Combine(const std::vector<float>& own) {
    std::vector<std::string> all;
    Must(domain_->rendezvous()->AllGather(
        std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)), 20000,
        &all));
    std::vector<float> slowest(own.size(), 0);
    for (const std::string& one : all) {
      for (size_t i = 0; i < own.size(); ++i) {
        float us;
        memcpy(&us, one.data() + i * sizeof us, sizeof us);
        slowest[i] = std::max(slowest[i], us);
      }
    }
    std::sort(slowest.begin(), slowest.end());
    const auto at = [&](double q) {
      return slowest[static_cast<size_t>(q * static_cast<double>(slowest.size() - 1))];
    };
    return {at(0.5), at(0.01), at(0.99)};
  }

  uint64_t CheckOutput(OpKind kind, uint64_t count, int root, float* out) {
    const testing::Expectation e{kind,
                                 static_cast<uint32_t>(p_.ranks()),
                                 static_cast<uint32_t>(p_.rank()),
                                 static_cast<uint32_t>(root),
                                 3,
                                 count,
                                 0};
    Must(testing::CheckPattern(out, e, wrong_, stream_));
    uint64_t bad = 0;
    Must(cudaMemcpyAsync(&bad, wrong_, 8, cudaMemcpyDeviceToHost, stream_));
    Must(cudaStreamSynchronize(stream_));
    return bad;
  }

  static double Median(std::vector<double> values) {
    std::nth_element(values.begin(),
                     values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
  static int BatchFor(uint64_t bytes) { return bytes <= 1 << 20 ? 10 : bytes <= 16 << 20 ? 2 : 1; }

  void Compare() {
    StartNccl();
    if (o_.windows) StartWindows();
    if (p_.rank() == 0) {
      printf(
          "# staged/nccl direct/nccl  kind                bytes |  nccl median p1 p99 |  staged "
          "median p1 p99 | direct median p1 p99 | results | host%s\n",
          o_.windows ? " | direct/windows, windows median p1 p99" : "");
    }
    for (int k = 1; k <= kPairs; ++k) {
      // A list with commas around every name.
      if ((o_.kinds != "all" || k >= kExchange) &&
          ("," + o_.kinds + ",").find(std::string(",") + kNames[k] + ",") == std::string::npos) {
        continue;
      }
      const OpKind kind = KindOf(k);
      for (uint64_t bytes = o_.from; bytes <= o_.to; bytes *= o_.step) {
        const uint64_t count = CountOf(kind, bytes);
        const int root = k == kExchange ? (p_.rank() + p_.ranks() - 1) % p_.ranks() : 0;
        p_.At("%s of %lu bytes", kNames[k], bytes);
        const auto align_nccl = [&] { CallNccl(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 16); };
        const auto align_ours = [&] { CallOurs(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 32); };
        struct Contender {
          std::function<void()> align, call;
          float* out;
          std::vector<float> us;
          std::vector<double> host_us;
        };
        const auto call = [&](bool ours, float* out) {
          if (k >= kExchange) return CallPairs(ours, k == kPairs, count, in_, out);
          ours ? CallOurs(kind, count, root, in_, out) : CallNccl(kind, count, root, in_, out);
        };
        std::vector<Contender> all = {{align_nccl, [&] { call(false, out_); }, out_, {}, {}}};
        for (const auto& one : o_.tries) {
          for (float* out : {out_, direct_}) {
            all.push_back({align_ours,
                           [&, out] {
                             domain_->SetThresholds(one.second);
                             call(true, out);
                           },
                           out,
                           {},
                           {}});
          }
        }
        if (o_.windows)
          all.push_back({align_nccl,
                         [&] { CallNccl(kind, count, root, window_in_, window_out_); },
                         window_out_,
                         {},
                         {}});
        for (Contender& c : all) {
          Must(cudaMemsetAsync(c.out, 0x7f,
                               OutputCount(kind, count, static_cast<uint32_t>(p_.ranks())) * 4,
                               stream_));
          Must(cudaStreamSynchronize(stream_));
          Must(domain_->rendezvous()->Barrier(20000));  // peers write here
          for (int i = 0; i < kWarm; ++i) c.call();
          Must(cudaStreamSynchronize(stream_));
          if (CheckOutput(kind, count, root, c.out) != 0)
            p_.Fail("wrong results before the samples");
          p_.At("%s of %lu bytes", kNames[k], bytes);
        }
        const int batch = BatchFor(bytes);
        for (int s = 0; s < o_.samples; ++s) {
          for (size_t i = 0; i < all.size(); ++i) {
            Contender& c = all[(i + static_cast<size_t>(s)) % all.size()];
            c.us.push_back(Sample(c.align, c.call, batch));
            c.host_us.push_back(host_us_);
          }
          if (s % 50 == 49) p_.At("%s of %lu bytes, sample %d", kNames[k], bytes, s);
        }
        std::vector<Times> times;
        times.reserve(all.size());
        for (const Contender& c : all) times.push_back(Combine(c.us));
        // The last to write a buffer was any of them; all must be right.
        for (Contender& c : all) {
          c.call();
          if (CheckOutput(kind, count, root, c.out) != 0)
            p_.Fail("wrong results after the samples");
        }
        for (size_t i = 0; p_.rank() == 0 && i < o_.tries.size(); ++i) {
          const Times &nccl = times[0], &staged = times[1 + i * 2], &direct = times[2 + i * 2],
                      &windows = times.back();
          printf(
              "%6.3f %6.3f  %-14s %12lu | %9.2f %9.2f %9.2f | %9.2f %9.2f %9.2f | %9.2f %9.2f "
              "%9.2f | right | host %.1f %.1f",
              staged.median / nccl.median, direct.median / nccl.median, kNames[k], bytes,
              nccl.median, nccl.p1, nccl.p99, staged.median, staged.p1, staged.p99, direct.median,
              direct.p1, direct.p99, Median(all[0].host_us), Median(all[1 + i * 2].host_us));
          if (o_.windows)
            printf(" | %6.3f %9.2f %9.2f %9.2f", direct.median / windows.median, windows.median,
                   windows.p1, windows.p99);
          printf("%s%s\n", o_.tries[i].first.empty() ? "" : " | ", o_.tries[i].first.c_str());
          fflush(stdout);
        }
      }
    }
  }

  const Options& o_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Communicator> comm_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double host_us_ = 0;  // of the last sample: what a call takes on the host
  float *in_ = nullptr, *out_ = nullptr, *direct_ = nullptr, *tiny_ = nullptr;
  float *window_in_ = nullptr, *window_out_ = nullptr;
  uint64_t* wrong_ = nullptr;
  Nccl nccl_{};
  ncclComm_t nccl_comm_ = nullptr;
};

int Main(int argc, char** argv) {
  Options o;
  std::vector<std::string> tries;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto text = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    const auto value = [&] { return strtoull(text(), nullptr, 0); };
    if (name == "--ranks")
      o.ranks = static_cast<int>(value());
    else if (name == "--kinds")
      o.kinds = text();
    else if (name == "--from")
      o.from = value();
    else if (name == "--to")
      o.to = value();
    else if (name == "--step")
      o.step = value();
    else if (name == "--samples")
      o.samples = static_cast<int>(value());
    else if (name == "--exclusive")
      o.exclusive = true;
    else if (name == "--windows")
      o.windows = true;
    else if (name == "--resident")
      o.resident = static_cast<int>(value());
    else if (name == "--stage")
      o.stage_bytes = value();
    else if (name == "--try")
      tries.emplace_back(text());
    else if (name.rfind("--", 0) != 0 || !SetThreshold(name.substr(2), value(), &o.thresholds)) {
      fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  o.tries.emplace_back("", o.thresholds);
  for (const std::string& text : tries) {
    o.tries.emplace_back(text, o.thresholds);
    if (!ParseTry(text, &o.tries.back().second)) {
      fprintf(stderr, "unknown thresholds %s\n", text.c_str());
      return 2;
    }
  }
  if (o.ranks < 1 || o.ranks > static_cast<int>(kMaxRanks) || o.step < 2 || o.from < 8 ||
      o.to < o.from) {
    fprintf(stderr, "usage: gordian-runtime-cuda-bench [--ranks N] [...]\n");
    return 2;
  }
  return testing::RunRanks(o.ranks, 300, 20, 0,
                           [&](RankProcess& process) { return Bench(o, process).Run(); });
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
