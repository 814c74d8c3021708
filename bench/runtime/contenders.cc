#include "bench/runtime/contenders.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "bench/runtime/nccl_library.h"
#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/testing/checked_rank.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

constexpr uint64_t kPatienceNs = 20'000'000'000;

class Base : public Contender, protected testing::CheckedRank {
 protected:
  explicit Base(RankProcess* process) : CheckedRank(*process) {}
};

class NcclContender : public Base {
 public:
  NcclContender(const ContenderOptions& o, RankProcess* process) : Base(process) {
    std::string why;
    if (!LoadNccl(&nccl_, &why)) p_.Fail("no NCCL: " + why);
    Must(cudaSetDevice(p_.rank()));
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    std::unique_ptr<Rendezvous> meet;
    Must(
        Rendezvous::Join("nccl-" + std::to_string(getppid()), p_.rank(), p_.ranks(), 30000, &meet));
    for (int i = 0; i < (o.equal_order ? 1 : o.operations); ++i) {
      ncclUniqueId id;
      if (p_.rank() == 0) Must(nccl_.unique_id(&id));
      std::vector<std::string> all;
      Must(
          meet->AllGather(std::string(reinterpret_cast<const char*>(&id), sizeof id), 30000, &all));
      memcpy(&id, all[0].data(), sizeof id);
      p_.At("ncclCommInitRank %d", i);
      comms_.emplace_back();
      Must(nccl_.init(&comms_.back(), p_.ranks(), id, p_.rank()));
    }
    // Each once, in one order: the first use connects the ranks.
    float* some = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&some), 4096));
    for (size_t i = 0; i < comms_.size(); ++i)
      Submit(static_cast<int>(i), OpKind::kAllReduce, some, some, 64);
    Wait();
  }
  void Submit(int index, OpKind kind, const float* in, float* out, uint64_t count) override {
    ncclComm_t comm = comms_[static_cast<size_t>(index) % comms_.size()];
    switch (kind) {
      case OpKind::kAllReduce:
        return Must(nccl_.all_reduce(in, out, count, ncclFloat, ncclSum, comm, stream_));
      case OpKind::kAllGather:
        return Must(nccl_.all_gather(in, out, count, ncclFloat, comm, stream_));
      case OpKind::kReduceScatter:
        return Must(nccl_.reduce_scatter(in, out, count, ncclFloat, ncclSum, comm, stream_));
      default:
        p_.Fail("no such kind here");
    }
  }
  void Wait() override { Base::Must(cudaStreamSynchronize(stream_)); }
  cudaStream_t stream() override { return stream_; }

 private:
  using Base::Must;
  void Must(ncclResult_t result) {
    if (result != ncclSuccess) p_.Fail("NCCL error " + std::to_string(result));
  }
  Nccl nccl_{};
  cudaStream_t stream_ = nullptr;
  std::vector<ncclComm_t> comms_;
};

class RuntimeContender : public Base {
 public:
  RuntimeContender(const std::string& name, const ContenderOptions& o, RankProcess* process)
      : Base(process), strict_(name == "strict") {
    DomainConfig config;
    config.name = name + "-" + std::to_string(getppid());
    config.rank = p_.rank();
    config.ranks = p_.ranks();
    config.device = p_.rank();
    // What has no stream has no order either.
    config.communicators = strict_ && o.equal_order ? 1 : o.operations;
    config.stage_bytes = strict_ && config.communicators == 1 ? 64ull << 20 : o.stage_bytes;
    config.detached_stage_bytes = o.stage_bytes;
    config.worker.blocks = o.blocks;
    config.detached_channels = std::min(o.blocks * 2, kMaxChannels);
    config.worker.stuck_quit_us = o.stuck_quit_us;
    config.worker.idle_quit_us = o.idle_quit_us;
    if (strict_) {
      config.detached_tags = 0;
    } else {
      config.line_channels = config.bulk_channels = 1;  // there are none but detached operations
      config.stage_bytes = 0;
    }
    if (name.compare(0, 5, "dfccl") == 0) MakeDfccl(name, &config);
    Must(Domain::Create(config, &domain_));
    std::vector<int> members;
    for (int r = 0; r < p_.ranks(); ++r) members.push_back(r);
    for (int c = 0; c < config.communicators; ++c) {
      comms_.emplace_back();
      Must(Communicator::Create(domain_.get(), c, members, &comms_.back()));
    }
    if (!strict_) return;
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    Must(domain_->SetExclusive(stream_, true));
  }
  ~RuntimeContender() override {
    open_.clear();
    comms_.clear();
    domain_.reset();
  }
  void Submit(int index, OpKind kind, const float* in, float* out, uint64_t count) override {
    Communicator& comm = *comms_[static_cast<size_t>(index) % comms_.size()];
    if (strict_) {
      Must(comm.Launch({kind, in, out, count, DataType::kFloat, Operator::kSum, 0}, stream_));
      return;
    }
    open_.emplace_back();
    Must(
        comm.Detach({kind, in, out, count, DataType::kFloat, Operator::kSum, 0}, 0, &open_.back()));
  }
  void Wait() override {
    if (strict_) Must(cudaStreamSynchronize(stream_));
    for (const Detached& operation : open_) Must(operation.Wait(kPatienceNs));
    open_.clear();
  }
  cudaStream_t stream() override { return stream_; }
  Worker* worker() override { return domain_->worker(); }
  DfcclLike* dfccl() override { return dfccl_.get(); }
  HelpCounts helped() override {
    HelpCounts counts{};
    if (strict_) Must(domain_->Helped(&counts));
    return counts;
  }

 private:
  void MakeDfccl(const std::string& name, DomainConfig* config) {
    DfcclOptions options;
    std::istringstream words(name.substr(5));
    for (std::string word; std::getline(words, word, ':');) {
      if (word == "naive")
        options.stickiness = Stickiness::kNaive;
      else if (word == "adaptive")
        options.stickiness = Stickiness::kAdaptive;
      else if (word == "ready")
        options.stickiness = Stickiness::kReady;
      else if (word == "vanilla")
        options.completion = Completion::kVanillaRing;
      else if (word == "packed")
        options.completion = Completion::kPackedRing;
      else if (word == "slots")
        options.completion = Completion::kSlots;
      else if (word == "word")
        options.completion = Completion::kWord;
      else if (word == "ring")
        options.ring = true;
      else if (word == "push")
        options.ring = false;
      else if (!word.empty())
        p_.Fail("no such option of dfccl: " + word);
    }
    if (config->worker.blocks > kDfcclBlocks) p_.Fail("too many blocks");
    if (options.ring)
      config->thresholds.one_shot = config->thresholds.two_shot_lines =
          config->thresholds.move_lines = 0;
    config->detached_channels = config->worker.blocks;  // a channel a block
    Must(cudaSetDevice(p_.rank()));
    dfccl_ = DfcclLike::Make(options);
    if (dfccl_ == nullptr) p_.Fail("the daemon cannot be made");
    dfccl_->Install(&config->worker);
  }

  const bool strict_;
  std::unique_ptr<DfcclLike> dfccl_;
  std::unique_ptr<Domain> domain_;
  std::vector<std::unique_ptr<Communicator>> comms_;
  cudaStream_t stream_ = nullptr;
  std::vector<Detached> open_;
};

}  // namespace

std::unique_ptr<Contender> MakeContender(const std::string& name, const ContenderOptions& options,
                                         testing::RankProcess* process) {
  process->At("making %s", name.c_str());
  if (name == "nccl") return std::make_unique<NcclContender>(options, process);
  return std::make_unique<RuntimeContender>(name, options, process);
}

}  // namespace gordian::runtime::cuda
