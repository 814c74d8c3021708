// Answers where call sites of a process are, with the source lines around them on this node's disk.
#ifndef GORDIAN_COLLECTOR_STACKS_SITE_PLACES_H_
#define GORDIAN_COLLECTOR_STACKS_SITE_PLACES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collector/stacks/native_stack.h"
#include "gordian/v1/event.pb.h"

namespace gordian::collector {

struct SiteToPlace {
  uint64_t site = 0;  // Record::call_site
  std::string text;   // of a site in Python: file, line and function, by newlines
};

// Of the native ones among them, what NameFrames is to name, in order.
std::vector<NativeFrame> FramesOf(std::span<const SiteToPlace> sites);

// Adds a place for each site that is known, each with its lines unless an earlier one has the same.
// `named`: FramesOf(sites), with their names.
void AddPlaces(std::span<const SiteToPlace> sites, std::span<const NativeFrame> named,
               v1::StacksTaken* out);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_SITE_PLACES_H_
