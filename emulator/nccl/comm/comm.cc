#include "emulator/nccl/comm/comm.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "emulator/nccl/api/debug.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/kernel.h"

namespace gordian::emu::nccl {
namespace {

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<Comm>> live;
};

Table& GetTable() {
  static auto* table = new Table;
  return *table;
}

bool IsZero(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' && std::atoi(text) == 0;
}

bool InLaunchOrder() {
  static const bool in_order = [] {
    const char* text = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    return text != nullptr && std::atoi(text) != 0;
  }();
  return in_order;
}

// Text as the inside of a JSON string.
std::string Escaped(const std::string& text) {
  std::string escaped;
  for (char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return escaped;
}

// A communicator's name for all its members: a hash of its key.
std::string IdOf(const CommKey& key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint8_t byte : key) hash = (hash ^ byte) * 0x100000001b3;
  char text[20];
  std::snprintf(text, sizeof(text), "%016lx", hash);
  return text;
}

}  // namespace

namespace {

std::atomic<Engine*> g_engine{nullptr};  // once it was asked for

// Also runs at dlclose: the engine destroys operations, whose code is in this library, some time
// after they are done.
__attribute__((destructor)) void LeaveNothingToTheEngine() {
  if (Engine* const engine = g_engine.load()) engine->AwaitReleased();
}

}  // namespace

Engine& GetEngine() {
  static Engine* engine = [] {
    Engine* found = gordianEmuEngine(kEngineApiVersion);
    if (found == nullptr) {
      std::fprintf(stderr, "libnccl.so.2 (emulated): libcuda.so.1 is of another version\n");
      std::abort();
    }
    g_engine = found;
    return found;
  }();
  return *engine;
}

Comm::Comm(int device, const CommConfig& config)
    : device_(device),
      config_(config),
      connects_at_init_(IsZero("NCCL_RUNTIME_CONNECT") || IsZero("NCCL_CUMEM_ENABLE")) {}

std::shared_ptr<Comm> Comm::Create(int device, const CommConfig& config) {
  auto comm = std::make_shared<Comm>(device, config);
  Table& table = GetTable();
  std::unique_lock lock(table.mutex);
  table.live[comm.get()] = comm;
  return comm;
}

std::shared_ptr<Comm> Comm::Find(ncclComm_t handle) {
  Table& table = GetTable();
  std::shared_lock lock(table.mutex);
  auto it = table.live.find(handle);
  return it == table.live.end() ? nullptr : it->second;
}

void Comm::Forget() {
  {
    Table& table = GetTable();
    std::unique_lock lock(table.mutex);
    table.live.erase(this);
  }
  profiled_.Finish();
}

void Comm::SetIdentity(int rank_if_first) {
  static auto* mutex = new std::mutex;
  static auto* ranks = new std::map<int, int>;   // by device
  static auto* counts = new std::map<int, int>;  // communicators by rank
  std::lock_guard lock(*mutex);
  job_rank_ = ranks->try_emplace(device_, rank_if_first).first->second;
  job_ordinal_ = (*counts)[job_rank_]++;
}

ncclResult_t Comm::Init(const CommKey& key, int nranks, int rank) {
  key_ = key;
  nranks_ = nranks;
  rank_ = rank;
  sends_connected_ = std::vector<std::atomic<bool>>(nranks);
  receives_connected_ = std::vector<std::atomic<bool>>(nranks);
  ncclResult_t result = Segment::Join(
      key, nranks_, rank_, GetEngine().PhysicalDevice(device_), cancelled_,
      [this](std::shared_ptr<Segment> segment) {
        segment->SetLabel("\"comm\": \"" + IdOf(key_) + "\", \"name\": \"" + Escaped(config_.name) +
                          "\", \"rank\": " + std::to_string(rank_) +
                          ", \"ranks\": " + std::to_string(nranks_));
        std::lock_guard lock(segment_mutex_);
        segment_ = std::move(segment);
      });
  if (result != ncclSuccess) return result;
  device_state_.segment = segment_;
  device_state_.rank = rank_;
  device_state_.receives.resize(nranks_);
  device_state_.next_send.resize(nranks_);
  device_state_.next_receive.resize(nranks_);
  device_state_.send_crossed = std::vector<std::atomic<bool>>(nranks_);
  device_state_.receive_crossed = std::vector<std::atomic<bool>>(nranks_);
  collectives_connected_ = connects_at_init_ || nranks_ == 1;
  sends_connected_[rank_] = receives_connected_[rank_] = true;
  JoinProcess();
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a
  for (const uint8_t byte : key_) hash = (hash ^ byte) * 0x100000001b3ull;
  profiled_.Start(hash, config_.name, nranks_, rank_);
  if (WantsInfo(DebugSubsystem::kInit)) {
    Info(device_, "comm %p rank %d nranks %d cudaDev %d commId 0x%s commName %s - Init COMPLETE",
         static_cast<void*>(this), rank_, nranks_, device_, IdOf(key_).c_str(),
         config_.name.empty() ? "(none)" : config_.name.c_str());
  }
  return ncclSuccess;
}

ncclResult_t Comm::EnsureReady(bool management) const {
  if (revoked_ && !management) return Fail(ncclInvalidUsage, "the communicator has been revoked");
  ncclResult_t state = state_;
  if (state == ncclSuccess) return state;
  ncclResult_t result = state == ncclInProgress ? ncclInvalidArgument : state;
  return Fail(result,
              "Attempt to use communicator before the previous operation returned ncclSuccess");
}

namespace {

constexpr int kConnectBits = 4;
constexpr uint32_t kConnectMask = (1u << kConnectBits) - 1;

// The n-th thing that was set up; 0: nothing yet.
uint32_t Nth(uint32_t connects, int n) { return connects >> (n * kConnectBits) & kConnectMask; }
constexpr int kMostConnects = 2;

}  // namespace

void Comm::PublishWishes(const Connections& wanted) {
  bool news = false;
  if (wanted.collectives && !collectives_connected_) {
    news |= segment_->member(rank_).collectives_connected.exchange(1) == 0;
  }
  if (wanted.rma && !rma_connected_) {
    news |= segment_->member(rank_).rma_connected.exchange(1) == 0;
  }
  std::map<int, uint32_t> directions;
  for (int peer : wanted.send_to) {
    if (!sends_connected_[peer]) directions[peer] |= kConnectsSend;
  }
  for (int peer : wanted.receive_from) {
    if (!receives_connected_[peer]) directions[peer] |= kConnectsReceive;
  }
  for (auto [peer, direction] : directions) {
    std::atomic<uint32_t>& connects = segment_->pair(rank_, peer).connects;
    const uint32_t before = connects.load();
    for (int n = 0; n < kMostConnects; ++n) direction &= ~Nth(before, n);
    if (direction == 0) continue;
    connects.store(before | direction << (before == 0 ? 0 : kConnectBits));
    news = true;
  }
  if (news) segment_->NotifyHosts();
}

bool Comm::IsConnectedTo(int peer, uint32_t direction, bool* crossed) const {
  const uint32_t ours = segment_->pair(rank_, peer).connects.load();
  const uint32_t theirs = segment_->pair(peer, rank_).connects.load();
  const bool half_apart = 2 * std::abs(peer - rank_) == nranks_;
  const uint32_t answer = direction == kConnectsSend ? kConnectsReceive : kConnectsSend;
  *crossed = false;
  for (int n = 0; n < kMostConnects; ++n) {
    if (half_apart && Nth(ours, n) == Nth(theirs, n) && Nth(ours, n) != (direction | answer)) {
      if (Nth(ours, n) == direction) return *crossed = true;
      continue;
    }
    if ((Nth(theirs, n) & answer) != 0) return true;
  }
  return false;
}

bool Comm::IsConnected(const Connections& wanted) {
  if (wanted.collectives && !collectives_connected_) {
    for (int r = 0; r < nranks_; ++r) {
      if (segment_->member(r).collectives_connected.load() == 0) return false;
    }
  }
  if (wanted.rma && !rma_connected_) {
    for (int r = 0; r < nranks_; ++r) {
      if (segment_->member(r).rma_connected.load() == 0) return false;
    }
  }
  bool crossed = false;
  for (int peer : wanted.send_to) {
    if (!sends_connected_[peer] && !IsConnectedTo(peer, kConnectsSend, &crossed)) return false;
  }
  for (int peer : wanted.receive_from) {
    if (!receives_connected_[peer] && !IsConnectedTo(peer, kConnectsReceive, &crossed))
      return false;
  }
  return true;
}

ncclResult_t Comm::WaitConnected(const Connections& wanted) {
  bool cold = (wanted.collectives && !collectives_connected_) || (wanted.rma && !rma_connected_);
  for (int peer : wanted.send_to) cold |= !sends_connected_[peer];
  for (int peer : wanted.receive_from) cold |= !receives_connected_[peer];
  if (!cold) return ncclSuccess;
  bool crossed = false;
  auto missing = [&] {
    std::vector<bool> lacks(nranks_);
    bool is_crossed = false;
    for (int r = 0; r < nranks_ && wanted.collectives && !collectives_connected_; ++r) {
      lacks[r] = segment_->member(r).collectives_connected.load() == 0;
    }
    for (int r = 0; r < nranks_ && wanted.rma && !rma_connected_; ++r) {
      if (segment_->member(r).rma_connected.load() == 0) lacks[r] = true;
    }
    for (int peer : wanted.send_to) {
      if (!sends_connected_[peer] && !IsConnectedTo(peer, kConnectsSend, &is_crossed)) {
        lacks[peer] = true;
      }
    }
    for (int peer : wanted.receive_from) {
      if (!receives_connected_[peer] && !IsConnectedTo(peer, kConnectsReceive, &is_crossed)) {
        lacks[peer] = true;
      }
    }
    std::vector<int> list;
    for (int r = 0; r < nranks_; ++r) {
      if (lacks[r]) list.push_back(r);
    }
    return list;
  };
  auto ready = [&] { return IsConnected(wanted); };
  if (!segment_->WaitHosts("connect", ready, cancelled_, missing))
    return Fail(ncclInternalError, "aborted while connecting to the other ranks");
  if (wanted.collectives) collectives_connected_ = true;
  if (wanted.rma) rma_connected_ = true;
  for (int peer : wanted.send_to) {
    if (sends_connected_[peer].exchange(true)) continue;
    IsConnectedTo(peer, kConnectsSend, &crossed);
    device_state_.send_crossed[peer] = crossed;
  }
  for (int peer : wanted.receive_from) {
    if (receives_connected_[peer].exchange(true)) continue;
    IsConnectedTo(peer, kConnectsReceive, &crossed);
    device_state_.receive_crossed[peer] = crossed;
  }
  return ncclSuccess;
}

ncclResult_t Comm::Launch(const std::vector<Operation>& operations) {
  std::vector<Stream*> streams;
  uint64_t bytes = 0;
  bool captured = false, uncaptured = false;
  uint64_t capture = 0;
  for (const Operation& op : operations) {
    bytes += op.bytes();
    if (std::find(streams.begin(), streams.end(), op.stream) != streams.end()) continue;
    streams.push_back(op.stream);
    uint64_t id = 0;
    if (GetEngine().FindCapture(op.stream, &id) != 0) {
      return Fail(ncclUnhandledCudaError, "a stream cannot be used while it is being captured");
    }
    const bool other_graph = captured && id != 0 && id != capture;
    (id != 0 ? captured : uncaptured) = true;
    if (other_graph || (captured && uncaptured)) {
      return Fail(ncclInvalidUsage,
                  "Streams given to a communicator within a NCCL group must either be all "
                  "uncaptured or all captured by the same graph.");
    }
    if (id != 0) capture = id;
  }
  // One channel for each 128 KiB, up to the 24 that NCCL uses on NVLink.
  const int channels = static_cast<int>(std::clamp<uint64_t>(bytes >> 17, 1, 24));
  const int sms = std::clamp(channels, config_.min_ctas, config_.max_ctas);
  if (captured) {
    CaptureRequest request;
    request.streams = std::move(streams);
    request.source = std::make_shared<CapturedKernel>(shared_from_this(), operations);
    request.sms = sms;
    const int status = GetEngine().Capture(std::move(request));
    if (status == 0) return ncclSuccess;
    return Fail(ncclUnhandledCudaError, "the operation cannot be captured: CUDA error %d", status);
  }
  CountOperations(operations);
  EnqueueRequest request;
  request.streams = std::move(streams);
  request.op = std::make_shared<Kernel>(shared_from_this(), operations);
  request.sms = sms;
  EnqueueNext(std::move(request));
  return ncclSuccess;
}

void Comm::EnqueueNext(EnqueueRequest request) {
  request.in_launch_order = InLaunchOrder();
  std::lock_guard lock(chain_.mutex);
  last_ = request.op;
  request.after = std::exchange(chain_.last, request.op);
  GetEngine().Enqueue(std::move(request));
}

std::shared_ptr<DeviceOp> Comm::ExchangeLast(std::shared_ptr<DeviceOp> op) {
  std::lock_guard lock(chain_.mutex);
  last_ = op;
  return std::exchange(chain_.last, std::move(op));
}

void Comm::ReleaseForGraph() {
  if (graph_references_.fetch_sub(1) == 1 && segment_ != nullptr) segment_->NotifyHosts();
}

void Comm::CountOperations(const std::vector<Operation>& operations) {
  for (const Operation& operation : operations) {
    std::string line = "comm:" + IdOf(key_) + ":" + std::to_string(rank_) + ":";
    line += NameOf(operation.kind);
    GetEngine().CountMore(line + ".operations", 1);
    GetEngine().CountMore(line + ".bytes", operation.bytes());
  }
}

ncclResult_t Comm::AwaitWindow(void* buffer, uint64_t bytes, uint64_t* ordinal) {
  {
    std::lock_guard lock(windows_mutex_);
    std::atomic<uint64_t>& windows = segment_->member(rank_).windows;
    *ordinal = windows.load();
    if (Window* const window = segment_->window(rank_, *ordinal)) {
      *window = {reinterpret_cast<uintptr_t>(buffer), bytes, 0, 0, -1};
      if (GetEngine().FindShared(buffer, bytes, &window->fd, &window->offset))
        window->inode = InodeOf(window->fd);
    }
    windows.store(*ordinal + 1);
  }
  const uint64_t wanted = *ordinal + 1;
  segment_->NotifyHosts();
  auto there = [&](int r) { return segment_->member(r).windows.load() >= wanted; };
  if (segment_->WaitMembers("window", there, cancelled_)) return ncclSuccess;
  return Fail(ncclInternalError, "aborted while registering a window");
}

ncclResult_t Comm::ExchangeSplit(uint64_t ordinal, int color, int key, std::vector<int>* members) {
  SplitEntry& mine = segment_->member(rank_).split[ordinal % 2];
  mine.color = color;
  mine.key = key;
  mine.ordinal.store(ordinal + 1);
  segment_->NotifyHosts();
  auto there = [&](int r) {
    return segment_->member(r).split[ordinal % 2].ordinal.load() >= ordinal + 1;
  };
  if (!segment_->WaitMembers("split", there, aborted_))
    return Fail(ncclInternalError, "aborted while splitting");
  members->clear();
  for (int r = 0; r < nranks_; ++r) {
    if (segment_->member(r).split[ordinal % 2].color == color) members->push_back(r);
  }
  std::stable_sort(members->begin(), members->end(), [&](int a, int b) {
    return segment_->member(a).split[ordinal % 2].key < segment_->member(b).split[ordinal % 2].key;
  });
  return ncclSuccess;
}

ncclRedOp_t Comm::AddReduction(const UserReduction& reduction) {
  std::lock_guard lock(reductions_mutex_);
  auto it = std::find_if(reductions_.begin(), reductions_.end(),
                         [](const UserReduction& r) { return !r.live; });
  if (it == reductions_.end()) it = reductions_.emplace(reductions_.end());
  *it = reduction;
  it->live = true;
  return static_cast<ncclRedOp_t>(ncclNumOps + (it - reductions_.begin()));
}

ncclResult_t Comm::FindReduction(ncclRedOp_t op, UserReduction* reduction) {
  std::lock_guard lock(reductions_mutex_);
  int64_t index = static_cast<int64_t>(op) - ncclNumOps;
  if (index < 0 || index >= static_cast<int64_t>(reductions_.size()) || !reductions_[index].live) {
    return Fail(ncclInvalidArgument, "%d is no reduction operator of this communicator",
                static_cast<int>(op));
  }
  *reduction = reductions_[index];
  return ncclSuccess;
}

ncclResult_t Comm::RemoveReduction(ncclRedOp_t op) {
  UserReduction found;
  ncclResult_t result = FindReduction(op, &found);
  if (result != ncclSuccess) return result;
  std::lock_guard lock(reductions_mutex_);
  reductions_[op - ncclNumOps].live = false;
  return ncclSuccess;
}

CommKey ChildKey(const CommKey& parent, bool shrink, uint64_t ordinal, int color) {
  uint64_t words[4] = {0xcbf29ce484222325, 0x9e3779b97f4a7c15, ordinal,
                       static_cast<uint64_t>(static_cast<uint32_t>(color)) << 1 | (shrink ? 1 : 0)};
  for (uint8_t byte : parent) {
    words[0] = (words[0] ^ byte) * 0x100000001b3;
    words[1] = (words[1] ^ byte) * 0x100000001b3;
    words[1] ^= words[1] >> 31;
  }
  CommKey key = {};
  std::memcpy(key.data(), "child", 5);
  std::memcpy(key.data() + 8, words, sizeof(words));
  return key;
}

CommKey GrowKey(const CommKey& parent, uint64_t ordinal) {
  CommKey key = ChildKey(parent, /*shrink=*/false, ordinal, 0);
  std::memcpy(key.data(), "grown", 5);
  return key;
}

CommKey RandomKey() {
  CommKey key = {};
  std::memcpy(key.data(), "gordemu", 7);
  size_t filled = 8;
  while (filled < 32) {
    ssize_t n = getrandom(key.data() + filled, 32 - filled, 0);
    if (n > 0) filled += static_cast<size_t>(n);
  }
  return key;
}

}  // namespace gordian::emu::nccl
