// Connects the processes of a job on one node, which know only a common name: rank 0 listens on an
// abstract unix socket, the others connect. All ranks exchange bytes and file descriptors in
// rounds, through rank 0.
//
// The connections stay open. If one closes without a farewell, its process has died; rank 0 passes
// that on to all other ranks, which see the end of rank 0 themselves (Watch).
//
// Thread rule: one thread at a time calls rounds; all ranks call the same rounds in the same order.
// Watch's callback runs on a thread of the rendezvous. Ownership: the object owns its sockets.
// Errors: rounds take a timeout in milliseconds and return a Status; after one has failed, the
// caller makes no more of them.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_RENDEZVOUS_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"

namespace gordian::runtime::cuda {

class Rendezvous {
 public:
  // Returns when all ranks have joined. `name` is the job's, up to 90 characters.
  static Status Join(const std::string& name, int rank, int ranks, int timeout_ms,
                     std::unique_ptr<Rendezvous>* joined);
  ~Rendezvous();  // says farewell
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Gives every rank the bytes of all ranks, by rank. All pass equally many, at most 64 KiB.
  Status AllGather(const std::string& own, int timeout_ms, std::vector<std::string>* all);
  // Gives every rank the descriptors of all others, by rank; -1 at its own place. The caller closes
  // them.
  Status AllGatherDescriptor(int own, int timeout_ms, std::vector<int>* all);
  Status Barrier(int timeout_ms);

  // Starts a thread that calls `dead` at most once: with the rank of a process that has died, or -1
  // when a rank has called Alarm. It stops watching when rank 0 leaves with a farewell. May be
  // called once; the destructor ends the thread.
  Status Watch(std::function<void(int)> dead);
  // Makes all other ranks that watch call `dead`. Any thread; never blocks.
  void Alarm();

 private:
  Rendezvous(int rank, int ranks);
  Status Listen(const std::string& name, int64_t deadline);
  Status Connect(const std::string& name, int64_t deadline);
  void WatchLoop();
  enum class News { kLeft, kOver };
  News Hear(int from);
  void Tell(int except, char what, int who);

  const int rank_;
  const int ranks_;
  // Sockets for rounds, and for news of deaths. Rank 0 has one for each rank, others have one, at
  // index 0. -1: none.
  std::vector<int> rounds_, news_;
  int wake_ = -1;  // eventfd that ends the watch
  std::function<void(int)> dead_;
  std::thread watcher_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_RENDEZVOUS_H_
