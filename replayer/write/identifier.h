// Makes names for generated programs.
#ifndef GORDIAN_REPLAYER_WRITE_IDENTIFIER_H_
#define GORDIAN_REPLAYER_WRITE_IDENTIFIER_H_

#include <set>
#include <string>

namespace gordian::replayer {

// Keeps the characters that C++ and Python allow in an identifier, in lower case: "dp",
// "tensor_parallel", "comm_3"; "comm" if none is left. Appends "_" to keywords and to names that
// generated programs use.
std::string Identifier(const std::string& name);

// Gives out each name once.
class UniqueNames {
 public:
  // Returns `name`, or `name` with a number.
  std::string Take(const std::string& name);

 private:
  std::set<std::string> taken_;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_IDENTIFIER_H_
