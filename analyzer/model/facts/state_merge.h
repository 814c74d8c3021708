// Where records of a process were lost: what its state block says of the same calls takes their
// place, so that a hang is found all the same. Losses stay losses: nothing that rests on such a
// process is ever confirmed (Proof::missing).
//
// Sound in one direction only, as everything here: what the block leaves out (waits that found no
// room, order by way of the legacy stream) makes the job look as if it could do more than it can.
// What it says was true at one moment of the round: numbers of calls were read before the queues of
// streams, and an operation enters its queue before it is counted, so one that was counted and is
// in no queue was done by then.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_STATE_MERGE_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_STATE_MERGE_H_

#include <cstdint>

namespace gordian::model {

class ExecutionGraph;
struct Process;

// Takes over what process->block and the details of its threads say, if records were lost. Before
// anything is decided on the round that brought them. now_ns: of the round.
void MergeState(ExecutionGraph* execution, Process* process, uint64_t now_ns);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_STATE_MERGE_H_
