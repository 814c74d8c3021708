#include "runtime/cuda/domain/communicator.h"

#include <algorithm>
#include <utility>

#include "runtime/cuda/domain/graph_order.h"
#include "runtime/cuda/driver/cuda_calls.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint32_t kPairLineChannels = 64;
constexpr uint32_t kPairBulkChannels = 32, kMostPairBulkChannels = 64;

// The channels of a transfer by bulk: chosen so that every block of the kernel carries equally many
// when a rank transfers with all others at once. Else the other blocks would wait for those with
// one channel more.
uint32_t PairBulkChannels(const DomainConfig& config, uint32_t ranks) {
  const uint32_t transfers = 2 * std::max(ranks - 1, 1u), blocks = BlocksOfGroup(config);
  const uint32_t each = (kPairBulkChannels * transfers + blocks - 1) / blocks;  // of a block
  return std::min(blocks * each / transfers, kMostPairBulkChannels);
}

}  // namespace

void LayOutPorts(const DomainConfig& config, uint32_t ranks, PortLayout ports[2], uint64_t* bytes) {
  ports[0] = LayOut(kRegionHeaderBytes, ranks, false, config.line_channels, config.bulk_channels, 2,
                    config.stage_bytes);
  ports[1] = LayOut(ports[0].end, ranks, true, std::min(kPairLineChannels, config.line_channels),
                    std::min(PairBulkChannels(config, ranks), config.bulk_channels), 1,
                    config.stage_bytes / 2);
  *bytes = RoundUp(ports[1].end, 4096);
}

void LayOutDetached(const DomainConfig& config, uint32_t ranks, std::vector<PortLayout>* ports,
                    uint64_t* bytes) {
  ports->clear();
  const uint32_t pairs = std::min(kPairBulkChannels, config.detached_channels);
  for (int tag = 0; tag < config.detached_tags; ++tag) {
    ports->push_back(LayOut(*bytes, ranks, false, config.detached_channels,
                            config.detached_channels, 2, config.detached_stage_bytes));
    ports->push_back(
        LayOut(ports->back().end, ranks, true, pairs, pairs, 1, config.detached_stage_bytes / 2));
    *bytes = RoundUp(ports->back().end, 4096);
  }
}

Status Communicator::Create(Domain* domain, int index, const std::vector<int>& members,
                            std::unique_ptr<Communicator>* made) {
  const DomainConfig& config = domain->config();
  if (index < 0 || index >= config.communicators || members.empty()) {
    return Status::InvalidArgument("no such communicator: " + std::to_string(index));
  }
  std::unique_ptr<Communicator> c(new Communicator(domain, static_cast<uint32_t>(index)));
  c->rank_ = -1;
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] < 0 || members[i] >= config.ranks ||
        std::count(members.begin(), members.end(), members[i]) != 1) {
      return Status::InvalidArgument("a communicator's members are different ranks of its domain");
    }
    if (members[i] == config.rank) c->rank_ = static_cast<int>(i);
    c->pattern_.base[i] = domain->heap_->base(members[i]) + domain->region_bytes_ * index;
  }
  if (c->rank_ < 0) return Status::InvalidArgument("this rank is no member");
  c->ranks_ = static_cast<int>(members.size());
  c->failed_ = c->pattern_.failed = &domain->failed_[index].word;
  c->pattern_.tag = static_cast<uint16_t>(index);
  c->offers_ = config.user_bytes > 0;
  c->heap_begin_ = reinterpret_cast<uintptr_t>(domain->own_heap_);
  c->heap_end_ = c->heap_begin_ + domain->heap_->bytes();
  if (c->LayOutRegion() > domain->region_bytes_)
    return Status::Internal("a communicator's region is too small");
  *made = std::move(c);
  return Status::Ok();
}

Communicator::~Communicator() {
  Worker* const worker = domain_->worker();
  for (int tag = 0; worker != nullptr && tag < domain_->config().detached_tags; ++tag) {
    for (const bool pairs : {false, true}) worker->Forget(DetachedPort(tag, pairs));
  }
  if (ends_number_) domain_->EndOf(number_);
}

uint64_t Communicator::DetachedPort(int tag, bool pairs) const {
  return (uint64_t{number_} * static_cast<uint32_t>(domain_->config().detached_tags) +
          static_cast<uint32_t>(tag)) *
             2 +
         (pairs ? 1 : 0);
}

Status Communicator::CreateAt(Domain* domain, const Place& place,
                              std::unique_ptr<Communicator>* made) {
  const auto ranks = static_cast<int>(place.regions.size());
  if (ranks < 1 || ranks > static_cast<int>(kMaxRanks) || place.rank < 0 || place.rank >= ranks ||
      place.failed == nullptr || place.failed_on_device == nullptr) {
    return Status::InvalidArgument("no such communicator");
  }
  std::unique_ptr<Communicator> c(new Communicator(domain, place.number));
  c->rank_ = place.rank;
  c->ranks_ = ranks;
  for (int r = 0; r < ranks; ++r) c->pattern_.base[r] = place.regions[static_cast<size_t>(r)];
  c->failed_ = place.failed;
  c->pattern_.failed = place.failed_on_device;
  c->pattern_.tag = place.tag;
  c->offers_ = place.offers;
  c->reach_ = place.reach;
  c->heap_begin_ = reinterpret_cast<uintptr_t>(place.heap);
  c->heap_end_ = c->heap_begin_ + place.heap_bytes;
  c->LayOutRegion();
  c->ends_number_ = true;
  *made = std::move(c);
  return Status::Ok();
}

uint64_t Communicator::LayOutRegion() {
  pattern_.rank = static_cast<uint8_t>(rank_);
  pattern_.ranks = static_cast<uint8_t>(ranks_);
  uint64_t bytes = 0;
  LayOutPorts(domain_->config(), static_cast<uint32_t>(ranks_), ports_, &bytes);
  LayOutDetached(domain_->config(), static_cast<uint32_t>(ranks_), &detached_, &bytes);
  return bytes;
}

uint64_t Communicator::RegionBytes(const DomainConfig& config, uint32_t ranks) {
  PortLayout ports[2];
  std::vector<PortLayout> detached;
  uint64_t bytes = 0;
  LayOutPorts(config, ranks, ports, &bytes);
  LayOutDetached(config, ranks, &detached, &bytes);
  return bytes;
}

Status Communicator::Plan(const OpCall& call, const PortLayout* ports, Work* planned,
                          Touched* touched_bytes) {
  const auto& [kind, in, out, count, type, op, peer, scalar] = call;
  if (failure() != kNoFailure) return Status::Unavailable("the communicator has failed");
  const bool pair = IsPointToPoint(kind);
  const bool needs_peer = pair || HasRoot(kind);
  if (needs_peer && (peer < 0 || peer >= ranks()))
    return Status::InvalidArgument("no such root or peer");
  if (pair && peer == rank_) return Status::InvalidArgument("a rank cannot send to itself");
  const auto n = static_cast<uint32_t>(ranks());
  const auto rank = static_cast<uint32_t>(rank_);
  const bool reads = HasInput(kind, peer, rank);
  const bool writes = HasOutput(kind, peer, rank);
  if ((reads && in == nullptr) || (writes && out == nullptr)) {
    return Status::InvalidArgument("a buffer is missing");
  }
  Work& work = *planned = pattern_;
  work.kind = kind;
  work.type = type;
  work.op = op;
  work.scalar = scalar;
  work.in = static_cast<const char*>(in);
  work.out = static_cast<char*>(out);
  work.port = ports[pair ? 1 : 0];
  Thresholds thresholds = domain_->config().thresholds;
  // The worker has few blocks of many threads: give an operation no more channels than they use.
  if (ports != ports_) thresholds.line_threads = std::max(thresholds.line_threads, 512u);
  const bool offers =
      offers_ ||
      (reach_ != nullptr &&
       OffersMakeNobodyWait(kind, static_cast<uint32_t>(ranks_)));  // the same on all members
  if (!PlanWork(&work, count, needs_peer ? static_cast<uint32_t>(peer) : 0, thresholds, offers)) {
    return Status::InvalidArgument("no operation of this kind with this peer");
  }
  work.order_key = number_ * kKeysOfCommunicator +
                   (pair ? KeyOfPair(static_cast<uint32_t>(peer), kind == OpKind::kRecv) : 0);
  const Touched& touched = *touched_bytes =
      TouchedBy(kind, reads ? in : nullptr, writes ? out : nullptr, count, type, n);
  if (writes) {
    const bool in_heap = touched.out_begin >= heap_begin_ && touched.out_end <= heap_end_;
    // All-to-all in place: a peer that wrote directly would overwrite data before it is sent.
    const bool still_read = kind == OpKind::kAllToAll && touched.in_begin < touched.out_end &&
                            touched.out_begin < touched.in_end;
    const auto region = reinterpret_cast<uintptr_t>(pattern_.base[rank_]);
    uintptr_t shared = in_heap ? touched.out_begin : 0;
    if (still_read || (work.flags & kOffers) == 0) {
      shared = 0;
    } else if (shared == 0 && reach_ != nullptr) {
      shared = reach_->Find(touched.out_begin, touched.out_end);
    }
    if (shared != 0) {
      work.offered = shared - region + 1;
      direct_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return Status::Ok();
}

Status Communicator::Launch(const OpCall& call, cudaStream_t stream, bool* captured) {
  bool in_graph = false;
  if (captured != nullptr) *captured = false;
  if (call.count == 0) return Status::Ok();
  Work work;
  Touched touched;
  if (Status s = Plan(call, ports_, &work, &touched); !s.ok()) return s;
  const Status status = domain_->Submit(work, touched, stream, &in_graph);
  if (captured != nullptr) *captured = in_graph;
  const bool from_reach = touched.out_begin < heap_begin_ || touched.out_end > heap_end_;
  if (!status.ok() || !in_graph || work.offered == 0 || reach_ == nullptr || !from_reach)
    return status;
  // The graph's launches offer the same addresses, so keep them mapped.
  return Cuda(KeepWithGraph(stream, reach_->Hold(touched.out_begin, touched.out_end)),
              "keeping registered memory for a graph");
}

bool Communicator::IsReplayed() const { return domain_->IsReplayed(number_); }

void Communicator::Abort() {
  uint32_t seen = __atomic_load_n(failed_, __ATOMIC_ACQUIRE);
  while ((seen == kNoFailure || seen == kPeerGone) &&
         !__atomic_compare_exchange_n(failed_, &seen, kFailedAborted, false, __ATOMIC_ACQ_REL,
                                      __ATOMIC_ACQUIRE)) {
  }
}

void Communicator::NotePeerGone(uint32_t* failed) {
  uint32_t expected = kNoFailure;
  __atomic_compare_exchange_n(failed, &expected, kPeerGone, false, __ATOMIC_ACQ_REL,
                              __ATOMIC_ACQUIRE);
}

Failure Communicator::failure() const {
  const uint32_t word = __atomic_load_n(failed_, __ATOMIC_ACQUIRE);
  return word == kPeerGone ? kNoFailure : static_cast<Failure>(word);
}

Status Communicator::PlanDetached(const OpCall& call, int tag, uint32_t priority,
                                  WorkerOperation* operation, bool* any) {
  const int tags = domain_->config().detached_tags;
  if (tag < 0 || tag >= tags) return Status::InvalidArgument("no such tag: " + std::to_string(tag));
  *any = call.count != 0;
  if (!*any) return Status::Ok();
  Touched touched;
  if (Status s = Plan(call, &detached_[2 * tag], &operation->work, &touched); !s.ok()) return s;
  operation->port = DetachedPort(tag, IsPointToPoint(call.kind));
  // The order key differs for each pair of a communicator, and for its two directions.
  operation->key =
      operation->port * kKeysOfCommunicator + operation->work.order_key % kKeysOfCommunicator;
  operation->priority = priority;
  return Status::Ok();
}

Status Communicator::Detach(const OpCall& call, int tag, Detached* operation, uint32_t priority) {
  *operation = {};
  WorkerOperation planned;
  bool any = false;
  if (Status s = PlanDetached(call, tag, priority, &planned, &any); !s.ok() || !any) return s;
  return domain_->worker()->Submit(planned, operation);
}

}  // namespace gordian::runtime::cuda
