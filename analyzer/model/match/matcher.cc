#include "analyzer/model/match/matcher.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace gordian::model {
namespace {

// Members of a communicator of another node may never be seen; their instances cannot complete
// here.
constexpr size_t kMaxHeldWithUnseenMembers = 4096;
constexpr int kMaxRanks = 1 << 17;  // more is a damaged record
// Places for members that are held at once: a record of 64 bytes may ask for as many as a
// communicator has members. A rank may be thousands of operations ahead of all others.
constexpr size_t kPlaces = 1 << 20;
constexpr size_t kPlacesOfProcess = 4096;

// Mostly it is the first one or the last one, or there are no gaps between the numbers: then it
// stands where its number says.
Instances::iterator Find(Instances* all, uint64_t sequence) {
  if (all->empty()) return all->end();
  const auto first = all->begin();
  if (first->first == sequence) return first;
  const auto last = std::prev(all->end());
  if (last->first == sequence) return last;
  if (sequence < first->first || sequence > last->first) return all->end();
  const uint64_t place = sequence - first->first;
  if (place < all->size()) {
    const auto there = all->nth(place);
    if (there->first == sequence) return there;
  }
  return all->find(sequence);
}

// Finds or makes. Mostly a new one has the highest number.
Instance& Take(Instances* all, uint64_t sequence) {
  if (all->empty() || std::prev(all->end())->first < sequence)
    return all->try_emplace(all->end(), sequence)->second;
  const auto known = Find(all, sequence);
  return known != all->end() ? known->second : (*all)[sequence];
}

}  // namespace

bool Matcher::HaveRoom(int members) const {
  return places_ + static_cast<size_t>(members) <= kPlaces + kPlacesOfProcess * processes_;
}

void Matcher::Leave(size_t members) { places_ -= std::min(places_, members); }

void Matcher::EraseInit(CommUid uid) {
  const auto found = inits_.find(uid);
  if (found == inits_.end()) return;
  Leave(found->second.members.size());
  inits_.erase(found);
}

bool MakesCommunicator(Call call) {
  return call == Call::kCommInit || call == Call::kCommInitAll || call == Call::kCommSplit ||
         call == Call::kCommShrink || call == Call::kCommGrow;
}

CommUid Matcher::Resolve(CommUid uid) const {
  const auto same = same_.find(uid);
  return same == same_.end() ? uid : same->second;
}

bool Matcher::HasOtherName(CommUid uid) const {
  return std::any_of(same_.begin(), same_.end(),
                     [uid](const auto& same) { return same.second == uid; });
}

bool Matcher::MayHaveCalled(const InitCall& init, ProcessId process) const {
  if (init.call != Call::kCommGrow || HasOtherName(init.uid)) return false;
  return std::any_of(inits_.begin(), inits_.end(), [&](const auto& entry) {
    const InitCall& other = entry.second;
    return other.call == Call::kCommGrow && other.uid != init.uid &&
           other.members.size() == init.members.size() && !HasOtherName(other.uid) &&
           std::any_of(other.members.begin(), other.members.end(), [&](const InitMember& member) {
             return member.called && member.process == process;
           });
  });
}

std::pair<int, int> Matcher::Unite(CommUid uid, CommUid same) {
  uid = Resolve(uid);
  same = Resolve(same);
  if (uid == same) return {-1, -1};
  std::pair<int, int> indices = {-1, -1};
  if (const auto found = by_uid_.find({uid, 0}); found != by_uid_.end()) {
    indices.first = found->second;
    indices.second = Comm(same, 0, comms_[indices.first].nranks);
    by_uid_.erase(std::pair(uid, 0));
    std::vector<CommMember>& from = comms_[indices.first].members;
    std::vector<CommMember>& to = comms_[indices.second].members;
    for (size_t rank = 0; rank < from.size() && rank < to.size(); ++rank) {
      if (from[rank].known && !to[rank].known) to[rank] = from[rank];
    }
    MoveOperations(indices.first, indices.second);
  }
  if (const auto found = inits_.find(uid); found != inits_.end())
    MoveInit(uid, same, found->second.parent, indices.second);
  // Calls that its members have made already.
  std::vector<std::pair<CommUid, CommUid>> meetings;
  for (const auto& [name, init] : inits_) {
    if (indices.first < 0 || init.parent != indices.first || MakesCommunicator(init.call)) continue;
    meetings.emplace_back(name, MeetingUid(comms_[indices.second], init.call, init.ordinal));
  }
  for (const auto& [before, now] : meetings) {
    MoveInit(before, now, indices.second, -1);
    same_[before] = now;
  }
  same_[uid] = same;
  for (auto& [known, as] : same_) {
    if (as == uid) as = same;
  }
  return indices;
}

void Matcher::MoveInit(CommUid uid, CommUid same, int parent, int comm) {
  const InitCall from = std::move(inits_.at(uid));
  Leave(from.members.size());
  inits_.erase(uid);
  InitCall& to = Init(same, from.call, parent, static_cast<int>(from.members.size()));
  to.ordinal = from.ordinal;
  if (to.comm < 0) to.comm = comm;
  for (size_t rank = 0; rank < from.members.size() && rank < to.members.size(); ++rank) {
    if (!from.members[rank].called || to.members[rank].called) continue;
    to.members[rank] = from.members[rank];
    ++to.called;
    if (from.members[rank].done) ++to.done;
  }
  if (to.done == static_cast<int>(to.members.size())) EraseInit(same);
}

// A member may be out of the call, and use what it got, before it is known to be the same.
void Matcher::MoveOperations(int from, int to) {
  const auto move = [this](const PartRef& ref, const MemberSlot& slot) {
    if (slot.state == SlotState::kNone) return;
    MemberSlot called = slot;
    called.state = SlotState::kCalled;
    called.accepted = false;
    Post(ref, called);
    if (slot.accepted) Accept(ref, slot.time_ns);
    if (slot.state == SlotState::kDone) Done(ref);
    if (slot.state == SlotState::kAborted) Abort(ref);
  };
  const Instances instances = std::move(comms_[from].instances);
  comms_[from].instances.clear();
  for (const auto& [sequence, instance] : instances) {
    Leave(instance.members.size());
    for (size_t rank = 0; rank < instance.members.size(); ++rank) {
      move({PartKind::kCollective, to, static_cast<int>(rank), -1, sequence},
           instance.members[rank]);
    }
  }
  const auto transfers = std::move(comms_[from].transfers);
  comms_[from].transfers.clear();
  for (const auto& [pair, channel] : transfers) {
    for (const auto& [sequence, transfer] : channel) {
      move({PartKind::kSend, to, pair.first, pair.second, sequence}, transfer.send);
      move({PartKind::kReceive, to, pair.second, pair.first, sequence}, transfer.receive);
    }
  }
  for (auto& [key, line] : comms_[from].signals) {
    SignalLine& into = comms_[to].signals[key];
    for (const auto calls : {&SignalLine::sent, &SignalLine::waited}) {
      const SignalCalls& more = line.*calls;
      SignalCalls& all = into.*calls;
      all.done += more.done;
      all.calls.insert(all.calls.end(), more.calls.begin(), more.calls.end());
      all.done_to = NumberAhead(more.done_to, all.done_to) > 0 ? more.done_to : all.done_to;
      all.told = std::max(all.told, more.told);
    }
  }
  comms_[from].signals.clear();
  comms_[to].signals_unseen |= comms_[from].signals_unseen;
  comms_[to].opaque |= comms_[from].opaque;
  comms_[to].unsure |= comms_[from].unsure;
}

int Matcher::Comm(CommUid uid, int color, int nranks) {
  uid = Resolve(uid);
  if (nranks < 0 || nranks > kMaxRanks) nranks = 0;
  auto [it, added] = by_uid_.try_emplace({uid, color}, static_cast<int>(comms_.size()));
  if (added) {
    Communicator comm;
    comm.uid = uid;
    comm.color = color;
    comms_.push_back(std::move(comm));
  }
  Communicator& comm = comms_[it->second];
  if (nranks > comm.nranks && !HaveRoom(nranks)) {
    beyond_ = comm.opaque = true;
    return it->second;
  }
  if (nranks > comm.nranks) {
    places_ += static_cast<size_t>(nranks - comm.nranks) * (1 + comm.instances.size());
    comm.nranks = nranks;
    comm.members.resize(nranks);
    for (auto& [sequence, instance] : comm.instances) instance.members.resize(nranks);
  }
  return it->second;
}

void Matcher::SetMember(int comm, int rank, ProcessId process, CommId local, int device,
                        uint64_t site) {
  Communicator& c = comms_[comm];
  if (rank < 0 || rank >= c.nranks) return;
  CommMember& m = c.members[rank];
  if (site != 0 || m.process != process) m.made_at = site;
  m.known = true;
  m.process = process;
  m.comm = local;
  if (device >= 0) m.device = device;
}

Instance* Matcher::FindInstance(int comm, uint64_t sequence) {
  auto& all = comms_[comm].instances;
  const auto it = Find(&all, sequence);
  return it == all.end() ? nullptr : &it->second;
}

Transfer* Matcher::FindTransfer(const PartRef& part) {
  auto& all = comms_[part.comm].transfers;
  const auto pair = part.kind == PartKind::kSend ? std::pair(part.rank, part.peer)
                                                 : std::pair(part.peer, part.rank);
  auto channel = all.find(pair);
  if (channel == all.end()) return nullptr;
  auto it = channel->second.find(part.sequence);
  return it == channel->second.end() ? nullptr : &it->second;
}

MemberSlot* Matcher::Slot(const PartRef& part, Instance** instance) {
  if (part.comm < 0) return nullptr;
  if (part.kind == PartKind::kCollective) {
    Instance* const found = FindInstance(part.comm, part.sequence);
    if (instance != nullptr) *instance = found;
    if (found == nullptr || part.rank < 0 || part.rank >= static_cast<int>(found->members.size()))
      return nullptr;
    return &found->members[part.rank];
  }
  Transfer* transfer = FindTransfer(part);
  if (transfer == nullptr) return nullptr;
  return part.kind == PartKind::kSend ? &transfer->send : &transfer->receive;
}

void Matcher::Post(const PartRef& part, const MemberSlot& slot) {
  if (part.comm < 0) return;
  Communicator& comm = comms_[part.comm];
  if (part.rank < 0 || part.rank >= comm.nranks) return;
  if (part.kind == PartKind::kCollective) {
    if (!HaveRoom(comm.nranks) && !comm.instances.contains(part.sequence)) {
      beyond_ = comm.opaque = true;
      return;
    }
    Instance& instance = Take(&comm.instances, part.sequence);
    if (static_cast<int>(instance.members.size()) < comm.nranks) {
      places_ += static_cast<size_t>(comm.nranks) - instance.members.size();
      if (instance.members.empty() && !spare_members_.empty()) {
        instance.members = std::move(spare_members_.back());
        spare_members_.pop_back();
      }
      instance.members.resize(comm.nranks);
    }
    MemberSlot& mine = instance.members[part.rank];
    uint64_t& next = comm.members[part.rank].next_sequence;
    next = std::max(next, part.sequence + 1);
    if (mine.state == SlotState::kNone) ++instance.called;
    mine = slot;
    return;
  }
  if (part.peer < 0 || part.peer >= comm.nranks) return;
  const auto pair = part.kind == PartKind::kSend ? std::pair(part.rank, part.peer)
                                                 : std::pair(part.peer, part.rank);
  Transfer& transfer = comm.transfers[pair][part.sequence];
  (part.kind == PartKind::kSend ? transfer.send : transfer.receive) = slot;
}

void Matcher::Accept(const PartRef& part, uint64_t now_ns) {
  Instance* instance = nullptr;
  MemberSlot* const slot = Slot(part, &instance);
  if (slot == nullptr || slot->state == SlotState::kNone || slot->accepted) return;
  slot->accepted = true;
  if (comms_[part.comm].opaque) return;
  if (instance != nullptr) {
    for (const int earlier :
         {comms_[part.comm].collective_mismatch, comms_[part.comm].operator_mismatch}) {
      if (earlier >= 0) Keep(earlier, part.rank, part.sequence, slot->signature);
    }
    CheckInstance(part.comm, part.sequence, *instance, part.rank, now_ns);
  } else {
    CheckTransfer(part, *FindTransfer(part), now_ns);
  }
}

std::vector<std::vector<const MismatchMember*>> Camps(const Mismatch& mismatch) {
  const bool transfer = mismatch.kind != PartKind::kCollective;
  std::vector<std::vector<const MismatchMember*>> camps;
  for (const MismatchMember& member : mismatch.members) {
    auto camp = std::find_if(camps.begin(), camps.end(), [&](const auto& c) {
      return !transfer && Difference(c.front()->signature, member.signature) == 0;
    });
    if (camp == camps.end()) camp = camps.emplace(camps.end());
    camp->push_back(&member);
  }
  std::stable_sort(camps.begin(), camps.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return camps;
}

void Matcher::Keep(int mismatch, int rank, uint64_t sequence, const OpSignature& signature) {
  Mismatch& m = mismatches_[mismatch];
  if (sequence >= m.sequence && sequence - m.sequence < kCallsKept)
    m.calls[{rank, sequence}] = signature;
}

void Matcher::CheckInstance(int index, uint64_t sequence, Instance& instance, int rank,
                            uint64_t now_ns) {
  if (instance.mismatch == kFurtherMismatch) return;
  Communicator& comm = comms_[index];
  const MemberSlot& mine = instance.members[rank];
  auto member = [&](int r) {
    const MemberSlot& s = instance.members[r];
    return MismatchMember{r, comm.members[r].process, s.site, s.signature};
  };
  if (instance.mismatch >= 0) {
    Mismatch& m = mismatches_[instance.mismatch];
    for (const MismatchMember& other : m.members) {
      m.bits |= Difference(other.signature, mine.signature);
    }
    m.members.push_back(member(rank));
    if (instance.mismatch == comm.operator_mismatch && m.bits != kOperatorDiffers &&
        comm.collective_mismatch < 0) {
      comm.collective_mismatch = std::exchange(comm.operator_mismatch, -1);
    }
    return;
  }
  // All accepted ones agree so far, so one of them stands for all.
  for (size_t r = 0; r < instance.members.size(); ++r) {
    const MemberSlot& other = instance.members[r];
    if (static_cast<int>(r) == rank || !other.accepted) continue;
    const uint32_t bits = Difference(other.signature, mine.signature);
    if (bits == 0) return;
    int& described = bits == kOperatorDiffers ? comm.operator_mismatch : comm.collective_mismatch;
    if (described >= 0 && mismatches_[described].sequence <= sequence) {
      instance.mismatch = kFurtherMismatch;
      ++mismatches_[described].further;
      return;
    }
    Mismatch m;
    m.comm = index;
    m.sequence = sequence;
    m.bits = bits;
    m.found_ns = now_ns;
    m.expected_members = comm.nranks;
    for (size_t i = 0; i < instance.members.size(); ++i) {
      if (instance.members[i].accepted) m.members.push_back(member(static_cast<int>(i)));
    }
    if (described >= 0) {  // found later, made earlier: the others follow from it, or come after it
      Instance* const later = FindInstance(index, mismatches_[described].sequence);
      if (later != nullptr) later->mismatch = kFurtherMismatch;
      m.further = mismatches_[described].further + 1;
      mismatches_[described] = std::move(m);
    } else {
      described = static_cast<int>(mismatches_.size());
      mismatches_.push_back(std::move(m));
    }
    instance.mismatch = described;
    for (auto it = comm.instances.lower_bound(sequence); it != comm.instances.end(); ++it) {
      for (size_t i = 0; i < it->second.members.size(); ++i) {
        const MemberSlot& slot = it->second.members[i];
        if (slot.accepted) Keep(described, static_cast<int>(i), it->first, slot.signature);
      }
    }
    return;
  }
}

void Matcher::CheckTransfer(const PartRef& part, Transfer& transfer, uint64_t now_ns) {
  if (!transfer.send.accepted || !transfer.receive.accepted || transfer.mismatch != kAgrees ||
      comms_[part.comm].any_source) {
    return;
  }
  const uint32_t bits = TransferDifference(transfer.send.signature, transfer.receive.signature);
  if (bits == 0) return;
  Communicator& comm = comms_[part.comm];
  if (comm.transfer_mismatch >= 0) {
    transfer.mismatch = kFurtherMismatch;
    ++mismatches_[comm.transfer_mismatch].further;
    return;
  }
  const int source = part.kind == PartKind::kSend ? part.rank : part.peer;
  const int destination = part.kind == PartKind::kSend ? part.peer : part.rank;
  Mismatch m;
  m.comm = part.comm;
  m.kind = PartKind::kSend;
  m.sequence = part.sequence;
  m.bits = bits;
  m.found_ns = now_ns;
  m.expected_members = 2;
  m.members = {{source, comm.members[source].process, transfer.send.site, transfer.send.signature},
               {destination, comm.members[destination].process, transfer.receive.site,
                transfer.receive.signature}};
  transfer.mismatch = comm.transfer_mismatch = static_cast<int>(mismatches_.size());
  mismatches_.push_back(std::move(m));
}

void Matcher::Withdraw(const PartRef& part) {
  MemberSlot* slot = Slot(part);
  if (slot == nullptr || slot->state == SlotState::kNone) return;
  *slot = MemberSlot{};
  if (part.kind == PartKind::kCollective) {
    uint64_t& next = comms_[part.comm].members[part.rank].next_sequence;
    if (next == part.sequence + 1) next = part.sequence;
    const auto instance = comms_[part.comm].instances.find(part.sequence);
    if (--instance->second.called == 0) Retire(comms_[part.comm], instance);
  }
}

void Matcher::Done(const PartRef& part) {
  Instance* instance = nullptr;
  MemberSlot* const slot = Slot(part, &instance);
  if (slot == nullptr || slot->state == SlotState::kNone || slot->state == SlotState::kDone) return;
  slot->state = SlotState::kDone;
  slot->launch = 0;
  if (instance == nullptr) return MaybeRetireTransfer(part);
  ++instance->done;
  MaybeRetire(comms_[part.comm], part.sequence);
}

void Matcher::Abort(const PartRef& part) {
  MemberSlot* slot = Slot(part);
  if (slot != nullptr && slot->state == SlotState::kCalled) slot->state = SlotState::kAborted;
}

void Matcher::Retire(Communicator& comm, Instances::iterator instance) {
  constexpr size_t kKept = 64, kKeptRanks = 256;
  std::vector<MemberSlot>& members = instance->second.members;
  Leave(members.size());
  if (spare_members_.size() < kKept && members.capacity() <= kKeptRanks) {
    members.clear();
    spare_members_.push_back(std::move(members));
  }
  comm.instances.erase(instance);
}

void Matcher::KeepFinished(Communicator& comm, uint64_t sequence, const Instance& instance) const {
  // A report compares them with mismatches (sibling_calls.h), and says the same at every look: what
  // it may read of the first ones stays.
  constexpr size_t kMismatchesCompared = 4;
  if (instance.mismatch != kAgrees || !instance.members.front().accepted) return;
  const FinishedCall call = {sequence, instance.members.front().signature};
  for (size_t i = 0; i < std::min(mismatches_.size(), kMismatchesCompared); ++i) {
    if (mismatches_[i].kind != PartKind::kCollective || mismatches_[i].sequence != sequence)
      continue;
    comm.to_compare.push_back(call);
    break;
  }
  if (comm.finished.size() < kFinishedKept) return comm.finished.push_back(call);
  comm.finished[comm.oldest_finished] = call;
  comm.oldest_finished = (comm.oldest_finished + 1) % kFinishedKept;
}

const OpSignature* Matcher::AgreedCall(int index, uint64_t sequence) const {
  const Communicator& comm = comms_[index];
  if (const Instance* const instance = FindInstance(index, sequence)) {
    if (instance->mismatch != kAgrees) return nullptr;
    const OpSignature* agreed = nullptr;
    int accepted = 0;
    for (const MemberSlot& slot : instance->members) {
      if (!slot.accepted) continue;
      ++accepted;
      agreed = &slot.signature;
    }
    return accepted < 2 ? nullptr : agreed;
  }
  for (const std::vector<FinishedCall>* const kept : {&comm.finished, &comm.to_compare}) {
    for (const FinishedCall& call : *kept) {
      if (call.sequence == sequence) return &call.signature;
    }
  }
  return nullptr;
}

void Matcher::MaybeRetire(Communicator& comm, uint64_t sequence) {
  const auto it = Find(&comm.instances, sequence);
  if (it->second.done >= comm.nranks) {
    if (it->second.mismatch >= 0) mismatches_[it->second.mismatch].completed = true;
    KeepFinished(comm, sequence, it->second);
    return Retire(comm, it);
  }
  if (comm.instances.size() <= kMaxHeldWithUnseenMembers) return;
  const Instance& oldest = comm.instances.begin()->second;
  for (size_t r = 0; r < oldest.members.size(); ++r) {
    if (comm.members[r].known && oldest.members[r].state != SlotState::kDone) return;
  }
  Retire(comm, comm.instances.begin());
}

void Matcher::MaybeRetireTransfer(const PartRef& part) {
  Transfer* transfer = FindTransfer(part);
  const auto pair = part.kind == PartKind::kSend ? std::pair(part.rank, part.peer)
                                                 : std::pair(part.peer, part.rank);
  auto& channels = comms_[part.comm].transfers;
  auto channel = channels.find(pair);
  if (transfer->send.state == SlotState::kDone && transfer->receive.state == SlotState::kDone) {
    if (transfer->mismatch >= 0) mismatches_[transfer->mismatch].completed = true;
    channel->second.erase(part.sequence);
    if (channel->second.empty()) channels.erase(channel);
    return;
  }
  if (channel->second.size() <= kMaxHeldWithUnseenMembers) return;
  CommMember& peer = comms_[part.comm].members[part.peer];
  if (peer.known) return;
  const Transfer& oldest = channel->second.begin()->second;
  const MemberSlot& mine = part.kind == PartKind::kSend ? oldest.send : oldest.receive;
  if (mine.state != SlotState::kDone) return;
  channel->second.erase(channel->second.begin());
  peer.forgotten = true;
}

std::vector<uint64_t> Matcher::Unfinished(const PartRef& member, uint64_t from, uint64_t to) const {
  std::vector<uint64_t> numbers;
  const Communicator& comm = comms_[member.comm];
  if (member.kind == PartKind::kCollective) {
    for (auto it = comm.instances.lower_bound(from); it != comm.instances.end() && it->first < to;
         ++it) {
      if (it->second.members[member.rank].state == SlotState::kNone) numbers.push_back(it->first);
    }
    return numbers;
  }
  const bool sends = member.kind == PartKind::kSend;
  const auto channel = comm.transfers.find(sends ? std::pair(member.rank, member.peer)
                                                 : std::pair(member.peer, member.rank));
  if (channel == comm.transfers.end()) return numbers;
  for (auto it = channel->second.lower_bound(from); it != channel->second.end() && it->first < to;
       ++it) {
    const MemberSlot& mine = sends ? it->second.send : it->second.receive;
    if (mine.state == SlotState::kNone) numbers.push_back(it->first);
  }
  return numbers;
}

void Matcher::RetireLost(int index) {
  constexpr uint64_t kKept = 64;  // a record may be late
  Communicator& comm = comms_[index];
  while (!comm.instances.empty()) {
    const auto oldest = comm.instances.begin();
    for (size_t r = 0; r < oldest->second.members.size(); ++r) {
      const CommMember& member = comm.members[r];
      const SlotState state = oldest->second.members[r].state;
      if (!member.known || state == SlotState::kCalled || state == SlotState::kAborted) return;
      if (state == SlotState::kNone && member.next_sequence <= oldest->first + kKept) return;
    }
    Retire(comm, oldest);
  }
}

InitCall& Matcher::Init(CommUid uid, Call call, int parent, int nranks) {
  uid = Resolve(uid);
  auto [it, added] = inits_.try_emplace(uid);
  InitCall& init = it->second;
  if (added) {
    init.uid = uid;
    init.call = call;
    init.parent = parent;
  }
  // Callers that name one call and different parents contradict each other: the first one counts.
  if (init.parent >= 0) nranks = std::min(nranks, comms_[init.parent].nranks);
  if (nranks > 0 && nranks <= kMaxRanks && nranks > static_cast<int>(init.members.size())) {
    if (!HaveRoom(nranks)) {
      beyond_ = true;
      return init;
    }
    places_ += static_cast<size_t>(nranks) - init.members.size();
    init.members.resize(nranks);
  }
  return init;
}

InitCall* Matcher::FindInit(CommUid uid) {
  auto it = inits_.find(Resolve(uid));
  return it == inits_.end() ? nullptr : &it->second;
}

void Matcher::InitClaimed(InitCall* init, const InitClaim& claim) {
  if (init->any_returned) {
    std::erase_if(init->claims, [&](const InitClaim& earlier) {
      return earlier.returned && earlier.process == claim.process;
    });
  }
  const bool another_size = !init->claims.empty() && init->claims.front().nranks != claim.nranks;
  init->claims_clash |= another_size || init->members[claim.rank].called;
  init->claims.push_back(claim);
}

uint64_t Contradiction(const InitCall& init) {
  if (!init.claims_clash) return 0;
  std::set<int> ranks;
  uint64_t since = 0;
  bool one_waits = false;
  for (const InitClaim& claim : init.claims) {
    one_waits |= !claim.returned;
    const bool agrees =
        ranks.insert(claim.rank).second && claim.nranks == init.claims.front().nranks;
    if (!agrees && since == 0) since = claim.time_ns;
  }
  return one_waits ? since : 0;
}

void Matcher::InitFailed(CommUid uid, ProcessId process, CommId comm) {
  InitCall* const init = FindInit(uid);
  if (init == nullptr) return;
  for (InitClaim& claim : init->claims) {
    if (claim.process != process || claim.comm != comm) continue;
    claim.returned = init->any_returned = true;
  }
}

bool Matcher::InitBeginsAgain(CommUid uid, int rank, ProcessId process) {
  const InitCall* const init = FindInit(uid);
  if (init == nullptr || rank < 0 || rank >= static_cast<int>(init->members.size())) return false;
  if (!init->members[rank].done || init->members[rank].process != process) return false;
  EraseInit(Resolve(uid));
  return true;
}

void Matcher::InitDone(CommUid uid, int rank) {
  InitCall* init = FindInit(uid);
  if (init == nullptr || rank < 0 || rank >= static_cast<int>(init->members.size())) return;
  InitMember& member = init->members[rank];
  if (!member.called || member.done) return;
  member.done = true;
  if (++init->done == static_cast<int>(init->members.size())) EraseInit(Resolve(uid));
}

void Matcher::InitWithdraw(CommUid uid, int rank) {
  InitCall* init = FindInit(uid);
  if (init == nullptr || rank < 0 || rank >= static_cast<int>(init->members.size())) return;
  if (!init->members[rank].called) return;
  init->members[rank] = InitMember{};
  if (--init->called == 0) EraseInit(Resolve(uid));
}

size_t Matcher::Held() const {
  size_t held = inits_.size();
  for (const Communicator& comm : comms_) {
    held += comm.instances.size();
    for (const auto& [pair, channel] : comm.transfers) held += channel.size();
  }
  return held;
}

}  // namespace gordian::model
