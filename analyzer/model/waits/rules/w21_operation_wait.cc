// W21: A thread in wait() of a gloo operation waits until that operation is done.
//
// A wait with a time limit of its own is none: the front end does not tell of it.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

void OperationWait(const OpenCall& open, uint32_t thread, WaitNodes* nodes) {
  const uint32_t done = nodes->DoneOf(open.launch);
  if (done != kNoNode) nodes->Wait(thread, done, Reason::kHostOperation);
}

}  // namespace gordian::model::rules
