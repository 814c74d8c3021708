#include "runtime/cpu/comm.h"

#include <algorithm>

#include "runtime/cpu/engine.h"

namespace gordian::runtime {
namespace {

constexpr uint32_t kDefaultWindow = 4;
// Of the communicator's own port: its lanes should stay in second-level caches. There may be many
// of the others.
constexpr uint32_t kDefaultChunkBytes = 64 << 10;
constexpr uint32_t kOtherChunkBytes = 32 << 10;

// FNV-1a (public domain), then mixed. Never 0.
uint64_t HashOf(const std::string& text, uint64_t more = 0) {
  uint64_t h = 0xcbf29ce484222325ull ^ more;
  for (const unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  h = internal::Mix(h);
  return h == 0 ? 1 : h;
}

}  // namespace

Comm::Comm(std::string name, uint32_t ranks, uint32_t rank, const grtConfig_t& config)
    : name_(std::move(name)), ranks_(ranks), rank_(rank), config_(config) {
  geometry_.members = ranks;
  geometry_.window = config.window != 0 ? config.window : kDefaultWindow;
  geometry_.channels = std::clamp(config.channels, 1u, kMostChannels);
  const uint32_t chunk = config.chunk_bytes != 0 ? config.chunk_bytes : kDefaultChunkBytes;
  const uint32_t least = static_cast<uint32_t>(8 * ranks);
  geometry_.chunk_bytes =
      static_cast<uint32_t>((std::max(chunk, least) + kLine - 1) / kLine * kLine);
  limits_.most_channels = static_cast<uint16_t>(geometry_.channels);
  // A chunk is shared out from where each member would otherwise read all of the others' bytes. Of
  // two, each reads as many of the other's either way: what sharing out saves is half of the
  // additions, and it costs a second wait. Between processes that pays from 256 KiB on, between
  // threads, which write each other's outputs, from 16 KiB.
  limits_.one_shot_bytes = ranks <= 2 ? 32 << 10 : 2048;
  if (geometry_.channels > 1) limits_.channel_bytes = geometry_.chunk_bytes;
  for (uint32_t r = 0; r < ranks; ++r) peers_.push_back(std::make_unique<Peer>());
}

grtResult_t Comm::Create(const std::string& name, uint32_t ranks, uint32_t rank,
                         const grtConfig_t& config, std::shared_ptr<Comm>* out) {
  std::shared_ptr<Comm> comm(new Comm(name, ranks, rank, config));
  if (!IsValid(comm->geometry_)) return grtInvalidArgument;
  comm->engine_ = Engine::Of(config.device);
  std::vector<uint32_t> members(ranks);
  for (uint32_t r = 0; r < ranks; ++r) members[r] = r;
  const grtResult_t result =
      comm->JoinPort(name, comm->geometry_, rank, std::move(members), &comm->main_);
  if (result != grtSuccess) {
    if (result == grtSystemError) Segment::Refuse(name, result);
    return result;
  }
  *out = std::move(comm);
  return grtSuccess;
}

grtResult_t Comm::JoinPort(const std::string& name, const PortGeometry& geometry, uint32_t me,
                           std::vector<uint32_t> members, std::shared_ptr<Port>* out) {
  auto port = std::make_shared<Port>();
  const uint64_t agreement =
      HashOf(name, internal::Mix(geometry.members + (uint64_t{geometry.window} << 8) +
                                 (uint64_t{geometry.channels} << 24)) ^
                       internal::Mix(geometry.chunk_bytes ^ limits_.one_shot_bytes << 32));
  const grtResult_t result =
      Segment::Join(name, geometry, me, agreement, engine_->bell().fd(), &port->segment);
  if (result != grtSuccess) return result;
  port->me = me;
  port->number = static_cast<uint32_t>(HashOf(name));
  port->members = std::move(members);
  *out = std::move(port);
  return grtSuccess;
}

grtResult_t Comm::OpenPort(uint32_t tag, std::shared_ptr<Port>* out) {
  std::vector<uint32_t> members = main_->members;
  PortGeometry geometry = geometry_;
  if (config_.chunk_bytes == 0) geometry.chunk_bytes = kOtherChunkBytes;
  grtResult_t result = grtSuccess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (tag == 0 || ports_.contains(tag)) return grtInvalidUsage;
    result = JoinPort(name_ + "-t" + std::to_string(tag), geometry, rank_, std::move(members), out);
    if (result == grtSuccess) ports_[tag] = *out;
  }
  if (result != grtSuccess) Fail(result);  // the others would wait for this member there
  return result;
}

grtResult_t Comm::PairPort(uint32_t from, uint32_t to, bool sends, std::shared_ptr<Port>* out) {
  grtResult_t result = grtSuccess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<Port>& port = (sends ? sends_ : recvs_)[{from, to}];
    if (port == nullptr) {
      PortGeometry geometry = geometry_;
      geometry.members = 2;
      geometry.channels = 1;
      if (config_.chunk_bytes == 0) geometry.chunk_bytes = kOtherChunkBytes;
      const std::string name = name_ + "-p" + std::to_string(from) + "-" + std::to_string(to);
      result = JoinPort(name, geometry, sends ? 0 : 1, {from, to}, &port);
    }
    *out = port;
  }
  if (result != grtSuccess) Fail(result);
  return result;
}

void Comm::Fail(grtResult_t code) {
  main_->segment->Abort(code);
  RingOthers(*main_);
  engine_->bell().Ring();
}

Doorbell* Comm::BellOf(uint32_t rank) {
  Peer& peer = *peers_[rank];
  if (Doorbell* bell = peer.bell.load(std::memory_order_acquire)) return bell;
  if (!main_->segment->IsHere(rank)) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (peer.bell_tried) return peer.bell.load(std::memory_order_relaxed);
  peer.bell_tried = true;
  const MemberRecord& record = main_->segment->record(rank);
  peer.owner = Doorbell::Open(record.pid, record.bell_fd);
  peer.bell.store(peer.owner.get(), std::memory_order_release);
  return peer.owner.get();
}

void Comm::RingWaiters(const Port& port, uint32_t slot) {
  // litmus: waits.stepped
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const PortView& view = port.segment->view();
  const uint64_t own = uint64_t{1} << port.me;
  for (uint32_t m = 0; m < port.members.size(); ++m) {
    if (m == port.me) continue;
    uint64_t& waits_for = view.BoardOf(slot, m).waits_for;
    // litmus: waits.look
    if ((LoadRelaxed(waits_for) & own) == 0) continue;
    // litmus: waits.take
    std::atomic_ref<uint64_t>(waits_for).fetch_and(~own, std::memory_order_acq_rel);
    if (Doorbell* bell = BellOf(port.members[m])) bell->Ring();
  }
}

void Comm::RingOthers(const Port& port) {
  for (const uint32_t rank : port.members) {
    if (rank == rank_) continue;
    if (Doorbell* bell = BellOf(rank)) bell->Ring();
  }
}

uint64_t Comm::Dead(const Port& port, uint64_t members) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t dead = 0;
  for (uint32_t m = 0; m < port.members.size(); ++m) {
    const uint32_t rank = port.members[m];
    if ((members >> m & 1) == 0 || rank == rank_ || !main_->segment->IsHere(rank)) continue;
    const MemberRecord& record = main_->segment->record(rank);
    if (peers_[rank]->life.HasEnded(record.pid, record.start_time, record.pid_namespace)) {
      dead |= uint64_t{1} << m;
    }
  }
  return dead;
}

uint64_t Comm::StoppedRanks(const Port& port, uint64_t members) const {
  uint64_t stopped = 0;
  for (uint32_t m = 0; m < port.members.size(); ++m) {
    const uint32_t rank = port.members[m];
    if ((members >> m & 1) == 0 || rank == rank_ || !main_->segment->IsHere(rank)) continue;
    const MemberRecord& record = main_->segment->record(rank);
    if (IsStopped(record.pid, record.start_time, record.pid_namespace))
      stopped |= uint64_t{1} << rank;
  }
  return stopped;
}

}  // namespace gordian::runtime
