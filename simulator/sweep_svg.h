// Draws a sweep: the ratio over one value, a line for each combination of the others.
#ifndef GORDIAN_SIMULATOR_SWEEP_SVG_H_
#define GORDIAN_SIMULATOR_SWEEP_SVG_H_

#include <string>

#include "simulator/sweep.h"

namespace gordian::simulator {

// The x axis is the value that varies most; an axis is logarithmic if all its values are above 0.
// Solid: exact, dashed: by default; bars show the intervals. Omits points without deadlocks.
std::string SweepToSvg(const Sweep&, const SweepOptions&, const SweepCounts&);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SWEEP_SVG_H_
