// How verdicts and exports write the number of an operation.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_NUMBER_TEXT_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/ring/tagged_number.h"

namespace gordian::model {

// "#3"; of a tagged transfer "#0 (tag 7)", or "#0 (tagged)" where the record has no more of the tag.
inline std::string NumberText(uint64_t number) {
  const uint64_t tag = number >> ring::kTagShift;
  const std::string text = "#" + std::to_string(number - (tag << ring::kTagShift));
  if (tag == 0) return text;
  return text + (tag < ring::kTagsInFull ? " (tag " + std::to_string(tag) + ")" : " (tagged)");
}

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_NUMBER_TEXT_H_
