// Counts the calls that the emulator gets, independently of any shim: with GORDIAN_EMU_STATS=FILE
// each process writes FILE.<pid>, one line a symbol, "ncclAllReduce 00000000000000000012\n".
//
// It stores the numbers through a shared mapping, so they are right even after SIGKILL. Threads:
// any.
#ifndef GORDIAN_EMULATOR_ENGINE_PROCESS_STATS_H_
#define GORDIAN_EMULATOR_ENGINE_PROCESS_STATS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace gordian::emu {

class CallStats {
 public:
  CallStats();
  // `symbol` must be a string literal: its address is remembered.
  void Count(const char* symbol) {
    if (enabled_) CountSlow(symbol);
  }
  // Adds to the line `name`, which has no space in it. When there is no room for another one, the
  // line "lost" counts it instead.
  void Add(const std::string& name, uint64_t amount);
  // A forked child gets a file of its own at its first call.
  void BeforeFork() { mutex_.lock(); }
  void AfterForkInParent() { mutex_.unlock(); }
  void AfterForkInChild();

 private:
  struct Line {
    uint64_t count = 0;
    char* digits = nullptr;  // 20 of them, in the mapping
  };

  void CountSlow(const char* symbol);
  static void Store(Line* line, uint64_t amount);
  bool Open();
  Line* AddLine(const char* symbol);

  bool enabled_ = false;
  std::string path_;
  std::mutex mutex_;
  int fd_ = -1;
  char* map_ = nullptr;
  size_t size_ = 0;  // of the file, in bytes
  std::deque<Line> lines_;
  std::unordered_map<const void*, Line*> by_address_;
  std::unordered_map<std::string, Line*> by_name_;
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_PROCESS_STATS_H_
