// Captures of what the device does. There is nothing to look at here; the document says so.
#pragma once

namespace softmetal {

void register_capture();

}  // namespace softmetal
