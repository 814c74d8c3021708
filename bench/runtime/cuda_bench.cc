// The runtime on GPUs against NCCL in the same run: one process a rank, both on one stream of it, turn by
// turn. The ratio comes first: below 1 the runtime is faster.
//
//   gordian-runtime-cuda-bench [--ranks N] [--kinds all|all_reduce|...] [--from B] [--to B] [--step F]
//                              [--samples N] [--sweep] [--one-shot B] [--two-shot B] [--channels N]
//                              [--per-channel B] [--split N] [--exclusive] [--windows] [--late]
//
// bytes: of the larger of a rank's two buffers. A sample is a batch of calls between two events, behind a
// tiny all-reduce of the same library that brings the ranks together; of each sample the slowest rank
// counts. Columns in microseconds a call. staged: buffers of cudaMalloc; direct: outputs in memory that
// peers write. Every size is checked, on the device, all elements.
//
// --sweep goes through the ways of carrying and what they depend on, NCCL in turn with all of them; with --exclusive,
// through the carriers' threads.
// --windows has NCCL's buffers also as symmetric windows, in columns of their own at the end.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/runtime/nccl_library.h"
#include "runtime/cuda/communicator.h"
#include "runtime/cuda/domain.h"
#include "tests/gpu/runtime/patterns.h"
#include "tests/gpu/runtime/ranks.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

struct Options {
  int ranks = 2;
  std::string kinds = "all_reduce";
  uint64_t from = 8, to = 256ull << 20, step = 4;
  int samples = 200;
  bool sweep = false, exclusive = false, windows = false, tiles = true;
  uint32_t lane_tiles = kUsualLaneTiles;
  Thresholds thresholds;
};

constexpr const char* kNames[] = {"",       "all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                  "reduce", "all_to_all", "gather",     "scatter"};
constexpr int kWarm = 20;

struct Times {
  double median = 0, p1 = 0, p99 = 0;
};

class Bench {
 public:
  Bench(const Options& options, RankProcess& process) : o_(options), p_(process) {}

  int Run() {
    DomainConfig config;
    config.name = "bench-" + std::to_string(getppid());
    config.rank = p_.rank();
    config.ranks = p_.ranks();
    config.device = p_.rank();
    config.communicators = 1;
    config.user_bytes = o_.to + (1 << 20);
    config.thresholds = o_.thresholds;
    config.lane_tiles = o_.lane_tiles;
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
    if (o_.sweep) {
      Sweep();
    } else {
      Compare();
    }
    comm_.reset();
    domain_.reset();
    return 0;
  }

 private:
  void Must(const Status& status) {
    if (!status.ok()) p_.Fail(status.ToString());
  }
  void Must(cudaError_t error) {
    if (error != cudaSuccess) p_.Fail(cudaGetErrorString(error));
  }
  void Must(ncclResult_t result) {
    if (result != ncclSuccess) p_.Fail("NCCL error " + std::to_string(result));
  }

  bool Wanted(int kind) const {
    // A list with commas around every name.
    return o_.kinds == "all" || ("," + o_.kinds + ",").find(std::string(",") + kNames[kind] + ",") != std::string::npos;
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
    if (p_.rank() == 0) printf("# NCCL %d, %d ranks, heap by %s, %d samples%s\n", version, p_.ranks(), domain_->is_ipc() ? "cudaIpc" : "descriptors", o_.samples, o_.exclusive ? ", exclusive stream" : "");
  }

  // Buffers that all ranks register alike.
  void StartWindows() {
    if (nccl_.allocate == nullptr || nccl_.window_register == nullptr) p_.Fail("this NCCL has no windows");
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
      case OpKind::kAllReduce: return Must(nccl_.all_reduce(in, out, count, ncclFloat, ncclSum, nccl_comm_, stream_));
      case OpKind::kAllGather: return Must(nccl_.all_gather(in, out, count, ncclFloat, nccl_comm_, stream_));
      case OpKind::kReduceScatter: return Must(nccl_.reduce_scatter(in, out, count, ncclFloat, ncclSum, nccl_comm_, stream_));
      case OpKind::kBroadcast: return Must(nccl_.broadcast(in, out, count, ncclFloat, root, nccl_comm_, stream_));
      case OpKind::kReduce: return Must(nccl_.reduce(in, out, count, ncclFloat, ncclSum, root, nccl_comm_, stream_));
      case OpKind::kAllToAll:
        if (nccl_.all_to_all != nullptr) return Must(nccl_.all_to_all(in, out, count, ncclFloat, nccl_comm_, stream_));
        break;
      case OpKind::kGather:
        if (nccl_.gather != nullptr) return Must(nccl_.gather(in, out, count, ncclFloat, root, nccl_comm_, stream_));
        break;
      default:
        if (nccl_.scatter != nullptr) return Must(nccl_.scatter(in, out, count, ncclFloat, root, nccl_comm_, stream_));
    }
    // Older NCCL: as everybody writes them.
    Must(nccl_.group_start());
    for (int p = 0; p < n; ++p) {
      const bool sends = kind == OpKind::kAllToAll || (kind == OpKind::kGather ? p == root : p_.rank() == root);
      const bool receives = kind == OpKind::kAllToAll || (kind == OpKind::kGather ? p_.rank() == root : p == root);
      const bool by_peer_in = kind != OpKind::kGather, by_peer_out = kind != OpKind::kScatter;
      if (sends) Must(nccl_.send(in + (by_peer_in ? p * count : 0), count, ncclFloat, p, nccl_comm_, stream_));
      if (receives) Must(nccl_.recv(out + (by_peer_out ? p * count : 0), count, ncclFloat, p, nccl_comm_, stream_));
    }
    Must(nccl_.group_end());
  }

  void CallOurs(OpKind kind, uint64_t count, int root, const float* in, float* out) {
    Must(comm_->Launch(kind, in, out, count, DataType::kFloat, Operator::kSum, root, stream_));
  }

  // One batch, in microseconds a call, on this rank.
  float Sample(const std::function<void()>& align, const std::function<void()>& call, int batch) {
    align();
    Must(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < batch; ++i) call();
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
        std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)), 20000, &all));
    std::vector<float> slowest(own.size(), 0);
    for (const std::string& one : all) {
      for (size_t i = 0; i < own.size(); ++i) {
        float us;
        memcpy(&us, one.data() + i * sizeof us, sizeof us);
        slowest[i] = std::max(slowest[i], us);
      }
    }
    std::sort(slowest.begin(), slowest.end());
    const auto at = [&](double q) { return slowest[static_cast<size_t>(q * static_cast<double>(slowest.size() - 1))]; };
    return {at(0.5), at(0.01), at(0.99)};
  }

  uint64_t CheckOutput(OpKind kind, uint64_t count, int root, float* out) {
    const testing::Expectation e{kind, static_cast<uint32_t>(p_.ranks()), static_cast<uint32_t>(p_.rank()), static_cast<uint32_t>(root), 3, count, 0};
    Must(testing::CheckPattern(out, e, wrong_, stream_));
    uint64_t bad = 0;
    Must(cudaMemcpyAsync(&bad, wrong_, 8, cudaMemcpyDeviceToHost, stream_));
    Must(cudaStreamSynchronize(stream_));
    return bad;
  }

  static int BatchFor(uint64_t bytes) { return bytes <= 1 << 20 ? 10 : bytes <= 16 << 20 ? 2 : 1; }

  void Compare() {
    StartNccl();
    if (o_.windows) StartWindows();
    if (p_.rank() == 0) {
      printf("# staged/nccl direct/nccl  kind                bytes |  nccl median p1 p99 |  staged median p1 p99 | direct median p1 p99 | results%s\n",
             o_.windows ? " | direct/windows, windows median p1 p99" : "");
    }
    for (int k = 1; k <= 8; ++k) {
      if (!Wanted(k)) continue;
      const auto kind = static_cast<OpKind>(k);
      for (uint64_t bytes = o_.from; bytes <= o_.to; bytes *= o_.step) {
        const uint64_t count = CountOf(kind, bytes);
        const int root = 0;
        p_.At("%s of %lu bytes", kNames[k], bytes);
        const auto align_nccl = [&] { CallNccl(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 16); };
        const auto align_ours = [&] { CallOurs(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 32); };
        struct Contender {
          std::function<void()> align, call;
          float* out;
          std::vector<float> us;
        };
        std::vector<Contender> three = {
            {align_nccl, [&] { CallNccl(kind, count, root, in_, out_); }, out_, {}},
            {align_ours, [&] { CallOurs(kind, count, root, in_, out_); }, out_, {}},
            {align_ours, [&] { CallOurs(kind, count, root, in_, direct_); }, direct_, {}}};
        if (o_.windows) three.push_back({align_nccl, [&] { CallNccl(kind, count, root, window_in_, window_out_); }, window_out_, {}});
        for (Contender& c : three) {
          Must(cudaMemsetAsync(c.out, 0x7f, OutputCount(kind, count, static_cast<uint32_t>(p_.ranks())) * 4, stream_));
          Must(cudaStreamSynchronize(stream_));
          Must(domain_->rendezvous()->Barrier(20000));  // peers write here
          for (int i = 0; i < kWarm; ++i) c.call();
          Must(cudaStreamSynchronize(stream_));
          if (CheckOutput(kind, count, root, c.out) != 0) p_.Fail("wrong results before the samples");
          p_.At("%s of %lu bytes", kNames[k], bytes);
        }
        const int batch = BatchFor(bytes);
        for (int s = 0; s < o_.samples; ++s) {
          for (size_t i = 0; i < three.size(); ++i) {
            Contender& c = three[(i + static_cast<size_t>(s)) % three.size()];
            c.us.push_back(Sample(c.align, c.call, batch));
          }
          if (s % 50 == 49) p_.At("%s of %lu bytes, sample %d", kNames[k], bytes, s);
        }
        const Times nccl = Combine(three[0].us), staged = Combine(three[1].us), direct = Combine(three[2].us);
        const Times windows = o_.windows ? Combine(three[3].us) : Times();
        // The last to write out_ was either; both must be right.
        for (Contender& c : three) {
          c.call();
          if (CheckOutput(kind, count, root, c.out) != 0) p_.Fail("wrong results after the samples");
        }
        if (p_.rank() == 0) {
          printf("%6.3f %6.3f  %-14s %12lu | %9.2f %9.2f %9.2f | %9.2f %9.2f %9.2f | %9.2f %9.2f %9.2f | right",
                 staged.median / nccl.median, direct.median / nccl.median, kNames[k], bytes, nccl.median, nccl.p1,
                 nccl.p99, staged.median, staged.p1, staged.p99, direct.median, direct.p1, direct.p99);
          if (o_.windows) printf(" | %6.3f %9.2f %9.2f %9.2f", direct.median / windows.median, windows.median, windows.p1, windows.p99);
          printf("\n");
          fflush(stdout);
        }
      }
    }
  }

  // One way of carrying.
  struct Variant {
    std::string name;
    Thresholds thresholds;
    bool direct = false;
  };

  // All of them and NCCL, turn by turn.
  void MeasureVariants(OpKind kind, uint64_t bytes, std::vector<Variant> variants) {
    const char* const kind_name = kNames[static_cast<int>(kind)];
    const uint64_t count = CountOf(kind, bytes);
    const int batch = BatchFor(bytes), samples = bytes <= 1 << 20 ? o_.samples : std::max(o_.samples / 3, 10);
    std::vector<std::vector<float>> us(variants.size() + 1);
    const auto out = [&](size_t i) { return i > 0 && variants[i - 1].direct ? direct_ : out_; };
    const auto align = [&](size_t i) {
      if (i == 0) return CallNccl(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 16);
      domain_->SetThresholds(variants[i - 1].thresholds);
      CallOurs(OpKind::kAllReduce, 2, 0, tiny_, tiny_ + 32);
    };
    const auto call = [&](size_t i) {
      i == 0 ? CallNccl(kind, count, 0, in_, out_) : CallOurs(kind, count, 0, in_, out(i));
    };
    const auto check = [&](size_t i) {
      p_.At("%s of %lu bytes, %s", kind_name, bytes, i == 0 ? "nccl" : variants[i - 1].name.c_str());
      // Two in flight, whichever they are, and the tail of what was there before is gone.
      Must(cudaMemsetAsync(out(i), 0x7f, OutputCount(kind, count, static_cast<uint32_t>(p_.ranks())) * 4, stream_));
      Must(cudaStreamSynchronize(stream_));
      Must(domain_->rendezvous()->Barrier(20000));  // peers write here
      align(i);
      for (int k = 0; k < 3; ++k) call(i);
      if (CheckOutput(kind, count, 0, out(i)) != 0) p_.Fail("wrong results");
    };
    for (size_t i = 0; i < us.size(); ++i) check(i);
    for (int s = 0; s < samples; ++s) {
      for (size_t k = 0; k < us.size(); ++k) {
        const size_t i = (k + static_cast<size_t>(s)) % us.size();
        us[i].push_back(Sample([&] { align(i); }, [&] { call(i); }, batch));
      }
    }
    std::vector<Times> times;
    for (const auto& one : us) times.push_back(Combine(one));
    for (size_t i = 0; i < us.size(); ++i) check(i);
    if (p_.rank() != 0) return;
    size_t best = 1;
    for (size_t i = 1; i < us.size(); ++i) {
      if (times[i].median < times[best].median) best = i;
    }
    for (size_t i = 0; i < us.size(); ++i) {
      printf("%-14s %10lu %9.2f us (p1 %9.2f) %6.3f %s%s\n", kind_name, bytes, times[i].median, times[i].p1,
             times[i].median / times[0].median, i == 0 ? "nccl" : variants[i - 1].name.c_str(), i == best ? " <" : "");
    }
    fflush(stdout);
  }

  // Without any way but the one that is turned on.
  Thresholds Nothing() const {
    Thresholds t = o_.thresholds;
    t.one_shot = t.one_shot_tiles = t.two_shot_lines = t.two_shot_tiles = t.move_lines = t.move_tiles = 0;
    t.root_tiles = 1ull << 40;
    return t;
  }

  void SweepAllReduce(uint64_t bytes) {
    constexpr uint64_t kAny = 1ull << 40;
    std::vector<Variant> variants = {{"default", o_.thresholds, false}};
    if (bytes >= 64 << 10) variants.push_back({"default direct", o_.thresholds, true});
    const auto add = [&](const std::string& name, uint64_t Thresholds::*way, uint32_t Thresholds::*knob, uint32_t value) {
      Variant v{name + " " + std::to_string(value), Nothing(), false};
      v.thresholds.*way = kAny;
      v.thresholds.*knob = value;
      variants.push_back(v);
    };
    if (bytes <= 256 << 10) {
      for (const uint32_t threads : {64u, 128u, 256u, 512u}) {
        if (bytes > threads * 8 || threads == 128) add("one-shot LL", &Thresholds::one_shot, &Thresholds::line_threads, threads);
      }
      Variant late = variants.back();
      late.name += " late";
      late.thresholds.early_launch = false;
      variants.push_back(late);
    }
    if (bytes >= 4 << 10 && bytes <= 256 << 10) {
      for (const uint32_t tiles : {1u, 2u, 4u}) add("one-shot LL128", &Thresholds::one_shot_tiles, &Thresholds::channel_tiles, tiles);
    }
    if (bytes >= 16 << 10 && bytes <= 512 << 10) {
      for (const uint32_t threads : {64u, 128u, 256u}) add("two-shot LL", &Thresholds::two_shot_lines, &Thresholds::line_threads, threads);
    }
    if (bytes >= 16 << 10) {
      for (const uint32_t tiles : {1u, 2u, 4u, 8u}) add("two-shot LL128", &Thresholds::two_shot_tiles, &Thresholds::channel_tiles, tiles);
    }
    if (bytes >= 1 << 20) {
      for (const bool direct : {false, true}) {
        for (const uint32_t channels : {64u, 128u}) {
          for (const uint32_t chunks : {1u, 2u, 4u}) {
            Variant v{"bulk " + std::to_string(channels) + " channels, " + std::to_string(chunks) + " chunks" + (direct ? ", direct" : ""),
                      Nothing(), direct};
            v.thresholds.most_channels = channels;
            v.thresholds.chunks_per_channel = chunks;
            variants.push_back(v);
          }
        }
      }
    }
    if (!o_.tiles) std::erase_if(variants, [](const Variant& v) { return v.name.find("LL128") != std::string::npos; });
    MeasureVariants(OpKind::kAllReduce, bytes, variants);
  }

  void SweepOther(OpKind kind, uint64_t bytes) {
    constexpr uint64_t kAny = 1ull << 40;
    std::vector<Variant> variants = {{"default", o_.thresholds, false}};
    if (bytes <= 1 << 20) {
      variants.push_back({"LL", Nothing(), false});
      variants.back().thresholds.move_lines = kAny;
    }
    for (const uint32_t tiles : {2u, 4u}) {
      if (!o_.tiles) continue;
      variants.push_back({"LL128 " + std::to_string(tiles), Nothing(), false});
      variants.back().thresholds.move_tiles = kAny;
      variants.back().thresholds.channel_tiles = tiles;
    }
    if ((kind == OpKind::kBroadcast || kind == OpKind::kReduce) && p_.ranks() > 2 && o_.tiles && bytes >= 128 << 10) {
      variants.push_back({"LL128 in shards", Nothing(), false});
      variants.back().thresholds.two_shot_tiles = kAny;
    }
    if (bytes >= 256 << 10) {
      for (const uint32_t chunks : {1u, 2u}) {
        for (const bool direct : {false, true}) {
          variants.push_back({"bulk, " + std::to_string(chunks) + (direct ? " chunks, direct" : " chunks"), Nothing(), direct});
          variants.back().thresholds.chunks_per_channel = chunks;
        }
      }
    }
    MeasureVariants(kind, bytes, variants);
  }

  // Carriers on an exclusive stream are in its list; how many threads they have beyond those that they need.
  void SweepExclusive(uint64_t bytes) {
    std::vector<Variant> variants;
    for (const uint32_t threads : {32u, 64u, 128u, 256u, 512u}) {
      variants.push_back({"listed, threads " + std::to_string(threads), o_.thresholds, false});
      variants.back().thresholds.listed_threads = threads;
    }
    MeasureVariants(OpKind::kAllReduce, bytes, variants);
  }

  void Sweep() {
    StartNccl();
    for (uint64_t bytes = o_.from; bytes <= o_.to; bytes *= o_.step) {
      for (int k = 1; k <= 8; ++k) {
        if (!Wanted(k)) continue;
        if (o_.exclusive) SweepExclusive(bytes);
        else if (k == 1) SweepAllReduce(bytes);
        else SweepOther(static_cast<OpKind>(k), bytes);
      }
    }
  }

  const Options& o_;
  RankProcess& p_;
  std::unique_ptr<Domain> domain_;
  std::unique_ptr<Communicator> comm_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  float *in_ = nullptr, *out_ = nullptr, *direct_ = nullptr, *tiny_ = nullptr;
  float *window_in_ = nullptr, *window_out_ = nullptr;
  uint64_t* wrong_ = nullptr;
  Nccl nccl_{};
  ncclComm_t nccl_comm_ = nullptr;
};

int Main(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto text = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    const auto value = [&] { return strtoull(text(), nullptr, 0); };
    if (name == "--ranks") o.ranks = static_cast<int>(value());
    else if (name == "--kinds") o.kinds = text();
    else if (name == "--from") o.from = value();
    else if (name == "--to") o.to = value();
    else if (name == "--step") o.step = value();
    else if (name == "--samples") o.samples = static_cast<int>(value());
    else if (name == "--sweep") o.sweep = true;
    else if (name == "--exclusive") o.exclusive = true;
    else if (name == "--windows") o.windows = true;
    else if (name == "--one-shot") o.thresholds.one_shot = value();
    else if (name == "--two-shot") o.thresholds.two_shot_lines = value();
    else if (name == "--move-lines") o.thresholds.move_lines = value();
    else if (name == "--channels") o.thresholds.most_channels = static_cast<uint32_t>(value());
    else if (name == "--per-channel") o.thresholds.bulk_per_channel = static_cast<uint32_t>(value());
    else if (name == "--split") o.thresholds.chunks_per_channel = static_cast<uint32_t>(value());
    else if (name == "--line-threads") o.thresholds.line_threads = static_cast<uint32_t>(value());
    else if (name == "--late") o.thresholds.early_launch = false;
    else if (name == "--no-tiles") o.tiles = false;
    else if (name == "--lane-tiles") o.lane_tiles = static_cast<uint32_t>(value());
    else {
      fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  if (!o.tiles) {  // LL and bulk alone
    Thresholds& t = o.thresholds;
    t.one_shot_tiles = t.two_shot_tiles = t.move_tiles = 0;
    t.two_shot_lines = t.move_lines = 1 << 20;
  }
  if (o.ranks < 1 || o.ranks > static_cast<int>(kMaxRanks) || o.step < 2 || o.from < 8 || o.to < o.from) {
    fprintf(stderr, "usage: gordian-runtime-cuda-bench [--ranks N] [...]\n");
    return 2;
  }
  return testing::RunRanks(o.ranks, 300, 20, 0, [&](RankProcess& process) { return Bench(o, process).Run(); });
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
