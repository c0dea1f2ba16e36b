//! The walk of every operation, which an insertion may begin ahead.

use super::node::{NodeRef, View};
use super::{Side, Tree};
use crate::entry::Position;

/// A walk from the root down to the node of a position. It may pause before it looks at a child.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
    /// A node that the position belongs to, or that lies to the left of that one.
    at: View<'a>,
    /// True if the position shares the bytes that the prefixes of `at` omit.
    known: bool,
    /// The child of `at` for the position. The way continues there.
    child: Option<NodeRef<'a>>,
}

impl<'a> Way<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        Self {
            at: View::new(tree.root()),
            // The root is the first node of its level, and such a node omits no bytes.
            known: true,
            child: None,
        }
    }

    /// The node that was reached last.
    #[inline]
    pub(super) fn at(&self) -> View<'a> {
        self.at
    }

    /// The child that the way continues at.
    #[cfg(all(test, not(loom)))]
    pub(super) fn child(&self) -> Option<NodeRef<'a>> {
        self.child
    }

    /// Goes down to `level`. `visit` gets the nodes whose children were entered.
    #[inline(always)]
    pub(super) fn walk_to(
        &mut self,
        position: &Position<'_>,
        level: u32,
        side: Side,
        mut visit: impl FnMut(View<'a>),
    ) {
        loop {
            if let Some(child) = self.child.take() {
                let child = View::new(child);
                // If the parent was unchanged until the child's version was read, the position is
                // between the bounds that the parent knows. The child's `skip` was made for these
                // bounds.
                self.known = self.at.is_current();
                if self.known {
                    visit(self.at);
                    self.at = child;
                } else {
                    self.at = View::new(self.at.node);
                }
            }
            if self.at.is_beyond(position, side, self.known) {
                let next = self.at.node.next();
                // The neighbour may have split since: the bytes that it omits are unknown.
                self.known = false;
                let next = next.filter(|_| self.at.holds());
                self.at = View::new(next.unwrap_or(self.at.node));
                continue;
            }
            if self.at.node.level() == level {
                return;
            }
            self.find_child(position, side);
        }
    }

    #[inline]
    fn find_child(&mut self, position: &Position<'_>, side: Side) {
        let rank = self.at.rank(position, side);
        self.child = Some(self.at.node.child(self.at.order, rank));
    }

    /// The level of the next node to look at.
    #[inline]
    fn level_ahead(&self) -> u32 {
        self.at.node.level() - u32::from(self.child.is_some())
    }

    /// Looks at a node, and prefetches its child. Returns false, and does nothing, if the next node
    /// is a leaf.
    #[inline]
    pub(crate) fn step(&mut self, position: &Position<'_>) -> bool {
        let level = self.level_ahead();
        if level > 0 {
            self.step_to(position, level);
        }
        level > 0
    }

    /// Goes down to the parent of the leaf, and prefetches the leaf.
    #[inline]
    pub(crate) fn step_to_leaf(&mut self, position: &Position<'_>) {
        if self.level_ahead() > 0 {
            self.step_to(position, 1);
        }
    }

    #[inline]
    fn step_to(&mut self, position: &Position<'_>, level: u32) {
        self.walk_to(position, level, Side::Behind, |_| ());
        self.find_child(position, Side::Behind);
        self.child.inspect(|child| child.prefetch());
    }
}
