// Writes Python's pickle, protocol 2, of plain data: what PyTorch's own pickler makes of its Flight
// Recorder, and every Python since 2.3 reads. Facts: CPython's pickletools.
#ifndef GORDIAN_ANALYZER_EXPORTERS_PICKLE_WRITER_H_
#define GORDIAN_ANALYZER_EXPORTERS_PICKLE_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace gordian::exporters {

// Not thread-safe. One value: a number, a text, or what stands between a Begin and its End.
class PickleWriter {
 public:
  PickleWriter();

  void None();
  void Bool(bool value);
  void Int(int64_t value);
  void Text(std::string_view value);  // replaces what is no UTF-8
  void BeginList();
  void EndList();
  void BeginDict();  // then key, value, key, value
  void EndDict();
  void BeginTuple();
  void EndTuple();

  // The pickle; the writer is done.
  std::string Take();

 private:
  void Raw(uint64_t value, int bytes);

  std::string out_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_PICKLE_WRITER_H_
