// The 49 kinds of hangs and mismatches that jobs with NCCL are known for, and what becomes of each
// here. They were collected from the issue trackers of NCCL, PyTorch, vLLM, RCCL and others.
#ifndef GORDIAN_ANALYZER_GRAPH_HANG_CLASSES_H_
#define GORDIAN_ANALYZER_GRAPH_HANG_CLASSES_H_

#include <cstddef>
#include <cstdint>

namespace gordian::graph {

enum class Visibility : uint8_t {
  kDetected,    // a program that does it gets the verdict, and its innocent twin does not
  kInferred,    // shown with a recorded or made-up trace only, or told as something wider
  kNotVisible,  // nothing tells of it
};

struct HangClass {
  int number;
  const char* title;
  Visibility visibility;
  const char* checks;  // ids, comma-separated; of kNotVisible: what is said instead
  const char* test;    // ctest's name; "" where there is none
  const char* twin;    // of kDetected
  const char* note;    // what is claimed and what is not
};

const HangClass* HangClasses(size_t* count);
const char* Name(Visibility);  // "not visible"

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_HANG_CLASSES_H_
