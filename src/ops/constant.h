// What a constant node holds: constant_value() and constant_integer().
#pragma once

#include "ir/queries.h"
