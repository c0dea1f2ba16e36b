//! The reference outputs of the model's specification, and what holds for any tree.

mod papers;
mod reference;
mod rules;
