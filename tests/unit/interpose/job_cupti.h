// Programs of job.cc whose calls CUPTI tells of.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CUPTI_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CUPTI_H_

void Cupti();
void CuptiBeside();
void CuptiNamedLate();
void CuptiRows();

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_JOB_CUPTI_H_
