// W17: An operation that the preemptive runtime says it has begun has started, W2 and W8 aside.
//
// Which these are, each process says in every round (docs/runtime.md): no rule here says what may
// begin early. An operation that no process speaks of starts at its turn. For what comes after it,
// one that has begun is done after the work before it on its stream.
#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

bool BegunBeforeTurn(const WaitView& view, const Process& process, const Launch& launch,
                     WaitNodes* nodes) {
  if (!view.begun_early.Says(process, launch)) return false;
  for (const StreamPosition& position : launch.positions) {
    StreamOrder(process, position, nodes->DoneOf(launch.id), nodes);
  }
  return true;
}

}  // namespace gordian::model::rules
