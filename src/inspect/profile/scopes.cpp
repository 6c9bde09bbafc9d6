// by_scope(): the tree of modules, with ops as leaves.
#include <deque>

#include "inspect/profile/views.h"

namespace ridgepoint {
namespace {

struct TreeNode {
  ScopeRow row;
  std::vector<TreeNode*> children;
};

class ScopeTree {
 public:
  ScopeTree(int depth, Layers layers) : depth_(depth), layers_(layers) {}

  void add(const KernelRecord& kernel) {
    TreeNode* at = &root_;
    const std::vector<std::string> levels = scope_levels(kernel.scope, layers_);
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

  // The root has level 1 and is not a row, so the levels of rows decrease by one.
  static void collect(const TreeNode& parent, std::vector<ScopeRow>& result) {
    for (const TreeNode* node : parent.children) {
      result.push_back(node->row);
      --result.back().level;
      collect(*node, result);
    }
  }

  int depth_;
  Layers layers_;
  TreeNode root_;
  std::deque<TreeNode> nodes_;
};

}  // namespace

std::vector<ScopeRow> by_scope(const Profile& profile, int depth, Layers layers) {
  ScopeTree tree(depth, layers);
  for (const KernelRecord& kernel : profile.kernels) tree.add(kernel);
  return tree.rows();
}

}  // namespace ridgepoint
