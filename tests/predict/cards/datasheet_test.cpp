#include "predict/cards/datasheet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace ridgepoint {
namespace {

std::string_view card_of(std::string_view name) {
  const Datasheet* sheet = find_datasheet(name);
  return sheet == nullptr ? "none" : sheet->card;
}

TEST(Datasheet, is_found_by_the_name_the_driver_gives) {
  EXPECT_EQ(card_of("Tesla T4"), "T4");
  EXPECT_EQ(card_of("NVIDIA A100-SXM4-40GB"), "A100 40GB SXM");
  EXPECT_EQ(card_of("NVIDIA A100-PCIE-40GB"), "A100 40GB PCIe");
  EXPECT_EQ(card_of("NVIDIA A100 80GB PCIe"), "A100 80GB PCIe");
  EXPECT_EQ(card_of("NVIDIA A100-SXM4-80GB"), "A100 80GB SXM");
  EXPECT_EQ(card_of("NVIDIA RTX A4500"), "RTX A4500");
  EXPECT_EQ(card_of("NVIDIA L4"), "L4");
  EXPECT_EQ(card_of("NVIDIA L40S"), "L40S");
  EXPECT_EQ(card_of("NVIDIA GeForce RTX 3090"), "RTX 3090");
  EXPECT_EQ(card_of("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(card_of("NVIDIA H100 80GB HBM3"), "H100 SXM");
  EXPECT_EQ(card_of("NVIDIA H100 PCIe"), "H100 PCIe");
  EXPECT_EQ(card_of("NVIDIA H100 NVL"), "H100 NVL");
  EXPECT_EQ(card_of("NVIDIA H200"), "H200 SXM");
  EXPECT_EQ(card_of("NVIDIA GH200 480GB"), "GH200 96GB");
  EXPECT_EQ(card_of("NVIDIA A800-SXM4-80GB"), "A800 80GB SXM");
  EXPECT_EQ(card_of("NVIDIA RTX 6000 Ada Generation"), "RTX 6000 Ada");
  EXPECT_EQ(card_of("NVIDIA B200"), "B200");
  EXPECT_EQ(card_of("NVIDIA TITAN Xp"), "Titan Xp");
  EXPECT_EQ(card_of("Quadro RTX 8000"), "Quadro RTX 8000");
}

TEST(Datasheet, is_found_by_the_name_that_people_give) {
  EXPECT_EQ(card_of("4090"), "RTX 4090");
  EXPECT_EQ(card_of("h100-80gb"), "H100 SXM");
  EXPECT_EQ(card_of("L40S 48GB"), "L40S");
  EXPECT_EQ(card_of("h200 141gb"), "H200 SXM");
  EXPECT_EQ(card_of("RTX PRO 6000"), "RTX PRO 6000");
  EXPECT_EQ(card_of("h100-40gb"), "none") << "it has other memory";
}

TEST(Datasheet, is_not_lent_to_a_card_that_only_sounds_alike) {
  for (const char* name : {"NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA L2",
                           "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GB10", "", "NVIDIA"}) {
    EXPECT_EQ(find_datasheet(name), nullptr) << name;
  }
}

TEST(Datasheet, every_name_leads_to_one_card) {
  std::set<std::string> seen;
  for (const Datasheet& sheet : datasheets()) {
    EXPECT_EQ(find_datasheet(sheet.card), &sheet);
    EXPECT_TRUE(seen.insert(std::string(sheet.aliases)).second) << sheet.card;
  }
}

TEST(Datasheet, has_what_kernels_are_chosen_by) {
  for (const Datasheet& sheet : datasheets()) {
    const CardDescription card = describe_card(sheet);
    EXPECT_EQ(card.name, sheet.card);
    EXPECT_GE(card.compute_capability, 61) << sheet.card;
    EXPECT_LE(card.compute_capability, 120) << sheet.card;
    EXPECT_GE(card.multiprocessors, 30) << sheet.card;
    EXPECT_EQ(card.memory_bytes, sheet.memory_bytes);
  }
  EXPECT_EQ(find_datasheet("h200")->multiprocessors, 132);
  EXPECT_EQ(find_datasheet("rtx 4090")->compute_capability, 89);
}

TEST(Datasheet, narrower_types_are_never_slower_and_absent_ones_have_no_rate) {
  for (const Datasheet& sheet : datasheets()) {
    EXPECT_LE(*sheet.fp32, sheet.tf32.value_or(*sheet.fp32)) << sheet.card;
    EXPECT_LE(sheet.tf32.value_or(0), sheet.bf16.value_or(sheet.fp16.value_or(0))) << sheet.card;
    EXPECT_LE(sheet.bf16.value_or(0), sheet.fp8.value_or(sheet.fp16.value_or(0))) << sheet.card;
  }
  EXPECT_FALSE(datasheet_flops_per_second(*find_datasheet("T4"), "bf16").has_value());
  EXPECT_DOUBLE_EQ(*datasheet_flops_per_second(*find_datasheet("NVIDIA H200"), "bf16"), 989.4e12);
  EXPECT_FALSE(datasheet_flops_per_second(*find_datasheet("NVIDIA H200"), "int64").has_value());
}

}  // namespace
}  // namespace ridgepoint
