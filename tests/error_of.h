// What a refusal says: the message of the error that `body` throws, or "no error".
#pragma once

#include <string>

#include "base/error.h"

namespace orrery {

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace orrery
