//! The memtable of Vitillo's parallel LSM tree: an unbalanced binary search tree under one lock.

use std::sync::Mutex;

use super::{Pools, Structure};

const NONE: u32 = u32::MAX;

struct Node {
    key: Box<[u8]>,
    seqno: u64,
    value: Box<[u8]>,
    children: [u32; 2],
}

/// An unbalanced binary search tree; see the module.
pub(crate) struct BinaryTree(Mutex<Vec<Node>>);

fn goes_right(node: &Node, key: &[u8], seqno: u64) -> bool {
    (*node.key).cmp(key).then(seqno.cmp(&node.seqno)).is_lt()
}

impl Structure for BinaryTree {
    const NAME: &'static str = "binary tree, locked";
    const DEGENERATES: bool = true;

    fn new(_: &Pools) -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn insert(&self, key: &[u8], seqno: u64, value: &[u8]) {
        let (key, value): (Box<[u8]>, Box<[u8]>) = (key.into(), value.into());
        let mut nodes = self.0.lock().unwrap();
        let new = nodes.len() as u32;
        let mut at = if nodes.is_empty() { NONE } else { 0 };
        while at != NONE {
            let node = &mut nodes[at as usize];
            let side = usize::from(goes_right(node, &key, seqno));
            at = std::mem::replace(&mut node.children[side], new);
            if at != NONE {
                node.children[side] = at;
            }
        }
        nodes.push(Node {
            key,
            seqno,
            value,
            children: [NONE; 2],
        });
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let nodes = self.0.lock().unwrap();
        let (mut at, mut found) = (0, None);
        while let Some(node) = nodes.get(at as usize) {
            let right = goes_right(node, key, u64::MAX);
            if !right {
                found = Some(node);
            }
            at = node.children[usize::from(right)];
        }
        found
            .filter(|node| *node.key == *key)
            .map(|node| node.value.len())
    }

    fn scan(&self, key: &[u8], count: usize) -> usize {
        let nodes = self.0.lock().unwrap();
        // The nodes from which the walk went left: the next ones in order.
        let mut pending = Vec::new();
        let mut at = 0;
        while let Some(node) = nodes.get(at as usize) {
            let right = goes_right(node, key, u64::MAX);
            if !right {
                pending.push(at);
            }
            at = node.children[usize::from(right)];
        }
        let mut sum = 0;
        for _ in 0..count {
            let Some(next) = pending.pop() else { break };
            sum += nodes[next as usize].value.len();
            let mut at = nodes[next as usize].children[1];
            while let Some(node) = nodes.get(at as usize) {
                pending.push(at);
                at = node.children[0];
            }
        }
        sum
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}
