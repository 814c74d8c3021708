// Hands out the descriptors of this process's memory to other processes of the same user, over an abstract
// unix socket, by a thread that sleeps otherwise.
//
// Thread rule: any thread. Ownership: `find` is called on the server's thread until the destructor has
// returned; descriptors stay the finder's.
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
  static Status Start(Finder find, std::unique_ptr<PieceServer>* server);
  ~PieceServer();
  PieceServer(const PieceServer&) = delete;
  PieceServer& operator=(const PieceServer&) = delete;

  // Where it listens; up to 63 characters.
  const std::string& name() const { return name_; }

  // Asks the server of that name, in whatever process. The descriptor is the caller's to close.
  static Status Fetch(const std::string& name, uint64_t offset, int timeout_ms, uint64_t* bytes, int* descriptor);

 private:
  explicit PieceServer(Finder find) : find_(std::move(find)) {}
  void Serve();
  void Answer(int connection);

  const Finder find_;
  std::string name_;
  int listener_ = -1;
  int wake_ = -1;  // eventfd that ends the thread
  std::thread thread_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_API_PIECE_SERVER_H_
