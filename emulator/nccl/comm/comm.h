// A communicator of one member. The application's ncclComm_t is the address of a Comm that is in
// the table of live ones; any other value is refused, never dereferenced.
//
// Threads: any host thread; `device_state` belongs to the engine's worker.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_COMM_H_
#define GORDIAN_EMULATOR_NCCL_COMM_COMM_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/api/config.h"
#include "emulator/nccl/api/nccl_header.h"
#include "emulator/nccl/api/profiler.h"
#include "emulator/nccl/comm/registrations.h"
#include "emulator/nccl/comm/segment.h"
#include "emulator/nccl/operation/operation.h"
#include "emulator/nccl/operation/rma.h"
#include "emulator/nccl/operation/transfer.h"

namespace gordian::emu::nccl {

Engine& GetEngine();

struct UserReduction {
  bool live = false;
  ncclDataType_t datatype = ncclInt8;
  uint64_t scalar = 0;
  const void* scalar_address = nullptr;
};

// The connections that one member needs before its operations can be launched. Two ranks connect by
// exchanging one message each. NCCL cannot tell apart the messages of ranks that are half the ranks
// apart: when both want to send (or both to receive), each takes the other's message for the answer
// to its own. Both calls return, and the connection is crossed: no data comes through.
struct Connections {
  bool collectives = false;
  bool rma = false;
  std::vector<int> send_to;
  std::vector<int> receive_from;
};

// A communicator runs one operation at a time, in the order of this member's calls.
struct LaunchChain {
  std::mutex mutex;
  std::shared_ptr<DeviceOp> last;
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  // Adds it to the table. Unusable before Init has succeeded.
  static std::shared_ptr<Comm> Create(int device, const CommConfig& config);
  // Returns null if `handle` is no live communicator.
  static std::shared_ptr<Comm> Find(ncclComm_t handle);
  // Removes it from the table; operations in flight keep it alive.
  void Forget();
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }

  // Blocks until all members have joined. Call it once.
  ncclResult_t Init(const CommKey& key, int nranks, int rank);

  int nranks() const { return nranks_; }
  int rank() const { return rank_; }
  int device() const { return device_; }
  bool blocking() const { return config_.blocking; }
  const CommConfig& config() const { return config_; }

  // For schedules: the rank in the first communicator of this process's device, and the index (from
  // 0) of this communicator among that rank's.
  void SetIdentity(int rank_if_first);
  int job_rank() const { return job_rank_; }
  int job_ordinal() const { return job_ordinal_; }
  // Counts a submitted operation of this communicator; from 1.
  uint64_t CountSubmitted() const { return submitted_.fetch_add(1) + 1; }

  const CommKey& key() const { return key_; }
  Segment& segment() { return *segment_; }
  DeviceState& device_state() { return device_state_; }

  // ncclSuccess, ncclInProgress or an error, for ncclCommGetAsyncError.
  ncclResult_t state() const { return state_.load(); }
  void SetState(ncclResult_t state) { state_.store(state); }
  // ncclSuccess if operations may be called; a revoked communicator allows management calls only.
  ncclResult_t EnsureReady(bool management = false) const;

  // True if WaitConnected would not sleep.
  bool IsConnected(const Connections& wanted);
  // First use. The caller must publish all wishes of a group before it waits for any.
  void PublishWishes(const Connections& wanted);
  ncclResult_t WaitConnected(const Connections& wanted);

  // Launches the operations as one kernel on all their streams, in call order; if the streams are
  // capturing, adds that kernel to their graph.
  ncclResult_t Launch(const std::vector<Operation>& operations);
  // Launches RMA operations, each as a kernel of its own, in call order.
  ncclResult_t LaunchRma(const std::vector<RmaOperation>& operations);
  // Makes `op` the next launch and returns the previous one, after which it comes.
  std::shared_ptr<DeviceOp> ExchangeLast(std::shared_ptr<DeviceOp> op);
  // Counts launched operations for the statistics.
  void CountOperations(const std::vector<Operation>& operations);
  // Graphs that hold a kernel of this communicator.
  void RetainForGraph() { graph_references_.fetch_add(1); }
  void ReleaseForGraph();
  // Blocks until everything launched here is done and no graph holds an operation.
  void WaitLaunched();

  ProfiledComm& profiled() { return profiled_; }

  Registrations& registrations() { return registrations_; }
  // Registers a window: waits until all members have made as many registrations. This is the
  // `*ordinal`-th, from 0.
  ncclResult_t AwaitWindow(void* buffer, uint64_t bytes, uint64_t* ordinal);

  // The end, in comm_end.cc. Finalize waits for this member's work. Destroy does nothing until its
  // call for the last member in this process; then it waits for their work, and until the members
  // in all other processes have ended.
  ncclResult_t Finalize();
  ncclResult_t Destroy();
  bool MarkFinalizeCalled() { return !finalize_called_.exchange(true); }

  // Ends this member's operations, and host threads that connect; Abort also ends those that wait
  // for other members in any other call. Neither notifies the other members.
  void Revoke();
  void Abort();
  bool cancelled() const { return cancelled_.load(); }

  // One ncclCommSplit of all members. Blocks. Returns the members of the caller's colour in their
  // new order.
  ncclResult_t ExchangeSplit(uint64_t ordinal, int color, int key, std::vector<int>* members);
  uint64_t NextSplit() { return splits_.fetch_add(1); }
  uint64_t NextShrink() { return shrinks_.fetch_add(1); }
  uint64_t NextGrow() { return grows_.fetch_add(1); }
  uint64_t grown() const { return grows_.load(); }

  ncclRedOp_t AddReduction(const UserReduction& reduction);
  // Returns ncclInvalidArgument unless `op` was made here.
  ncclResult_t FindReduction(ncclRedOp_t op, UserReduction* reduction);
  ncclResult_t RemoveReduction(ncclRedOp_t op);

  // Use Create.
  Comm(int device, const CommConfig& config);

 private:
  // Enqueues the communicator's next launch, which starts when the one before it is done.
  void EnqueueNext(EnqueueRequest request);
  void Cancel();
  void JoinProcess();
  bool IsConnectedTo(int peer, uint32_t direction, bool* crossed) const;

  const int device_;
  const CommConfig config_;
  int job_rank_ = 0;
  int job_ordinal_ = 0;
  mutable std::atomic<uint64_t> submitted_{0};
  Registrations registrations_;
  ProfiledComm profiled_;
  int nranks_ = 0;
  int rank_ = 0;
  CommKey key_ = {};
  std::atomic<ncclResult_t> state_{ncclInProgress};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> revoked_{false};
  std::atomic<bool> finalize_called_{false};
  std::atomic<uint64_t> splits_{0};
  std::atomic<uint64_t> shrinks_{0};
  std::atomic<uint64_t> grows_{0};
  // NCCL_RUNTIME_CONNECT=0 or NCCL_CUMEM_ENABLE=0 connects collectives at init. A peer always
  // connects at the first send or receive.
  const bool connects_at_init_;
  std::atomic<bool> collectives_connected_{false};
  std::atomic<bool> rma_connected_{false};
  std::vector<std::atomic<bool>> sends_connected_;
  std::vector<std::atomic<bool>> receives_connected_;

  std::mutex segment_mutex_;  // guards the pointer while Init runs, for Cancel
  std::shared_ptr<Segment> segment_;
  DeviceState device_state_;

  std::atomic<uint64_t> graph_references_{0};
  // Its mutex guards the members below: becoming the last launch and enqueuing must be one step.
  LaunchChain chain_;
  std::shared_ptr<DeviceOp> last_;

  std::mutex windows_mutex_;

  std::mutex reductions_mutex_;
  std::vector<UserReduction> reductions_;
};

// The key of the communicator from the `ordinal`-th split or shrink of `parent`.
CommKey ChildKey(const CommKey& parent, bool shrink, uint64_t ordinal, int color);
// The key of the communicator into which `parent` grows for the ordinal-th time.
CommKey GrowKey(const CommKey& parent, uint64_t ordinal);
CommKey RandomKey();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_COMM_H_
