// Programs of job.cc about what streams and communicators wait for beyond their own order.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_JOB_WAITS_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_JOB_WAITS_H_

void MemoryWords();
void Children();
void Signals();
void ManySignals();

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_JOB_WAITS_H_
