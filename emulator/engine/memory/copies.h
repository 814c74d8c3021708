// Carries out copies and fills in memory. Threads: any; does not lock.
#ifndef GORDIAN_EMULATOR_ENGINE_MEMORY_COPIES_H_
#define GORDIAN_EMULATOR_ENGINE_MEMORY_COPIES_H_

#include "emulator/engine/engine.h"

namespace gordian::emu {

bool UsesCopyEngine(const Allocation* from, const Allocation* to);  // null: unknown memory
void FillRows(const FillRequest& fill);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_MEMORY_COPIES_H_
