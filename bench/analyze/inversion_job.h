// A recorded job of eight ranks that trains for a while and then hangs.
#ifndef GORDIAN_BENCH_ANALYZE_INVERSION_JOB_H_
#define GORDIAN_BENCH_ANALYZE_INVERSION_JOB_H_

#include <vector>

#include "gordian/v1/event.pb.h"

namespace gordian::bench {

inline constexpr int kRanks = 8;
// As in dl2's measurements.
inline constexpr int kManyEvents = 8'328;
inline constexpr int kFewEvents = 386;
inline constexpr int kCommunicators = 6;
// The two that call tensor-parallel and data-parallel operations in opposite orders at the end.
inline constexpr int kFirstCulprit = 0;
inline constexpr int kSecondCulprit = 2;

// Exactly so many events. Communicators: world; tensor-parallel {0..3} and {4..7}; data-parallel
// {even} and {odd}; pipeline {3, 4}. Every step: kernels, AllReduce (tp), Send/Recv (pp),
// ReduceScatter (dp), an event, a stream synchronise; AllReduce (world) every fifth step; a round.
// After the last step rank 2 calls its data-parallel AllReduce before the tensor-parallel one; all
// others the other way round, on one stream; all ranks wait for the stream. Three rounds see that.
std::vector<v1::Event> InversionJob(int events);

}  // namespace gordian::bench

#endif  // GORDIAN_BENCH_ANALYZE_INVERSION_JOB_H_
