#include "runtime/cpu/across/courier.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "common/service_thread.h"
#include "runtime/cpu/comm.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {
namespace {

constexpr int64_t kDefaultDeadlineNs = 10'000'000'000;
// What exit() waits for others at most: to take over from this process, and to say that they know
// of a failure.
constexpr auto kLinger = std::chrono::seconds(5);
constexpr auto kLingerFailed = std::chrono::milliseconds(500);
// Rounds without anything to do before it sleeps. In between it yields the processor.
constexpr int kPatientRounds = 4;
// Rounds with something to do after which late news is sent all the same: others wait for it.
constexpr int kLateRounds = 32;
// Rounds that a helper does at its end at most; the thread goes on.
constexpr int kLastRounds = 8;
// Hellos of communicators that this process does not have: one each of the ranks of those that are
// being made.
constexpr size_t kMostEarly = 1 << 16;

// GRT_NET_DEADLINE_MS.
int64_t DeadlineNs() {
  const char* given = std::getenv("GRT_NET_DEADLINE_MS");
  const long long ms = given != nullptr ? std::atoll(given) : 0;
  return ms > 0 ? ms * 1'000'000 : kDefaultDeadlineNs;
}

struct OfProcess {
  pid_t pid = getpid();
  std::mutex mutex;
  Courier* courier = nullptr;
};

}  // namespace

Courier::Courier() = default;

Courier* Courier::Get(std::string* error) {
  // Never destroyed. A forked child has no threads but its own.
  static std::atomic<OfProcess*> all{nullptr};
  OfProcess* own = all.load(std::memory_order_acquire);
  if (own == nullptr || own->pid != getpid()) {
    auto* fresh = new OfProcess;
    if (all.compare_exchange_strong(own, fresh)) {
      own = fresh;
    } else {
      delete fresh;
    }
  }
  const std::lock_guard<std::mutex> lock(own->mutex);
  if (own->courier == nullptr) {
    std::unique_ptr<Courier> made(new Courier);
    if (!made->Open(error)) return nullptr;
    own->courier = made.release();
    MakeServiceThread("gordian-courier", [courier = own->courier] { courier->Main(); }).detach();
    static std::once_flag once;
    std::call_once(once, [] {
      std::atexit([] {
        const OfProcess* at_end = all.load(std::memory_order_acquire);
        if (at_end->pid == getpid() && at_end->courier != nullptr) at_end->courier->Linger();
      });
    });
  }
  return own->courier;
}

bool Courier::Open(std::string* error) {
  transport_ = net::OpenUcx(this, error);
  if (transport_ == nullptr) return false;
  address_ = transport_->address();
  deadline_ns_ = DeadlineNs();
  bell_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (bell_ < 0 || getrandom(&process_, sizeof process_, 0) != sizeof process_) {
    *error = std::string("a courier cannot be made: ") + std::strerror(errno);
    return false;
  }
  return true;
}

// A helper that is not through yet finds what was queued before.
void Courier::Wake() {
  if (helpers_.load(std::memory_order_seq_cst) == 0) Ring();
}

void Courier::Ring() {
  if (asleep_.exchange(0, std::memory_order_seq_cst) == 0) return;
  const uint64_t one = 1;
  // It fails only when the bell has rung 2^64 - 2 times: then it is readable as well.
  if (write(bell_, &one, sizeof one) != sizeof one) return;
}

void Courier::Post(std::function<void()> fn) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(fn));
  }
  Wake();
}

void Courier::Queue(const std::shared_ptr<Comm>& comm, const std::shared_ptr<Outbox>& box) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    touched_.push_back({comm, box});
  }
  Wake();
}

void Courier::Add(const std::shared_ptr<Comm>& comm, const net::Meeting* meeting,
                  const net::Member& member, std::vector<net::Place> places) {
  const bool meets = meeting != nullptr;
  Post([this, comm, meets, at = meets ? *meeting : net::Meeting(), member,
        places = std::move(places)] {
    Entry& entry = comms_[{comm->bridge()->key(), comm->rank()}];
    entry.comm = comm;
    if (meets) {
      entry.registration = std::make_unique<net::Registration>(at, member, NowNs(), deadline_ns_);
    } else {
      comm->bridge()->SetPlaces(places);
    }
  });
}

bool Courier::Connect(const net::Place& place, uint32_t* peer, std::string* error) {
  const auto known = peers_by_process_.find(place.process);
  if (known != peers_by_process_.end()) {
    *peer = known->second;
    if (!peers_[*peer].lost) return true;
    *error = peers_[*peer].why;
    return false;
  }
  if (!transport_->Connect(place.address, peer, error)) return false;
  peers_by_process_[place.process] = *peer;
  peers_.resize(std::max<size_t>(peers_.size(), *peer + 1));
  peers_[*peer].process = place.process;
  peers_[*peer].heard_ns = NowNs();
  return true;
}

void Courier::Send(uint32_t peer, const Wire& wire, const void* data, size_t bytes,
                   std::shared_ptr<const void> keeper) {
  transport_->Send(peer, {&wire, sizeof wire, data, bytes, std::move(keeper)});
}

void Courier::Ask(uint32_t peer) {
  Peer& p = peers_[peer];
  if (p.lost) return;
  const int64_t now = NowNs();
  if (p.asked_ns != 0) {
    if (now - p.asked_ns < deadline_ns_) return;
    transport_->Cut(peer);
    OnLost(peer, "no answer for " + std::to_string(deadline_ns_ / 1'000'000) + " ms");
    return;
  }
  if (now - p.heard_ns < deadline_ns_ / 8) return;
  p.asked_ns = now;
  Wire wire;
  wire.type = WireType::kPing;
  wire.number = process_;
  Send(peer, wire, nullptr, 0, nullptr);
}

std::map<uint32_t, uint64_t> Courier::TakeEarlyHellos(uint64_t comm, uint32_t rank) {
  const auto at = early_hellos_.find({comm, rank});
  if (at == early_hellos_.end()) return {};
  std::map<uint32_t, uint64_t> ranks = std::move(at->second);
  early_hellos_.erase(at);
  return ranks;
}

void Courier::OnMessage(const void* header, size_t header_bytes, const void* data,
                        size_t data_bytes) {
  Wire wire;
  if (header_bytes != sizeof wire) return;
  std::memcpy(&wire, header, sizeof wire);
  if (wire.magic != kWireMagic || wire.version != net::kWireVersion) return;
  if (wire.type == WireType::kPing || wire.type == WireType::kPong) {
    const auto from = peers_by_process_.find(wire.number);
    if (from == peers_by_process_.end()) return;
    Peer& peer = peers_[from->second];
    peer.heard_ns = NowNs();
    peer.asked_ns = 0;
    if (wire.type == WireType::kPong) return;
    Wire answer;
    answer.type = WireType::kPong;
    answer.number = process_;
    Send(from->second, answer, nullptr, 0, nullptr);
    return;
  }
  const auto at = comms_.find({wire.comm, wire.to});
  // Who sends more than a hello has had ours. Of a communicator that is over, nothing matters.
  if (at == comms_.end() || !at->second.comm->bridge()->HasPlaces()) {
    if (wire.type == WireType::kHello && early_hellos_.size() < kMostEarly) {
      early_hellos_[{wire.comm, wire.to}][wire.from] = wire.number;
    }
    return;
  }
  const std::shared_ptr<Comm> comm = at->second.comm;
  const int peer = comm->bridge()->PeerOf(wire.from);
  if (peer < 0) return;
  peers_[static_cast<size_t>(peer)].heard_ns = NowNs();
  peers_[static_cast<size_t>(peer)].asked_ns = 0;
  comm->bridge()->OnMessage(wire, data, data_bytes);
}

void Courier::OnLost(uint32_t peer, const std::string& why) {
  if (peers_[peer].lost) return;
  peers_[peer].lost = true;
  peers_[peer].why = why;
  for (auto& [unused, entry] : comms_) entry.comm->bridge()->OnLost(peer, why);
}

bool Courier::RunPosted() {
  std::vector<std::function<void()>> posted;
  std::vector<Touched> touched;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    posted.swap(posted_);
    touched.swap(touched_);
  }
  for (const std::function<void()>& fn : posted) fn();
  for (Touched& each : touched) {
    each.slots = each.comm->bridge()->Update(each.box.get(), each.box->TakeTouched(), true);
    if (each.slots != 0) late_.push_back(std::move(each));
  }
  return !posted.empty() || !touched.empty();
}

bool Courier::SendLate() {
  for (const Touched& each : late_) {
    each.comm->bridge()->Update(each.box.get(), each.slots, false);
  }
  const bool any = !late_.empty();
  late_.clear();
  return any;
}

bool Courier::Register() {
  bool any = false;
  for (auto& [unused, entry] : comms_) {
    if (entry.registration == nullptr) continue;
    using State = net::Registration::State;
    const State state = entry.registration->Step(NowNs());
    if (state == State::kUnderWay) continue;
    any = true;
    const std::unique_ptr<net::Registration> ended = std::move(entry.registration);
    if (state == State::kDone) {
      entry.comm->bridge()->SetPlaces(ended->places());
    } else {
      entry.comm->Fail(state == State::kRefused    ? grtInvalidUsage
                       : state == State::kDeserted ? grtPeerDead
                                                   : grtSystemError,
                       ended->why());
      entry.comm->Forsake();
    }
  }
  std::erase_if(comms_, [](const auto& each) {
    return each.second.registration == nullptr && each.second.comm->bridge()->IsOver();
  });
  if (ends_ && comms_.empty() && transport_->IsFlushed()) End();
  return any;
}

void Courier::End() {
  ends_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  over_.notify_all();
}

bool Courier::Round() {
  const bool posted = RunPosted();
  const bool moved = transport_->Progress();
  const bool any = Register() || posted || moved;
  if (any && ++busy_rounds_ < kLateRounds) return true;
  busy_rounds_ = 0;
  return SendLate() || any;
}

bool Courier::Help() {
  const std::unique_lock<std::mutex> lock(work_, std::try_to_lock);
  return lock.owns_lock() && Round();
}

void Courier::EndHelp() {
  const bool last = helpers_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  // What was queued until now is sent here, or by who is at work at this moment and may have looked
  // before: then the thread looks once more. It also takes the transport back.
  for (int i = 0; i < kLastRounds && Help(); ++i) {
  }
  if (last) Ring();
}

void Courier::Main() {
  for (int idle = 0;;) {
    bool any = false;
    {
      const std::lock_guard<std::mutex> lock(work_);
      any = Round();
    }
    if (any) {
      idle = 0;
    } else if (++idle < kPatientRounds) {
      sched_yield();
    } else {
      Sleep();
      idle = 0;
    }
  }
}

void Courier::Sleep() {
  asleep_.store(1, std::memory_order_seq_cst);
  bool work = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work = !posted_.empty() || !touched_.empty();
  }
  std::vector<pollfd> polled = {{bell_, POLLIN, 0}};
  int64_t wake_ns = kForever;
  // Helpers do all of its work, and the last one to go rings.
  if (helpers_.load(std::memory_order_seq_cst) == 0) {
    const std::lock_guard<std::mutex> lock(work_);
    work = work || !transport_->Arm();
    polled.push_back({transport_->wait_fd(), POLLIN, 0});
    for (const auto& [unused, entry] : comms_) {
      if (entry.registration == nullptr || entry.registration->fd() < 0) continue;
      polled.push_back({entry.registration->fd(), entry.registration->events(), 0});
      wake_ns = std::min(wake_ns, entry.registration->deadline_ns());
    }
  } else {
    work = false;
  }
  if (!work) {
    int timeout_ms = -1;
    if (wake_ns != kForever) {
      timeout_ms =
          static_cast<int>(std::clamp<int64_t>((wake_ns - NowNs()) / 1'000'000 + 1, 0, 60'000));
    }
    poll(polled.data(), polled.size(), timeout_ms);
  }
  asleep_.store(0, std::memory_order_seq_cst);
  uint64_t rings = 0;
  if (read(bell_, &rings, sizeof rings) != sizeof rings) return;  // no one has rung
}

void Courier::Linger() {
  Post([this] {
    for (auto& [unused, entry] : comms_) {
      const std::shared_ptr<Comm> comm = entry.comm;
      if (comm->engine()->UnfinishedOf(*comm).empty()) comm->bridge()->Leave();
    }
    // Those with unfinished operations are cut off, which fails them at the others.
    std::erase_if(comms_, [](const auto& each) {
      return !each.second.comm->engine()->UnfinishedOf(*each.second.comm).empty();
    });
    ends_ = true;
  });
  std::unique_lock<std::mutex> lock(mutex_);
  if (over_.wait_for(lock, kLingerFailed, [this] { return ended_; })) return;
  lock.unlock();
  Post([this] {
    std::erase_if(comms_, [](const auto& each) { return each.second.comm->error() != grtSuccess; });
    // A peer that does not answer may not take what is left to send either.
    if (comms_.empty()) End();
  });
  lock.lock();
  over_.wait_for(lock, kLinger, [this] { return ended_; });
}

}  // namespace gordian::runtime
