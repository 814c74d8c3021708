#include "runtime/cpu/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

namespace gordian::runtime {
namespace {

// Never destroyed: threads of the library outlive main.
struct Names {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<SharedMemory>> open;
};
Names& TheNames() {
  static Names* names = new Names;
  return *names;
}

// 0 or an errno.
int Allocate(int fd, size_t offset, size_t bytes) {
  int error = 0;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

// Opens the file of that name, or makes it. -1 and errno: EPERM if it is none that this user made
// for this: another file that bears the name as a second one stays as it is.
int OpenShared(const std::string& name) {
  const int fd = shm_open(("/" + name).c_str(), O_RDWR | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0600);
  if (fd < 0) return -1;
  struct stat info {};
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && (!S_ISREG(info.st_mode) || info.st_nlink > 1 || info.st_uid != geteuid())) {
    error = EPERM;
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

SharedMemory::~SharedMemory() {
  munmap(base_, bytes_);
  CloseDescriptor();
}

std::shared_ptr<SharedMemory> SharedMemory::Open(const std::string& name, size_t bytes) {
  Names& names = TheNames();
  const std::lock_guard<std::mutex> lock(names.mutex);
  std::weak_ptr<SharedMemory>& known = names.open[name];
  if (std::shared_ptr<SharedMemory> open = known.lock()) {
    if (open->bytes() == bytes) return open;
    errno = EINVAL;
    return nullptr;
  }
  const int fd = OpenShared(name);
  if (fd < 0) return nullptr;
  // Allocating keeps present contents and adds zeros. It never shrinks the file, which other
  // processes may have mapped.
  void* base = MAP_FAILED;
  errno = Allocate(fd, bytes - 1, 1);
  if (errno == 0) base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    close(fd);
    errno = error;
    return nullptr;
  }
  std::shared_ptr<SharedMemory> made(new SharedMemory(name, fd, base, bytes));
  known = made;
  for (auto at = names.open.begin(); at != names.open.end();) {
    at = at->second.expired() ? names.open.erase(at) : std::next(at);
  }
  return made;
}

bool SharedMemory::Reserve(size_t offset, size_t bytes) {
  return Allocate(fd_, offset, bytes) == 0;
}

void SharedMemory::LeaveWord(const std::string& name, size_t offset, uint64_t value) {
  const int fd = OpenShared(name);
  if (fd < 0) return;
  uint64_t word = 0;
  const auto at = static_cast<off_t>(offset);
  const ssize_t got = pread(fd, &word, sizeof word, at);
  if (got == 0 || (got == sizeof word && word == 0)) {
    if (pwrite(fd, &value, sizeof value, at) != sizeof value)
      word = 0;  // there is nothing else to try
  }
  close(fd);
}

void SharedMemory::CloseDescriptor() {
  if (const int fd = fd_.exchange(-1); fd >= 0) close(fd);
}

void SharedMemory::Unlink() { shm_unlink(("/" + name_).c_str()); }

}  // namespace gordian::runtime
