//! The reference outputs of the model's specification, and rules that hold for any tree.

mod papers;
mod reference;
mod rules;
