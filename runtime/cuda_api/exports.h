// Memory that the program allocated itself and registered, as other devices map it: the part of
// this device's range of addresses that stands for it, the devices that have it mapped, and when
// they may unmap it.
//
// Mapping waits for the other processes' servers of pieces, never for their programs. Threads of
// their own unmap it, here and in the other processes: unmapping may take as long as a running
// kernel, which may wait for the caller.
//
// Thread rule: any thread. Ownership: an Export keeps the memory, by a reference to its
// allocations, for as long as it is held; the program may free the memory before, which gives it
// back only then. Errors: grtResult_t. Times in milliseconds.
#ifndef GORDIAN_RUNTIME_CUDA_API_EXPORTS_H_
#define GORDIAN_RUNTIME_CUDA_API_EXPORTS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cuda/driver/allocations.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/driver/mapped_range.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime::cuda {

class Exports {
 public:
  // Who is to have it: a device of another process, by its server, or another one of this process.
  struct Peer {
    std::string server;
    int device;  // -1: of another process
  };
  class Export {
   public:
    uint64_t begin() const { return allocations_.front().begin; }
    uint64_t end() const { return allocations_.back().begin + allocations_.back().bytes; }
    // Of begin(), in this device's range as peers have it.
    uint64_t offset() const { return offset_; }
    const std::vector<Allocation>& allocations() const { return allocations_; }

   private:
    friend class Exports;
    std::vector<Allocation> allocations_;
    uint64_t offset_ = 0;
    std::mutex mapping_;             // what is below; held while peers are asked
    std::set<std::string> servers_;  // that have it
    std::set<std::string> asked_;    // that may have it, or a part
    std::set<int> devices_;
    bool mapped_here_ = false;
  };
  // Whether the operations that used the memory have ended. kNever: that can never be known.
  enum class Over { kNotYet, kYes, kNever };

  // `range` above kHeapRangeBytes is this class's, `server` this device's server of pieces; both
  // outlive it.
  // `enter` is called first on the thread that everything is given up by.
  Exports(const Driver* driver, int device, MappedRange* range, std::string server,
          std::function<void()> enter);
  ~Exports();
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  // When it returns grtSuccess all peers have [memory, memory + bytes) mapped. grtNotSupported:
  // memory of which that cannot be, or a peer that cannot, or does not answer in timeout_ms. Never
  // waits for a program.
  grtResult_t Make(const void* memory, uint64_t bytes, const std::vector<Peer>& peers,
                   int timeout_ms, std::shared_ptr<Export>* made);
  // Holds it until `over` says so, which is asked on another thread, again and again.
  void EndWhen(std::function<Over()> over, std::shared_ptr<Export> held);
  // Ends one holding of an Export.
  void Look();
  // Waits until all devices have given up the memory that is not held now. False: the time is over.
  bool AwaitSettled(int timeout_ms);
  size_t count();  // of those that are mapped somewhere

  bool IsStillThere(const Export& e, uint64_t begin, uint64_t end) const {
    return IsStillBehind(*driver_, e.allocations(), begin, end);
  }

 private:
  // False: there are no offsets for it.
  bool Find(const std::vector<Allocation>& allocations, std::shared_ptr<Export>* found,
            bool* is_new);
  grtResult_t Map(Export& e, const Peer& peer, int timeout_ms);
  // With mutex_ held.
  bool TakeOffsets(uint64_t bytes, uint64_t* offset);
  void GiveOffsets(uint64_t offset, uint64_t bytes);
  void Serve();
  void Withdraw(Export& e);

  const Driver* const driver_;
  const int device_;
  MappedRange* const range_;
  const std::string server_;
  const std::function<void()> enter_;
  uint64_t unit_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_, settled_;
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes
  std::vector<std::shared_ptr<Export>> exports_;
  struct Ending {
    std::function<Over()> over;
    std::shared_ptr<Export> held;
  };
  std::vector<Ending> endings_;
  std::vector<std::shared_ptr<Export>> never_;
  bool looks_ = false, busy_ = false, stops_ = false;
  std::thread thread_;  // from the first Export on
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_EXPORTS_H_
