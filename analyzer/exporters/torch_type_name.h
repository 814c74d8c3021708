// What PyTorch calls an element type, as its dumps and Chakra's traces hold it.
#ifndef GORDIAN_ANALYZER_EXPORTERS_TORCH_TYPE_NAME_H_
#define GORDIAN_ANALYZER_EXPORTERS_TORCH_TYPE_NAME_H_

#include <cstdint>
#include <iterator>

namespace gordian::exporters {

// c10::toString of the type, by ncclDataType_t.
inline const char* TorchTypeName(uint8_t datatype) {
  constexpr const char* kTypes[] = {"Char",   "Byte",     "Int",           "UInt32",
                                    "Long",   "UInt64",   "Half",          "Float",
                                    "Double", "BFloat16", "Float8_e4m3fn", "Float8_e5m2"};
  return datatype < std::size(kTypes) ? kTypes[datatype] : "Undefined";
}

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_TORCH_TYPE_NAME_H_
