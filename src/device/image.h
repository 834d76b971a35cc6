// device/image.h: what a program hands over as device code, reduced to PTX texts.
//
// Accepted: PTX text, a fat binary container, the wrapper that compilers put around it, an image that our own linker
// made (link_image), and a file with any of these. Machine code alone is refused with the compiler flag that embeds PTX;
// machine code beside PTX says how many registers its kernels take.
// Not here: the container's layout (fatbin.h), parsing (ptx/).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace orrery::device {

struct Image {
  std::vector<std::string> texts;  // PTX modules; several must be linked
  bool relocatable = false;        // they were compiled to be linked
  std::string origin;              // file the program came from, for messages
  std::map<std::string, uint64_t> places = {};  // variables that live in host memory, with their addresses there
  std::map<std::string, uint32_t> registers = {};  // a thread of each kernel, as the machine code beside the PTX says
};

/// The code at `data` for a device of compute capability `capability`. `data` must hold a complete image; sizes are
/// taken from headers or, for text, from its terminating zero. Throws Failure: no_binary when there is no PTX,
/// invalid_image when it is damaged.
Image read_image(const void* data, uint32_t capability);
/// The same for a file. Throws Failure(file_not_found) too.
Image read_image_file(const std::string& path, uint32_t capability);
/// One image out of PTX texts, for cuLinkComplete: read_image takes it back apart.
std::string link_image(const std::vector<std::string>& texts);
/// File that holds `address` in this process, or "".
std::string file_of_address(const void* address);

}  // namespace orrery::device
