// Decides how many blocks an operation's kernel gets on a device where kernels of other streams may
// wait. A kernel whose peers are late keeps its blocks on the device. If the kernels of all streams
// had more blocks than fit, a rank could wait for a block that cannot start: the library itself
// would deadlock the job. So while kernels hold much of the device, a new one gets fewer blocks
// than its operation has channels, at least one, and each block carries several channels
// (RunChannels).
//
// The unit is a place, half a multiprocessor. A block takes one place, however few threads it has:
// devices spread blocks, and a small block leaves too little of a multiprocessor for a second large
// one. (Counting threads instead, kernels of seven warps a block hung four GPUs, whose streams
// waited for each other: of those no more than two fit a multiprocessor, as of blocks of ten
// warps.) Kernels of a stream run one after the other: a stream takes as many places as its largest
// unfinished kernel.
//
// Thread rule: one thread at a time. Nothing here blocks or fails.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_

#include <algorithm>
#include <cstdint>
#include <map>

namespace gordian::runtime::cuda {

// Places of a device of which the process may use so many multiprocessors (fewer than all under
// MPS).
constexpr uint32_t PlacesOf(uint32_t multiprocessors) { return 2 * multiprocessors; }

template <typename Stream>
class Places {
 public:
  // `total`: places of the device without those of the resident worker.
  explicit Places(uint32_t total) : total_(total), reserve_(std::min(kReserve, total / 4)) {}

  // The most places that a kernel gets.
  uint32_t most() const { return total_ - reserve_; }

  // Grants places to a kernel on `stream` that can use `wanted` of them: at least 1, at most
  // `wanted`. The noted places may include finished kernels. If they leave too little, Grant
  // forgets them and calls look(note), which calls note(stream, places) for each unfinished kernel.
  template <typename Look>
  uint32_t Grant(Stream stream, uint32_t wanted, Look&& look) {
    if (OfOthers(stream) + wanted + reserve_ > total_) {
      taken_.clear();
      look([this](Stream of, uint32_t places) { Note(of, places); });
    }
    const uint32_t others = OfOthers(stream);
    const uint32_t left = most() > others ? most() - others : 0;
    // Grant all that is wanted if it is left; else half of it, since many programs use two streams;
    // else half of what is left, to leave something for the next streams. Then take no more blocks
    // than the largest number of channels of a block needs: more would not end sooner.
    const uint32_t half = (wanted + 1) / 2;
    const uint32_t most = wanted <= left ? wanted : half <= left ? half : std::max(left / 2, 1u);
    const uint32_t rounds = (wanted + most - 1) / most;
    const uint32_t granted = (wanted + rounds - 1) / rounds;
    Note(stream, granted);
    return granted;
  }

 private:
  // Places kept for streams that come when all others are taken, one each.
  static constexpr uint32_t kReserve = 16;
  void Note(Stream stream, uint32_t places) {
    uint32_t& taken = taken_[stream];
    taken = std::max(taken, places);
  }
  uint32_t OfOthers(Stream stream) const {
    uint32_t sum = 0;
    for (const auto& [of, places] : taken_) sum += of == stream ? 0 : places;
    return sum;
  }

  const uint32_t total_;
  const uint32_t reserve_;
  std::map<Stream, uint32_t> taken_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_PLACES_H_
