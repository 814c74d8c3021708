// One rank of a corpus job: its operations as calls of NCCL and CUDA, one process and as many
// threads as the program says. Threads: Run() is called once; the threads that it makes share
// nothing but what the program orders by `post` and `wait`.
#ifndef GORDIAN_TESTS_CORPUS_EXECUTOR_RANK_H_
#define GORDIAN_TESTS_CORPUS_EXECUTOR_RANK_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/corpus/executor/program.h"

namespace corpus {

constexpr int kMaxComms = 64;
constexpr int kMaxFlags = 64;

// Of all ranks. Whoever waits sleeps in a futex without a timeout, so that the emulator can say
// when nothing can move.
struct Shared {
  std::atomic<uint32_t> ids_ready;
  ncclUniqueId ids[kMaxComms];
  std::atomic<uint32_t> meetings[kMaxFlags];  // how many ranks have come
};

constexpr int kMaxThreads = 15;
// What a rank has come to, as the harness reads it from RESULTS.calls.
struct Calls {
  std::atomic<uint32_t> pid;
  std::atomic<uint32_t> begun[kMaxThreads];  // operations, by thread of the program
  std::atomic<uint32_t> turns_given_up;
};

void SleepUntilAtLeast(std::atomic<uint32_t>* word, uint32_t value);
void AddAndWake(std::atomic<uint32_t>* word, uint32_t value);

class Rank {
 public:
  Rank(const Program& program, int rank, Shared* shared, Calls* calls);

  // To the end of its program, and of all work on its device. An error of a call ends the process
  // with code 8.
  void Run();
  // A line `label hash` for each operation with memory: of all that it could have written.
  // With `bytes_too`, PATH.RANK.bytes gets all of the rank's memory: the buffers of its operations,
  // in their order.
  void WriteResults(const char* path, bool bytes_too) const;

 private:
  struct Graph {
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t exec = nullptr;
  };

  void RunThread(size_t thread);
  void StartThread(size_t thread);
  void AwaitTurn(const Operation& op);
  bool RunHost(const Operation& op);          // waits, memory, sleep, threads
  bool RunStream(const Operation& op);        // events, kernels, graphs
  bool RunCommunicator(const Operation& op);  // init to destroy
  void Communicate(const Operation& op);      // collectives, sends, receives
  cudaStream_t Stream(const Operation& op) const;
  // The buffers of another operation. Ends the process when there is none with this label.
  char* Input(const std::string& label) const;
  char* Output(const std::string& label) const;
  int RankIn(const Operation& op, int comm) const;
  void Fill(const Operation& op, char* bytes) const;

  const Program& program_;
  const RankProgram& mine_;
  const int rank_;
  Shared* const shared_;
  Calls* const calls_;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  std::map<int, cudaStream_t> streams_;
  std::map<int, cudaEvent_t> events_;
  std::map<int, Graph> graphs_;  // all entries made before any thread runs
  std::map<int, void*> allocations_;
  ncclComm_t comms_[kMaxComms] = {};
  std::atomic<uint32_t> flags_[kMaxFlags] = {};
  std::map<size_t, std::thread> threads_;  // all entries made before any thread runs
  std::map<std::string, std::atomic<uint32_t>> returned_;  // of operations that others come after
};

}  // namespace corpus

#endif  // GORDIAN_TESTS_CORPUS_EXECUTOR_RANK_H_
