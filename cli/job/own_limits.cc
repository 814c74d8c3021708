#include "cli/job/own_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <semaphore>
#include <string>

namespace gordian::cli {
namespace {

// Measured with these stacks: 16 threads, and at most 260 MiB of address space in all, of which
// code and libraries take 60 that are mapped by then. The rest is for the job's graph.
constexpr size_t kStackBytes = 1 << 20;
constexpr size_t kRoomBytes = 224ul << 20;
constexpr size_t kThreads = 24;
constexpr size_t kDescriptors = 20;  // of a job of two processes, beside those that are open
constexpr size_t kOwnStackBytes = 8 << 20;

std::optional<rlim_t> AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Returns 0, or the error of the first descriptor that there was no room for.
int TryDescriptors() {
  std::array<int, kDescriptors> open;
  size_t opened = 0;
  int error = 0;
  while (opened < open.size() && error == 0) {
    open[opened] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    error = open[opened] < 0 ? errno : 0;
    if (error == 0) ++opened;
  }
  for (size_t i = 0; i < opened; ++i) close(open[i]);
  return error;
}

struct Context {
  const std::function<int()>* body;
  int result = 0;
  ucontext_t here, there;
};
Context* g_context;  // makecontext passes on nothing but ints

void EnterContext() { g_context->result = (*g_context->body)(); }

void SetThreadStacks() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kStackBytes) == 0) {
    (void)pthread_setattr_default_np(&attributes);  // or the usual ones stay
  }
  pthread_attr_destroy(&attributes);
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

int WithEnoughStack(const std::function<int()>& body) {
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytes) return body();
  void* const stack = mmap(nullptr, kOwnStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return body();
  SetThreadStacks();
  static Context context;
  g_context = &context;
  context.body = &body;
  if (getcontext(&context.there) != 0) return body();
  context.there.uc_stack.ss_sp = stack;
  context.there.uc_stack.ss_size = kOwnStackBytes;
  context.there.uc_link = &context.here;
  makecontext(&context.there, EnterContext, 0);
  if (swapcontext(&context.here, &context.there) != 0) return body();
  return context.result;
}

void SpareAddressSpace() {
  if (!AddressSpaceLimit()) return;
  SetThreadStacks();
}

Status RoomToObserve() {
  if (const int error = TryThreads(); error != 0) {
    return Status::Unavailable(
        "cannot watch the job, which takes " + std::to_string(kThreads) + " threads (" +
        strerror(error) + "; raise ulimit -u, ulimit -v or the container's limit of processes)");
  }
  if (const int error = TryDescriptors(); error != 0) {
    return Status::Unavailable("cannot watch the job, which takes " + std::to_string(kDescriptors) +
                               " descriptors and more (" + strerror(error) + "; raise ulimit -n)");
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
