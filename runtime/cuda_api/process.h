// What the communicators of this process share, on each device: the memory that others map, what of
// theirs is mapped here, lists, the resident worker, and a thread that learns of processes that
// end.
//
// A process may have several devices, and on each one member of a communicator; they use each
// other's memory where it is mapped. Nothing here asks which thread calls for which device.
//
// Thread rule: any thread. Made at the first use, never destroyed: its threads sleep until the
// process ends. Errors: grtResult_t.
#ifndef GORDIAN_RUNTIME_CUDA_API_PROCESS_H_
#define GORDIAN_RUNTIME_CUDA_API_PROCESS_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/cuda/driver/piece_heap.h"
#include "runtime/cuda/worker/worker.h"
#include "runtime/cuda_api/exports.h"
#include "runtime/cuda_api/meeting.h"
#include "runtime/cuda_api/piece_server.h"
#include "runtime/cuda_api/registrations.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {

class Process;

// A communicator as its handle, and the handles of its operations, know it.
struct CommState {
  std::string name;
  Process* process = nullptr;  // of its device
  uint32_t ranks = 0, rank = 0;
  grtConfig_t config;
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<CommState> of_port;  // of a port: its communicator, whose failures are its own
  uint64_t region_at = 0;
  std::unique_ptr<Registrations> registrations;
  std::atomic<uint32_t> children{0};
  std::atomic<uint64_t> operations{0};
  std::atomic<bool> has_entered{false};  // Process::Enter has succeeded

  std::mutex mutex;  // what is below
  bool aborted =
      false;  // before its operations were known to be over: its region is not used again
  std::unique_ptr<Communicator> communicator;  // once all members have come
  std::atomic<Communicator*> ready{nullptr};   // the same
  std::set<cudaStream_t> streams;              // that it was called on
  std::map<int, Detached> detached;  // the last of each sequence: those before it end earlier
  std::map<uint32_t, std::shared_ptr<CommState>> ports;  // by tag

  // How it has failed; grtSuccess: not.
  grtResult_t error() const;
  // All members', at their next look.
  void Abort();
  // The meeting that holds the word for failures.
  Meeting& verdict() const { return of_port != nullptr ? *of_port->meeting : *meeting; }
};

// The device of a communicator is current while it lives; captures of other threads neither hinder
// calls then nor are ended by them.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const RelaxedCapture relaxed_;
  decltype(&::cuCtxPopCurrent) pop_ = nullptr;  // null: it was current
};

// What this process has on one of its devices.
class Process {
 public:
  // For `device`, with `config` if it is the first use. grtNotSupported: the device cannot do what
  // is needed.
  static grtResult_t Of(int device, const grtConfig_t& config, Process** process);
  // That of the stream's device; of one of the default streams, of the current device. Null: it is
  // not in use.
  static Process* Of(cudaStream_t stream);
  // Those in use.
  static std::vector<Process*> All();

  int device() const { return device_; }
  Domain& domain() { return *domain_; }
  Exports& exports() { return *exports_; }
  const char* range() { return heap_->base(); }
  // The other members' devices, of a communicator that all have come to.
  static std::vector<Exports::Peer> PeersOf(const CommState& comm);

  // Takes memory for a communicator and comes to its meeting.
  grtResult_t Enter(const std::shared_ptr<CommState>& comm);
  // Maps what the other members have; waits for them. For the communicator's members on other
  // devices of this process too: no kernel of one of them waits for another then that could not be
  // launched yet.
  static grtResult_t Connect(const std::shared_ptr<CommState>& comm, int64_t deadline_ns);
  // After the end of its operations here.
  void Leave(const std::shared_ptr<CommState>& comm);

  // The stream will be destroyed: no communicator asks it any more.
  void Forget(cudaStream_t stream);

  // Memory that communicators made from now on write directly, of grtConfig_t::heap_bytes in all.
  grtResult_t Allocate(void** memory, size_t bytes);

 private:
  void WantUserBytes(uint64_t bytes);
  Process(int device, const grtConfig_t& config);
  grtResult_t Prepare();
  grtResult_t TakeRegion(uint64_t bytes, uint64_t* offset);
  grtResult_t ConnectOwn(const std::shared_ptr<CommState>& comm);
  // Where a member's memory is mapped here; `offsets` are pieces of it.
  grtResult_t Reach(const Attendee& member, const std::vector<uint64_t>& offsets, char** base);
  grtResult_t Map(const Attendee& peer, uint64_t offset, MappedRange** range);
  // Of that of the server's process; null: there can be none.
  MappedRange* RangeOf(const std::string& server);
  void Watch(const std::shared_ptr<CommState>& comm);
  void WatchLoop();
  template <typename Body>
  void ForEachWatched(Body body);

  const int device_;
  DomainConfig config_;
  std::unique_ptr<PieceHeap> heap_;
  // By server. Its lock is not held while another process is waited for: the server's thread takes
  // it.
  std::mutex peers_mutex_;
  std::map<std::string, std::unique_ptr<MappedRange>> peers_;
  std::unique_ptr<PieceServer> server_;
  std::unique_ptr<Exports> exports_;
  std::unique_ptr<Domain> domain_;
  cudaStream_t stream_ = nullptr;

  std::mutex mutex_;  // what is below
  uint32_t next_number_ = 0;
  uint64_t user_at_ = 0, user_bytes_ = 0;
  uint64_t user_wanted_ = 0;  // bytes of it, when it will be made; 0: as usual
  struct Region {
    uint64_t at, bytes;
  };
  std::vector<Region> regions_;  // of communicators that all members have left
  struct Leaving {
    Region region;
    std::shared_ptr<Meeting> meeting;
  };
  std::vector<Leaving> leaving_;
  // Pages that CUDA knows stay where they are: another one at such an address would not be known.
  std::vector<std::shared_ptr<Meeting>> pages_;

  std::mutex watch_mutex_;
  std::vector<std::weak_ptr<CommState>> watched_;
  int wake_ = -1;  // eventfd: there is another one to be watched
  std::thread watcher_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_PROCESS_H_
