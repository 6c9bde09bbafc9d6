// Other names of values in files: those of earlier versions and of other programs.
#pragma once

#include "core/text/json.h"

namespace ridgepoint {

// Replaces other names in a record, or in JSON that is read as one, by the names of settings.def.
void use_usual_values(Json& record);

}  // namespace ridgepoint
