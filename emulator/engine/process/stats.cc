#include "emulator/engine/process/stats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gordian::emu {
namespace {

constexpr size_t kMapBytes = 256 << 10;
constexpr size_t kDigits = 20;
constexpr size_t kLowDigits = 8;
constexpr uint64_t kLowLimit = 100'000'000;

void Print(uint64_t value, char* digits, size_t count) {
  for (size_t i = count; i-- > 0; value /= 10) digits[i] = static_cast<char>('0' + value % 10);
}

}  // namespace

CallStats::CallStats() {
  const char* path = getenv("GORDIAN_EMU_STATS");
  if (path == nullptr || *path == '\0') return;
  path_ = path;
  enabled_ = true;
}

void CallStats::AfterForkInChild() {
  if (map_ != nullptr) munmap(map_, kMapBytes);
  if (fd_ >= 0) close(fd_);
  map_ = nullptr;
  fd_ = -1;
  size_ = 0;
  lines_.clear();
  by_address_.clear();
  by_name_.clear();
  mutex_.unlock();
}

bool CallStats::Open() {
  const std::string name = path_ + "." + std::to_string(getpid());
  fd_ = open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  // Of another file under this name the contents stay.
  struct stat info = {};
  const bool ours = fd_ >= 0 && fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_nlink == 1 && info.st_uid == geteuid() && ftruncate(fd_, 0) == 0;
  void* map =
      !ours ? MAP_FAILED : mmap(nullptr, kMapBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) {
    fprintf(stderr, "gordian emulator: GORDIAN_EMU_STATS: cannot write %s: %m\n", name.c_str());
    enabled_ = false;
    return false;
  }
  map_ = static_cast<char*>(map);
  return true;
}

CallStats::Line* CallStats::AddLine(const char* symbol) {
  const std::string text = std::string(symbol) + " " + std::string(kDigits, '0') + "\n";
  // One write() adds the whole line; the mapping covers it because it is longer than the file.
  if (size_ + text.size() > kMapBytes ||
      pwrite(fd_, text.data(), text.size(), static_cast<off_t>(size_)) !=
          static_cast<ssize_t>(text.size())) {
    fprintf(stderr, "gordian emulator: GORDIAN_EMU_STATS: no room for %s\n", symbol);
    enabled_ = false;
    return nullptr;
  }
  lines_.push_back({0, map_ + size_ + strlen(symbol) + 1});
  size_ += text.size();
  by_name_.emplace(symbol, &lines_.back());
  return &lines_.back();
}

void CallStats::CountSlow(const char* symbol) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!enabled_ || (map_ == nullptr && !Open())) return;
  Line*& line = by_address_[symbol];
  if (line == nullptr) {
    // Several libraries may use the same name.
    const auto known = by_name_.find(symbol);
    line = known != by_name_.end() ? known->second : AddLine(symbol);
    if (line == nullptr) {
      by_address_.erase(symbol);
      return;
    }
  }
  Store(line, 1);
}

void CallStats::Add(const std::string& name, uint64_t amount) {
  if (!enabled_) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!enabled_ || (map_ == nullptr && !Open())) return;
  const auto find = [this](const std::string& wanted) {
    const auto known = by_name_.find(wanted);
    return known == by_name_.end() ? nullptr : known->second;
  };
  Line* line = find(name);
  if (line == nullptr) {
    // Reserves room for the calls' own lines, with which tests compare.
    line = size_ + name.size() < kMapBytes / 2 ? AddLine(name.c_str()) : find("lost");
    if (line == nullptr) line = AddLine("lost");
    if (line == nullptr) return;
  }
  Store(line, amount);
}

void CallStats::Store(Line* line, uint64_t amount) {
  const uint64_t before = line->count;
  line->count += amount;
  // Stores the low digits at once, so a reader after SIGKILL finds old or new ones, not a mixture.
  char low[kLowDigits];
  Print(line->count % kLowLimit, low, kLowDigits);
  uint64_t word;
  memcpy(&word, low, sizeof(word));
  if (line->count / kLowLimit != before / kLowLimit) {
    Print(line->count / kLowLimit, line->digits, kDigits - kLowDigits);
  }
  memcpy(line->digits + kDigits - kLowDigits, &word, sizeof(word));
}

}  // namespace gordian::emu
