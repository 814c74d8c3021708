// The driver's log: reports each function that is not emulated, once.
#include "emulator/cuda/driver_logs.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulator/cuda/driver_common.h"

using namespace gordian::emu;  // NOLINT: every line of this file uses it

namespace {

constexpr size_t kLogBytes = 25600;
constexpr char kLost[] = "[older messages are gone]\n";

struct Callback {
  CUlogsCallback function = nullptr;
  void* data = nullptr;
};

struct Log {
  std::mutex mutex;
  std::deque<std::string> messages;
  CUlogIterator first = 0;  // number of the oldest message kept
  size_t bytes = 0;
  std::map<uintptr_t, Callback> callbacks;
  uintptr_t next_callback = 1;
};

Log& TheLog() {
  static Log* const log = new Log;
  return *log;
}

// Collects the messages from `iterator` on, the newest ones that fit into `room` bytes, and moves
// it behind the last. Returns false if there are messages, and none fits.
bool Collect(CUlogIterator* iterator, size_t room, std::string* text) {
  Log& log = TheLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  const CUlogIterator end = log.first + static_cast<CUlogIterator>(log.messages.size());
  CUlogIterator wanted = iterator != nullptr ? *iterator : log.first;
  bool lost = wanted < log.first;
  if (lost) wanted = log.first;
  if (wanted > end) wanted = end;
  size_t bytes = lost ? strlen(kLost) : 0;
  for (CUlogIterator i = wanted; i != end; ++i) bytes += log.messages[i - log.first].size();
  CUlogIterator from = wanted;
  if (bytes > room && !lost) bytes += strlen(kLost);
  for (; bytes > room && from != end; ++from) {
    bytes -= log.messages[from - log.first].size();
    lost = true;
  }
  if (from == end && wanted != end) return false;
  if (lost) *text = kLost;
  for (CUlogIterator i = from; i != end; ++i) *text += log.messages[i - log.first];
  if (iterator != nullptr) *iterator = end;
  return true;
}

}  // namespace

extern "C" {

void gordianEmuSayNotEmulated(const char* call) {
  std::string message = std::string(call) +
                        " is not emulated and returns \"not supported\". A program that needs it"
                        " must run on GPUs (docs/emulator.md)\n";
  fprintf(stderr, "gordian emulator: %s", message.c_str());
  Log& log = TheLog();
  std::vector<Callback> callbacks;
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    log.messages.push_back(message);
    log.bytes += message.size();
    while (log.bytes > kLogBytes) {
      log.bytes -= log.messages.front().size();
      log.messages.pop_front();
      ++log.first;
    }
    for (const auto& [handle, callback] : log.callbacks) callbacks.push_back(callback);
  }
  for (const Callback& callback : callbacks) {
    callback.function(callback.data, CU_LOG_LEVEL_ERROR, message.data(), message.size());
  }
}

CUresult cuLogsRegisterCallback(CUlogsCallback function, void* data, CUlogsCallbackHandle* handle) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Log& log = TheLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  const uintptr_t number = log.next_callback++;
  log.callbacks[number] = {function, data};
  if (handle != nullptr) *handle = reinterpret_cast<CUlogsCallbackHandle>(number);
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  Log& log = TheLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  const bool known = log.callbacks.erase(reinterpret_cast<uintptr_t>(handle)) != 0;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLogsCurrent(CUlogIterator* iterator, unsigned flags) {
  if (iterator == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Log& log = TheLog();
  std::lock_guard<std::mutex> lock(log.mutex);
  *iterator = log.first + static_cast<CUlogIterator>(log.messages.size());
  return CUDA_SUCCESS;
}

CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* path, unsigned flags) {
  if (path == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  FILE* const file = fopen(path, "ae");
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string text;
  Collect(iterator, kLogBytes + sizeof(kLost), &text);
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, size_t* bytes, unsigned flags) {
  if (buffer == nullptr || bytes == nullptr || *bytes == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::string text;
  const bool fits = Collect(iterator, *bytes - 1, &text);
  memcpy(buffer, text.c_str(), text.size() + 1);
  *bytes = text.size();
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"
