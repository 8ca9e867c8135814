// What nearly every file here includes.
#include <Metal/Metal.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
