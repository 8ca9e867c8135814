// The device: what it says of itself, and everything it makes.
#pragma once

#include <Metal/Metal.hpp>

namespace softmetal {

constexpr NS::UInteger kMaxBufferBytes = NS::UInteger{1} << 36;

MTL::Device* the_device();  // there is one

void register_device();

}  // namespace softmetal
