#include "emulator/nccl/api/error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "emulator/nccl/api/debug.h"

namespace gordian::emu::nccl {
namespace {

constinit std::mutex last_error_mutex;
constinit char last_error[1024] = "";

}  // namespace

ncclResult_t Fail(ncclResult_t result, const char* format, ...) {
  char message[sizeof(last_error)];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  {
    std::lock_guard lock(last_error_mutex);
    std::memcpy(last_error, message, std::strlen(message) + 1);
  }
  Warn(message);
  return result;
}

const char* LastError() { return last_error; }

const char* ErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

}  // namespace gordian::emu::nccl
