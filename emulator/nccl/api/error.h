// Result codes with a message: what ncclGetLastError returns and what NCCL_DEBUG=WARN prints.
#ifndef GORDIAN_EMULATOR_NCCL_API_ERROR_H_
#define GORDIAN_EMULATOR_NCCL_API_ERROR_H_

#include "emulator/nccl/api/nccl_header.h"

namespace gordian::emu::nccl {

// Stores the message and returns `result`. Any thread.
ncclResult_t Fail(ncclResult_t result, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// The last message of the process, in static storage.
const char* LastError();

const char* ErrorString(ncclResult_t result);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_ERROR_H_
