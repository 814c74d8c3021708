// A thread that gives other processes of the same user the descriptors of this process's memory,
// and takes the descriptors of memory that they registered, over an abstract unix socket. It sleeps
// otherwise. It waits for no other server, so servers may ask each other's in any order.
//
// Thread rule: any thread. Ownership: the handlers are called on the server's thread until the
// destructor has returned; descriptors stay the finder's, and those that are given the giver's.
// Errors: Status; times in milliseconds.
#ifndef GORDIAN_RUNTIME_CUDA_API_PIECE_SERVER_H_
#define GORDIAN_RUNTIME_CUDA_API_PIECE_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/status.h"

namespace gordian::runtime::cuda {

class PieceServer {
 public:
  // The descriptor of the piece at `offset`, and its bytes; -1: there is none.
  using Finder = std::function<int(uint64_t offset, uint64_t* bytes)>;
  // Memory of the process that `owner` is a server of, for the same offset here: take it, or leave
  // it, never to be used again. False: it was not done.
  using Taker = std::function<bool(const std::string& owner, uint64_t offset, uint64_t bytes,
                                   int descriptor)>;
  using Leaver = std::function<bool(const std::string& owner, uint64_t offset)>;
  struct Handlers {
    std::function<void()> enter;  // first, on the server's thread; may be left out
    Finder find;
    Taker take;
    Leaver leave;
  };
  static Status Start(Handlers handlers, std::unique_ptr<PieceServer>* server);
  ~PieceServer();
  PieceServer(const PieceServer&) = delete;
  PieceServer& operator=(const PieceServer&) = delete;

  // Where it listens; up to 63 characters.
  const std::string& name() const { return name_; }

  // Asks the server of that name, in whatever process. The descriptor is the caller's to close.
  static Status Fetch(const std::string& name, uint64_t offset, int timeout_ms, uint64_t* bytes,
                      int* descriptor);
  // Has the server of that name take or leave memory of `owner`, a server of this process. Requests
  // of one thread are served in their order, also those that were not waited for to the end
  // (kDeadline).
  static Status Give(const std::string& name, const std::string& owner, uint64_t offset,
                     uint64_t bytes, int descriptor, int timeout_ms);
  static Status TakeBack(const std::string& name, const std::string& owner, uint64_t offset,
                         int timeout_ms);

 private:
  explicit PieceServer(Handlers handlers) : handlers_(std::move(handlers)) {}
  void Serve();
  void Answer(int connection);

  const Handlers handlers_;
  std::string name_;
  int listener_ = -1;
  int wake_ = -1;  // eventfd that ends the thread
  std::thread thread_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_PIECE_SERVER_H_
