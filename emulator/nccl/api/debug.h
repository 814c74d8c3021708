// The parts of NCCL_DEBUG's output that tools and people look for: the version, warnings, and with
// INFO the lines about communicators (subsystem INIT) and operations (COLL). Lines go to standard
// output, as NCCL's do, or to NCCL_DEBUG_FILE (%h: host name, %p: pid).
#ifndef GORDIAN_EMULATOR_NCCL_API_DEBUG_H_
#define GORDIAN_EMULATOR_NCCL_API_DEBUG_H_

namespace gordian::emu::nccl {

enum class DebugLevel { kNone, kVersion, kWarn, kInfo, kTrace };
enum class DebugSubsystem { kInit, kCollectives };

// Read from the environment at the first use, and again after ResetDebug.
DebugLevel GetDebugLevel();
void ResetDebug();

// One line "HOST:PID:TID [DEVICE] NCCL INFO ..." when the level and NCCL_DEBUG_SUBSYS ask for it.
bool WantsInfo(DebugSubsystem subsystem);
void Info(int device, const char* format, ...) __attribute__((format(printf, 2, 3)));
void Warn(const char* message);
// "NCCL version ..." once a process, at the first communicator.
void PrintVersion();

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_DEBUG_H_
