#include "runtime/cpu/across/bridge.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/cpu/across/courier.h"
#include "runtime/cpu/comm.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {

Bridge::Bridge(Comm* comm, Courier* courier, uint64_t key)
    : comm_(comm), courier_(courier), key_(key) {
  far_.resize(comm->ranks());
}

Bridge::~Bridge() {
  // A pair's memory that this member has never joined is no one's any more.
  for (const auto& [port_key, inbox] : inboxes_) {
    const uint64_t key = port_key;
    const bool joined =
        std::any_of(boxes_.begin(), boxes_.end(), [&](const auto& b) { return b->key() == key; });
    if (inbox != nullptr && !joined && inbox->members().size() == 2) inbox->Unlink();
  }
}

std::shared_ptr<Outbox> Bridge::Open(uint64_t port_key, const std::shared_ptr<Segment>& segment,
                                     uint32_t me, const std::vector<uint32_t>& members) {
  auto box = std::make_shared<Outbox>(port_key, segment, me, members);
  courier_->Post([this, keep = comm_->shared_from_this(), box] {
    boxes_.push_back(box);
    if (!peers_known_) return;
    FindFarNodes(box.get());
    Update(box.get(), ~uint64_t{0}, false);
  });
  return box;
}

void Bridge::Touch(const std::shared_ptr<Outbox>& box, uint32_t slot) {
  if (box->Touch(slot)) courier_->Queue(comm_->shared_from_this(), box);
}

void Bridge::Suspect(uint64_t ranks) {
  courier_->Post([this, keep = comm_->shared_from_this(), ranks] {
    for (uint32_t r = 0; r < far_.size(); ++r) {
      const Far& far = far_[r];
      if ((ranks >> r & 1) != 0 && far.is_far && !far.gone) courier_->Ask(far.peer);
    }
  });
}

void Bridge::TellFailure() {
  courier_->Post([this, keep = comm_->shared_from_this()] {
    for (uint32_t r = 0; r < far_.size(); ++r) SendFailure(r);
  });
}

void Bridge::Leave() {
  courier_->Post([this, keep = comm_->shared_from_this()] {
    leaving_ = true;
    if (peers_known_) UpdateAll();
    TryLeave();
  });
}

std::vector<net::Place> Bridge::Places() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return places_;
}

bool Bridge::AwaitPlaces(int64_t deadline_ns) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto known = [this] { return !places_.empty(); };
  if (deadline_ns == kForever) {
    known_.wait(lock, known);
    return true;
  }
  return known_.wait_for(
      lock, std::chrono::nanoseconds(std::max<int64_t>(0, deadline_ns - NowNs())), known);
}

std::string Bridge::NameOf(uint32_t rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string name = "rank " + std::to_string(rank);
  if (rank < places_.size()) name += " on node " + places_[rank].node;
  return name;
}

void Bridge::Send(uint32_t to, WireType type, uint64_t number, const std::string& text) {
  Wire wire;
  wire.type = type;
  wire.comm = key_;
  wire.from = comm_->rank();
  wire.to = to;
  wire.number = number;
  auto kept = std::make_shared<const std::string>(text);
  courier_->Send(far_[to].peer, wire, kept->data(), kept->size(), kept);
}

void Bridge::SetPlaces(std::vector<net::Place> places) {
  if (places.size() != far_.size()) {
    comm_->Fail(grtInvalidUsage, "the members disagree about how many they are");
    return;
  }
  const std::string own = places[comm_->rank()].node;
  std::vector<std::string> nodes;
  for (uint32_t r = 0; r < places.size(); ++r) {
    const auto at = std::find(nodes.begin(), nodes.end(), places[r].node);
    node_of_.push_back(static_cast<uint32_t>(at - nodes.begin()));
    if (at == nodes.end()) nodes.push_back(places[r].node);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    places_ = places;
    known_.notify_all();
  }
  for (uint32_t r = 0; r < places.size(); ++r) {
    if (places[r].node == own) continue;
    std::string error;
    far_[r].is_far = true;
    if (courier_->Connect(places[r], &far_[r].peer, &error)) continue;
    far_[r].gone = true;
    comm_->Fail(grtPeerDead, NameOf(r) + " is lost: " + error);
  }
  peers_known_ = true;
  comm_->Settle();
  for (const std::shared_ptr<Outbox>& box : boxes_) FindFarNodes(box.get());
  for (uint32_t r = 0; r < far_.size(); ++r) {
    if (far_[r].is_far && !far_[r].gone) Send(r, WireType::kHello, comm_->agreement());
  }
  for (const auto& [r, agreement] : courier_->TakeEarlyHellos(key_, comm_->rank())) {
    if (r < far_.size() && far_[r].is_far && !far_[r].gone) Greet(r, agreement);
  }
  UpdateAll();
  if (comm_->error() != grtSuccess) TellFailure();
  TryLeave();
}

void Bridge::FindFarNodes(Outbox* box) {
  std::map<uint32_t, FarNode> nodes;
  for (uint32_t m = 0; m < box->members().size(); ++m) {
    const uint32_t rank = box->members()[m];
    if (!far_[rank].is_far) continue;
    FarNode& node = nodes[node_of_[rank]];
    node.node = node_of_[rank];
    node.members.push_back(m);
  }
  std::vector<FarNode> all;
  for (auto& [unused, node] : nodes) all.push_back(std::move(node));
  box->SetFarNodes(std::move(all));
}

// The rank that takes the box's messages for a node, or -1: none does at this time.
int Bridge::RelayOf(const Outbox& box, FarNode* node) {
  for (uint32_t r = 0; r < far_.size(); ++r) {
    if (far_[r].is_far && node_of_[r] == node->node && far_[r].leaves && !far_[r].gone) return -1;
  }
  if (node->relay >= 0 && !far_[node->relay].gone)
    return far_[node->relay].hello ? node->relay : -1;
  // The how-many-th member of its own node this one is says where among theirs to begin.
  uint32_t before = 0;
  for (uint32_t m = 0; m < box.me(); ++m) {
    if (!far_[box.members()[m]].is_far) ++before;
  }
  node->relay = -1;
  const auto count = static_cast<uint32_t>(node->members.size());
  for (uint32_t i = 0; i < count && node->relay < 0; ++i) {
    const uint32_t rank = box.members()[node->members[(before + i) % count]];
    if (!far_[rank].gone) node->relay = static_cast<int>(rank);
  }
  return node->relay >= 0 && far_[node->relay].hello ? node->relay : -1;
}

uint64_t Bridge::Update(Outbox* box, uint64_t touched, bool lazily) {
  if (!peers_known_) return 0;
  uint64_t left = 0;
  for (size_t f = 0; f < box->far_nodes().size(); ++f) {
    const int relay = RelayOf(*box, &box->far_nodes()[f]);
    if (relay < 0) continue;
    Far& far = far_[relay];
    for (uint32_t slot = 0; slot < box->window(); ++slot) {
      const uint64_t bit = uint64_t{1} << (slot % 64);
      if ((touched & bit) == 0) continue;
      const bool lacks = box->Update(slot, f, lazily, [&](const Outbox::Part& part) {
        Wire wire = part.wire;
        wire.comm = key_;
        wire.from = comm_->rank();
        wire.to = static_cast<uint32_t>(relay);
        ++far.sent;
        courier_->Send(far.peer, wire, part.data, part.bytes, box->segment());
      });
      if (lacks) left |= bit;
    }
  }
  return left;
}

void Bridge::UpdateAll() {
  for (const std::shared_ptr<Outbox>& box : boxes_) Update(box.get(), ~uint64_t{0}, false);
}

void Bridge::SendFailure(uint32_t rank) {
  Far& far = far_[rank];
  if (!far.is_far || !far.hello || far.told || far.gone) return;
  far.told = true;
  Send(rank, WireType::kAbort, static_cast<uint64_t>(comm_->error()), comm_->ErrorText());
}

void Bridge::OnMessage(const Wire& wire, const void* data, size_t bytes) {
  if (wire.from >= far_.size() || !far_[wire.from].is_far) return;
  Far& far = far_[wire.from];
  switch (wire.type) {
    case WireType::kHello:
      Greet(wire.from, wire.number);
      if (comm_->error() != grtSuccess) SendFailure(wire.from);
      UpdateAll();
      TryLeave();
      return;
    case WireType::kState:
    case WireType::kData:
      Apply(wire, data, bytes);
      ++far.received;
      Answer(wire.from);
      return;
    case WireType::kAbort: {
      const auto code = static_cast<grtResult_t>(wire.number);
      far.knows = true;
      const bool known = code == grtMismatch || code == grtAborted || code == grtPeerDead ||
                         code == grtTimeout || code == grtSystemError || code == grtInvalidUsage;
      comm_->Fail(known ? code : grtRemoteError,
                  bytes != 0           ? std::string(static_cast<const char*>(data), bytes)
                  : code == grtAborted ? NameOf(wire.from) + " has aborted the communicator"
                                       : NameOf(wire.from) + " has failed");
      return;
    }
    case WireType::kLeave:
      far.leaves = true;
      far.leave_count = wire.number;
      Answer(wire.from);
      return;
    case WireType::kLeft:
      far.has_left = true;
      far.left_count = wire.number;
      Answer(wire.from);
      return;
    case WireType::kGone:
      far.gone = true;
      UpdateAll();
      TryLeave();
      return;
    case WireType::kPing:
    case WireType::kPong:
      return;
  }
}

void Bridge::Greet(uint32_t rank, uint64_t agreement) {
  far_[rank].hello = true;
  if (agreement != comm_->agreement()) {
    comm_->Fail(grtInvalidUsage,
                NameOf(rank) + " has another configuration than " + NameOf(comm_->rank()));
  }
}

void Bridge::Apply(const Wire& wire, const void* data, size_t bytes) {
  if (comm_->error() != grtSuccess) return;
  Inbox* inbox = InboxOf(wire.port);
  if (inbox == nullptr) return;
  uint32_t member = 0;
  uint64_t near = 0;
  bool is_member = false;
  for (uint32_t m = 0; m < inbox->members().size(); ++m) {
    const uint32_t rank = inbox->members()[m];
    if (rank == wire.from) {
      member = m;
      is_member = true;
    }
    if (!far_[rank].is_far) near |= uint64_t{1} << m;
  }
  if (!is_member) return;
  const grtResult_t result = inbox->Apply(wire, member, data, bytes, near);
  if (result == grtSuccess) {
    comm_->RingWaiters(inbox->segment().view(), inbox->members(), member,
                       inbox->segment().view().SlotOf(wire.seq));
    return;
  }
  comm_->Fail(result, result == grtMismatch ? NameOf(wire.from) + " called another operation"
                                            : NameOf(wire.from) + ": its messages cannot be taken");
}

Inbox* Bridge::InboxOf(uint64_t port_key) {
  std::unique_ptr<Inbox>& inbox = inboxes_[port_key];
  if (inbox != nullptr) return inbox.get();
  std::shared_ptr<Segment> segment;
  std::vector<uint32_t> members;
  const grtResult_t result = comm_->OpenSegment(port_key, &segment, &members);
  if (result != grtSuccess) {
    inboxes_.erase(port_key);
    comm_->Fail(result, "memory for what other nodes send is not to be had");
    return nullptr;
  }
  inbox = std::make_unique<Inbox>(std::move(segment), std::move(members));
  return inbox.get();
}

// To one that leaves, once all that it sent is here; and the other way round.
void Bridge::Answer(uint32_t rank) {
  Far& far = far_[rank];
  if (far.leaves && !far.answered && far.received >= far.leave_count) {
    far.answered = true;
    Send(rank, WireType::kLeft, far.sent);
  }
  if (far.has_left && !far.done && far.received >= far.left_count) {
    far.done = true;
    Send(rank, WireType::kGone, 0);
    TryLeave();
  }
}

void Bridge::TryLeave() {
  if (!leaving_ || !peers_known_ || said_so_) return;
  if (comm_->error() != grtSuccess) return;  // the other members have had it from TellFailure
  for (const Far& far : far_) {
    if (far.is_far && !far.gone && (!far.hello || far.leaves)) return;
  }
  said_so_ = true;
  for (uint32_t r = 0; r < far_.size(); ++r) {
    if (far_[r].is_far && !far_[r].gone) Send(r, WireType::kLeave, far_[r].sent);
  }
}

void Bridge::OnLost(uint32_t peer, const std::string& why) {
  for (uint32_t r = 0; r < far_.size(); ++r) {
    Far& far = far_[r];
    if (!far.is_far || far.peer != peer || far.gone) continue;
    far.gone = true;
    if (far.done) continue;
    comm_->Fail(grtPeerDead, NameOf(r) + " is lost: " + why);
  }
}

bool Bridge::IsOver() const {
  if (!leaving_) return false;
  if (!peers_known_) return true;  // its members will never have met
  const bool failed = comm_->error() != grtSuccess;
  for (const Far& far : far_) {
    if (!far.is_far || far.gone || far.done) continue;
    if (!failed || !far.told || !far.knows) return false;
  }
  return true;
}

}  // namespace gordian::runtime
