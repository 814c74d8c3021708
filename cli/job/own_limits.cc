#include "cli/job/own_limits.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <array>
#include <optional>
#include <semaphore>
#include <string>

namespace gordian::cli {
namespace {

// Measured with one arena and these stacks: 15 threads and 45 MiB of address space, mostly code
// that is mapped by then. The rest is for the job's graph.
constexpr size_t kStackBytes = 1 << 20;
constexpr size_t kRoomBytes = 192ul << 20;
constexpr size_t kThreads = 24;

std::optional<rlim_t> AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

void* WaitForEnd(void* semaphore) {
  static_cast<std::counting_semaphore<>*>(semaphore)->acquire();
  return nullptr;
}

// Returns 0, or the error of the first thread that did not start.
int TryThreads() {
  std::counting_semaphore<> end(0);
  std::array<pthread_t, kThreads> threads;
  size_t started = 0;
  int error = 0;
  while (started < threads.size() && error == 0) {
    error = pthread_create(&threads[started], nullptr, WaitForEnd, &end);
    if (error == 0) ++started;
  }
  end.release(static_cast<ptrdiff_t>(started));
  for (size_t i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  return error;
}

}  // namespace

void SpareAddressSpace() {
  if (!AddressSpaceLimit()) return;
  mallopt(M_ARENA_MAX, 1);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kStackBytes) == 0) {
    (void)pthread_setattr_default_np(&attributes);  // or the usual, larger ones stay
  }
  pthread_attr_destroy(&attributes);
}

Status RoomToObserve() {
  if (const int error = TryThreads(); error != 0) {
    return Status::Unavailable(
        "cannot watch the job, which takes " + std::to_string(kThreads) + " threads (" +
        strerror(error) + "; raise ulimit -u, ulimit -v or the container's limit of processes)");
  }
  const std::optional<rlim_t> limit = AddressSpaceLimit();
  if (!limit) return Status::Ok();
  void* const room =
      mmap(nullptr, kRoomBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    return Status::Unavailable("cannot watch the job within " + std::to_string(*limit >> 20) +
                               " MiB of address space (raise ulimit -v by " +
                               std::to_string(kRoomBytes >> 20) + " MiB)");
  }
  munmap(room, kRoomBytes);
  return Status::Ok();
}

}  // namespace gordian::cli
