#include "tests/corpus/executor/rank.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/corpus/executor/communicate.h"

// The way nvcc's generated code registers a kernel; the emulator knows this one's name and takes
// the time.
extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name,
                            int limit, void* tid, void* bid, void* block, void* grid, int* warp);
}

namespace corpus {
namespace {

void BusyKernel(uint64_t) {}

void RegisterKernel() {
  static const struct {
    int magic, version;
    const void* data;
    void* file;
  } image = {0x466243b1, 1, nullptr, nullptr};
  void** handle = __cudaRegisterFatBinary(const_cast<void*>(static_cast<const void*>(&image)));
  static char name[] = "gordian_busy_us";
  __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&BusyKernel), name, name, -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(handle);
}

void SleepMilliseconds(long ms) {
  timespec t{ms / 1000, (ms % 1000) * 1000000};
  while (nanosleep(&t, &t) != 0) {
  }
}

[[noreturn]] void Failed(int rank, const Operation& op, const char* why) {
  std::fprintf(stderr, "corpus: rank %d: %s (line %d, %s): %s\n", rank, op.label.c_str(), op.line,
               op.kind.c_str(), why);
  std::_Exit(8);
}

uint64_t Hash(const char* bytes, size_t count) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < count; ++i)
    hash = (hash ^ static_cast<unsigned char>(bytes[i])) * 0x100000001b3;
  return hash;
}

template <typename T>
void FillAs(char* bytes, size_t room, uint64_t start) {
  for (size_t i = 0; i < room / sizeof(T); ++i) {
    const T value = static_cast<T>((start + 3 * i) % 13 + 1);  // sums of 16 of them fit in a byte
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void SleepUntilAtLeast(std::atomic<uint32_t>* word, uint32_t value) {
  for (uint32_t seen = word->load(); seen < value; seen = word->load()) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

namespace {

// A private futex, as a mutex or a condition variable of the process waits on: gordian takes another
// one for a wait that another process may end.
void SleepInThread(std::atomic<uint32_t>* word, uint32_t value) {
  for (uint32_t seen = word->load(); seen < value; seen = word->load()) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, seen, nullptr,
            nullptr, 0);
  }
}

void AddAndWakeThread(std::atomic<uint32_t>* word, uint32_t value) {
  word->fetch_add(value);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

timespec In(long ms) {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += (ms % 1000) * 1000000;
  if (t.tv_nsec >= 1000000000) {
    ++t.tv_sec;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

}  // namespace

void AddAndWake(std::atomic<uint32_t>* word, uint32_t value) {
  word->fetch_add(value);
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

#define CUDA(call)                                                            \
  do {                                                                        \
    const cudaError_t error_ = (call);                                        \
    if (error_ != cudaSuccess) Failed(rank_, op, cudaGetErrorString(error_)); \
  } while (0)
#define NCCL(call)                                                            \
  do {                                                                        \
    const ncclResult_t error_ = (call);                                       \
    if (error_ != ncclSuccess) Failed(rank_, op, ncclGetErrorString(error_)); \
  } while (0)

Rank::Rank(const Program& program, int rank, Shared* shared, Calls* calls)
    : program_(program),
      mine_(program.ranks[static_cast<size_t>(rank)]),
      rank_(rank),
      shared_(shared),
      calls_(calls) {
  calls->pid.store(static_cast<uint32_t>(getpid()));
  const Operation op{.label = "start", .kind = "start", .values = {}};
  CUDA(cudaSetDevice(rank));
  RegisterKernel();
  if (rank == 0) {
    for (size_t i = 0; i < program.comms.size(); ++i) NCCL(ncclGetUniqueId(&shared->ids[i]));
    AddAndWake(&shared->ids_ready, 1);
  }
  SleepUntilAtLeast(&shared->ids_ready, 1);
  for (const std::vector<Operation>& operations : mine_.threads) {
    for (const Operation& each : operations) {
      bytes_ = std::max(bytes_, each.offset + 2 * each.room);
      if (each.Has("stream") && each.Text("stream") != "legacy")
        streams_[static_cast<int>(each.Number("stream"))];
      if (each.Has("event")) events_[static_cast<int>(each.Number("event"))];
      if (each.Has("graph")) graphs_[static_cast<int>(each.Number("graph"))];
      if (each.Has("block")) allocations_[static_cast<int>(each.Number("block"))];
      if (each.Has("after")) returned_[each.Text("after")];
      if (each.kind == "start") threads_[static_cast<size_t>(each.Number("thread"))];
    }
  }
  for (auto& [number, stream] : streams_) {
    const bool blocking = mine_.blocking_streams.count(number) != 0;
    CUDA(cudaStreamCreateWithFlags(&stream, blocking ? cudaStreamDefault : cudaStreamNonBlocking));
  }
  for (auto& [number, event] : events_)
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  if (bytes_ == 0) return;
  std::vector<char> inputs(bytes_);
  for (const std::vector<Operation>& operations : mine_.threads) {
    for (const Operation& each : operations) {
      if (each.room == 0) continue;
      Fill(each, inputs.data() + each.offset);
      // Both of its buffers: which of them an operation in place uses follows from its kind.
      if (each.Has("in_place")) Fill(each, inputs.data() + each.offset + each.room);
    }
  }
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes_));
  CUDA(cudaMemcpy(memory, inputs.data(), bytes_, cudaMemcpyHostToDevice));
  memory_ = static_cast<char*>(memory);
}

void Rank::Fill(const Operation& op, char* bytes) const {
  const std::string type = op.Has("type") ? op.Text("type") : "f32";
  const std::string what = op.Has("data") ? op.Text("data") : op.label;
  const uint64_t start = Hash(what.data(), what.size()) % 1000 + 7 * static_cast<uint64_t>(rank_);
  if (type == "f32") return FillAs<float>(bytes, op.room, start);
  if (type == "f64") return FillAs<double>(bytes, op.room, start);
  if (type == "i32") return FillAs<int32_t>(bytes, op.room, start);
  if (type == "i64") return FillAs<int64_t>(bytes, op.room, start);
  if (type == "u8") return FillAs<uint8_t>(bytes, op.room, start);
  Failed(rank_, op, "no such type");
}

void Rank::Run() {
  for (const auto& [number, thread] : threads_) {
    if (number == 0 || number >= mine_.threads.size()) Fail("no thread to start");
  }
  std::vector<size_t> begun;  // the others are started by an operation
  for (size_t i = 1; i < mine_.threads.size(); ++i) {
    if (threads_.count(i) == 0) begun.push_back(i);
  }
  for (const size_t i : begun) threads_[i];
  for (const size_t i : begun) StartThread(i);
  if (!mine_.threads.empty()) RunThread(0);
  for (auto& [number, thread] : threads_) {
    if (thread.joinable()) thread.join();
  }
  const Operation op{.label = "end", .kind = "end", .values = {}};
  CUDA(cudaDeviceSynchronize());
}

void Rank::WriteResults(const char* path, bool bytes_too) const {
  const Operation op{.label = "results", .kind = "results", .values = {}};
  std::vector<char> bytes(bytes_);
  if (bytes_ != 0) CUDA(cudaMemcpy(bytes.data(), memory_, bytes_, cudaMemcpyDeviceToHost));
  const std::string name = std::string(path) + "." + std::to_string(rank_);
  if (bytes_too) {
    FILE* file = std::fopen((name + ".bytes").c_str(), "we");
    if (file == nullptr || std::fwrite(bytes.data(), 1, bytes_, file) != bytes_ ||
        std::fclose(file) != 0) {
      Failed(rank_, op, name.c_str());
    }
  }
  FILE* file = std::fopen(name.c_str(), "we");
  if (file == nullptr) Failed(rank_, op, name.c_str());
  for (const std::vector<Operation>& operations : mine_.threads) {
    for (const Operation& each : operations) {
      if (each.room == 0) continue;
      const uint64_t hash = Hash(bytes.data() + each.offset + each.room, each.room);
      // What another type makes of the same bytes is another result.
      std::fprintf(file, "%s %s:%016lx\n", each.label.c_str(), each.Text("type").c_str(), hash);
    }
  }
  if (std::fclose(file) != 0) Failed(rank_, op, name.c_str());
}

cudaStream_t Rank::Stream(const Operation& op) const {
  return op.Text("stream") == "legacy" ? nullptr
                                       : streams_.at(static_cast<int>(op.Number("stream")));
}

char* Rank::Input(const std::string& label) const {
  for (const std::vector<Operation>& operations : mine_.threads) {
    for (const Operation& each : operations) {
      if (each.label == label && each.room != 0) return memory_ + each.offset;
    }
  }
  Fail("no memory of " + label);
}

char* Rank::Output(const std::string& label) const {
  for (const std::vector<Operation>& operations : mine_.threads) {
    for (const Operation& each : operations) {
      if (each.label == label && each.room != 0) return memory_ + each.offset + each.room;
    }
  }
  Fail("no memory of " + label);
}

int Rank::RankIn(const Operation& op, int comm) const {
  const std::vector<int>& members = program_.comms.at(static_cast<size_t>(comm)).members;
  const auto found = std::find(members.begin(), members.end(), rank_);
  if (found == members.end()) Failed(rank_, op, "not a member");
  return static_cast<int>(found - members.begin());
}

void Rank::StartThread(size_t thread) {
  threads_.at(thread) = std::thread([this, thread] {
    if (cudaSetDevice(rank_) != cudaSuccess) Fail("cudaSetDevice in a thread");
    RunThread(thread);
  });
}

void Rank::RunThread(size_t thread) {
  for (const Operation& op : mine_.threads[thread]) {
    if (op.Has("after")) AwaitTurn(op);
    calls_->begun[thread].fetch_add(1);
    if (!RunHost(op) && !RunStream(op) && !RunCommunicator(op)) Communicate(op);
    if (const auto named = returned_.find(op.label); named != returned_.end())
      AddAndWakeThread(&named->second, 1);
  }
}

// A turn that the program itself forbids never comes.
void Rank::AwaitTurn(const Operation& op) {
  std::atomic<uint32_t>* const word = &returned_.at(op.Text("after"));
  const timespec deadline = In(op.Number("patience"));
  while (word->load() == 0) {
    if (syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_BITSET_PRIVATE, 0,
                &deadline, nullptr, FUTEX_BITSET_MATCH_ANY) != 0 &&
        errno == ETIMEDOUT) {
      calls_->turns_given_up.fetch_add(1);
      return;
    }
  }
}

bool Rank::RunHost(const Operation& op) {
  if (op.kind == "stream_sync") {
    CUDA(cudaStreamSynchronize(Stream(op)));
  } else if (op.kind == "event_sync") {
    CUDA(cudaEventSynchronize(events_.at(static_cast<int>(op.Number("event")))));
  } else if (op.kind == "device_sync") {
    CUDA(cudaDeviceSynchronize());
  } else if (op.kind == "malloc") {
    CUDA(cudaMalloc(&allocations_.at(static_cast<int>(op.Number("block"))),
                    static_cast<size_t>(op.Number("bytes"))));
  } else if (op.kind == "free") {
    void*& block = allocations_.at(static_cast<int>(op.Number("block")));
    CUDA(cudaFree(block));
    block = nullptr;
  } else if (op.kind == "read") {  // to pageable memory: waits for its stream
    std::vector<char> bytes(64);
    CUDA(cudaMemcpyAsync(bytes.data(), memory_, std::min(bytes.size(), bytes_),
                         cudaMemcpyDeviceToHost, Stream(op)));
    CUDA(cudaStreamSynchronize(Stream(op)));
  } else if (op.kind == "read_legacy") {
    std::vector<char> bytes(64);
    CUDA(cudaMemcpy(bytes.data(), memory_, std::min(bytes.size(), bytes_), cudaMemcpyDeviceToHost));
  } else if (op.kind == "sleep") {
    SleepMilliseconds(op.Number("ms"));
  } else if (op.kind == "meet") {  // all `count` of the job's ranks, as at a barrier of a store
    std::atomic<uint32_t>* const word = &shared_->meetings[op.Number("meeting")];
    AddAndWake(word, 1);
    SleepUntilAtLeast(word, static_cast<uint32_t>(op.Number("count")));
  } else if (op.kind == "post") {
    AddAndWakeThread(&flags_[op.Number("flag")], 1);
  } else if (op.kind == "wait") {
    SleepInThread(&flags_[op.Number("flag")], static_cast<uint32_t>(op.Number("count", 1)));
  } else if (op.kind == "poll") {
    while (flags_[op.Number("flag")].load() < static_cast<uint32_t>(op.Number("count", 1)))
      SleepMilliseconds(op.Number("ms"));
  } else if (op.kind == "start") {
    StartThread(static_cast<size_t>(op.Number("thread")));
  } else if (op.kind == "join") {
    threads_.at(static_cast<size_t>(op.Number("thread"))).join();
  } else if (op.kind == "exit") {
    std::exit(static_cast<int>(op.Number("code")));  // with handlers: NCCL tells the others
  } else {
    return false;
  }
  return true;
}

bool Rank::RunStream(const Operation& op) {
  if (op.kind == "event_record") {
    CUDA(cudaEventRecord(events_.at(static_cast<int>(op.Number("event"))), Stream(op)));
  } else if (op.kind == "stream_wait") {
    CUDA(cudaStreamWaitEvent(Stream(op), events_.at(static_cast<int>(op.Number("event"))), 0));
  } else if (op.kind == "kernel") {
    uint64_t us = static_cast<uint64_t>(op.Number("us"));
    void* arguments[] = {&us};
    CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(&BusyKernel), dim3(1), dim3(32), arguments,
                          0, Stream(op)));
  } else if (op.kind == "host") {
    CUDA(cudaLaunchHostFunc(
        Stream(op),
        [](void* us) { usleep(static_cast<unsigned>(reinterpret_cast<uintptr_t>(us))); },
        reinterpret_cast<void*>(static_cast<uintptr_t>(op.Number("us")))));
  } else if (op.kind == "copy") {
    if (static_cast<size_t>(op.Number("bytes")) > op.room)
      Fail(op.label + ": more bytes than there is room for");
    CUDA(cudaMemcpyAsync(memory_ + op.offset + op.room, Output(op.Text("input")),
                         static_cast<size_t>(op.Number("bytes")), cudaMemcpyDeviceToDevice,
                         Stream(op)));
  } else if (op.kind == "capture_begin") {
    CUDA(cudaStreamBeginCapture(Stream(op), cudaStreamCaptureModeThreadLocal));
  } else if (op.kind == "capture_end") {
    Graph& graph = graphs_.at(static_cast<int>(op.Number("graph")));
    CUDA(cudaStreamEndCapture(Stream(op), &graph.captured));
    CUDA(cudaGraphInstantiate(&graph.exec, graph.captured, 0));
  } else if (op.kind == "graph_launch") {
    CUDA(cudaGraphLaunch(graphs_.at(static_cast<int>(op.Number("graph"))).exec, Stream(op)));
  } else {
    return false;
  }
  return true;
}

bool Rank::RunCommunicator(const Operation& op) {
  if (op.kind == "group_start") {
    NCCL(ncclGroupStart());
    return true;
  }
  if (op.kind == "group_end") {
    NCCL(ncclGroupEnd());
    return true;
  }
  const int comm = static_cast<int>(op.Number("comm", -1));
  if (op.kind == "init") {
    const Communicator& made = program_.comms.at(static_cast<size_t>(comm));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = made.name.c_str();
    NCCL(ncclCommInitRankConfig(&comms_[comm], static_cast<int>(made.members.size()),
                                shared_->ids[comm], RankIn(op, comm), &config));
  } else if (op.kind == "split") {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (comm >= 0) config.commName = program_.comms.at(static_cast<size_t>(comm)).name.c_str();
    ncclComm_t none = nullptr;
    const int color =
        op.Text("color") == "none" ? NCCL_SPLIT_NOCOLOR : static_cast<int>(op.Number("color"));
    NCCL(ncclCommSplit(comms_[op.Number("parent")], color, static_cast<int>(op.Number("key")),
                       comm >= 0 ? &comms_[comm] : &none, &config));
  } else if (op.kind == "finalize") {
    NCCL(ncclCommFinalize(comms_[comm]));
  } else if (op.kind == "destroy") {
    NCCL(ncclCommDestroy(comms_[comm]));
    comms_[comm] = nullptr;
  } else if (op.kind == "abort") {
    NCCL(ncclCommAbort(comms_[comm]));
    comms_[comm] = nullptr;
  } else {
    return false;
  }
  return true;
}

void Rank::Communicate(const Operation& op) {
  const std::vector<int>& members =
      program_.comms.at(static_cast<size_t>(op.Number("comm"))).members;
  // More than the room would be memory of others: a mistake of the generator, not of the job.
  const size_t most =
      static_cast<size_t>(op.Number("count")) * members.size() * ElementSize(op.Text("type"));
  const bool wide = op.kind == "all_gather" || op.kind == "reduce_scatter" ||
                    op.kind == "all_to_all" || op.kind == "gather" || op.kind == "scatter";
  if ((wide ? most : most / members.size()) > op.room)
    Fail(op.label + ": count is more than there is room for");
  Transfer transfer;
  char* input = op.Has("input") ? Output(op.Text("input")) : memory_ + op.offset;
  char* output = memory_ + op.offset + op.room;
  if (op.Has("output")) output = Output(op.Text("output"));
  if (op.Has("over_input")) output = Input(op.Text("over_input"));
  if (op.Has("in_place")) {
    input = output;
    const size_t part = static_cast<size_t>(op.Number("count")) * ElementSize(op.Text("type"));
    const size_t own = part * static_cast<size_t>(RankIn(op, static_cast<int>(op.Number("comm"))));
    if (op.kind == "all_gather") input += own;
    if (op.kind == "reduce_scatter") output += own;
  }
  transfer.input = input;
  transfer.output = output;
  transfer.comm = comms_[op.Number("comm")];
  transfer.stream = Stream(op);
  NCCL(CallFromItsSite(op, transfer));
}

}  // namespace corpus
