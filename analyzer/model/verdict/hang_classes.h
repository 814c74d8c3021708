// The 49 known kinds of hangs and mismatches of NCCL jobs, collected from the issue trackers of
// NCCL, PyTorch, vLLM, RCCL and others, and what gordian does about each.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_HANG_CLASSES_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_HANG_CLASSES_H_

#include <cstddef>
#include <cstdint>

namespace gordian::model {

enum class Visibility : uint8_t {
  kDetected,    // a program that does it gets the verdict, and its correct twin does not
  kInferred,    // shown on a recorded or constructed trace only, or reported as a wider kind
  kNotVisible,  // gordian sees nothing of the cause, only what follows from it
};

struct HangClass {
  int number;
  const char* title;
  Visibility visibility;
  const char* checks;  // ids, comma-separated; for kNotVisible: what gordian reports instead
  // CTest's names, comma-separated, or BINARY:Suite.Name. Each check is asserted by one of them
  // (tests/checks/check_pages.py).
  const char* test;
  const char* twin;  // for kDetected: theirs
  const char* note;  // what gordian claims and what not
};

const HangClass* HangClasses(size_t* count);
const char* Name(Visibility);  // "not visible"

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_HANG_CLASSES_H_
