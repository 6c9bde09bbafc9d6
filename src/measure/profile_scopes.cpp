// by_scope(): the tree of modules, ops as its leaves.
#include <algorithm>
#include <cctype>
#include <deque>
#include <map>

#include "measure/profile_views.h"

namespace ridgepoint {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

struct TreeNode {
  ScopeRow row;
  std::vector<TreeNode*> children;
};

class ScopeTree {
 public:
  ScopeTree(int depth, bool each_layer) : depth_(depth), each_layer_(each_layer) {}

  void add(const KernelRecord& kernel) {
    TreeNode* at = &root_;
    const std::vector<std::string> levels = scope_levels(kernel.scope, each_layer_);
    for (const std::string& level : levels) {
      if (at->row.level == depth_ + 1) return;
      at = child(*at, level, false);
      count(*at, kernel);
    }
    if (at->row.level <= depth_) count(*child(*at, kernel.op.empty() ? kernel.name : kernel.op, true), kernel);
  }

  std::vector<ScopeRow> rows() const {
    std::vector<ScopeRow> result;
    collect(root_, result);
    return result;
  }

 private:
  static void count(TreeNode& node, const KernelRecord& kernel) {
    node.row.sum.add(kernel);
    node.row.by_phase[static_cast<std::size_t>(kernel.phase)].add(kernel);
  }

  TreeNode* child(TreeNode& parent, const std::string& name, bool is_op) {
    for (TreeNode* node : parent.children) {
      if (node->row.name == name && node->row.is_op == is_op) return node;
    }
    TreeNode& node = nodes_.emplace_back();
    node.row.name = name;
    node.row.path = parent.row.path.empty() ? name : parent.row.path + "." + name;
    node.row.level = parent.row.level + 1;
    node.row.is_op = is_op;
    parent.children.push_back(&node);
    return &node;
  }

  // The root has level 1 here and is no row: everything else moves up by one.
  static void collect(const TreeNode& parent, std::vector<ScopeRow>& result) {
    for (const TreeNode* node : parent.children) {
      result.push_back(node->row);
      --result.back().level;
      collect(*node, result);
    }
  }

  int depth_;
  bool each_layer_;
  TreeNode root_;
  std::deque<TreeNode> nodes_;
};

}  // namespace

std::vector<std::string> scope_levels(std::string_view scope, bool each_layer) {
  std::vector<std::string> levels;
  while (!scope.empty()) {
    const std::size_t end = std::min(scope.find('.'), scope.size());
    const std::string_view part = scope.substr(0, end);
    if (is_number(part) && !levels.empty()) {
      levels.back() += each_layer ? "." + std::string(part) : ".*";
    } else {
      levels.emplace_back(part);
    }
    scope.remove_prefix(std::min(end + 1, scope.size()));
  }
  return levels;
}

std::vector<ScopeRow> by_scope(const Profile& profile, int depth, bool each_layer) {
  ScopeTree tree(depth, each_layer);
  for (const KernelRecord& kernel : profile.kernels) tree.add(kernel);
  return tree.rows();
}

}  // namespace ridgepoint
