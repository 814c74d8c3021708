// A sweep as a picture: the ratio over one value, a line for each combination of the others.
#ifndef GORDIAN_SIMULATOR_SWEEP_SVG_H_
#define GORDIAN_SIMULATOR_SWEEP_SVG_H_

#include <string>

#include "simulator/sweep.h"

namespace gordian::simulator {

// The value that varies most is the x axis; both axes logarithmic where all values are above 0.
// Exact: solid, by default: dashed; the interval as a bar; points with no deadlock are left out.
std::string SweepToSvg(const Sweep&, const SweepOptions&, const SweepCounts&);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SWEEP_SVG_H_
