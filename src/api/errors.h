// api/errors.h: names and texts of error codes.
#pragma once

namespace orrery::api {

/// "cudaErrorInvalidValue", or "unrecognized error code".
const char* runtime_error_name(int code);
/// "CUDA_ERROR_INVALID_VALUE", or null.
const char* driver_error_name(int code);
/// What the code means, or "unrecognized error code". Programs print and compare these texts.
const char* error_text(int code);
bool is_driver_code(int code);

}  // namespace orrery::api
