// What a job that opens the libraries itself can do more than others: see late_bound.cc.
#ifndef GORDIAN_TESTS_E2E_JOBS_LATE_BOUND_H_
#define GORDIAN_TESTS_E2E_JOBS_LATE_BOUND_H_

// Closes libnccl; the next call opens it again.
void LateBoundReopen();
// Later NCCL calls go to this copy: 0 libnccl.so.2, 1 the file that JOB_SECOND_NCCL names.
void LateBoundUse(int copy);

#endif  // GORDIAN_TESTS_E2E_JOBS_LATE_BOUND_H_
