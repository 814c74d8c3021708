#include "runtime/cpu/comm.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/cpu/across/bridge.h"
#include "runtime/cpu/across/courier.h"
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

Comm::~Comm() = default;

grtResult_t Comm::Create(const std::string& name, uint32_t ranks, uint32_t rank,
                         const grtConfig_t& config, const Across* across,
                         std::shared_ptr<Comm>* out, std::string* why) {
  std::shared_ptr<Comm> comm(new Comm(name, ranks, rank, config));
  if (!IsValid(comm->geometry_)) return grtInvalidArgument;
  comm->engine_ = Engine::Of(config.device);
  Courier* courier = nullptr;
  if (across != nullptr) {
    courier = Courier::Get(why);
    if (courier == nullptr) return grtSystemError;
    comm->node_ = across->node;
    char suffix[24];
    std::snprintf(suffix, sizeof suffix, "-n%016llx",
                  static_cast<unsigned long long>(HashOf(across->node)));
    comm->node_suffix_ = suffix;
    comm->bridge_ = std::make_unique<Bridge>(comm.get(), courier, across->key);
  }
  const Plan plan = comm->PlanOfTag(0);
  const grtResult_t result = comm->JoinPort(0, plan, rank, &comm->main_);
  if (result != grtSuccess) {
    if (result == grtSystemError) Segment::Refuse(comm->SegmentName(plan), result);
    return result;
  }
  if (courier != nullptr) {
    net::Member member;
    member.ranks = ranks;
    member.rank = rank;
    member.agreement = comm->agreement_;
    member.place = {across->node, courier->address(), courier->process()};
    courier->Add(comm, across->meeting, member, across->places);
  }
  *out = std::move(comm);
  return grtSuccess;
}

Comm::Plan Comm::PlanOfTag(uint32_t tag) const {
  Plan plan{tag == 0 ? name_ : name_ + "-t" + std::to_string(tag), geometry_, {}};
  for (uint32_t r = 0; r < ranks_; ++r) plan.members.push_back(r);
  if (tag != 0 && config_.chunk_bytes == 0) plan.geometry.chunk_bytes = kOtherChunkBytes;
  return plan;
}

Comm::Plan Comm::PlanOfPair(uint32_t from, uint32_t to) const {
  Plan plan{name_ + "-p" + std::to_string(from) + "-" + std::to_string(to), geometry_, {from, to}};
  plan.geometry.members = 2;
  plan.geometry.channels = 1;
  if (config_.chunk_bytes == 0) plan.geometry.chunk_bytes = kOtherChunkBytes;
  return plan;
}

bool Comm::PlanOfKey(uint64_t port_key, Plan* plan) const {
  const auto low = static_cast<uint32_t>(port_key);
  if (port_key == low) {
    *plan = PlanOfTag(low);
    return true;
  }
  const auto from = static_cast<uint32_t>(port_key >> 32) - 1;
  if (from >= ranks_ || low >= ranks_ || from == low) return false;
  *plan = PlanOfPair(from, low);
  return true;
}

std::string Comm::SegmentName(const Plan& plan) const { return plan.name + node_suffix_; }

uint32_t Comm::NearOf(const std::vector<uint32_t>& members) const {
  const auto all = static_cast<uint32_t>(members.size());
  if (bridge_ == nullptr) return all;
  const std::vector<net::Place> places = bridge_->Places();
  if (places.empty()) return 0;
  uint32_t near = 0;
  for (const uint32_t rank : members) near += places[rank].node == node_ ? 1 : 0;
  return near;
}

grtResult_t Comm::JoinPort(uint64_t port_key, const Plan& plan, uint32_t me,
                           std::shared_ptr<Port>* out) {
  auto port = std::make_shared<Port>();
  const PortGeometry& geometry = plan.geometry;
  const uint64_t arguments = internal::Mix(geometry.members + (uint64_t{geometry.window} << 8) +
                                           (uint64_t{geometry.channels} << 24)) ^
                             internal::Mix(geometry.chunk_bytes ^ limits_.one_shot_bytes << 32);
  const uint64_t agreement = HashOf(plan.name, arguments);
  if (port_key == 0) agreement_ = internal::Mix(arguments);
  const grtResult_t result =
      Segment::Join(SegmentName(plan), geometry, me, agreement, engine_->bell().fd(),
                    NearOf(plan.members), &port->segment);
  if (result != grtSuccess) return result;
  port->me = me;
  port->number = static_cast<uint32_t>(HashOf(plan.name));
  port->members = plan.members;
  // What a rank sends itself crosses no bridge.
  if (bridge_ != nullptr && (plan.members.size() != 2 || plan.members[0] != plan.members[1])) {
    port->outbox = bridge_->Open(port_key, port->segment, me, plan.members);
  }
  *out = std::move(port);
  return grtSuccess;
}

grtResult_t Comm::OpenPort(uint32_t tag, std::shared_ptr<Port>* out) {
  grtResult_t result = grtSuccess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (tag == 0 || ports_.contains(tag)) return grtInvalidUsage;
    result = JoinPort(tag, PlanOfTag(tag), rank_, out);
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
      result = JoinPort(uint64_t{from + 1} << 32 | to, PlanOfPair(from, to), sends ? 0 : 1, &port);
    }
    *out = port;
  }
  if (result != grtSuccess) Fail(result);
  return result;
}

grtResult_t Comm::OpenSegment(uint64_t port_key, std::shared_ptr<Segment>* segment,
                              std::vector<uint32_t>* members) const {
  Plan plan;
  if (!PlanOfKey(port_key, &plan)) return grtInvalidUsage;
  *members = plan.members;
  return Segment::Open(SegmentName(plan), plan.geometry, segment);
}

std::vector<std::shared_ptr<Port>> Comm::Ports() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Port>> all = {main_};
  for (const auto& [unused, port] : ports_) all.push_back(port);
  for (const auto* pairs : {&sends_, &recvs_}) {
    for (const auto& [unused, port] : *pairs) {
      if (port != nullptr) all.push_back(port);
    }
  }
  return all;
}

void Comm::Settle() {
  for (const std::shared_ptr<Port>& port : Ports()) {
    port->segment->UnlinkOnceHere(NearOf(port->members));
  }
}

void Comm::Forsake() {
  for (const std::shared_ptr<Port>& port : Ports()) port->segment->UnlinkOnceHere(0);
}

void Comm::Leave() {
  if (bridge_ != nullptr) bridge_->Leave();
}

void Comm::Fail(grtResult_t code, const std::string& why) {
  main_->segment->Abort(code, why);
  RingOthers(*main_);
  engine_->bell().Ring();
  if (bridge_ != nullptr) bridge_->TellFailure();
}

std::string Comm::NameOf(uint32_t rank) const {
  return bridge_ != nullptr ? bridge_->NameOf(rank) : "rank " + std::to_string(rank);
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
  RingWaiters(port.segment->view(), port.members, port.me, slot);
  if (port.outbox != nullptr) bridge_->Touch(port.outbox, slot);
}

void Comm::RingWaiters(const PortView& view, const std::vector<uint32_t>& members, uint32_t who,
                       uint32_t slot) {
  // litmus: waits.stepped
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint64_t own = uint64_t{1} << who;
  for (uint32_t m = 0; m < members.size(); ++m) {
    if (m == who) continue;
    uint64_t& waits_for = view.BoardOf(slot, m).waits_for;
    // litmus: waits.look
    if ((LoadRelaxed(waits_for) & own) == 0) continue;
    // litmus: waits.take
    std::atomic_ref<uint64_t>(waits_for).fetch_and(~own, std::memory_order_acq_rel);
    if (Doorbell* bell = BellOf(members[m])) bell->Ring();
  }
}

void Comm::RingOthers(const Port& port) {
  for (const uint32_t rank : port.members) {
    if (rank == rank_) continue;
    if (Doorbell* bell = BellOf(rank)) bell->Ring();
  }
}

uint64_t Comm::Dead(const Port& port, uint64_t members) {
  if (bridge_ != nullptr) {
    uint64_t ranks = 0;
    for (uint32_t m = 0; m < port.members.size(); ++m) {
      if ((members >> m & 1) != 0) ranks |= uint64_t{1} << port.members[m];
    }
    bridge_->Suspect(ranks);  // whoever is lost fails the communicator
  }
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
