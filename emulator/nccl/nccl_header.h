// nccl.h, with its functions visible: the rest of the library is compiled with hidden visibility.
#ifndef GORDIAN_EMULATOR_NCCL_NCCL_HEADER_H_
#define GORDIAN_EMULATOR_NCCL_NCCL_HEADER_H_

#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop

#endif  // GORDIAN_EMULATOR_NCCL_NCCL_HEADER_H_
