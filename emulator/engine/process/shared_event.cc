#include "emulator/engine/process/shared_event.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emulator/engine/process/futex.h"

namespace gordian::emu {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr uint64_t kMagic = 0x746e'6576'6575'6d65;

void* MapPage(int fd) {
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return page == MAP_FAILED ? nullptr : page;
}

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::Create() {
  const int fd = memfd_create("gordian-emu-event", MFD_CLOEXEC);
  void* const page = fd >= 0 && ftruncate(fd, kPageBytes) == 0 ? MapPage(fd) : nullptr;
  if (page == nullptr) {
    if (fd >= 0) close(fd);
    return nullptr;
  }
  static_cast<Page*>(page)->magic = kMagic;
  return std::shared_ptr<SharedEvent>(new SharedEvent(fd, static_cast<Page*>(page)));
}

std::shared_ptr<SharedEvent> SharedEvent::Map(int fd) {
  struct stat info {};
  void* const page = fstat(fd, &info) == 0 && info.st_size == kPageBytes ? MapPage(fd) : nullptr;
  if (page != nullptr && static_cast<Page*>(page)->magic == kMagic) {
    return std::shared_ptr<SharedEvent>(new SharedEvent(fd, static_cast<Page*>(page)));
  }
  if (page != nullptr) munmap(page, kPageBytes);
  close(fd);
  return nullptr;
}

SharedEvent::~SharedEvent() {
  munmap(page_, kPageBytes);
  close(fd_);
}

void SharedEvent::Finish(uint64_t sequence) {
  uint64_t done = page_->done.load();
  while (done < sequence && !page_->done.compare_exchange_weak(done, sequence)) {
  }
  page_->bell.fetch_add(1);
  FutexWakeAll(&page_->bell);
}

void SharedEvent::Await(uint64_t sequence) const {
  for (;;) {
    const uint32_t bell = page_->bell.load();
    if (IsDone(sequence)) return;
    FutexWait(&page_->bell, bell, INT64_MAX);
  }
}

}  // namespace gordian::emu
