#include "runtime/cuda/communicator.h"

#include <algorithm>
#include <utility>

namespace gordian::runtime::cuda {
namespace {

constexpr uint32_t kPairLineChannels = 64;
constexpr uint32_t kPairBulkChannels = 32;
constexpr uint32_t kKeysOfCommunicator = 64;  // 1 for collectives, 2 for each peer

}  // namespace

void LayOutPorts(const DomainConfig& config, uint32_t ranks, PortLayout ports[2], uint64_t* bytes) {
  ports[0] = LayOut(0, ranks, false, config.line_channels, config.bulk_channels, 2, config.stage_bytes);
  ports[1] = LayOut(ports[0].end, ranks, true, std::min(kPairLineChannels, config.line_channels),
                    std::min(kPairBulkChannels, config.bulk_channels), 1, config.stage_bytes / 2);
  *bytes = RoundUp(ports[1].end, 4096);
}

void LayOutDetached(const DomainConfig& config, uint32_t ranks, std::vector<PortLayout>* ports, uint64_t* bytes) {
  ports->clear();
  const uint32_t pairs = std::min(kPairBulkChannels, config.detached_channels);
  for (int tag = 0; tag < config.detached_tags; ++tag) {
    ports->push_back(LayOut(*bytes, ranks, false, config.detached_channels, config.detached_channels, 2,
                            config.detached_stage_bytes));
    ports->push_back(LayOut(ports->back().end, ranks, true, pairs, pairs, 1, config.detached_stage_bytes / 2));
    *bytes = RoundUp(ports->back().end, 4096);
  }
}

Status Communicator::Create(Domain* domain, int index, const std::vector<int>& members,
                            std::unique_ptr<Communicator>* made) {
  const DomainConfig& config = domain->config();
  if (index < 0 || index >= config.communicators || members.empty()) {
    return Status::InvalidArgument("no such communicator: " + std::to_string(index));
  }
  std::unique_ptr<Communicator> c(new Communicator(domain, index));
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
  c->members_ = members;
  c->pattern_.region_at = domain->region_bytes_ * index;
  c->pattern_.rank = static_cast<uint8_t>(c->rank_);
  c->pattern_.ranks = static_cast<uint8_t>(members.size());
  uint64_t bytes = 0;
  LayOutPorts(config, static_cast<uint32_t>(members.size()), c->ports_, &bytes);
  LayOutDetached(config, static_cast<uint32_t>(members.size()), &c->detached_, &bytes);
  if (bytes > domain->region_bytes_) return Status::Internal("a communicator's region is too small");
  *made = std::move(c);
  return Status::Ok();
}

Status Communicator::Plan(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op,
                          int peer, const PortLayout* ports, Work* planned, Touched* touched_bytes) const {
  if (op == Operator::kPreMulSum) return Status::InvalidArgument("PreMulSum is not there on GPUs yet");
  const bool pair = IsPointToPoint(kind);
  const bool needs_peer = pair || HasRoot(kind);
  if (needs_peer && (peer < 0 || peer >= ranks())) return Status::InvalidArgument("no such root or peer");
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
  work.in = static_cast<const char*>(in);
  work.out = static_cast<char*>(out);
  work.port = ports[pair ? 1 : 0];
  Thresholds thresholds = domain_->config().thresholds;
  // Few blocks serve detached operations, each of many threads: no more channels than they have a use for.
  if (ports != ports_) thresholds.line_threads = std::max(thresholds.line_threads, 512u);
  if (!PlanWork(&work, count, needs_peer ? static_cast<uint32_t>(peer) : 0, thresholds,
                domain_->config().user_bytes > 0)) {
    return Status::InvalidArgument("no operation of this kind with this peer");
  }
  work.order_key = static_cast<uint32_t>(index_) * kKeysOfCommunicator +
                   (pair ? 1 + static_cast<uint32_t>(peer) * 2 + (kind == OpKind::kRecv ? 1 : 0) : 0);
  Touched& touched = *touched_bytes = {};
  const uint64_t size = SizeOf(type);
  if (reads) {
    touched.in_begin = reinterpret_cast<uintptr_t>(in);
    touched.in_end = touched.in_begin + InputCount(kind, count, n) * size;
  }
  if (writes) {
    touched.out_begin = reinterpret_cast<uintptr_t>(out);
    touched.out_end = touched.out_begin + OutputCount(kind, count, n) * size;
    const auto heap = reinterpret_cast<uintptr_t>(domain_->heap_->base(domain_->config().rank));
    const bool in_heap =
        touched.out_begin >= heap && touched.out_end <= heap + domain_->heap_->bytes();
    // All-to-all in place: what a peer wrote directly would be what is still to be sent.
    const bool still_read = kind == OpKind::kAllToAll && touched.in_begin < touched.out_end &&
                            touched.out_begin < touched.in_end;
    if (in_heap && !still_read) work.offered = touched.out_begin - heap + 1;
  }
  return Status::Ok();
}

Status Communicator::Launch(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op,
                            int peer, cudaStream_t stream) {
  if (count == 0) return Status::Ok();
  Work work;
  Touched touched;
  if (Status s = Plan(kind, in, out, count, type, op, peer, ports_, &work, &touched); !s.ok()) return s;
  return domain_->Submit(work, touched, stream);
}

Status Communicator::Detach(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op,
                            int peer, int tag, Detached* operation) {
  const int tags = domain_->config().detached_tags;
  if (tag < 0 || tag >= tags) return Status::InvalidArgument("no such tag: " + std::to_string(tag));
  *operation = {};
  if (count == 0) return Status::Ok();
  Work work;
  Touched touched;
  if (Status s = Plan(kind, in, out, count, type, op, peer, &detached_[2 * tag], &work, &touched); !s.ok()) return s;
  const uint64_t port = (static_cast<uint64_t>(index_) * tags + tag) * 2 + (IsPointToPoint(kind) ? 1 : 0);
  // The order key tells the directions of a communicator's pairs apart.
  return domain_->worker()->Submit(work, port, port * kKeysOfCommunicator + work.order_key % kKeysOfCommunicator,
                                   operation);
}

}  // namespace gordian::runtime::cuda
