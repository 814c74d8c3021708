#include "runtime/cpu/doorbell.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <mutex>
#include <new>

#include "runtime/cpu/futex.h"

namespace gordian::runtime {
namespace {

constexpr size_t kPage = 4096;

// The bells of this process by descriptor, so that ranks of one process share the mapping.
struct Bells {
  std::mutex mutex;
  std::map<int, std::weak_ptr<Doorbell>> own;
};
Bells& TheBells() {
  static Bells* bells = new Bells;
  return *bells;
}

}  // namespace

Doorbell::~Doorbell() {
  if (mapped_) {
    munmap(page_, kPage);
  } else {
    delete page_;
  }
  if (fd_ >= 0) close(fd_);
}

std::shared_ptr<Doorbell> Doorbell::Make() {
  const int fd = memfd_create("gordian-runtime-bell", MFD_CLOEXEC);
  void* page = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, kPage) == 0) {
    page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (page == MAP_FAILED) {
    if (fd >= 0) close(fd);
    return std::shared_ptr<Doorbell>(new Doorbell(new DoorbellPage{}, -1, false));
  }
  std::shared_ptr<Doorbell> made(new Doorbell(new (page) DoorbellPage{}, fd, true));
  Bells& bells = TheBells();
  const std::lock_guard<std::mutex> lock(bells.mutex);
  bells.own[fd] = made;
  return made;
}

std::shared_ptr<Doorbell> Doorbell::Open(pid_t pid, int fd) {
  if (fd < 0) return nullptr;
  if (pid == getpid()) {
    Bells& bells = TheBells();
    const std::lock_guard<std::mutex> lock(bells.mutex);
    const auto at = bells.own.find(fd);
    return at == bells.own.end() ? nullptr : at->second.lock();
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(pid), fd);
  const int theirs = open(path, O_RDWR | O_CLOEXEC);
  if (theirs < 0) return nullptr;
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, theirs, 0);
  close(theirs);
  if (page == MAP_FAILED) return nullptr;
  return std::shared_ptr<Doorbell>(new Doorbell(static_cast<DoorbellPage*>(page), -1, true));
}

void Doorbell::Sleep(uint32_t value, int64_t deadline_ns) {
  FutexWait(&page_->bell, value, deadline_ns);
}

void Doorbell::Ring() {
  // Not a fence: ThreadSanitizer does not know those.
  // litmus: bell.look
  if (page_->sleepers.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  // litmus: bell.ring
  page_->bell.fetch_add(1, std::memory_order_release);
  FutexWakeAll(&page_->bell);
}

}  // namespace gordian::runtime
