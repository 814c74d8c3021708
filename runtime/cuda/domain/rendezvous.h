// How the processes of a job find each other on one host, with nothing but a name: rank 0 listens
// on an abstract unix socket, the others connect. Messages go through rank 0, in rounds that all
// take part in; file descriptors travel with them.
//
// The connections stay open: if one closes without a farewell, its process has died, and all others
// are told (Watch).
//
// Thread rule: rounds are called by one thread at a time, by all ranks in the same order. Watch's
// callback runs on a thread of the rendezvous. Errors: every call takes a deadline and returns a
// Status; after one that failed the rendezvous is of no more use. Times in milliseconds.
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
  // Returns when all ranks are there. `name` is the job's, up to 90 characters.
  static Status Join(const std::string& name, int rank, int ranks, int timeout_ms,
                     std::unique_ptr<Rendezvous>* joined);
  ~Rendezvous();  // says farewell
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Everybody's bytes, by rank. All give equally many, at most 64 KiB.
  Status AllGather(const std::string& own, int timeout_ms, std::vector<std::string>* all);
  // Everybody's descriptor, by rank; those of others are the caller's to close. The own one is -1
  // there.
  Status AllGatherDescriptor(int own, int timeout_ms, std::vector<int>* all);
  Status Barrier(int timeout_ms);

  // From now on `dead` is called, at most once, on a thread of its own: with the rank of a process
  // that is gone, or -1 when a rank has called Alarm. Watching ends when rank 0 leaves with a
  // farewell. Once in the life of a rendezvous; its destructor ends it.
  Status Watch(std::function<void(int)> dead);
  // Tells all other ranks that watch. Any thread; never blocks.
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
  // For rounds, and for news. Rank 0: a socket for each rank; others: one, at index 0. -1: none.
  std::vector<int> rounds_, news_;
  int wake_ = -1;  // eventfd that ends the watch
  std::function<void(int)> dead_;
  std::thread watcher_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_RENDEZVOUS_H_
