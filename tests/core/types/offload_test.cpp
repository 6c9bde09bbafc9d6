// What a run keeps on the host, by names.
#include "ridgepoint/core/offload.h"

#include "ridgepoint/core/error.h"
#include "support/matchers.h"

namespace ridgepoint {
namespace {

TEST(Offload, has_the_names_of_its_sets) {
  for (const Offload set : kAllOffloads) EXPECT_EQ(offload_from_name(name(set)), set);
  EXPECT_EQ(offload_from_name("activations,optimizer"), Offload::optimizer | Offload::activations);
}

TEST(Offload, refuses_what_is_no_set) {
  const auto parse = [](std::string_view text) { return [text] { offload_from_name(text); }; };
  EXPECT_THAT(parse("optimiser"), ThrowsMessage<Error>(HasSubstr("did you mean 'optimizer'?")));
  EXPECT_THAT(parse("states"), ThrowsMessage<Error>("'states' is unknown; available: none, optimizer, parameters, "
                                                    "activations, auto"));
  EXPECT_THAT(parse("parameters,"), ThrowsMessage<Error>(HasSubstr("'' is unknown")));
  EXPECT_THAT(parse("optimizer,parameters,optimizer"),
              ThrowsMessage<Error>("'optimizer' stands twice in 'optimizer,parameters,optimizer'"));
  EXPECT_THAT(parse("none,optimizer"),
              ThrowsMessage<Error>("'none' stands alone, not in a list as in 'none,optimizer'; for runs of each give "
                                   "--offload none --offload optimizer"));
  EXPECT_THAT(parse("optimizer,auto"), ThrowsMessage<Error>(HasSubstr("--offload optimizer --offload auto")));
}

}  // namespace
}  // namespace ridgepoint
