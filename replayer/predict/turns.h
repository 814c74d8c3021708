// Pairs of call sites that two threads of a process passed in turns: often enough that something
// that gordian does not see may order them.
//
// Pure.
#ifndef GORDIAN_REPLAYER_PREDICT_TURNS_H_
#define GORDIAN_REPLAYER_PREDICT_TURNS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "replayer/record/call_log.h"

namespace gordian::replayer {

// Two threads took turns at two sites if they passed them three times each, no two calls overlapped,
// and each thread made as many calls each time as the time before. Looks at all calls but ends of
// groups. Of a process with more than a thousand sites, pairs are not compared.
std::vector<std::pair<uint64_t, uint64_t>> SitesInTurns(const LoggedProcess& process);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_TURNS_H_
