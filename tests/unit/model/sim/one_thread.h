// One process whose only thread holds several ranks of one communicator, from hand-made records:
// the programs of SimJob hold one rank a process.
#ifndef GORDIAN_TESTS_UNIT_MODEL_SIM_ONE_THREAD_H_
#define GORDIAN_TESTS_UNIT_MODEL_SIM_ONE_THREAD_H_

#include "analyzer/model/verdict/job_model.h"

namespace gordian::model::testing {

// The verdict 0.7 s after the thread has entered its first AllReduce for rank 0 of `ranks`, without
// a group. `helper`: a second thread that has called NCCL, too, and sleeps.
Verdict OneThreadForAllRanks(int ranks, bool helper = false);

}  // namespace gordian::model::testing

#endif  // GORDIAN_TESTS_UNIT_MODEL_SIM_ONE_THREAD_H_
