// W9: Work behind the program's kernels and host functions waits for them, and they run.
//
// They end by themselves. That they do not is never proven: see the checks kernel-in-front and
// stuck-kernel.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

uint32_t ProgramWork(const Process& process, WaitNodes* nodes) {
  return nodes->Leaf(LeafKind::kKernel, process.info.process);
}

}  // namespace gordian::model::rules
